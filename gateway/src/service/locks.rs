//! The lock service over several clusters: routes each request to the cluster of its shard.

use crate::engine::{ClusterProof, Engine, EngineStats, FastRenewal, Settings, Table, Trouble};
use crate::limits;
use crate::service::cluster::{ClusterTask, Command};
use crate::service::{
    Acquire, AcquireOutcome, ClusterHealth, Locks, Release, ReleaseOutcome, Renew, RenewOutcome,
    Renewed, ServiceError, ShardStatus,
};
use crate::time::{Clock, Instant, Millis};
use arc_swap::ArcSwap;
use holdfast_store::Store;
use shard_map::{ShardCount, ShardId, ShardMap};
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

/// What the service needs to know that does not depend on the map.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// This process: random.
    pub instance: String,
    /// Where other gateways reach this one.
    pub peer_url: String,
    /// The TTL of sessions.
    pub session_ttl: Millis,
    /// The TTL of the leases of groups.
    pub group_ttl: Millis,
}

/// Makes the store of a cluster of the map.
pub type StoreOf = dyn Fn(&shard_map::Cluster) -> anyhow::Result<Arc<dyn Store>> + Send + Sync;

/// Gives 32 unpredictable bytes.
pub type Entropy = dyn Fn() -> anyhow::Result<[u8; 32]> + Send + Sync;

/// See the module.
pub struct LockService<C> {
    settings: ServiceSettings,
    clock: Arc<C>,
    store_of: Box<StoreOf>,
    entropy: Box<Entropy>,
    table: Arc<Table>,
    routes: ArcSwap<Routes>,
}

/// Which cluster a shard's requests go to.
#[derive(Default)]
struct Routes {
    /// `None`: there is no map yet.
    shards: Option<ShardCount>,
    by_shard: Vec<u16>,
    clusters: Vec<Arc<Cluster>>,
}

/// A cluster's task, from outside.
struct Cluster {
    name: Arc<str>,
    proof: Arc<ClusterProof>,
    stats: Arc<EngineStats>,
    commands: mpsc::Sender<Command>,
    shards: Arc<ArcSwap<Vec<ShardStatus>>>,
}

impl<C: Clock> LockService<C> {
    /// A service without a map: every request is answered that nothing is known yet.
    pub fn new(
        settings: ServiceSettings,
        clock: Arc<C>,
        store_of: Box<StoreOf>,
        entropy: Box<Entropy>,
    ) -> Self {
        Self {
            settings,
            clock,
            store_of,
            entropy,
            table: Arc::default(),
            routes: ArcSwap::from_pointee(Routes::default()),
        }
    }

    /// Routes by this map from now on. Engines of clusters that it adds are started; those of
    /// clusters that it keeps go on. Wants a Tokio runtime.
    ///
    /// # Errors
    /// When the store of a cluster cannot be made (its TLS files cannot be read, say); the present
    /// map stays. A cluster that cannot be reached is no error.
    pub fn apply_map(&self, map: &ShardMap) -> anyhow::Result<()> {
        let present = self.routes.load();
        let mut clusters = present.clusters.clone();
        for cluster in map.clusters() {
            let name = cluster.name.as_str();
            if !clusters.iter().any(|known| &*known.name == name) {
                clusters.push(Arc::new(self.start_cluster(map, cluster)?));
            }
        }
        let by_shard = map
            .shards()
            .shards()
            .map(|shard| {
                let cluster = map.cluster_of(shard);
                let at = cluster.and_then(|cluster| {
                    clusters
                        .iter()
                        .position(|known| *known.name == *cluster.name.as_str())
                });
                at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
            })
            .collect();
        self.routes.store(Arc::new(Routes {
            shards: Some(map.shards()),
            by_shard,
            clusters,
        }));
        Ok(())
    }

    fn start_cluster(
        &self,
        map: &ShardMap,
        cluster: &shard_map::Cluster,
    ) -> anyhow::Result<Cluster> {
        let store = (self.store_of)(cluster)?;
        let name = cluster.name.to_shared();
        let proof = ClusterProof::new(Arc::clone(&name));
        let settings = Settings {
            cluster: Arc::clone(&name),
            deployment: map.deployment(),
            instance: self.settings.instance.clone(),
            peer_url: self.settings.peer_url.clone(),
            session_ttl: self.settings.session_ttl,
            group_ttl: self.settings.group_ttl,
        };
        let engine = Engine::new(
            settings,
            (self.entropy)()?,
            self.clock.now(),
            Arc::clone(&self.table),
            Arc::clone(&proof),
        );
        let stats = engine.stats();
        let (commands, told) = mpsc::channel(limits::COMMANDS_QUEUED_MAX);
        let shards = Arc::new(ArcSwap::from_pointee(Vec::new()));
        let (clock, shown) = (Arc::clone(&self.clock), Arc::clone(&shards));
        tokio::spawn(ClusterTask::run(engine, store, clock, told, shown));
        Ok(Cluster {
            name,
            proof,
            stats,
            commands,
            shards,
        })
    }

    /// Home has been seen, so the map is known to be current: grants may begin.
    pub async fn home_seen(&self) {
        let clusters = self.routes.load().clusters.clone();
        for cluster in &clusters {
            // A task that has ended grants nothing anyway.
            let _ = cluster.commands.send(Command::HomeSeen).await;
        }
    }

