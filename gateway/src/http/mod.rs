//! The public listener: the lock API over HTTP/1.1.
//!
//! A request passes, in this order: the accept loop ([`serve`]), the guard that checks its head
//! (`guard`), the router (`route`), the body reader (`body`), the JSON reader (`parse`), the
//! check of what is meant (`validate`), the service ([`Locks`](crate::service::Locks)), and the
//! writer of replies (`reply`). Who asks is found out before the body is read (`client`, and
//! [`crate::auth`]). All but the first, the second and the body reader are pure.
//! A renewal with nothing unusual about it is answered by the guard (`express`).
//!
//! What a client's disconnect does, on every route: a request whose body has not arrived is
//! forgotten; one that reached the service goes on there, and its answer is dropped. The client
//! may ask again and gets the same answer (see [`Locks`](crate::service::Locks)).

mod batch;
mod body;
mod client;
mod connection;
mod edge;
mod express;
mod failure;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod guard;
mod held;
mod http2;
mod operate;
mod parse;
mod places;
mod pressure;
mod query;
mod reply;
mod route;
mod server;
mod single;
mod stamp;
pub mod usual;
mod validate;

pub use client::Client;
pub(crate) use connection::serve as serve_connection;
pub use edge::Edge;
pub use express::Express;
pub(crate) use guard::fault_of;
pub use reply::{Reply, renewals_json};
pub use route::Route;
pub use server::{bind, serve};

use crate::limits;
use crate::time::Millis;

/// What the edge lets through and how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgeSettings {
    /// What clients may ask for.
    pub bounds: Bounds,
    /// How long it waits for clients.
    pub timeouts: Timeouts,
    /// Open connections; past it clients are told to come back.
    pub connections_max: ConnectionsMax,
    /// Of them from one address; `None`: all.
    pub address_connections_max: Option<u32>,
}

/// The largest number of open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionsMax(pub u32);

/// What clients may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Shortest TTL.
    pub ttl_min: Millis,
    /// Longest TTL.
    pub ttl_max: Millis,
    /// Longest wait.
    pub wait_max: Millis,
}

/// How long the edge waits for clients. Each runs anew for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its headers.
    pub header: Millis,
    /// From the end of the headers to the end of the body.
    pub body: Millis,
    /// A connection on which nothing happens is kept for at least this and at most twice this.
    /// Longer than any answer takes.
    pub idle: Millis,
    /// A client that takes no byte of its reply for this long is cut off.
    pub write: Millis,
}

impl Default for ConnectionsMax {
    fn default() -> Self {
        Self(limits::CONNECTIONS_MAX)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            ttl_min: limits::TTL_MIN,
            ttl_max: limits::TTL_MAX,
            wait_max: limits::WAIT_MAX,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: limits::HEADER_TIMEOUT,
            body: limits::BODY_TIMEOUT,
            idle: limits::IDLE_TIMEOUT,
            write: limits::WRITE_TIMEOUT,
        }
    }
}
