//! The lock service as the gateway runs it, without HTTP.

use crate::Side;
use anyhow::bail;
use holdfast_gateway::limits;
use holdfast_gateway::names::{ClientId, LockName};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, Alone, Grant, LockService, Locks, Release, ServiceSettings,
};
use holdfast_gateway::time::{BootClock, Millis};
use holdfast_store::Store;
use parking_lot::Mutex;
use shard_map::{ShardId, ShardMap};
use std::sync::Arc;

/// See the module.
pub(crate) struct Batched {
    service: LockService<BootClock>,
    held: Mutex<Vec<Grant>>,
}

impl Batched {
    /// A service whose session is proven.
    pub(crate) async fn new(store: Arc<dyn Store>, map: &ShardMap) -> anyhow::Result<Self> {
        let settings = ServiceSettings {
            instance: "bench".to_owned(),
            peer_url: "http://127.0.0.1:1".to_owned(),
            session_ttl: limits::SESSION_TTL,
            group_ttl: limits::GROUP_TTL,
            principal_locks_max: None,
            engines: tokio::runtime::Handle::current(),
        };
        let service = LockService::new(
            settings,
            Arc::new(BootClock),
            Box::new(move |_| Ok(Arc::clone(&store))),
            Box::new(|| Ok([7; 32])),
            Arc::new(Alone),
        );
        service.apply_map(map)?;
        service.home_seen().await;
        while !service.clusters().iter().all(|cluster| cluster.proven) {
            tokio::time::sleep(limits::LOOK_AGAIN.to_std()).await;
        }
        Ok(Self {
            service,
            held: Mutex::default(),
        })
    }

    /// Gives back what is held, with so many callers.
    pub(crate) async fn release_all(self: &Arc<Self>, callers: usize) -> anyhow::Result<()> {
        let callers: Vec<_> = (0..callers)
            .map(|_| {
                let side = Arc::clone(self);
                tokio::spawn(async move {
                    loop {
                        let Some(grant) = side.held.lock().pop() else {
                            return anyhow::Ok(());
                        };
                        let release = Release {
                            lock_id: grant.lock_id,
                            token: grant.token,
                            principal: None,
                        };
                        if let Err(error) = side.service.release(release).await {
                            bail!("not released: {error:?}");
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(())
    }
}

impl Side for Batched {
    async fn acquire(&self, _: ShardId, name: &str) -> anyhow::Result<()> {
        let acquire = Acquire {
            name: LockName::new(name)?,
            ttl: Millis::from_secs(600),
            client_id: ClientId::new("worker-7")?,
            principal: None,
            request_id: None,
            wait: Millis::ZERO,
            metadata: None,
        };
        match self.service.acquire(acquire).await {
            Ok(AcquireOutcome::Granted(grant)) => self.held.lock().push(grant),
            other => bail!("not granted: {other:?}"),
        }
        Ok(())
    }
}
