//! The lock service over several clusters: routes each request to the cluster of its shard.

use crate::engine::{ClusterProof, Course, Engine, Heritage, Hop, Owner, Settings, Table, Trouble};
use crate::limits;
use crate::lock_id::LockId;
use crate::names::LockName;
use crate::service::cluster::{Around, ClusterTask, Command};
use crate::service::clusters::Clusters;
use crate::service::inspect::{Places, identity_of};
use crate::service::routes::{Cluster, Neighbours, Routes};
use crate::service::{
    Acquire, AcquireOutcome, CloseOutcome, ClusterHealth, EngineFigures, ForceRelease, Forward,
    ForwardOutcome, Forwarding, LockPage, LockView, Locks, PageOf, Release, ReleaseOutcome, Renew,
    RenewOutcome, Renewed, ServiceError, ShardStatus,
};
use crate::time::{Clock, Instant, Millis};
use anyhow::Context as _;
use arc_swap::ArcSwap;
use holdfast_store::Store;
use shard_map::{ClusterName, ShardId, ShardMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
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
    /// How many locks each principal may have here; `None`: any number.
    pub principal_locks_max: Option<NonZeroU32>,
    /// The runtime of the engines and of their connections to etcd. Renewals wait for what runs on
    /// theirs, so in production it is another.
    pub engines: Handle,
}

/// Makes the store of a cluster of the map.
pub type StoreOf = dyn Fn(&shard_map::Cluster) -> anyhow::Result<Arc<dyn Store>> + Send + Sync;

/// Gives 32 unpredictable bytes.
pub type Entropy = dyn Fn() -> anyhow::Result<[u8; 32]> + Send + Sync;

/// See the module.
pub struct LockService<C> {
    pub(super) settings: ServiceSettings,
    pub(super) clock: Arc<C>,
    pub(super) stores: Clusters,
    entropy: Box<Entropy>,
    pub(super) table: Arc<Table>,
    pub(super) routes: Arc<ArcSwap<Routes>>,
    pub(super) inspections: Places,
    changing: Mutex<()>,
    forwarding: Arc<dyn Forwarding>,
}

/// There are no other gateways.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

impl Forwarding for Alone {
    fn forward(&self, _: &Owner, _: &Arc<str>, _: Forward) -> oneshot::Receiver<ForwardOutcome> {
        oneshot::channel().1
    }

    fn bequeath(&self, _: &Owner, _: &Arc<str>, _: Heritage) {}
}

impl<C: Clock> LockService<C> {
    /// A service without a map: every request is answered that nothing is known yet.
    pub fn new(
        settings: ServiceSettings,
        clock: Arc<C>,
        store_of: Box<StoreOf>,
        entropy: Box<Entropy>,
        forwarding: Arc<dyn Forwarding>,
    ) -> Self {
        Self {
            table: Arc::new(Table::new(settings.principal_locks_max)),
            settings,
            clock,
            stores: Clusters::new(store_of),
            entropy,
            routes: Arc::new(ArcSwap::from_pointee(Routes::default())),
            changing: Mutex::default(),
            inspections: Places::default(),
            forwarding,
        }
    }

    /// The store of a cluster of the map.
    pub fn store(&self, cluster: &ClusterName) -> Option<Arc<dyn Store>> {
        self.stores.get(cluster)
    }

    /// Routes by this map from now on. Engines of clusters that it adds are started; those of
    /// clusters that it keeps go on, over other connections if the map says so. Those of clusters that
    /// it does not have any more go on until [`LockService::leave_clusters`].
    ///
    /// # Errors
    /// When the store of a cluster cannot be made (its TLS files cannot be read, say); the present
    /// map stays. A cluster that cannot be reached is no error.
    pub fn apply_map(&self, map: &ShardMap) -> anyhow::Result<()> {
        let _one_at_a_time = self.one_at_a_time();
        {
            // The connections belong to the engines' runtime.
            let _engines = self.settings.engines.enter();
            self.stores.take_up(map)?;
        }
        let present = self.routes.load();
        let mut clusters = present.clusters.clone();
        for cluster in map.clusters() {
            let name = cluster.name.as_str();
            if !clusters.iter().any(|known| &*known.name == name) {
                clusters.push(Arc::new(self.start_cluster(map, cluster)?));
            }
        }
        self.routes.store(Arc::new(Routes::of_map(map, clusters)));
        Ok(())
    }

    /// Gives up the sessions in clusters that this map does not have, and ends their engines, if it is
    /// still the map that is routed by. Some time after it was applied: until then a request may be on
    /// its way that is to look for a name where its shard came from.
    pub fn leave_clusters(&self, map: &ShardMap) {
        let _one_at_a_time = self.one_at_a_time();
        let present = self.routes.load();
        if present.version != Some(map.version()) {
            return;
        }
        let has = |known: &Arc<Cluster>| {
            let mut names = map.clusters().iter().map(|it| it.name.as_str());
            names.any(|name| name == &*known.name)
        };
        let (kept, left): (Vec<_>, Vec<_>) = present.clusters.iter().cloned().partition(has);
        if left.is_empty() {
            return;
        }
        self.routes.store(Arc::new(Routes::of_map(map, kept)));
        self.stores.forget_others(map);
        for cluster in left {
            self.settings.engines.spawn(leave(cluster));
        }
    }

