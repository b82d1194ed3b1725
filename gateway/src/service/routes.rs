//! Which cluster's task a request goes to.

use crate::engine::{ClusterProof, Course, EngineStats, Owners, Table, To, Word};
use crate::lock_id::LockId;
use crate::service::ShardStatus;
use crate::service::cluster::Command;
use arc_swap::ArcSwap;
use shard_map::{ShardCount, ShardId, ShardMap};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;

/// The clusters, and which of them has which shard by the map.
#[derive(Default)]
pub(super) struct Routes {
    /// `None`: there is no map yet.
    pub(super) shards: Option<ShardCount>,
    by_shard: Vec<u16>,
    /// Where a shard was before a map moved it, as far as this gateway has seen: a guard may not have
    /// followed yet.
    before: Vec<u16>,
    pub(super) clusters: Vec<Arc<Cluster>>,
}

/// A cluster's task, from outside.
pub(super) struct Cluster {
    pub(super) name: Arc<str>,
    pub(super) proof: Arc<ClusterProof>,
    pub(super) stats: Arc<EngineStats>,
    pub(super) owners: Arc<Owners>,
    pub(super) commands: mpsc::Sender<Command>,
    /// What the other engines say. There are never more than a few for each group that moves.
    pub(super) words: mpsc::UnboundedSender<(Arc<str>, Word)>,
    pub(super) shards: Arc<ArcSwap<Vec<ShardStatus>>>,
}

impl Routes {
    /// Those of this map, over these clusters, which include its own.
    pub(super) fn next(&self, map: &ShardMap, clusters: Vec<Arc<Cluster>>) -> Self {
        let place = |shard| {
            let name = map.cluster_of(shard)?.name.as_str();
            let at = clusters.iter().position(|known| &*known.name == name)?;
            u16::try_from(at).ok()
        };
        let shards = map.shards().shards();
        let by_shard: Vec<u16> = shards.map(|it| place(it).unwrap_or(u16::MAX)).collect();
        let before = (0..).zip(&by_shard).map(|(at, now)| {
            let was: usize = at;
            let present = self.by_shard.get(was).copied();
            let earlier = self.before.get(was).copied();
            present
                .filter(|it| it != now)
                .or(earlier)
                .unwrap_or(u16::MAX)
        });
        Self {
            shards: Some(map.shards()),
            before: before.collect(),
            by_shard,
            clusters,
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.clusters.iter().find(|known| &*known.name == name)
    }

    /// The cluster that has the shard by the map.
    pub(super) fn of_shard(&self, shard: ShardId) -> Option<&Arc<Cluster>> {
        self.at(&self.by_shard, shard)
    }

    fn at(&self, list: &[u16], shard: ShardId) -> Option<&Arc<Cluster>> {
        let at = list.get(usize::try_from(shard.0).ok()?)?;
        self.clusters.get(usize::from(*at))
    }

    /// The cluster that has the group of this hold, as far as it is known.
    pub(super) fn of_hold(&self, table: &Table, id: &LockId) -> Option<&Arc<Cluster>> {
        let clusters = self.clusters.iter().map(|it| (&it.name, &*it.owners));
        self.clusters
            .get(Course::place_of_hold(table, clusters, id)?)
    }
}

/// The other clusters' tasks, for one of them.
pub(super) struct Neighbours(pub(super) Weak<ArcSwap<Routes>>);

impl Neighbours {
    /// Where a request about this shard goes on.
    pub(super) fn of(&self, to: &To, shard: ShardId) -> Option<Arc<Cluster>> {
        let routes = self.0.upgrade()?.load_full();
        let found = match to {
            To::Cluster(name) => routes.named(name),
            To::Before => routes.at(&routes.before, shard),
        };
        found.cloned()
    }

    /// Tells the engine of another cluster; nothing if there is none.
    pub(super) fn say(&self, from: &Arc<str>, to: &str, word: Word) {
        let routes = self.0.upgrade();
        let routes = routes.as_ref().map(|routes| routes.load());
        if let Some(cluster) = routes.as_ref().and_then(|routes| routes.named(to)) {
            // Its task has ended only when the process does.
            let _ = cluster.words.send((Arc::clone(from), word));
        }
    }
}
