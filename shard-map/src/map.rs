//! The shard map, checked.

use crate::assign::shares;
use crate::document::{Hash, MapDocument};
use crate::limits;
use crate::placement;
use crate::{
    Cluster, ClusterName, DeploymentId, Endpoint, Invalid, MapVersion, ShardCount, ShardId,
    ShardRanges,
};
use std::collections::{BTreeMap, HashMap};

/// Which cluster each shard lives on, and how to reach the clusters.
///
/// Whatever is in here has been checked: every shard is on exactly one cluster of the map, and
/// the document fits into etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMap {
    document: MapDocument,
    /// Per shard the place of its cluster in the document.
    table: Box<[u16]>,
    /// The place of the cluster that a shard comes from, for those that a rollout moves.
    sources: BTreeMap<ShardId, u16>,
}

/// Why a document is not a map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Not JSON, or not the fields of a map.
    #[error("not a shard map: {0}")]
    Syntax(String),
    /// More than [`limits::MAP_BYTES_MAX`].
    #[error("the document has {0} bytes; allowed are {max}", max = limits::MAP_BYTES_MAX)]
    TooLarge(usize),
    /// A version that none can have.
    #[error("version {0}; versions start at 1")]
    Version(MapVersion),
    /// A seed other than 0.
    #[error("seed {0}; the only seed is 0")]
    Seed(u64),
    /// None, or more than [`limits::CLUSTERS_MAX`].
    #[error("{0} clusters; allowed are 1 to {max}", max = limits::CLUSTERS_MAX)]
    ClusterCount(usize),
    /// Names twice, or not in ascending order.
    #[error("cluster {1} is listed after {0}; names are listed in ascending order, each once")]
    ClusterOrder(ClusterName, ClusterName),
    /// A cluster that is wrong in itself.
    #[error("cluster {0} {1}")]
    Cluster(ClusterName, Invalid),
    /// A member cannot be in two clusters, nor twice in one.
    #[error("endpoint {endpoint} is listed twice: in cluster {first} and in cluster {second}")]
    EndpointTwice {
        /// The endpoint.
        endpoint: Endpoint,
        /// A cluster that has it.
        first: ClusterName,
        /// Another, or the same.
        second: ClusterName,
    },
    /// The table names a cluster that is not listed.
    #[error("the table names cluster {0}, which the map does not have")]
    UnknownCluster(ClusterName),
    /// The table goes beyond the last shard.
    #[error("the table has shard {shard}, but there are only {shards} shards")]
    UnknownShard {
        /// The shard.
        shard: ShardId,
        /// How many there are.
        shards: ShardCount,
    },
    /// A shard in two clusters.
    #[error("the table has shard {shard} twice: on cluster {first} and on cluster {second}")]
    ShardTwice {
        /// The shard.
        shard: ShardId,
        /// A cluster that has it.
        first: ClusterName,
        /// Another.
        second: ClusterName,
    },
    /// A shard in no cluster.
    #[error("the table leaves out shard {0}")]
    ShardMissing(ShardId),
    /// A shard that moves from where it goes.
    #[error("shard {shard} moves from cluster {cluster}, where the table has it")]
    MovesNowhere {
        /// The shard.
        shard: ShardId,
        /// The cluster.
        cluster: ClusterName,
    },
}

impl ShardMap {
    /// The first map of a deployment.
    ///
    /// Each cluster gets its share by weight, the clusters in the order of their names, each one
    /// contiguous range. Neighbouring shards have nothing in common (the hash sees to that), so
    /// interleaving them would spread the load no better, and ranges can be read and typed.
    ///
    /// # Errors
    /// As [`ShardMap::try_from`].
    pub fn initial(
        deployment: DeploymentId,
        shards: ShardCount,
        mut clusters: Vec<Cluster>,
    ) -> Result<Self, MapError> {
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        if clusters.is_empty() {
            return Err(MapError::ClusterCount(0));
        }
        let weights: Vec<_> = clusters.iter().map(|cluster| cluster.weight).collect();
        let mut next = 0;
        let table = shares(shards, &weights)
            .into_iter()
            .zip(&clusters)
            .filter(|&(share, _)| share > 0)
            .map(|(share, cluster)| {
                let range: ShardRanges = (next..next + share).map(ShardId).collect();
                next += share;
                (cluster.name.clone(), range)
            })
            .collect();
        Self::try_from(MapDocument {
            version: MapVersion::FIRST,
            deployment,
            shards,
            hash: Hash::Xxh3_64,
            seed: 0,
            clusters,
            table,
            moves: BTreeMap::new(),
        })
    }

    /// Reads a map from its document.
    ///
    /// # Errors
    /// When it is not one, or breaks a rule.
    pub fn from_json(json: &[u8]) -> Result<Self, MapError> {
        if json.len() > limits::MAP_BYTES_MAX {
            return Err(MapError::TooLarge(json.len()));
        }
        let document: MapDocument =
            serde_json::from_slice(json).map_err(|error| MapError::Syntax(error.to_string()))?;
        Self::try_from(document)
    }