    /// Who has it changes the routes.
    fn one_at_a_time(&self) -> std::sync::MutexGuard<'_, ()> {
        // There is nothing that a panic could have left half done.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_cluster(
        &self,
        map: &ShardMap,
        cluster: &shard_map::Cluster,
    ) -> anyhow::Result<Cluster> {
        let store = self.stores.get(&cluster.name);
        let store = store.context("a cluster without a store")?;
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
        let (stats, owners) = (engine.stats(), engine.owners());
        let (commands, told) = mpsc::channel(limits::COMMANDS_QUEUED_MAX);
        let shards = Arc::new(ArcSwap::from_pointee(Vec::new()));
        let (clock, shown) = (Arc::clone(&self.clock), Arc::clone(&shards));
        let (words, said) = mpsc::channel(limits::WORDS_QUEUED_MAX);
        let around = Around {
            cluster: Arc::clone(&name),
            forwarding: Arc::clone(&self.forwarding),
            neighbours: Neighbours(Arc::downgrade(&self.routes)),
        };
        let task = ClusterTask::run(around, engine, store, clock, (told, said), shown);
        self.settings.engines.spawn(task);
        Ok(Cluster {
            name,
            identity: identity_of(map.deployment(), &cluster.name),
            proof,
            stats,
            owners,
            commands,
            words,
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

    /// The present time of the one clock.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Begins to answer what another gateway has forwarded; `None`: call
    /// [`LockService::answer_forwarded`].
    pub(crate) fn serve_forwarded(
        &self,
        now: Instant,
        forward: &Forward,
    ) -> Option<ForwardOutcome> {
        match Course::of_forwarded(&self.table, now, forward) {
            Course::Answer(outcome) => Some(outcome),
            Course::Engine(_) | Course::Owner(_) => None,
        }
    }

    /// Answers what another gateway has forwarded. It goes no further.
    pub(crate) async fn answer_forwarded(&self, forward: Forward) -> ForwardOutcome {
        let answer = match self.route_hold(forward.lock_id()) {
            Ok((shard, cluster)) => {
                let command =
                    |asker| Command::Hold(shard, Box::new(forward), Hop::FromGateway, asker);
                self.ask(&cluster, command).await
            }
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(ForwardOutcome::Failed)
    }

    /// Takes note of what another gateway leaves to this one.
    pub(crate) fn inherit(&self, cluster: &str, heritage: Heritage) {
        let routes = self.routes.load();
        let cluster = routes.clusters.iter().find(|known| &*known.name == cluster);
        if let Some(cluster) = cluster {
            // Without it the locks are only kept longer.
            let _ = cluster.commands.try_send(Command::Heritage(heritage));
        }
    }

    /// Answers a request about an existing hold: here, or through the gateway that owns the lock.
    async fn about_hold(&self, forward: Forward) -> Result<ForwardOutcome, ServiceError> {
        let (shard, cluster) = self.route_hold(forward.lock_id())?;
        let came = self.clock.now();
        let (owners, id) = (&cluster.owners, forward.lock_id());
        let mut course = Course::of_request(owners, &self.table, &cluster.name, id);
        loop {
            course = match course {
                Course::Answer(outcome) => return Ok(outcome),
                Course::Engine(hop) => {
                    let command = |asker| Command::Hold(shard, Box::new(forward), hop, asker);
                    return self.ask(&cluster, command).await;
                }
                Course::Owner(owner) => {
                    let forwarding = &self.forwarding;
                    cluster.stats.forwarded_at_once.add(1);
                    let asking = forwarding.forward(&owner, &cluster.name, forward.clone());
                    let said = asking.await.ok();
                    let took = self.clock.now().since(came);
                    Course::after_owner(&owner, &cluster.name, took, said)
                }
            };
        }
    }

    /// Sends a request to its cluster and waits for the answer.
    async fn ask<T>(
        &self,
        cluster: &Cluster,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ServiceError> {
        let answer = self.send(cluster, command)?;
        // The task has ended: this gateway is stopping.
        answer
            .await
            .map_err(|_| Trouble::Draining.to_error(&cluster.name))
    }

    /// Sends a request to its cluster.
    fn send<T>(
        &self,
        cluster: &Cluster,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<oneshot::Receiver<T>, ServiceError> {
        // Spares the queue what the engine would answer at once.
        if let Some(trouble) = cluster.proof.trouble(self.clock.now()) {
            return Err(trouble.to_error(&cluster.name));
        }
        let (asker, answer) = oneshot::channel();
        let command = command(asker);
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
        Ok(answer)
    }

    /// Waits for an answer that may be long in coming; if this future is dropped, whoever has sent the
    /// request has gone, and gets nothing.
    async fn acquire_in_line(
        &self,
        cluster: Arc<Cluster>,
        shard: ShardId,
        acquire: Acquire,
    ) -> Result<AcquireOutcome, ServiceError> {
        let command = |asker| Command::Acquire(shard, acquire, asker);
        let answer = self.send(&cluster, command)?;
        let mut delivery = Delivery {
            answer,
            table: Arc::clone(&self.table),
            routes: Arc::clone(&self.routes),
        };
        let answer = (&mut delivery.answer).await;
        answer.map_err(|_| Trouble::Draining.to_error(&cluster.name))?
    }

    pub(super) fn route(&self, name: &str) -> Result<(ShardId, Arc<Cluster>), ServiceError> {
        let routes = self.routes.load();
        let Some(shards) = routes.shards else {
            return Err(Trouble::HomeUnseen.to_error(&Arc::from("home")));
        };
        let shard = shard_map::shard_of(name, shards);
        match routes.of_shard(shard, self.clock.now()) {
            Some(cluster) => Ok((shard, Arc::clone(cluster))),
            None => Err(Trouble::Moving.to_error(&Arc::from("none"))),
        }
    }

    /// Where a request about this hold goes: its group may have moved, or not moved yet, whatever the
    /// map says.
    fn route_hold(&self, id: &LockId) -> Result<(ShardId, Arc<Cluster>), ServiceError> {
        let (shard, cluster) = self.route(id.name())?;
        let routes = self.routes.load();
        let found = routes.of_hold(&self.table, id);
        Ok((shard, found.map_or(cluster, Arc::clone)))
    }
}

impl<C: Clock> Locks for LockService<C> {
    fn try_renew(&self, now: Instant, renew: &Renew) -> Option<Result<Renewed, ServiceError>> {
        self.table.renew(now, renew)
    }

    async fn renew(&self, renew: Renew) -> Result<RenewOutcome, ServiceError> {
        match self.about_hold(Forward::Renew(renew)).await? {
            ForwardOutcome::Renew(outcome) => Ok(outcome),
            other => Err(no_answer(other)),
        }
    }

    async fn acquire(&self, acquire: Acquire) -> Result<AcquireOutcome, ServiceError> {
        let (shard, cluster) = self.route(acquire.name.as_str())?;
        if acquire.wait > Millis::ZERO {
            return self.acquire_in_line(cluster, shard, acquire).await;
        }
        let command = |asker| Command::Acquire(shard, acquire, asker);
        self.ask(&cluster, command).await?
    }

    async fn release(&self, release: Release) -> Result<ReleaseOutcome, ServiceError> {
        match self.about_hold(Forward::Release(release)).await? {
            ForwardOutcome::Release(outcome) => Ok(outcome),
            other => Err(no_answer(other)),
        }
    }

    async fn inspect(&self, name: LockName) -> Result<LockView, ServiceError> {
        self.inspect_name(name).await
    }

    async fn list(&self, page: PageOf) -> Result<LockPage, ServiceError> {
        self.list_page(page).await
    }

    async fn force_release(&self, force: ForceRelease) -> Result<CloseOutcome, ServiceError> {
        let (shard, cluster) = self.route(force.name.as_str())?;
        let command = |asker| Command::ForceRelease(shard, force, asker);
        self.ask(&cluster, command).await?
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

    fn engines(&self) -> Vec<EngineFigures> {
        let routes = self.routes.load();
        let figures = routes.clusters.iter().map(|cluster| EngineFigures {
            cluster: Arc::clone(&cluster.name),
            stats: Arc::clone(&cluster.stats),
            proof: Arc::clone(&cluster.proof),
            commands_queued: limits::COMMANDS_QUEUED_MAX - cluster.commands.capacity(),
        });
        figures.collect()
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

/// Nothing is left in a cluster that a map does not have any more, so nobody has to take anything over.
/// The engine ends with the last way to tell it something.
async fn leave(cluster: Arc<Cluster>) {
    let (done, stopped) = oneshot::channel();
    if cluster.commands.send(Command::Stop(done)).await.is_ok() {
        // An error means that the task has ended, which is what is waited for.
        let _ = stopped.await;
    }
    tracing::info!(cluster = %cluster.name, "the map has this cluster no more: left");
}

/// A gateway that answers another question than it was asked has answered nothing.
fn no_answer(outcome: ForwardOutcome) -> ServiceError {
    match outcome {
        ForwardOutcome::Failed(error) => error,
        _ => Trouble::Unknown.to_error(&Arc::from("")),
    }
}

/// An answer to a request that may wait, on its way to the client.
struct Delivery {
    answer: oneshot::Receiver<Result<AcquireOutcome, ServiceError>>,
    table: Arc<Table>,
    routes: Arc<ArcSwap<Routes>>,
}

impl Drop for Delivery {
    /// A grant that came when the client was going, and that nobody has taken, is undone.
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(AcquireOutcome::Granted(grant))) = self.answer.try_recv() {
            let id = grant.lock_id;
            // The request may have gone on to another cluster than the one that was asked first.
            if let Some(cluster) = self.routes.load().of_hold(&self.table, &id) {
                let undelivered = Command::Undelivered(Box::new(id));
                // Where there is no room for it, the hold ends with its TTL.
                let _ = cluster.commands.try_send(undelivered);
            }
        }
    }
}
