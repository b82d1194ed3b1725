//! A client of Holdfast.
//!
//! [`Client::hold`] takes a lock and keeps it renewed; [`Hold::lost`] says when it is gone.
//!
//! ```no_run
//! use holdfast_client::{Acquire, Client, ClientConfig, Error, TransportConfig};
//! use std::time::Duration;
//!
//! # async fn write_with(_token: u64) {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let targets = vec!["http://127.0.0.1:8080".parse()?];
//! let config = ClientConfig::new("worker-7", TransportConfig::new(targets));
//! let client = Client::new(config);
//!
//! let wanted = Acquire::new("process_order:42", Duration::from_secs(30));
//! match client.hold(&wanted).await {
//!     Ok(hold) => {
//!         tokio::select! {
//!             () = write_with(hold.token().0) => hold.release().await?,
//!             loss = hold.lost() => eprintln!("stopped half-way: {loss:?}"),
//!         }
//!     }
//!     Err(Error::Refused(why)) => println!("someone else does it: {why}"),
//!     Err(other) => return Err(other.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What is promised is counted on the client's own clock, which goes on while the machine is
//! suspended, from the moment the request was *sent*. An unknown outcome (a 503, a timeout, a
//! broken connection) never ends a hold: it is asked again until the promise ends. A 409 ends it
//! at once.
//!
//! A bearer token and TLS are read from files by [`AccessFiles`]; the README's "From Rust" shows both.
//!
//! The layers below are public for programs that drive many locks themselves: [`Connection`] (one
//! kept connection), [`Transport`] (a pool of them with failover), [`wire`] (answers to values)
//! and [`hold::state`] (when to do what), which do not know of each other more than their types.

/// Compiles what README.md shows in Rust.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadMe;

mod client;
mod operate;

pub mod hold;

pub mod backoff;
pub mod clock;
mod error;
mod types;
pub mod wire;

mod transport;

mod access;
mod connection;
mod target;
mod tls;

pub mod limits;

pub use access::{Access, AccessFiles, BadAccess, bearer};
pub use client::{Acquire, Client, ClientConfig};
pub use clock::{BootClock, Clock, Instant};
pub use connection::{Connection, NoReply, RawReply};
pub use error::{Cause, Error, Refused};
pub use hold::{Hold, Loss};
pub use holdfast_api::{ForceReleaseReply, LockInfo, LockPage};
pub use target::{BadTarget, Target};
pub use tls::{BadTls, IdentityFiles, Tls, TlsFiles};
pub use transport::{Reply, Transport, TransportConfig};
pub use types::{Granted, LockId, Promise, Token};
