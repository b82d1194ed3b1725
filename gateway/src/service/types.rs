//! Requests to the lock service and its answers: values, validated.

use crate::engine::{ClusterProof, EngineStats, Heritage, Owner};
use crate::lock_id::LockId;
use crate::names::{ClientId, LockName, Principal, RequestId, Token};
use crate::time::{Instant, Millis};
use holdfast_api::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The lock service.
///
/// Every method answers within five seconds. Dropping a returned future (a client that
/// disconnects) cancels nothing: what was begun is finished, a grant that nobody was told about
/// can be claimed by the same client and ends with its TTL.
pub trait Locks: Send + Sync + 'static {
    /// The renewal that needs nothing but memory. `None`: it cannot be answered so, call
    /// [`Locks::renew`]. Does not allocate.
    fn try_renew(&self, now: Instant, renew: &Renew) -> Option<Result<Renewed, ServiceError>>;

    /// Renews a hold.
    fn renew(
        &self,
        renew: Renew,
    ) -> impl Future<Output = Result<RenewOutcome, ServiceError>> + Send;

    /// Takes a lock.
    fn acquire(
        &self,
        acquire: Acquire,
    ) -> impl Future<Output = Result<AcquireOutcome, ServiceError>> + Send;

    /// Gives a hold back. Answered when etcd has confirmed it.
    fn release(
        &self,
        release: Release,
    ) -> impl Future<Output = Result<ReleaseOutcome, ServiceError>> + Send;

    /// Shows a lock.
    fn inspect(
        &self,
        name: LockName,
    ) -> impl Future<Output = Result<LockView, ServiceError>> + Send;

    /// Shows the locks whose names begin so, a page at a time.
    fn list(&self, page: PageOf) -> impl Future<Output = Result<LockPage, ServiceError>> + Send;

    /// Ends somebody else's hold.
    fn force_release(
        &self,
        force: ForceRelease,
    ) -> impl Future<Output = Result<CloseOutcome, ServiceError>> + Send;

    /// The clusters, for readiness and metrics.
    fn clusters(&self) -> Vec<ClusterHealth>;

    /// What the engines have done, for metrics.
    fn engines(&self) -> Vec<EngineFigures>;

    /// The shards, for `/debug/shards`.
    fn shards(&self) -> Vec<ShardStatus>;
}

/// Takes a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// What to lock.
    pub name: LockName,
    /// How long the hold lasts without a renewal.
    pub ttl: Millis,
    /// Who asks.
    pub client_id: ClientId,
    /// With which credentials.
    pub principal: Option<Principal>,
    /// Which of the client's requests this is.
    pub request_id: Option<RequestId>,
    /// How long to wait in line if the name is held; zero: not at all.
    pub wait: Millis,
    /// For those who inspect the lock.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Renews a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The handle.
    pub lock_id: LockId,
    /// The hold's token.
    pub token: Token,
    /// The wanted TTL; `None`: the hold's own.
    pub ttl: Option<Millis>,
    /// With which credentials.
    pub principal: Option<Principal>,
}

/// Gives a hold back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The handle.
    pub lock_id: LockId,
    /// The hold's token.
    pub token: Token,
    /// With which credentials.
    pub principal: Option<Principal>,
}

/// Ends whatever hold a name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceRelease {
    /// Of what.
    pub name: LockName,
    /// At once, not when what its holder was promised has passed.
    pub immediate: bool,
}

/// Ends a hold, whosever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// The handle.
    pub lock_id: LockId,
    /// The hold's token.
    pub token: Token,
    /// At once, not when what its holder was promised has passed.
    pub immediate: bool,
}

/// Which page of locks is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOf {
    /// What their names begin with; empty is any.
    pub prefix: String,
    /// The last name of the page before.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// A lock, as those see it who inspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// The name.
    pub name: LockName,
    /// Who holds it; `None`: nobody.
    pub hold: Option<HoldView>,
    /// How many requests queue for it.
    pub waiters: u64,
    /// The shard of the name.
    pub shard: u32,
    /// The cluster that has it.
    pub cluster: Arc<str>,
}

/// A hold, as those see it who inspect. What is not known of it (a later version may have written its
/// record) is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HoldView {
    /// Who holds it.
    pub client_id: Option<String>,
    /// The fencing token.
    pub token: Option<Token>,
    /// It ends after this at the latest if it is not renewed.
    pub free_in: Option<Millis>,
    /// How long ago it was granted, by wall clocks.
    pub held_for: Option<Millis>,
    /// As the acquire said.
    pub metadata: Option<BTreeMap<String, String>>,
    /// It is force-released, and lasts only as long as was promised before.
    pub is_closed: bool,
}

/// A page of locks that are held, in the order of their names' bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockPage {
    /// The locks.
    pub locks: Vec<LockView>,
    /// There are more, after this name.
    pub next_after: Option<LockName>,
}

/// A request about an existing hold, which only the gateway that owns the lock can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    /// To renew it.
    Renew(Renew),
    /// To give it back.
    Release(Release),
    /// To end it, in an operator's name.
    Close(Close),
}

