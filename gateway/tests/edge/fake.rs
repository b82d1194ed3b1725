//! A lock service whose answers are told by the lock's name.

use holdfast_api::ErrorCode;
use holdfast_gateway::lock_id::{GroupId, LockId, Secret, SlotIndex};
use holdfast_gateway::names::{LockName, Token};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, CloseOutcome, ClusterHealth, Ended, EngineFigures, ForceRelease,
    Grant, HoldView, LockPage, LockView, Locks, PageOf, Refusal, Release, ReleaseOutcome, Renew,
    RenewOutcome, Renewed, ServiceError, ShardStatus,
};
use holdfast_gateway::time::{Clock, Instant, Millis};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The token of every grant.
pub(crate) const TOKEN: u64 = 4711;

/// The names of the locks that are held, in order.
pub(crate) const LISTED: [&str; 5] = ["a b", "a+", "a/1", "a/2", "b/1"];

/// The wall clock of every test: 2026-11-29T23:16:34.075Z.
pub(crate) const UNIX_MS: u64 = 1_795_994_194_075;

/// What a name makes the service answer:
///
/// | name | acquire | renew | release |
/// |---|---|---|---|
/// | `held`, `mine` | refused, held for 2 s | - | - |
/// | `again` | the same hold again | - | - |
/// | `expired`, `stolen` | - | ended | - |
/// | `cold` | - | renewed, but not from memory | - |
/// | an error code | that error | that error | that error |
/// | `hang` | never answers | never answers | never answers |
/// | `gate` | answers when it is opened | - | - |
/// | anything else | granted | renewed | released |
///
/// Inspected, `held` has the hold of an acquire with the client id `c`, `forced` one that is
/// force-released, anything else none; the locks that are listed are [`LISTED`]. A force-release of
/// `held` finds a hold of 2 s (none with `immediate`), of anything else none.
///
/// A renewal without a `ttlMs` is for 30 s. A release with another token than [`TOKEN`] is
/// refused.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) clusters: Mutex<Vec<ClusterHealth>>,
    pub(crate) seen: Mutex<Vec<Acquire>>,
    /// Told when something begins to hang, or waits at the gate.
    pub(crate) hanging: Notify,
    /// Opens the gate.
    pub(crate) gate: Notify,
}

/// A clock that stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant::from_ms(1_000_000)
    }

    fn unix_ms(&self) -> u64 {
        UNIX_MS
    }
}

/// The lock id of the hold of `name`.
pub(crate) fn lock_id(name: &str) -> LockId {
    let name = LockName::new(name).unwrap();
    LockId::new(GroupId(7), SlotIndex(3), Secret(42), &name)
}

fn told(ttl: Millis) -> Renewed {
    Renewed {
        ttl: ttl.percent(99),
        renew_after: Millis::from_ms(ttl.as_ms() / 3),
    }
}

fn view(name: &str) -> LockView {
    let hold = HoldView {
        client_id: Some("c".to_owned()),
        token: Some(Token(TOKEN)),
        free_in: Some(Millis::from_secs(2)),
        held_for: Some(Millis::from_ms(73_000)),
        metadata: Some([("host".to_owned(), "h".to_owned())].into()),
        is_closed: name == "forced",
    };
    let is_held = ["held", "forced"].contains(&name) || LISTED.contains(&name);
    LockView {
        name: LockName::new(name).unwrap(),
        hold: is_held.then_some(hold),
        waiters: 3,
        shard: 17,
        cluster: Arc::from("alpha"),
    }
}

impl Fake {
    /// What the name stands for, if it is no definite answer.
    async fn trouble(&self, name: &str) -> Option<ServiceError> {
        if name == "hang" {
            self.hanging.notify_one();
            std::future::pending::<()>().await;
        }
        let code = ErrorCode::ALL.iter().find(|code| code.as_str() == name)?;
        Some(ServiceError {
            code: *code,
            detail: "as the name says",
            retry_after: Millis::from_ms(1_200),
            cluster: Some(Arc::from("alpha")),
        })
    }