    /// The map's document. The same map gives the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        to_json(&self.document)
    }

    /// The map's document, to be changed and checked again.
    pub fn document(&self) -> &MapDocument {
        &self.document
    }

    /// The version.
    pub fn version(&self) -> MapVersion {
        self.document.version
    }

    /// Whose map it is.
    pub fn deployment(&self) -> DeploymentId {
        self.document.deployment
    }

    /// `V`.
    pub fn shards(&self) -> ShardCount {
        self.document.shards
    }

    /// The clusters, names in ascending order.
    pub fn clusters(&self) -> &[Cluster] {
        &self.document.clusters
    }

    /// The cluster of that name.
    pub fn cluster(&self, name: &ClusterName) -> Option<&Cluster> {
        let clusters = &self.document.clusters;
        let place = clusters.binary_search_by(|cluster| cluster.name.cmp(name));
        place.ok().map(|place| &clusters[place])
    }

    /// The shard of a lock name.
    pub fn shard_of(&self, name: &str) -> ShardId {
        placement::shard_of(name, self.shards())
    }

    /// The cluster that the shard lives on; `None` beyond the last shard.
    pub fn cluster_of(&self, shard: ShardId) -> Option<&Cluster> {
        let place = *self.table.get(shard.0 as usize)?;
        self.document.clusters.get(usize::from(place))
    }

    /// The cluster that a rollout moves the shard away from, while this map is the present one;
    /// `None`: it moves from nowhere.
    pub fn source_of(&self, shard: ShardId) -> Option<&Cluster> {
        let place = *self.sources.get(&shard)?;
        self.document.clusters.get(usize::from(place))
    }

    /// The shards that a rollout moves while this map is the present one, in ascending order.
    pub fn moving(&self) -> impl Iterator<Item = ShardId> {
        self.sources.keys().copied()
    }

    /// The shards that live on a cluster.
    pub fn shards_of(&self, cluster: &ClusterName) -> ShardRanges {
        self.document
            .table
            .get(cluster)
            .cloned()
            .unwrap_or_default()
    }
}

impl TryFrom<MapDocument> for ShardMap {
    type Error = MapError;
    fn try_from(document: MapDocument) -> Result<Self, MapError> {
        if document.version.0 == 0 || document.version.0 >= limits::TOKEN_END {
            return Err(MapError::Version(document.version));
        }
        if document.seed != 0 {
            return Err(MapError::Seed(document.seed));
        }
        check_clusters(&document.clusters)?;
        let table = check_table(&document)?;
        let sources = check_moves(&document, &table)?;
        let bytes = to_json(&document).len();
        if bytes > limits::MAP_BYTES_MAX {
            return Err(MapError::TooLarge(bytes));
        }
        Ok(Self {
            document,
            table,
            sources,
        })
    }
}

fn check_clusters(clusters: &[Cluster]) -> Result<(), MapError> {
    if !(1..=limits::CLUSTERS_MAX).contains(&clusters.len()) {
        return Err(MapError::ClusterCount(clusters.len()));
    }
    if let Some([a, b]) = clusters.array_windows().find(|[a, b]| a.name >= b.name) {
        return Err(MapError::ClusterOrder(a.name.clone(), b.name.clone()));
    }
    let mut seen: HashMap<&str, &ClusterName> = HashMap::new();
    for cluster in clusters {
        cluster
            .check()
            .map_err(|problem| MapError::Cluster(cluster.name.clone(), problem))?;
        for endpoint in &cluster.endpoints {
            if let Some(first) = seen.insert(endpoint.authority(), &cluster.name) {
                return Err(MapError::EndpointTwice {
                    endpoint: endpoint.clone(),
                    first: first.clone(),
                    second: cluster.name.clone(),
                });
            }
        }
    }
    Ok(())
}

fn check_table(document: &MapDocument) -> Result<Box<[u16]>, MapError> {
    let places = places(document, &document.table)?;
    let all = document.shards.shards();
    all.map(|shard| {
        let place = places.get(&shard);
        place.copied().ok_or(MapError::ShardMissing(shard))
    })
    .collect()
}

fn check_moves(document: &MapDocument, table: &[u16]) -> Result<BTreeMap<ShardId, u16>, MapError> {
    let sources = places(document, &document.moves)?;
    match sources
        .iter()
        .find(|(shard, source)| table.get(shard.0 as usize) == Some(source))
    {
        Some((&shard, &source)) => Err(MapError::MovesNowhere {
            shard,
            cluster: document.clusters[usize::from(source)].name.clone(),
        }),
        None => Ok(sources),
    }
}

/// Per shard the place of the cluster that lists it.
fn places(
    document: &MapDocument,
    listed: &BTreeMap<ClusterName, ShardRanges>,
) -> Result<BTreeMap<ShardId, u16>, MapError> {
    let shards = document.shards;
    let clusters: BTreeMap<&ClusterName, u16> = (0..)
        .zip(&document.clusters)
        .map(|(place, cluster)| (&cluster.name, place))
        .collect();
    let mut places = BTreeMap::new();
    for (name, ranges) in listed {
        let Some(&place) = clusters.get(name) else {
            return Err(MapError::UnknownCluster(name.clone()));
        };
        if let Some(shard) = ranges.last().filter(|last| last.0 >= shards.get()) {
            return Err(MapError::UnknownShard { shard, shards });
        }
        for shard in ranges.iter() {
            if let Some(first) = places.insert(shard, place) {
                return Err(MapError::ShardTwice {
                    shard,
                    first: document.clusters[usize::from(first)].name.clone(),
                    second: name.clone(),
                });
            }
        }
    }
    Ok(places)
}

/// Serializing text and numbers into memory cannot fail; a document that is nothing is refused
/// by whoever reads it.
fn to_json(document: &MapDocument) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_default()
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
