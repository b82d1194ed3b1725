//! Clients: what they send, what they make of answers, and their habits.

mod client;
mod hostile;
mod reply;
mod worker;

pub use client::{Client, Held};
pub use reply::Answer;
pub use worker::{Fleet, FleetOptions};
