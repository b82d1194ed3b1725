//! The admin listener: what operators, Prometheus and load balancers ask.
//!
//! It has a thread and a runtime of its own, so that it answers when the others are busy. It says
//! nothing secret and changes nothing; it listens on loopback unless it is told otherwise.

mod pages;
mod readiness;
mod server;

pub use pages::Admin;
pub use readiness::{NotReady, readiness};
pub use server::start;
