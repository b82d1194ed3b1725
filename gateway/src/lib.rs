//! The Holdfast gateway: locks over several etcd clusters, answered over HTTP.
//!
//! Read it in this order: the vocabulary ([`limits`], [`time`], [`names`], [`lock_id`]), the
//! decisions ([`engine`]: everything that is true of locks, as state machines without I/O), the
//! service that runs them over real clusters ([`service`]), the gateways that ask each other
//! ([`peer`]), the map and its rollouts ([`map`], [`rollout`]), and the edge that speaks HTTP
//! ([`http`]).

pub mod admin;
pub mod app;
pub mod auth;
pub mod config;
pub mod engine;
mod files;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod http;
pub mod lifecycle;
pub mod limits;
pub mod lock_id;
pub mod logs;
pub mod map;
pub mod metrics;
pub mod names;
pub mod peer;
pub mod reload;
pub mod rollout;
pub mod service;
mod supervisor;
pub mod time;
pub mod tls;
