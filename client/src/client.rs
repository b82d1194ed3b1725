//! The calls of the lock API.

use crate::backoff::Backoff;
use crate::clock::{BootClock, Clock, Instant};
use crate::error::Error;
use crate::hold::Hold;
use crate::limits;
use crate::transport::{Reply, Transport, TransportConfig};
use crate::types::{Granted, LockId, Promise, Token};
use crate::wire;
use bytes::Bytes;
use holdfast_api::{
    AcquireBatch, AcquireRequest, ReleaseBatch, ReleaseRequest, RenewBatch, RenewRequest, paths,
};
use http::Uri;
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a client needs to know.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Who asks, 1 to 256 bytes: the same id acquiring a name again gets the same hold back, so
    /// no two processes share one.
    pub client_id: String,
    /// Where and how requests are sent.
    pub transport: TransportConfig,
    /// The time limit of a request that does not wait.
    pub request_timeout: Duration,
    /// How long [`Client::hold`] repeats an acquire whose outcome is unknown.
    pub acquire_patience: Duration,
}

impl ClientConfig {
    /// Default limits.
    pub fn new(client_id: impl Into<String>, transport: TransportConfig) -> Self {
        Self {
            client_id: client_id.into(),
            transport,
            request_timeout: limits::REQUEST_TIMEOUT,
            acquire_patience: limits::ACQUIRE_PATIENCE,
        }
    }
}

/// What to acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// What to lock: 1 to 512 bytes.
    pub name: String,
    /// How long the hold lasts without a renewal.
    pub ttl: Duration,
    /// How long to queue for the name.
    pub wait: Duration,
    /// Shown to those who inspect the lock; 1 KiB in all.
    pub metadata: BTreeMap<String, String>,
    /// With it, only the same request gets the hold back. [`Client::hold`] makes one where there
    /// is none.
    pub request_id: Option<String>,
}

impl Acquire {
    /// Without a wait, metadata or a request id.
    pub fn new(name: impl Into<String>, ttl: Duration) -> Self {
        Self {
            name: name.into(),
            ttl,
            wait: Duration::ZERO,
            metadata: BTreeMap::new(),
            request_id: None,
        }
    }

    fn request<'a>(&'a self, client_id: &'a str) -> AcquireRequest<'a> {
        AcquireRequest {
            name: self.name.as_str().into(),
            ttl_ms: millis(self.ttl),
            client_id: client_id.into(),
            wait_ms: (!self.wait.is_zero()).then(|| millis(self.wait)),
            metadata: (!self.metadata.is_empty()).then(|| self.metadata.clone()),
            request_id: self.request_id.as_deref().map(Into::into),
        }
    }
}

/// Calls to the lock API. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    clock: Arc<dyn Clock>,
    client_id: String,
    request_timeout: Duration,
    acquire_patience: Duration,
    seeds: AtomicU64,
}

impl Client {
    /// A client on the machine's clock, with a seed of the machine's randomness. Connects to
    /// nothing yet.
    pub fn new(config: ClientConfig) -> Self {
        let clock = BootClock;
        // A machine without randomness still has a time at which the process was started.
        let seed = SysRng.try_next_u64().unwrap_or(clock.now().as_micros());
        Self::with_clock(config, Arc::new(clock), seed)
    }

