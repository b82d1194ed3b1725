//! The shard map in a gateway: loaded from home, kept on disk, followed, swapped whole.
//!
//! [`MapSource::open`] gives a handle and a [`MapDriver`]; the driver is spawned once and ends
//! with the process. The map that runs is the last one that was accepted, from home or, while home
//! has not answered yet, from the copy on disk. A map that is refused changes nothing: the one
//! that runs stays, and [`MapStatus`] says why.
//!
//! The map only routes; where a grant may happen the guards decide. A copy on disk can be so old
//! that a cluster in it was given up since, though, which is why a gateway grants nothing until it
//! has seen home once ([`MapSource::home_seen`]).

mod judge;
mod source;
mod state_dir;
mod status;

pub use judge::Refusal;
pub use source::{MapDriver, MapSource, MapTiming};
pub use state_dir::{StateDir, StateDirError};
pub use status::{MapProblem, MapStatus};

const _: () = assert!(crate::limits::NAME_BYTES_MAX == shard_map::limits::NAME_BYTES_MAX);

#[cfg(test)]
mod tests;
