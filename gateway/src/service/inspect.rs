//! Inspecting locks: linearizable reads beside the engines, on their runtime, in bounded number.
//!
//! Renewals are not touched by it: what is read here is etcd's, and of this gateway's memory only
//! deadlines.

use crate::engine::To;
use crate::engine::Trouble;
use crate::engine::view::{self, Entry, Next, Search};
use crate::limits;
use crate::names::LockName;
use crate::service::routes::{Cluster, Routes};
use crate::service::{LockPage, LockService, LockView, PageOf, ServiceError};
use crate::time::Clock;
use futures::future::try_join_all;
use holdfast_store::{Op, Reply, TxnReply};
use shard_map::records::Identity;
use shard_map::{ShardId, shard_of};
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The places of those who inspect.
#[derive(Debug)]
pub(super) struct Places(Semaphore);

impl Default for Places {
    fn default() -> Self {
        Self(Semaphore::new(limits::INSPECTIONS_MAX))
    }
}

impl Places {
    fn take(&self) -> Result<SemaphorePermit<'_>, ServiceError> {
        let busy = |_| Trouble::Overloaded.to_error(&Arc::from("any"));
        self.0.try_acquire().map_err(busy)
    }
}

impl<C: Clock> LockService<C> {
    pub(super) async fn inspect_name(&self, name: LockName) -> Result<LockView, ServiceError> {
        let _place = self.inspections.take()?;
        let (shard, mut cluster) = self.route(name.as_str())?;
        let mut search = Search::default();
        loop {
            let reply = self.read(&cluster, view::ask_name(&name, shard)).await?;
            let seen =
                view::name_seen(reply, &cluster.identity).ok_or_else(|| foreign(&cluster))?;
            match search.next(&cluster.name, &seen) {
                Next::Told => {
                    let hold = seen.record.as_ref().map(|kv| self.hold_view(kv));
                    return Ok(LockView {
                        name,
                        hold,
                        waiters: seen.waiters,
                        shard: shard.0,
                        cluster: Arc::clone(&cluster.name),
                    });
                }
                Next::Ask(to) => cluster = self.go_to(&to, shard, &cluster)?,
                Next::Moving => return Err(Trouble::Moving.to_error(&cluster.name)),
            }
        }
    }

    fn go_to(&self, to: &To, shard: ShardId, from: &Cluster) -> Result<Arc<Cluster>, ServiceError> {
        let found = self.routes.load().next_for(to, shard).cloned();
        found.ok_or_else(|| Trouble::Moving.to_error(&from.name))
    }

    pub(super) async fn list_page(&self, page: PageOf) -> Result<LockPage, ServiceError> {
        let _place = self.inspections.take()?;
        let routes = self.routes.load_full();
        let Some(shards) = routes.shards else {
            return Err(Trouble::HomeUnseen.to_error(&Arc::from("home")));
        };
        let mut lists = self.read_page(&routes, &page).await?;
        if routes.is_moving() {
            // A group that moved in between is in one of the two.
            lists.extend(self.read_page(&routes, &page).await?);
        }
        let (entries, more) = view::merge(lists, page.limit);
        let mut waiters = vec![0; entries.len()];
        for (at, cluster) in routes.clusters.iter().enumerate() {
            self.count_waiters(cluster, at, &entries, &mut waiters)
                .await?;
        }
        let next_after = entries
            .last()
            .filter(|_| more)
            .map(|last| last.name.clone());
        let view = |(entry, waiters): (Entry, u64)| LockView {
            hold: Some(self.hold_view(&entry.record)),
            shard: shard_of(entry.name.as_str(), shards).0,
            name: entry.name,
            waiters,
            cluster: Arc::clone(&routes.clusters[entry.cluster].name),
        };
        Ok(LockPage {
            locks: entries.into_iter().zip(waiters).map(view).collect(),
            next_after,
        })
    }

    /// What each cluster has of the page. All of them must answer: a page without the locks of one
    /// would say that these are free.
    async fn read_page(
        &self,
        routes: &Routes,
        page: &PageOf,
    ) -> Result<Vec<(usize, Vec<holdfast_store::KeyValue>)>, ServiceError> {
        let after = page.after.as_deref();
        let reads = routes
            .clusters
            .iter()
            .enumerate()
            .map(async |(at, cluster)| {
                let op = view::ask_page(&page.prefix, after, page.limit + 1);
                let reply = self.read(cluster, op).await?;
                let seen = view::page_seen(reply, &cluster.identity);
                Ok::<_, ServiceError>((at, seen.ok_or_else(|| foreign(cluster))?))
            });
        try_join_all(reads).await
    }

    async fn count_waiters(
        &self,
        cluster: &Cluster,
        at: usize,
        entries: &[Entry],
        waiters: &mut [u64],
    ) -> Result<(), ServiceError> {
        let of_cluster: Vec<usize> = (0..entries.len())
            .filter(|index| entries[*index].cluster == at)
            .collect();
        for part in of_cluster.chunks(limits::READ_KEYS_MAX) {
            let names = part.iter().map(|index| &entries[*index].name);
            let reply = self.read(cluster, view::ask_waiters(names)).await?;
            let counts = view::waiters_seen(reply, &cluster.identity);
            let counts = counts.ok_or_else(|| foreign(cluster))?;
            for (index, count) in part.iter().zip(counts) {
                waiters[*index] = count;
            }
        }
        Ok(())
    }

    fn hold_view(&self, kv: &holdfast_store::KeyValue) -> crate::service::HoldView {
        let clock = (self.clock.now(), self.clock.unix_ms());
        view::hold_of(kv, &self.table, clock, self.settings.session_ttl)
    }

    /// Reads from a cluster in which this gateway's session is proven, before and after.
    async fn read(&self, cluster: &Cluster, op: Op) -> Result<TxnReply, ServiceError> {
        let proven = || match cluster.proof.trouble(self.clock.now()) {
            Some(trouble) => Err(trouble.to_error(&cluster.name)),
            None => Ok(()),
        };
        proven()?;
        let unreached = || Trouble::Unproven.to_error(&cluster.name);
        let store = self
            .stores
            .get(&cluster.identity.cluster)
            .ok_or_else(unreached)?;
        let call = store.call(op, limits::CALL_TIMEOUT.to_std());
        let called = self.settings.engines.spawn(call).await;
        proven()?;
        match called {
            Ok(Ok(Reply::Txn(reply))) => Ok(reply),
            Ok(Ok(_) | Err(_)) | Err(_) => Err(unreached()),
        }
    }
}

/// An endpoint of the map belongs to another cluster; the engine names it in the log.
fn foreign(cluster: &Cluster) -> ServiceError {
    Trouble::Unproven.to_error(&cluster.name)
}

/// Who answers for a cluster of this deployment.
pub(super) fn identity_of(
    deployment: shard_map::DeploymentId,
    cluster: &shard_map::ClusterName,
) -> Identity {
    Identity {
        deployment,
        cluster: cluster.clone(),
        beacon: None,
    }
}