    async fn renewal(&self, renew: &Renew) -> Result<RenewOutcome, ServiceError> {
        let name = renew.lock_id.name();
        match name {
            "expired" => return Ok(RenewOutcome::Ended(Ended::Expired)),
            "stolen" => return Ok(RenewOutcome::Ended(Ended::Stolen)),
            _ => {}
        }
        match self.trouble(name).await {
            Some(error) => Err(error),
            None => Ok(RenewOutcome::Renewed(told(
                renew.ttl.unwrap_or(Millis::from_secs(30)),
            ))),
        }
    }
}

impl Locks for Fake {
    fn try_renew(&self, _: Instant, renew: &Renew) -> Option<Result<Renewed, ServiceError>> {
        let ttl = renew.ttl.unwrap_or(Millis::from_secs(30));
        renew
            .lock_id
            .name()
            .starts_with("warm")
            .then(|| Ok(told(ttl)))
    }

    async fn renew(&self, renew: Renew) -> Result<RenewOutcome, ServiceError> {
        self.renewal(&renew).await
    }

    async fn acquire(&self, acquire: Acquire) -> Result<AcquireOutcome, ServiceError> {
        let name = acquire.name.as_str().to_owned();
        let (ttl, acquire_wait) = (acquire.ttl, acquire.wait);
        self.seen.lock().unwrap().push(acquire);
        let refused = |reason| AcquireOutcome::Refused {
            reason,
            free_in: Millis::from_secs(2),
        };
        match name.as_str() {
            "held" => return Ok(refused(Refusal::Held)),
            "mine" => return Ok(refused(Refusal::HeldByYou)),
            "late" => return Ok(refused(Refusal::Timeout(acquire_wait))),
            "gate" => {
                self.hanging.notify_one();
                self.gate.notified().await;
            }
            _ => {}
        }
        match self.trouble(&name).await {
            Some(error) => Err(error),
            None => Ok(AcquireOutcome::Granted(Grant {
                lock_id: lock_id(&name),
                token: Token(TOKEN),
                told: told(ttl),
                already_held: name == "again",
                waited: (acquire_wait > Millis::ZERO).then(|| Millis::from_ms(1_500)),
            })),
        }
    }

    async fn release(&self, release: Release) -> Result<ReleaseOutcome, ServiceError> {
        match self.trouble(release.lock_id.name()).await {
            Some(error) => Err(error),
            None if release.token == Token(TOKEN) => Ok(ReleaseOutcome::Released),
            None => Ok(ReleaseOutcome::TokenMismatch),
        }
    }

    async fn inspect(&self, name: LockName) -> Result<LockView, ServiceError> {
        match self.trouble(name.as_str()).await {
            Some(error) => Err(error),
            None => Ok(view(name.as_str())),
        }
    }

    async fn list(&self, page: PageOf) -> Result<LockPage, ServiceError> {
        if let Some(error) = self.trouble(&page.prefix).await {
            return Err(error);
        }
        let after = |name: &&str| page.after.as_deref().is_none_or(|after| **name > *after);
        let listed = LISTED.into_iter().filter(after);
        let mut rest = listed.filter(|name| name.starts_with(&page.prefix));
        let names: Vec<_> = rest.by_ref().take(page.limit).collect();
        let more = rest.next().is_some();
        let last = names.last().filter(|_| more);
        Ok(LockPage {
            next_after: last.map(|name| LockName::new(name).unwrap()),
            locks: names.into_iter().map(view).collect(),
        })
    }

    async fn force_release(&self, force: ForceRelease) -> Result<CloseOutcome, ServiceError> {
        let name = force.name.as_str();
        match self.trouble(name).await {
            Some(error) => Err(error),
            None if name != "held" => Ok(CloseOutcome::NotHeld),
            None => Ok(CloseOutcome::Closed {
                token: Token(TOKEN),
                free_in: Millis::from_secs(if force.immediate { 0 } else { 2 }),
            }),
        }
    }

    fn clusters(&self) -> Vec<ClusterHealth> {
        self.clusters.lock().unwrap().clone()
    }

    fn engines(&self) -> Vec<EngineFigures> {
        Vec::new()
    }

    fn shards(&self) -> Vec<ShardStatus> {
        vec![ShardStatus {
            shard: 5,
            cluster: Arc::from("alpha"),
            epoch: Some(2),
            state: Some("active"),
            groups: 1,
            locks: 10,
            oldest_proof: Some(Millis::from_ms(900)),
        }]
    }
}
