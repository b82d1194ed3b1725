//! Which cluster's task a request goes to.

use crate::engine::{ClusterProof, Course, EngineStats, Owners, Table, To, Word};
use crate::lock_id::LockId;
use crate::service::ShardStatus;
use crate::service::cluster::Command;
use crate::time::Instant;
use arc_swap::ArcSwap;
use shard_map::records::Identity;
use shard_map::{MapVersion, ShardCount, ShardId, ShardMap};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The clusters, and which of them has which shard by the map.
#[derive(Default)]
pub(super) struct Routes {
    /// `None`: there is no map yet.
    pub(super) shards: Option<ShardCount>,
    pub(super) version: Option<MapVersion>,
    by_shard: Vec<u16>,
    /// Where the map says that a shard comes from: its guards may not have followed yet.
    sources: Vec<u16>,
    pub(super) clusters: Vec<Arc<Cluster>>,
}

/// A cluster's task, from outside.
pub(super) struct Cluster {
    pub(super) name: Arc<str>,
    /// What its identity record must say.
    pub(super) identity: Identity,
    pub(super) proof: Arc<ClusterProof>,
    pub(super) stats: Arc<EngineStats>,
    pub(super) owners: Arc<Owners>,
    pub(super) commands: mpsc::Sender<Command>,
    /// What the other engines say.
    pub(super) words: mpsc::Sender<(Arc<str>, Word)>,
    pub(super) shards: Arc<ArcSwap<Vec<ShardStatus>>>,
}

impl Routes {
    /// Those of this map, over these clusters, which include its own.
    pub(super) fn of_map(map: &ShardMap, clusters: Vec<Arc<Cluster>>) -> Self {
        let place = |cluster: Option<&shard_map::Cluster>| {
            let name = cluster?.name.as_str();
            let at = clusters.iter().position(|known| &*known.name == name)?;
            u16::try_from(at).ok()
        };
        let shards = || map.shards().shards();
        let by_shard = shards().map(|it| place(map.cluster_of(it)).unwrap_or(u16::MAX));
        let sources = shards().map(|it| place(map.source_of(it)).unwrap_or(u16::MAX));
        Self {
            shards: Some(map.shards()),
            version: Some(map.version()),
            by_shard: by_shard.collect(),
            sources: sources.collect(),
            clusters,
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.clusters.iter().find(|known| &*known.name == name)
    }

    /// The cluster to ask first: the one that has the shard by the map. If this gateway has not come
    /// there yet, the one that it comes from: no guard sends anybody on before it has.
    pub(super) fn of_shard(&self, shard: ShardId, now: Instant) -> Option<&Arc<Cluster>> {
        let goal = self.at(&self.by_shard, shard)?;
        let is_well = |it: &&Arc<Cluster>| it.proof.trouble(now).is_none();
        let before = self.at(&self.sources, shard).filter(is_well);
        before.filter(|_| !is_well(&goal)).or(Some(goal))
    }

    fn at(&self, list: &[u16], shard: ShardId) -> Option<&Arc<Cluster>> {
        let at = list.get(usize::try_from(shard.0).ok()?)?;
        self.clusters.get(usize::from(*at))
    }

    /// Where a request about this shard goes on.
    pub(super) fn next_for(&self, to: &To, shard: ShardId) -> Option<&Arc<Cluster>> {
        match to {
            To::Cluster(name) => self.named(name),
            To::Before => self.at(&self.sources, shard),
        }
    }

    /// Whether the map moves any shard.
    pub(super) fn is_moving(&self) -> bool {
        self.sources.iter().any(|at| *at != u16::MAX)
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
        routes.next_for(to, shard).cloned()
    }

    /// Tells the engine of another cluster; nothing if there is none. A word to a task that does not
    /// listen is lost, like one on a broken link: a move is undone that gets no answer, and who waits
    /// for the end of one asks.
    pub(super) fn say(&self, from: &Arc<str>, to: &str, word: Word) {
        let routes = self.0.upgrade();
        let routes = routes.as_ref().map(|routes| routes.load());
        if let Some(cluster) = routes.as_ref().and_then(|routes| routes.named(to)) {
            // A task that has ended needs no word: that is when the process does.
            if let Err(TrySendError::Full(_)) = cluster.words.try_send((Arc::clone(from), word)) {
                tracing::warn!(cluster = %to, %from, "a word about a move is lost: too many wait");
            }
        }
    }
}
