//! The map as it is written: one JSON document.

use crate::{Cluster, ClusterName, DeploymentId, MapVersion, ShardCount, ShardRanges};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The map's document, read but not checked: [`crate::ShardMap`] is the checked form.
///
/// Unknown fields are refused. A reader that ignored one would route by half a map; one that
/// refuses keeps the map it has and says why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MapDocument {
    /// Raised by one with each published map.
    pub version: MapVersion,
    /// Whose map it is; never changes.
    pub deployment: DeploymentId,
    /// `V`; never changes.
    pub shards: ShardCount,
    /// How names are hashed; never changes.
    pub hash: Hash,
    /// The hash's seed: 0.
    pub seed: u64,
    /// The clusters, names in ascending order.
    pub clusters: Vec<Cluster>,
    /// Where each shard lives. A cluster that is not listed has none.
    pub table: BTreeMap<ClusterName, ShardRanges>,
    /// The shards that a rollout moves while this map is the present one, by the cluster that
    /// they come from; `table` has where they go. Where such a shard is now, its guards say. A map
    /// without a rollout has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub moves: BTreeMap<ClusterName, ShardRanges>,
}

/// How lock names are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hash {
    /// XXH3, 64 bits.
    #[serde(rename = "xxh3_64")]
    Xxh3_64,
}
