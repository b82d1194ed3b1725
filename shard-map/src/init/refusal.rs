//! Why `init` is refused, and what to do about it.

use super::decide::difference;
use crate::{ClusterName, DeploymentId, ShardMap};
use holdfast_store::StoreError;

/// The state of home or of a cluster that forbids `init`. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Home or a cluster does not answer, or refuses to.
    #[error(
        "{who} cannot be used: {problem}\n\
         Check its endpoints, that etcd runs there, and --cacert, --cert, --key and --user; then repeat the command."
    )]
    Unreachable {
        /// "home" or "cluster a".
        who: String,
        /// What the store said.
        problem: String,
    },
    /// Two names for one etcd cluster.
    #[error(
        "clusters {first} and {second} are one etcd cluster (its id is {etcd_id:x})\n\
         Every cluster of the map must be an etcd cluster of its own: correct the endpoints or leave one out."
    )]
    SameCluster {
        /// A name.
        first: ClusterName,
        /// The other.
        second: ClusterName,
        /// etcd's id.
        etcd_id: u64,
    },
    /// The cluster's identity names another deployment or another cluster.
    #[error(
        "cluster {cluster} is cluster {found} of deployment {deployment}\n\
         A cluster belongs to one deployment for good. Use another etcd cluster, or that deployment's home. If \
         that deployment was given up before its init had ended, remove what it left: \
         etcdctl del --prefix /holdfast/ (there)."
    )]
    OtherDeployment {
        /// As it is called in the request.
        cluster: ClusterName,
        /// As it calls itself.
        found: ClusterName,
        /// Whose it is.
        deployment: DeploymentId,
    },
    /// Records of locks without an identity, which no deployment could take over safely.
    #[error(
        "cluster {cluster} has no deployment, but has the key {key}\n\
         Use an etcd cluster that nothing else keeps such keys in. If the key is left over and nobody needs it: \
         etcdctl del --prefix /locks/ and etcdctl del --prefix /holdfast/ (there)."
    )]
    NotEmpty {
        /// The cluster.
        cluster: ClusterName,
        /// One of the keys.
        key: String,
    },
    /// Home has a map, made from another request.
    #[error(
        "home is initialised already: deployment {deployment}, map version {version}\n\
         It was made from another request: {difference}. See it with `shard-map show`. The number of shards is \
         for good; everything else is changed by `shard-map plan` and `apply`."
    )]
    Initialised {
        /// Whose map.
        deployment: DeploymentId,
        /// Its version.
        version: crate::MapVersion,
        /// How the request differs.
        difference: String,
    },
    /// Home has the intention of another request.
    #[error(
        "home has an init of deployment {deployment} that has not ended, with another request: {difference}\n\
         Repeat that request to go on with it. To give it up (it has granted nothing): etcdctl del --prefix \
         /holdfast/ in home and in its clusters: {clusters}."
    )]
    HalfFinished {
        /// Whose.
        deployment: DeploymentId,
        /// How the request differs.
        difference: String,
        /// What it may have written to.
        clusters: String,
    },
    /// A record in home cannot be read.
    #[error(
        "home has something else at {key}: {problem}\n\
         Use a home of its own for each deployment. If the record is a later version's, use that version."
    )]
    Unreadable {
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// Home lost its map.
    #[error(
        "home has the history of a map at {key}, but no map\n\
         It was initialised before. Restore /holdfast/map/current from the history; init would give out old tokens again."
    )]
    MapLost {
        /// The key.
        key: String,
    },
}

impl Refusal {
    pub(super) fn home_unreachable(error: &StoreError) -> Self {
        Self::unreachable("home".into(), error)
    }

    pub(super) fn cluster_unreachable(cluster: &ClusterName, error: &StoreError) -> Self {
        Self::unreachable(format!("cluster {cluster}"), error)
    }

    fn unreachable(who: String, error: &StoreError) -> Self {
        Self::Unreachable {
            who,
            problem: error.to_string(),
        }
    }

    pub(super) fn half_finished(found: &ShardMap, wanted: &ShardMap) -> Self {
        let clusters = found.clusters().iter().map(|cluster| {
            let endpoints = cluster.endpoints.iter().map(ToString::to_string);
            format!(
                "{} ({})",
                cluster.name,
                endpoints.collect::<Vec<_>>().join(", ")
            )
        });
        Self::HalfFinished {
            deployment: found.deployment(),
            difference: difference(found, wanted),
            clusters: clusters.collect::<Vec<_>>().join(", "),
        }
    }
}
