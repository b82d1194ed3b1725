//! Kept connections to several targets, with failover and time limits.

use crate::access::Access;
use crate::clock::{Clock, Instant};
use crate::connection::{Connection, NoReply, RawReply};
use crate::error::{Cause, Error};
use crate::limits;
use crate::target::Target;
use bytes::Bytes;
use http::{Method, Uri};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Where and how requests are sent.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    /// At least one. Requests go to one of them for as long as it answers; when it does not, the
    /// next one gets the next request.
    pub targets: Vec<Target>,
    /// Connections per target that are open at one time; further requests wait.
    pub connections_per_target: usize,
    /// Bearer token and TLS.
    pub access: Access,
}

impl TransportConfig {
    /// Default limits, no bearer token, no TLS.
    pub fn new(targets: Vec<Target>) -> Self {
        Self {
            targets,
            connections_per_target: limits::CONNECTIONS_PER_TARGET,
            access: Access::default(),
        }
    }
}

/// Kept connections to the targets.
pub struct Transport {
    pools: Vec<Pool>,
    preferred: AtomicUsize,
    access: Access,
    clock: Arc<dyn Clock>,
}

/// A request; cheap to clone.
#[derive(Clone)]
struct Outgoing {
    method: Method,
    uri: Uri,
    body: Bytes,
}

/// An answer and when it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Not later than the first byte left.
    pub sent: Instant,
    /// What came back.
    pub raw: RawReply,
}

struct Pool {
    target: Target,
    open: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Transport {
    /// Opens nothing yet.
    pub fn new(config: TransportConfig, clock: Arc<dyn Clock>) -> Self {
        let connections = config.connections_per_target.max(1);
        let pools = config.targets.into_iter().map(|target| Pool {
            target,
            open: Semaphore::new(connections),
            idle: Mutex::new(Vec::new()),
        });
        Self {
            pools: pools.collect(),
            preferred: AtomicUsize::new(0),
            access: config.access,
            clock,
        }
    }

    /// Sends one `POST` and waits for the answer, of whatever status, for at most `timeout`.
    ///
    /// A target that cannot be reached is passed over for the next one within the same call; a
    /// request that may have been carried out is not repeated here.
    ///
    /// Dropping the future closes the connection; the request may have been carried out.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there is no answer.
    pub async fn post(
        &self,
        path: &'static str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Reply, Error> {
        let request = Outgoing {
            method: Method::POST,
            uri: Uri::from_static(path),
            body,
        };
        self.send(request, timeout).await
    }

    /// Sends one `GET` for a path with its query; otherwise as [`Transport::post`].
    ///
    /// # Errors
    /// As [`Transport::post`].
    pub async fn get(&self, uri: Uri, timeout: Duration) -> Result<Reply, Error> {
        let request = Outgoing {
            method: Method::GET,
            uri,
            body: Bytes::new(),
        };
        self.send(request, timeout).await
    }

    async fn send(&self, request: Outgoing, timeout: Duration) -> Result<Reply, Error> {
        let tried = AtomicUsize::new(self.preferred.load(Ordering::Relaxed));
        let outcome = tokio::time::timeout(timeout, self.try_all(&request, &tried)).await;
        let cause = match outcome {
            Ok(Ok(reply)) => {
                if reply.raw.status >= 500 {
                    self.turn_from(tried.into_inner());
                }
                return Ok(reply);
            }
            Ok(Err(NoReply::NotSent(why))) => Cause::NotSent(why),
            Ok(Err(NoReply::Broken(why))) => Cause::Broken(why),
            Err(_elapsed) => Cause::Timeout,
        };
        self.turn_from(tried.into_inner());
        Err(Error::unknown(cause))
    }

    async fn try_all(&self, request: &Outgoing, tried: &AtomicUsize) -> Result<Reply, NoReply> {
        let mut last = NoReply::NotSent("there is no target".to_owned());
        let first = tried.load(Ordering::Relaxed);
        for index in first..first + self.pools.len() {
            let index = index % self.pools.len();
            tried.store(index, Ordering::Relaxed);
            match self.pools[index].ask(self, request).await {
                Err(NoReply::NotSent(why)) => {
                    self.turn_from(index);
                    last = NoReply::NotSent(why);
                }
                answered_or_broken => return answered_or_broken,
            }
        }
        Err(last)
    }

    /// The next request goes to the next target, unless another request has turned already.
    fn turn_from(&self, index: usize) {
        let next = (index + 1) % self.pools.len().max(1);
        // Losing the race means that the preference is no longer `index`, which is all we want.
        let _ = self
            .preferred
            .compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Pool {
    async fn ask(&self, transport: &Transport, request: &Outgoing) -> Result<Reply, NoReply> {
        let _permit = self.permit().await?;
        // A kept connection may have been closed by the other side meanwhile. As long as nothing
        // was sent, the next one is as good.
        while let Some(mut kept) = self.take_idle() {
            match self.send(&mut kept, transport, request).await {
                Err(NoReply::NotSent(_)) => {}
                outcome => return self.keep(kept, outcome),
            }
        }
        let opening = Connection::open_with(&self.target, &transport.access);
        let mut fresh = tokio::time::timeout(limits::CONNECT_TIMEOUT, opening)
            .await
            .map_err(|_| NoReply::NotSent(format!("{}: no connection in time", self.target)))??;
        let outcome = self.send(&mut fresh, transport, request).await;
        self.keep(fresh, outcome)
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, NoReply> {
        let closed = |_| NoReply::NotSent("the pool is closed".to_owned());
        self.open.acquire().await.map_err(closed)
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        while let Some(connection) = idle.pop() {
            if connection.is_usable() {
                return Some(connection);
            }
        }
        None
    }

    async fn send(
        &self,
        connection: &mut Connection,
        transport: &Transport,
        request: &Outgoing,
    ) -> Result<Reply, NoReply> {
        let Outgoing { method, uri, body } = request.clone();
        let sent = transport.clock.now();
        let raw = connection.send(method, uri, body).await?;
        Ok(Reply { sent, raw })
    }

    fn keep(
        &self,
        connection: Connection,
        outcome: Result<Reply, NoReply>,
    ) -> Result<Reply, NoReply> {
        if outcome.is_ok() && connection.is_usable() {
            self.idle.lock().push(connection);
        }
        outcome
    }
}
