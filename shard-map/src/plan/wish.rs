//! What an operator wants changed.

use super::balance::balance;
use crate::{
    Cluster, ClusterName, Endpoint, FilePath, MapDocument, MapError, MapVersion, ShardId, ShardMap,
    ShardRanges, TlsFiles, Weight,
};
use std::collections::{BTreeMap, BTreeSet};

/// Changes to a map; all of them together make one plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// Clusters to add, each with its weight. They get their share of the shards.
    pub add: Vec<Cluster>,
    /// Clusters to remove. Their shards go to the others.
    pub remove: Vec<ClusterName>,
    /// Shards and where they shall be.
    pub moves: Vec<(ShardId, ClusterName)>,
    /// Clusters and their new weights.
    pub weights: Vec<(ClusterName, Weight)>,
    /// Clusters and how they are reached from now on.
    pub access: Vec<(ClusterName, Access)>,
}

/// How a cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// All its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Its TLS files; `None`: as before.
    pub tls: Option<TlsFiles>,
    /// Its credentials file; `None`: as before.
    pub credentials_file: Option<FilePath>,
}

/// Why a wish makes no plan. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// A cluster that is not in the map.
    #[error("the map has no cluster {0}\nSee its clusters with: shard-map show")]
    UnknownCluster(ClusterName),
    /// A cluster that is there already.
    #[error(
        "the map has a cluster {0} already\nAdd it under another name, or change it with --weight or --endpoints."
    )]
    ClusterExists(ClusterName),
    /// Two wishes about one thing.
    #[error("{0} is named twice\nName it once.")]
    Twice(String),
    /// A shard beyond the last one.
    #[error("there is no shard {0}\nShards are numbered from 0 on; see `shard-map show`.")]
    UnknownShard(ShardId),
    /// Nothing would be different.
    #[error("the map is as you want it already\nThere is nothing to do.")]
    Nothing,
    /// The present map is that of a rollout.
    #[error(
        "a rollout is running (map version {0})\nLet it end, or take it back, and plan then: shard-map status"
    )]
    RolloutRuns(MapVersion),
    /// The result is no map.
    #[error("the result would be no shard map: {0}")]
    Map(#[from] MapError),
}

/// The clusters and the table that `wish` makes of `map`.
pub(super) fn target(map: &ShardMap, wish: &Wish) -> Result<ShardMap, WishError> {
    if map.moving().next().is_some() {
        return Err(WishError::RolloutRuns(map.version()));
    }
    named_once(wish)?;
    let clusters = clusters(map, wish)?;
    if clusters.is_empty() {
        return Err(MapError::ClusterCount(0).into());
    }
    let known = |name: &ClusterName| clusters.iter().any(|cluster| cluster.name == *name);
    let mut table: BTreeMap<ShardId, ClusterName> = map
        .shards()
        .shards()
        .filter_map(|shard| Some((shard, map.cluster_of(shard)?.name.clone())))
        .collect();
    for (shard, to) in &wish.moves {
        if !known(to) {
            return Err(WishError::UnknownCluster(to.clone()));
        }
        let at = table
            .get_mut(shard)
            .ok_or(WishError::UnknownShard(*shard))?;
        *at = to.clone();
    }
    if !(wish.add.is_empty() && wish.remove.is_empty() && wish.weights.is_empty()) {
        let pinned = wish.moves.iter().map(|&(shard, _)| shard).collect();
        table = balance(&table, &clusters, &pinned);
    }
    let document = MapDocument {
        version: map.version(),
        clusters,
        table: ranges(&table),
        ..map.document().clone()
    };
    match document == *map.document() {
        true => Err(WishError::Nothing),
        false => Ok(ShardMap::try_from(document)?),
    }
}

/// The table as a map has it.
pub(super) fn ranges(table: &BTreeMap<ShardId, ClusterName>) -> BTreeMap<ClusterName, ShardRanges> {
    let mut lists: BTreeMap<ClusterName, Vec<ShardId>> = BTreeMap::new();
    for (&shard, at) in table {
        lists.entry(at.clone()).or_default().push(shard);
    }
    let ranges = |(name, shards): (_, Vec<_>)| (name, shards.into_iter().collect());
    lists.into_iter().map(ranges).collect()
}

fn clusters(map: &ShardMap, wish: &Wish) -> Result<Vec<Cluster>, WishError> {
    let mut clusters: BTreeMap<ClusterName, Cluster> = map
        .clusters()
        .iter()
        .map(|cluster| (cluster.name.clone(), cluster.clone()))
        .collect();
    for name in &wish.remove {
        let removed = clusters.remove(name);
        removed.ok_or_else(|| WishError::UnknownCluster(name.clone()))?;
    }
    for cluster in &wish.add {
        if map.cluster(&cluster.name).is_some() {
            return Err(WishError::ClusterExists(cluster.name.clone()));
        }
        clusters.insert(cluster.name.clone(), cluster.clone());
    }
    for (name, weight) in &wish.weights {
        let cluster = clusters.get_mut(name);
        cluster
            .ok_or_else(|| WishError::UnknownCluster(name.clone()))?
            .weight = *weight;
    }
    for (name, access) in &wish.access {
        let cluster = clusters.get_mut(name);
        let cluster = cluster.ok_or_else(|| WishError::UnknownCluster(name.clone()))?;
        cluster.endpoints.clone_from(&access.endpoints);
        if access.tls.is_some() {
            cluster.tls.clone_from(&access.tls);
        }
        if access.credentials_file.is_some() {
            cluster
                .credentials_file
                .clone_from(&access.credentials_file);
        }
    }
    Ok(clusters.into_values().collect())
}

fn named_once(wish: &Wish) -> Result<(), WishError> {
    once(wish.moves.iter().map(|(shard, _)| format!("shard {shard}")))?;
    let coming_or_going = wish
        .add
        .iter()
        .map(|cluster| &cluster.name)
        .chain(&wish.remove);
    once(coming_or_going.map(|name| format!("cluster {name}")))?;
    once(
        wish.weights
            .iter()
            .map(|(name, _)| format!("the weight of cluster {name}")),
    )?;
    once(
        wish.access
            .iter()
            .map(|(name, _)| format!("cluster {name}")),
    )
}

fn once(names: impl Iterator<Item = String>) -> Result<(), WishError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(WishError::Twice(name));
        }
    }
    Ok(())
}
