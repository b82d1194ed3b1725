//! The lock service, as the edges see it.

mod cluster;
mod clusters;
mod follow;
mod locks;
mod routes;
mod stores;
mod types;

pub use types::{
    Acquire, AcquireOutcome, ClusterHealth, Ended, EngineFigures, Forward, ForwardOutcome,
    Forwarding, Grant, Locks, Refusal, Release, ReleaseOutcome, Renew, RenewOutcome, Renewed,
    ServiceError, ShardStatus,
};

pub use follow::follow_map;
pub use locks::{Alone, Entropy, LockService, ServiceSettings, StoreOf};
pub use stores::{Embedded, etcd_store};
