//! A few gateways over the same clusters in memory.

use holdfast_gateway::http::bind;
use holdfast_gateway::names::{ClientId, LockName};
use holdfast_gateway::peer::{PeerSecret, Peers, listen};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, Embedded, Grant, LockService, Locks as _, Renew, ServiceSettings,
};
use holdfast_gateway::time::{BootClock, Clock as _, Millis};
use holdfast_gateway::tls::{ClientTls, ServerTls};
use holdfast_store::{Get, Op, Reply, Txn, TxnOpReply};
use shard_map::records::keys;
use shard_map::{ClusterName, DeploymentId, ShardCount, ShardMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

pub(crate) const SECRET: &[u8] = b"0123456789abcdef";

/// The clusters.
pub(crate) struct World {
    embedded: Arc<Embedded>,
    clock: Arc<BootClock>,
    started: u8,
    /// On the listeners that are made from now on.
    pub(crate) server_tls: Option<Arc<ServerTls>>,
    /// Of those who dial.
    pub(crate) client_tls: Option<Arc<ClientTls>>,
}

/// One gateway.
pub(crate) struct Gateway {
    pub(crate) service: Arc<LockService<BootClock>>,
    pub(crate) address: SocketAddr,
}

impl World {
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(BootClock);
        let deployment = DeploymentId::from_random_bits(7);
        let shards = ShardCount::try_from(8).unwrap();
        let embedded = Embedded::start(2, shards, deployment, &clock)
            .await
            .unwrap();
        Self {
            embedded: Arc::new(embedded),
            clock,
            started: 0,
            server_tls: None,
            client_tls: None,
        }
    }

    /// A gateway that is reached where it listens.
    pub(crate) async fn gateway(&mut self, secret: &[u8]) -> Gateway {
        let map = self.embedded.map.clone();
        self.gateway_with(&map, secret).await
    }

    /// A gateway whose session says that it is reached at `listener`, where it does not listen.
    pub(crate) async fn deaf_gateway(&mut self, listener: &TcpListener) -> Gateway {
        let address = listener.local_addr().unwrap();
        let service = self.service(address, SECRET);
        let map = self.embedded.map.clone();
        ready(&service, &map).await;
        Gateway { service, address }
    }

    /// A gateway that has this map.
    pub(crate) async fn gateway_with(&mut self, map: &ShardMap, secret: &[u8]) -> Gateway {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let service = self.service(address, secret);
        let secret = PeerSecret::from_file(secret).unwrap();
        tokio::spawn(listen(
            listener,
            self.server_tls.clone(),
            secret,
            Arc::clone(&service),
        ));
        ready(&service, map).await;
        Gateway { service, address }
    }

    /// The map over the clusters.
    pub(crate) fn map(&self) -> &ShardMap {
        &self.embedded.map
    }

    /// How many sessions a cluster has.
    pub(crate) async fn sessions_in(&self, cluster: &ClusterName) -> usize {
        let cluster = self.embedded.map.cluster(cluster).unwrap();
        let store = self.embedded.store(cluster).unwrap();
        let read = Txn::read([Get::keys(keys::sessions())]);
        match store.call(Op::Txn(read), Duration::from_secs(1)).await {
            Ok(Reply::Txn(reply)) => match &reply.ops[0] {
                TxnOpReply::Get(get) => get.kvs.len(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn service(&mut self, address: SocketAddr, secret: &[u8]) -> Arc<LockService<BootClock>> {
        self.started += 1;
        let (gateway, engines) = (self.started, AtomicU8::new(0));
        // No two engines have the same random numbers: their groups are to have different names.
        let seed = move || {
            let mut seed = [gateway; 32];
            seed[0] = engines.fetch_add(1, Ordering::Relaxed);
            Ok(seed)
        };
        let scheme = match self.server_tls {
            Some(_) => "https",
            None => "http",
        };
        let settings = ServiceSettings {
            instance: format!("gateway-{}", self.started),
            peer_url: format!("{scheme}://{address}"),
            session_ttl: Millis::from_secs(9),
            group_ttl: Millis::from_secs(1800),
            principal_locks_max: None,
            engines: tokio::runtime::Handle::current(),
        };
        let secret = PeerSecret::from_file(secret).unwrap();
        let embedded = Arc::clone(&self.embedded);
        Arc::new(LockService::new(
            settings,
            Arc::clone(&self.clock),
            Box::new(move |cluster| embedded.store(cluster)),
            Box::new(seed),
            Arc::new(Peers::new(
                secret,
                self.client_tls.clone(),
                Arc::clone(&self.clock),
            )),
        ))
    }
}

async fn ready(service: &LockService<BootClock>, map: &ShardMap) {
    service.apply_map(map).unwrap();
    service.home_seen().await;
    until(|| service.clusters().iter().all(|cluster| cluster.proven)).await;
}

/// Waits for a condition.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

impl Gateway {
    pub(crate) async fn hold(&self, name: &str) -> Grant {
        match self.service.acquire(wish("worker", name)).await.unwrap() {
            AcquireOutcome::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    /// As the edge does it: from memory if that can answer.
    pub(crate) async fn renew(
        &self,
        grant: &Grant,
    ) -> Result<holdfast_gateway::service::RenewOutcome, holdfast_gateway::service::ServiceError>
    {
        let renew = Renew {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            ttl: None,
            principal: None,
        };
        if let Some(told) = self.service.try_renew(BootClock.now(), &renew) {
            return told.map(holdfast_gateway::service::RenewOutcome::Renewed);
        }
        self.service.renew(renew).await
    }
}

pub(crate) fn wish(client: &str, name: &str) -> Acquire {
    Acquire {
        name: LockName::new(name).unwrap(),
        ttl: Millis::from_secs(30),
        client_id: ClientId::new(client).unwrap(),
        principal: None,
        request_id: None,
        wait: Millis::ZERO,
        metadata: None,
    }
}