    /// Stops promising and gives the sessions up, so that other gateways can claim at once.
    /// Returns when every session is revoked, or given up for lost.
    pub async fn stop(&self) {
        let clusters = self.routes.load().clusters.clone();
        let mut stopping = Vec::new();
        for cluster in &clusters {
            let (done, stopped) = oneshot::channel();
            if cluster.commands.send(Command::Stop(done)).await.is_ok() {
                stopping.push(stopped);
            }
        }
        for stopped in stopping {
            // An error means that the task has ended, which is what is waited for.
            let _ = stopped.await;
        }
    }

    /// What the engines have done, by cluster.
    pub fn stats(&self) -> Vec<(Arc<str>, Arc<EngineStats>)> {
        let routes = self.routes.load();
        routes
            .clusters
            .iter()
            .map(|c| (Arc::clone(&c.name), Arc::clone(&c.stats)))
            .collect()
    }

    /// Sends a request to its shard's cluster and waits for the answer.
    async fn ask<T>(
        &self,
        name: &str,
        command: impl FnOnce(ShardId, oneshot::Sender<Result<T, ServiceError>>) -> Command,
    ) -> Result<T, ServiceError> {
        let (shard, cluster) = self.route(name)?;
        // Spares the queue what the engine would answer at once.
        if !cluster.proof.is_proven(self.clock.now()) {
            return Err(Trouble::Unproven.to_error(&cluster.name));
        }
        let (asker, answer) = oneshot::channel();
        let command = command(shard, asker);
        // Acquires leave half of the places to renewals and releases.
        let crowded = matches!(command, Command::Acquire(..))
            && cluster.commands.capacity() < limits::COMMANDS_QUEUED_MAX / 2;
        let sent = match crowded {
            true => Err(Trouble::Overloaded),
            false => cluster
                .commands
                .try_send(command)
                .map_err(|error| match error {
                    TrySendError::Full(_) => Trouble::Overloaded,
                    TrySendError::Closed(_) => Trouble::Draining,
                }),
        };
        sent.map_err(|trouble| trouble.to_error(&cluster.name))?;
        // The task has ended: this gateway is stopping.
        answer
            .await
            .unwrap_or_else(|_| Err(Trouble::Draining.to_error(&cluster.name)))
    }

    fn route(&self, name: &str) -> Result<(ShardId, Arc<Cluster>), ServiceError> {
        let routes = self.routes.load();
        let Some(shards) = routes.shards else {
            return Err(Trouble::HomeUnseen.to_error(&Arc::from("home")));
        };
        let shard = shard_map::shard_of(name, shards);
        let at = usize::try_from(shard.0)
            .ok()
            .and_then(|at| routes.by_shard.get(at));
        let cluster = at.and_then(|at| routes.clusters.get(usize::from(*at)));
        match cluster {
            Some(cluster) => Ok((shard, Arc::clone(cluster))),
            None => Err(Trouble::Moving.to_error(&Arc::from("none"))),
        }
    }
}

impl<C: Clock> Locks for LockService<C> {
    fn try_renew(&self, now: Instant, renew: &Renew) -> Option<Result<Renewed, ServiceError>> {
        match self.table.renew(now, renew) {
            (FastRenewal::Renewed(renewed), _) => Some(Ok(renewed)),
            (FastRenewal::Unproven, Some(cluster)) => {
                Some(Err(Trouble::Unproven.to_error(&cluster.name)))
            }
            (FastRenewal::Unproven, None) | (FastRenewal::AskEngine, _) => None,
        }
    }

    async fn renew(&self, renew: Renew) -> Result<RenewOutcome, ServiceError> {
        let name = renew.lock_id.name().to_owned();
        self.ask(&name, |shard, asker| Command::Renew(shard, renew, asker))
            .await
    }

    async fn acquire(&self, acquire: Acquire) -> Result<AcquireOutcome, ServiceError> {
        let name = acquire.name.clone();
        self.ask(name.as_str(), |shard, asker| {
            Command::Acquire(shard, acquire, asker)
        })
        .await
    }

    async fn release(&self, release: Release) -> Result<ReleaseOutcome, ServiceError> {
        let name = release.lock_id.name().to_owned();
        self.ask(&name, |shard, asker| {
            Command::Release(shard, release, asker)
        })
        .await
    }

    fn clusters(&self) -> Vec<ClusterHealth> {
        let now = self.clock.now();
        let routes = self.routes.load();
        let health = routes.clusters.iter().map(|cluster| ClusterHealth {
            name: Arc::clone(&cluster.name),
            proven: cluster.proof.is_proven(now),
            proof_age: cluster.proof.last_proof().map(|sent| now.since(sent)),
            groups: cluster.stats.groups.get(),
            locks: cluster.stats.locks.get(),
        });
        health.collect()
    }

    fn shards(&self) -> Vec<ShardStatus> {
        let routes = self.routes.load();
        let mut statuses: Vec<ShardStatus> = routes
            .clusters
            .iter()
            .flat_map(|cluster| cluster.shards.load().iter().cloned().collect::<Vec<_>>())
            .collect();
        statuses.sort_by_key(|status| status.shard);
        statuses
    }
}
