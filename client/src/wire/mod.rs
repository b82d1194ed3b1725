//! Requests to bytes, answers to values. Nothing here does I/O.

mod answer;
mod item;

pub use answer::{
    acquire, acquire_batch, encode, force_release, inspect, list, release, release_batch, renew,
    renew_batch,
};
