//! The composition root: puts the parts together and runs them until the process is told to stop.

use crate::admin::{self, Admin};
use crate::auth::{Auth, Budgets, Rates};
use crate::config::{self, Config};
use crate::http::{self, Edge, EdgeSettings};
use crate::lifecycle::{Lifecycle, Phase, StopPlan};
use crate::limits;
use crate::map::{MapDriver, MapSource, MapTiming, StateDir};
use crate::metrics::{Metrics, Reloaded};
use crate::peer::{self, PeerSecret, Peers};
use crate::reload::Follow;
use crate::rollout::{RolloutTask, StoresOf};
use crate::service::{
    Alone, Embedded, Forwarding, LockService, Locks, ServiceSettings, StoreOf, etcd_store,
    follow_map,
};
use crate::supervisor;
use crate::time::{BootClock, Millis};
use crate::tls::{ClientFiles, ClientTls, Inside, ServerFiles, ServerTls};
use anyhow::Context;
use holdfast_store::Store;
use rand::TryRng;
use rand::rngs::SysRng;
use shard_map::{DeploymentId, ShardCount};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// What `gateway dev` may be told.
#[derive(Debug, Clone)]
pub struct DevOptions {
    /// The public listener.
    pub listen: SocketAddr,
    /// The admin listener.
    pub admin_listen: SocketAddr,
    /// The public listener may be where others than this machine reach it.
    pub insecure: bool,
    /// How many clusters to embed.
    pub clusters: u8,
}

/// Where a running gateway is reached.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// The lock API.
    pub public: SocketAddr,
    /// Metrics and health.
    pub admin: SocketAddr,
}

/// What differs between the ways of running a gateway.
struct Parts {
    listen: SocketAddr,
    admin_listen: SocketAddr,
    edge: EdgeSettings,
    stop: StopPlan,
    service: ServiceSettings,
    store_of: Box<StoreOf>,
    source: MapSource,
    driver: MapDriver,
    /// Home, if maps can change there.
    home: Option<Arc<dyn Store>>,
    auth: config::Auth,
    budgets: Budgets,
    tls: Option<ServerFiles>,
    admin_tls: Option<ServerFiles>,
    /// Where other gateways are listened to, if there can be any.
    peers: Option<(TcpListener, PeerSecret)>,
    peer_tls: Option<(ServerFiles, ClientFiles)>,
}

/// Runs one process with embedded clusters until it is told to stop, its engines on a runtime of
/// their own. `ready` is called once it serves.
///
/// # Errors
/// When an address cannot be listened on, or others reach it and nobody said that they may.
pub async fn run_dev(
    options: DevOptions,
    engines: Handle,
    ready: impl FnOnce(Addresses),
) -> anyhow::Result<()> {
    anyhow::ensure!(
        options.insecure || options.listen.ip().is_loopback(),
        "--listen {}: clients need not prove who they are here, so whoever reaches this address may \
         take and end every lock; listen on loopback, such as 127.0.0.1:{}, or add --insecure if \
         that is what you want",
        options.listen,
        options.listen.port()
    );
    let clock = Arc::new(BootClock);
    let deployment = DeploymentId::from_random_bits(random_bits()?);
    let shards = ShardCount::try_from(limits::DEV_SHARDS)?;
    let embedded = Embedded::start(options.clusters, shards, deployment, &clock).await?;
    let (source, driver) = MapSource::open(Arc::clone(&embedded.home), None, MapTiming::default());
    let parts = Parts {
        listen: options.listen,
        admin_listen: options.admin_listen,
        edge: EdgeSettings::default(),
        stop: StopPlan {
            drain: Millis::ZERO,
            hand_over: limits::CALL_TIMEOUT,
            finish: limits::REQUEST_TIMEOUT,
        },
        service: ServiceSettings {
            instance: new_instance()?,
            peer_url: format!("http://{}", options.listen),
            session_ttl: limits::SESSION_TTL,
            group_ttl: limits::GROUP_TTL,
            principal_locks_max: None,
            engines,
        },
        store_of: Box::new(move |cluster| embedded.store(cluster)),
        source,
        driver,
        home: None,
        auth: config::Auth::None {
            insecure: options.insecure,
        },
        budgets: Budgets::new(Rates::default(), Rates::default()),
        tls: None,
        admin_tls: None,
        peers: None,
        peer_tls: None,
    };
    run(parts, clock, ready).await
}

