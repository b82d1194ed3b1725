//! The lock service, as the edges see it.

mod cluster;
mod locks;
mod types;

pub use types::{
    Acquire, AcquireOutcome, ClusterHealth, Ended, Grant, Locks, Refusal, Release, ReleaseOutcome,
    Renew, RenewOutcome, Renewed, ServiceError, ShardStatus,
};

pub use locks::{Entropy, LockService, ServiceSettings, StoreOf};