    /// A client on the given clock. The seed decides request ids and the jitter of pauses: no two
    /// clients with one client id may have the same.
    pub fn with_clock(config: ClientConfig, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                transport: Transport::new(config.transport, Arc::clone(&clock)),
                clock,
                client_id: config.client_id,
                request_timeout: config.request_timeout,
                acquire_patience: config.acquire_patience,
                seeds: AtomicU64::new(seed),
            }),
        }
    }

    /// Takes a lock and keeps it renewed. An unknown outcome is repeated, with pauses, for
    /// [`ClientConfig::acquire_patience`]; the repetitions carry one request id, so that together
    /// they are one hold.
    ///
    /// Dropping the future may leave a hold that nobody knows of; it ends with its TTL.
    ///
    /// # Errors
    /// [`Error::Refused`] when someone else holds the name; anything else as it came last.
    pub async fn hold(&self, acquire: &Acquire) -> Result<Hold, Error> {
        let mut acquire = acquire.clone();
        let seed = self.next_seed();
        acquire
            .request_id
            .get_or_insert_with(|| format!("{seed:016x}"));
        let patience = self.shared.acquire_patience + acquire.wait;
        let granted = self.retrying(patience, || self.acquire(&acquire)).await?;
        Ok(self.keep(&acquire, granted))
    }

    /// Keeps a lock renewed that [`Client::acquire`] has taken. Must be called within a tokio runtime.
    pub fn keep(&self, acquire: &Acquire, granted: Granted) -> Hold {
        Hold::start(self.clone(), acquire.name.clone(), acquire.ttl, granted)
    }

    /// Makes a call, and repeats it, with pauses, while its outcome is unknown or it was over a
    /// limit, until `patience` is used up. An acquire that is repeated needs a
    /// [request id](Acquire::request_id) to be one hold.
    ///
    /// # Errors
    /// The call's last error.
    pub async fn retrying<T, F>(
        &self,
        patience: Duration,
        mut call: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut backoff = Backoff::new(self.next_seed());
        let end = self.shared.clock.now() + patience;
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let next = self.shared.clock.now() + backoff.pause(error.retry_after());
            if !error.may_retry() || next >= end {
                return Err(error);
            }
            self.shared.clock.sleep_until(next).await;
        }
    }

    /// Takes a lock; it is not renewed, unless [`Client::keep`] is told to.
    ///
    /// # Errors
    /// [`Error::Refused`] when someone else holds the name.
    pub async fn acquire(&self, acquire: &Acquire) -> Result<Granted, Error> {
        let body = wire::encode(&acquire.request(&self.shared.client_id));
        let timeout = self.shared.request_timeout + acquire.wait;
        let reply = self.post(paths::ACQUIRE, body, timeout).await?;
        wire::acquire(&reply.raw, reply.sent)
    }

    /// Renews a hold; without a TTL, for the hold's own.
    ///
    /// # Errors
    /// [`Error::Refused`] when the hold is over.
    pub async fn renew(
        &self,
        lock_id: &LockId,
        token: Token,
        ttl: Option<Duration>,
    ) -> Result<Promise, Error> {
        self.renew_within(lock_id, token, ttl, self.shared.request_timeout)
            .await
    }

    /// Gives a hold back. `Ok`: this lock id holds nothing now.
    ///
    /// # Errors
    /// [`Error::Refused`] when the token is not the hold's.
    pub async fn release(&self, lock_id: &LockId, token: Token) -> Result<(), Error> {
        self.release_within(lock_id, token, self.shared.request_timeout)
            .await
    }

    /// Many acquires in one request, at most 10,000; the results are in the order of the request,
    /// and each stands alone.
    ///
    /// # Errors
    /// When there is no answer to the request as a whole: then each item's outcome is that.
    pub async fn acquire_batch(
        &self,
        acquires: &[Acquire],
    ) -> Result<Vec<Result<Granted, Error>>, Error> {
        let id = &self.shared.client_id;
        let body = wire::encode(&AcquireBatch {
            acquisitions: acquires.iter().map(|one| one.request(id)).collect(),
        });
        let wait = acquires.iter().map(|one| one.wait).max();
        let timeout = self.shared.request_timeout + wait.unwrap_or_default();
        let reply = self.post(paths::ACQUIRE_BATCH, body, timeout).await?;
        wire::acquire_batch(&reply.raw, reply.sent, acquires.len())
    }

    /// Many renewals in one request, each for the hold's own TTL; otherwise as
    /// [`Client::acquire_batch`].
    ///
    /// # Errors
    /// As [`Client::acquire_batch`].
    pub async fn renew_batch(
        &self,
        holds: &[(LockId, Token)],
    ) -> Result<Vec<Result<Promise, Error>>, Error> {
        let renewals = holds.iter().map(|(id, token)| renewal(id, *token, None));
        let body = wire::encode(&RenewBatch {
            renewals: renewals.collect(),
        });
        let timeout = self.shared.request_timeout;
        let reply = self.post(paths::RENEW_BATCH, body, timeout).await?;
        wire::renew_batch(&reply.raw, reply.sent, holds.len())
    }

    /// Many releases in one request; otherwise as [`Client::acquire_batch`].
    ///
    /// # Errors
    /// As [`Client::acquire_batch`].
    pub async fn release_batch(
        &self,
        holds: &[(LockId, Token)],
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let releases = holds.iter().map(|(id, token)| releasing(id, *token));
        let body = wire::encode(&ReleaseBatch {
            releases: releases.collect(),
        });
        let timeout = self.shared.request_timeout;
        let reply = self.post(paths::RELEASE_BATCH, body, timeout).await?;
        wire::release_batch(&reply.raw, holds.len())
    }

    pub(crate) async fn renew_within(
        &self,
        lock_id: &LockId,
        token: Token,
        ttl: Option<Duration>,
        timeout: Duration,
    ) -> Result<Promise, Error> {
        let body = wire::encode(&renewal(lock_id, token, ttl));
        let reply = self.post(paths::RENEW, body, timeout).await?;
        wire::renew(&reply.raw, reply.sent)
    }

    pub(crate) async fn release_within(
        &self,
        lock_id: &LockId,
        token: Token,
        timeout: Duration,
    ) -> Result<(), Error> {
        let body = wire::encode(&releasing(lock_id, token));
        let reply = self.post(paths::RELEASE, body, timeout).await?;
        wire::release(&reply.raw)
    }

    pub(crate) async fn post(
        &self,
        path: &'static str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Reply, Error> {
        self.shared.transport.post(path, body, timeout).await
    }

    pub(crate) async fn get(&self, uri: Uri) -> Result<Reply, Error> {
        let timeout = self.shared.request_timeout;
        self.shared.transport.get(uri, timeout).await
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.shared.request_timeout
    }

    pub(crate) fn next_seed(&self) -> u64 {
        self.shared.seeds.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn sleep_until_or_forever(&self, at: Option<Instant>) {
        match at {
            Some(at) => self.shared.clock.sleep_until(at).await,
            None => pending().await,
        }
    }
}

fn renewal<'a>(lock_id: &'a LockId, token: Token, ttl: Option<Duration>) -> RenewRequest<'a> {
    RenewRequest {
        lock_id: lock_id.as_str().into(),
        fencing_token: token.0,
        ttl_ms: ttl.map(millis),
    }
}

fn releasing(lock_id: &LockId, token: Token) -> ReleaseRequest<'_> {
    ReleaseRequest {
        lock_id: lock_id.as_str().into(),
        fencing_token: token.0,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
