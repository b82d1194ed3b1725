//! The lock service, as the edges see it.

mod cluster;
mod clusters;
mod follow;
mod inspect;
mod locks;
mod routes;
mod stores;
mod types;
mod watches;

pub use types::{
    Acquire, AcquireOutcome, Close, CloseOutcome, ClusterHealth, Ended, EngineFigures,
    ForceRelease, Forward, ForwardOutcome, Forwarding, Grant, HoldView, LockPage, LockView, Locks,
    PageOf, Refusal, Release, ReleaseOutcome, Renew, RenewOutcome, Renewed, ServiceError,
    ShardStatus,
};

pub use follow::follow_map;
pub use locks::{Alone, Entropy, LockService, ServiceSettings, StoreOf};
pub use stores::{Embedded, etcd_store};