impl Forward {
    /// The handle of the hold.
    pub fn lock_id(&self) -> &LockId {
        match self {
            Self::Renew(renew) => &renew.lock_id,
            Self::Release(release) => &release.lock_id,
            Self::Close(close) => &close.lock_id,
        }
    }
}

/// The way to other gateways.
pub trait Forwarding: Send + Sync + 'static {
    /// Asks the owner of a lock of `cluster`. Answered within five seconds, and within about one
    /// when the owner says nothing at all; a dropped sender means that it could not be asked.
    fn forward(
        &self,
        owner: &Owner,
        cluster: &Arc<str>,
        forward: Forward,
    ) -> oneshot::Receiver<ForwardOutcome>;

    /// Tells that gateway how long the holds of a group of `cluster` may last that falls to it. Nothing
    /// depends on whether it arrives.
    fn bequeath(&self, owner: &Owner, cluster: &Arc<str>, heritage: Heritage);
}

/// What another gateway said of a request that was forwarded to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardOutcome {
    /// The owner's definite answer to a renewal.
    Renew(RenewOutcome),
    /// The owner's definite answer to a release.
    Release(ReleaseOutcome),
    /// The owner's definite answer to a force-release.
    Close(CloseOutcome),
    /// It does not own the lock's group. Says nothing about the lock.
    NotTheirs,
    /// There is no definite answer.
    Failed(ServiceError),
}

/// The definite answer to an acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The lock is the client's.
    Granted(Grant),
    /// It is not.
    Refused {
        /// Why.
        reason: Refusal,
        /// The present hold ends after this at the latest, if it is not renewed.
        free_in: Millis,
    },
}

/// A hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The handle.
    pub lock_id: LockId,
    /// The fencing token.
    pub token: Token,
    /// What the client may be told.
    pub told: Renewed,
    /// The client held it already.
    pub already_held: bool,
    /// How long the request waited in line: the promise counts from that much after it was sent.
    pub waited: Option<Millis>,
}

/// Why an acquire is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Someone else holds it.
    Held,
    /// The same client holds it through another request.
    HeldByYou,
    /// It did not become free in this time, for which the request waited.
    Timeout(Millis),
}

/// A promise, as the client may be told: already less than the gateway's own deadline, for the
/// drift between clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// The hold lasts so long from when the client sent its request.
    pub ttl: Millis,
    /// The client should renew after this.
    pub renew_after: Millis,
}

/// The definite answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The hold goes on.
    Renewed(Renewed),
    /// It is over.
    Ended(Ended),
}

/// The definite answer to a force-release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The hold with this token is not renewed any more.
    Closed {
        /// Of the hold.
        token: Token,
        /// The name is not free before this has passed.
        free_in: Millis,
    },
    /// Nobody held the name.
    NotHeld,
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By time, by release, or by the loss of its lease.
    Expired,
    /// Someone else holds the name, it was force-released, or the token is not this hold's.
    Stolen,
}

impl Ended {
    /// How a hold is said to have ended whose end is confirmed.
    pub(crate) fn of_end(was_forced: bool) -> Self {
        match was_forced {
            true => Self::Stolen,
            false => Self::Expired,
        }
    }
}

/// The definite answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// This lock id holds nothing now.
    Released,
    /// The hold has another token.
    TokenMismatch,
}

/// There is no definite answer. Says nothing about the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    /// What kind: one of the 503 codes, or `quota_exceeded`.
    pub code: ErrorCode,
    /// What happened, and what to do.
    pub detail: &'static str,
    /// When another try makes sense.
    pub retry_after: Millis,
    /// The cluster that is meant.
    pub cluster: Option<Arc<str>>,
}

/// How a cluster looks from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterHealth {
    /// Its name in the map.
    pub name: Arc<str>,
    /// Whether this gateway's session there is proven now.
    pub proven: bool,
    /// How long ago the last proof was obtained.
    pub proof_age: Option<Millis>,
    /// Lease groups owned here.
    pub groups: u64,
    /// Locks in them.
    pub locks: u64,
}

/// What one cluster's engine has done, for metrics.
#[derive(Debug, Clone)]
pub struct EngineFigures {
    /// The cluster's name in the map.
    pub cluster: Arc<str>,
    /// What the engine counts.
    pub stats: Arc<EngineStats>,
    /// What the threads that renew count.
    pub proof: Arc<ClusterProof>,
    /// Requests that the engine's task has not taken yet.
    pub commands_queued: usize,
}

/// How a shard looks from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// The shard.
    pub shard: u32,
    /// The cluster that the map sends it to.
    pub cluster: Arc<str>,
    /// The epoch of its guard, as last read here.
    pub epoch: Option<u64>,
    /// The state of its guard: `active`, `leaving`, `moved`.
    pub state: Option<&'static str>,
    /// Lease groups of the shard owned here.
    pub groups: u64,
    /// Locks in them.
    pub locks: u64,
    /// The age of the oldest proof among them.
    pub oldest_proof: Option<Millis>,
}
