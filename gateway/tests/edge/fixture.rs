//! A public listener on a free port, in front of the fake.

use crate::fake::{Fake, Still};
use crate::raw::{Client, Reply};
use holdfast_gateway::auth::{Auth, Budgets, Rates};
use holdfast_gateway::http::{Edge, EdgeSettings, bind, serve};
use holdfast_gateway::lifecycle::{Lifecycle, Phase};
use holdfast_gateway::metrics::Metrics;
use holdfast_gateway::time::Clock;
use holdfast_gateway::tls::ServerTls;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Arc<Fake>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) served: JoinHandle<()>,
}

/// Everybody may send as much as they like.
pub(crate) fn no_budgets() -> Budgets {
    Budgets::new(Rates::default(), Rates::default())
}

/// Starts with the default settings.
pub(crate) fn start() -> Server {
    start_with(EdgeSettings::default())
}

/// Starts with the default settings, for those whom `auth` knows.
pub(crate) fn start_for(auth: Arc<Auth>) -> Server {
    start_with_auth(EdgeSettings::default(), auth)
}

pub(crate) fn start_with(settings: EdgeSettings) -> Server {
    start_with_auth(settings, Auth::open(no_budgets()))
}

pub(crate) fn start_with_auth(settings: EdgeSettings, auth: Arc<Auth>) -> Server {
    start_with_tls(settings, auth, None)
}

pub(crate) fn start_with_tls(
    settings: EdgeSettings,
    auth: Arc<Auth>,
    tls: Option<Arc<ServerTls>>,
) -> Server {
    start_with_clock(settings, auth, tls, Still)
}

pub(crate) fn start_with_clock(
    settings: EdgeSettings,
    auth: Arc<Auth>,
    tls: Option<Arc<ServerTls>>,
    clock: impl Clock,
) -> Server {
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let fake = Arc::new(Fake::default());
    let (metrics, lifecycle) = (Arc::new(Metrics::default()), Lifecycle::default());
    let edge = Edge::new(
        Arc::clone(&fake),
        clock,
        settings,
        Arc::clone(&metrics),
        lifecycle.clone(),
        auth,
    );
    Server {
        address,
        fake,
        metrics,
        lifecycle,
        served: tokio::spawn(serve(listener, tls, Arc::new(edge))),
    }
}

impl Server {
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Posts one body of JSON on a connection of its own.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.client().await.post(path, body).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lifecycle.advance(Phase::Done);
    }
}