/// Runs a gateway over etcd until it is told to stop, its engines on a runtime of their own. `ready`
/// is called once it serves.
///
/// # Errors
/// When an address cannot be listened on, the state directory is another gateway's, or a file
/// that the configuration names cannot be read. An etcd that cannot be reached is no error.
pub async fn run_serve(
    config: Config,
    engines: Handle,
    ready: impl FnOnce(Addresses),
) -> anyhow::Result<()> {
    let home: Arc<dyn Store> = Arc::new(config::home_store(&config.home).context("home")?);
    let state_dir = StateDir::open(&config.state_dir).context("state_dir")?;
    let (source, driver) =
        MapSource::open(Arc::clone(&home), Some(state_dir), MapTiming::default());
    let peer_listener = http::bind(config.peer_listen)
        .with_context(|| format!("cannot listen on {} (peer_listen)", config.peer_listen))?;
    let peer_url = match config.peer_url {
        Some(url) => url,
        None if config.peer_tls.is_some() => format!("https://{}", peer_listener.local_addr()?),
        None => format!("http://{}", peer_listener.local_addr()?),
    };
    let secret = match &config.peer_secret_file {
        Some(file) => config::read_peer_secret(file).context("peer.secret_file")?,
        None => PeerSecret::none(),
    };
    let parts = Parts {
        listen: config.listen,
        admin_listen: config.admin_listen,
        edge: config.edge,
        stop: config.stop,
        service: ServiceSettings {
            instance: new_instance()?,
            peer_url,
            session_ttl: config.session_ttl,
            group_ttl: config.group_ttl,
            principal_locks_max: config.principal_locks_max,
            engines,
        },
        store_of: Box::new(etcd_store),
        source,
        driver,
        home: Some(home),
        auth: config.auth,
        budgets: Budgets::new(config.principal_rates, config.address_rates),
        tls: config.tls,
        admin_tls: config.admin_tls,
        peers: Some((peer_listener, secret)),
        peer_tls: config.peer_tls,
    };
    run(parts, Arc::new(BootClock), ready).await
}

async fn run(
    parts: Parts,
    clock: Arc<BootClock>,
    ready: impl FnOnce(Addresses),
) -> anyhow::Result<()> {
    let listener = http::bind(parts.listen)
        .with_context(|| format!("cannot listen on {} (listen)", parts.listen))?;
    let admin_listener = std::net::TcpListener::bind(parts.admin_listen)
        .with_context(|| format!("cannot listen on {} (admin_listen)", parts.admin_listen))?;
    let addresses = Addresses {
        public: listener.local_addr()?,
        admin: admin_listener.local_addr()?,
    };

    let metrics = Arc::new(Metrics::default());
    let tls = server_tls(parts.tls, Inside::Both, Reloaded::Tls, &metrics)?;
    let admin_tls = server_tls(parts.admin_tls, Inside::Http1, Reloaded::AdminTls, &metrics)?;
    let (peer_server, peer_client) = parts.peer_tls.unzip();
    let peer_server = server_tls(peer_server, Inside::Http1, Reloaded::PeerTls, &metrics)?;
    let peer_client = client_tls(peer_client, &metrics)?;
    let forwarding: Arc<dyn Forwarding> = match &parts.peers {
        Some((_, secret)) => Arc::new(Peers::new(secret.clone(), peer_client, Arc::clone(&clock))),
        None => Arc::new(Alone),
    };
    let me = (
        parts.service.instance.clone(),
        parts.service.peer_url.clone(),
    );
    let engines = parts.service.engines.clone();
    let service = LockService::new(
        parts.service,
        Arc::clone(&clock),
        parts.store_of,
        Box::new(unpredictable_seed),
        forwarding,
    );
    let service = Arc::new(service);
    if let Some((listener, secret)) = parts.peers {
        tokio::spawn(peer::listen(
            listener,
            peer_server,
            secret,
            Arc::clone(&service),
        ));
    }
    let map = parts.source.status();
    tokio::spawn(parts.driver.run());
    let lifecycle = Lifecycle::default();
    if let Some(home) = parts.home {
        let (stores, source) = (Arc::clone(&service), parts.source.clone());
        let stores: Box<StoresOf> = Box::new(move |cluster| stores.store(cluster));
        let task = RolloutTask::new(me, home, source, stores, clock, Box::new(rand::random));
        // A driver reads every group of the clusters of its rollout: no renewal waits for that.
        engines.spawn(task.run(lifecycle.clone()));
    }
    tokio::spawn(follow_map(Arc::clone(&service), parts.source));

    let admin_page = Admin {
        locks: Arc::clone(&service),
        metrics: Arc::clone(&metrics),
        map,
        lifecycle: lifecycle.clone(),
        runtimes: vec![("worker", Handle::current()), ("engine", engines.clone())],
    };
    let admin_thread = admin::start(admin_listener, admin_tls, admin_page)?;
    let auth = who_may(parts.auth, parts.budgets, parts.listen, &metrics)?;
    let edge = Edge::new(
        Arc::clone(&service),
        BootClock,
        parts.edge,
        metrics,
        lifecycle.clone(),
        auth,
    );
    let mut served = tokio::spawn(http::serve(listener, tls, Arc::new(edge)));
    tracing::info!(public = %addresses.public, admin = %addresses.admin, "listening");
    supervisor::start(Arc::clone(&service), lifecycle.clone(), engines);

    let mut told = std::pin::pin!(told_to_stop());
    tokio::select! {
        () = all_proven(&service) => ready(addresses),
        () = &mut told => return stop(lifecycle, parts.stop, &service, &mut served).await,
    }
    told.await;
    let stopped = stop(lifecycle, parts.stop, &service, &mut served).await;
    if admin_thread.join().is_err() {
        tracing::error!("the admin thread panicked");
    }
    stopped
}

