//! The shard map: which shard a lock name belongs to and which cluster the shard lives on.
//!
//! Read it in this order: the vocabulary ([`limits`], ids, [`Cluster`], [`ShardRanges`]), where a
//! name belongs ([`shard_of`]), the map ([`MapDocument`] as it is written, [`ShardMap`] as it is
//! checked), the records in etcd ([`records`]), how a deployment begins ([`init`]), what changes ([`plan`]), and
//! how shards move ([`rollout`]).
//!
//! The map routes; the guards decide: a grant happens only where the shard's [`records::Guard`]
//! says so, whatever map a gateway has.

mod access;
mod assign;
mod cluster;
mod document;
mod ids;
pub mod init;
pub mod limits;
mod map;
mod placement;
pub mod plan;
mod ranges;
pub mod records;
pub mod rollout;
pub mod verify;

pub use access::{AccessError, etcd_config, parse_credentials, read_credentials};
pub use assign::shares;
pub use cluster::{Cluster, Endpoint, FilePath, TlsFiles, Weight};
pub use document::{Hash, MapDocument};
pub use ids::{
    ClusterName, DeploymentId, Epoch, Invalid, MapVersion, ShardCount, ShardId, TokenBase,
};
pub use map::{MapError, ShardMap};
pub use placement::{check_name, shard_of};
pub use ranges::ShardRanges;