/// Follows the files of a listener's TLS.
fn server_tls(
    files: Option<ServerFiles>,
    inside: Inside,
    what: Reloaded,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<ServerTls>>> {
    let Some(files) = files else { return Ok(None) };
    let follow = Follow::new(files.paths());
    let tls = ServerTls::load(files, inside)?;
    let followed = Arc::clone(&tls);
    let read = move || followed.reload();
    tokio::spawn(follow.run(what, Arc::clone(metrics), read));
    Ok(Some(tls))
}

fn client_tls(
    files: Option<ClientFiles>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<ClientTls>>> {
    let Some(files) = files else { return Ok(None) };
    let follow = Follow::new(files.paths());
    let tls = ClientTls::load(files)?;
    let followed = Arc::clone(&tls);
    let read = move || followed.reload();
    tokio::spawn(follow.run(Reloaded::PeerClientTls, Arc::clone(metrics), read));
    Ok(Some(tls))
}

/// Whom the public listener knows; the roll is followed from now on.
fn who_may(
    auth: config::Auth,
    budgets: Budgets,
    listen: SocketAddr,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Arc<Auth>> {
    let (mode, file) = match auth {
        config::Auth::None { .. } => {
            if !listen.ip().is_loopback() {
                tracing::warn!(
                    %listen,
                    "insecure: auth.mode is \"none\", so whoever reaches this address may take and \
                     end every lock"
                );
            }
            return Ok(Auth::open(budgets));
        }
        config::Auth::Known { mode, principals } => (mode, principals),
    };
    let follow = Follow::new(vec![file.clone()]);
    let auth = Auth::new(mode, config::read_roll(&file)?, budgets);
    let replaced = Arc::clone(&auth);
    let read = move || {
        replaced.replace(config::read_roll(&file)?);
        Ok(())
    };
    tokio::spawn(follow.run(Reloaded::Roll, Arc::clone(metrics), read));
    Ok(auth)
}

async fn stop(
    lifecycle: Lifecycle,
    plan: StopPlan,
    service: &LockService<BootClock>,
    served: &mut tokio::task::JoinHandle<()>,
) -> anyhow::Result<()> {
    let idle = async {
        // An error here is a panic of the accept loop, which the runtime has reported.
        let _ = served.await;
    };
    // Before anybody can see that it drains.
    let again = interrupted();
    lifecycle.advance(Phase::Draining);
    supervisor::stopping();
    tokio::select! {
        () = lifecycle.stop(plan, service.stop(), idle) => {}
        () = again => {
            tracing::warn!(
                phase = lifecycle.phase().as_str(),
                "interrupted while it stops: ends at once; other gateways take over what was not handed over \
                 when the session has ended"
            );
            lifecycle.advance(Phase::Done);
        }
    }
    Ok(())
}

/// Waits until there is a map and the session in every cluster of it is proven.
async fn all_proven(service: &LockService<BootClock>) {
    loop {
        let clusters = service.clusters();
        if !clusters.is_empty() && clusters.iter().all(|cluster| cluster.proven) {
            return;
        }
        tokio::time::sleep(limits::LOOK_AGAIN.to_std()).await;
    }
}

/// Waits for SIGINT: somebody at a terminal who does not want to wait. A second SIGTERM ends no stop
/// early, because service managers and what wraps them may repeat it.
/// Listens from this call on, not only once it is awaited.
fn interrupted() -> impl Future<Output = ()> {
    let interrupt = signal(SignalKind::interrupt());
    async {
        match interrupt {
            Ok(mut interrupt) => drop(interrupt.recv().await),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits for SIGTERM or SIGINT.
async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        // Without handlers the signals end the process by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn new_instance() -> anyhow::Result<String> {
    Ok(format!("{:032x}", random_bits()?))
}

fn random_bits() -> anyhow::Result<u128> {
    let mut bytes = [0; 16];
    SysRng
        .try_fill_bytes(&mut bytes)
        .context("the system gives no random numbers")?;
    Ok(u128::from_be_bytes(bytes))
}

/// Engines make lock ids from this.
fn unpredictable_seed() -> anyhow::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SysRng
        .try_fill_bytes(&mut seed)
        .context("the system gives no random numbers")?;
    Ok(seed)
}
