//! A gateway and a network in virtual time, that can misbehave.

use super::{Fleet, Job};
use crate::checker::At;
use crate::outcome::Phase;
use crate::plan::tests::plan;
use holdfast_api::{
    AcquireBatch, AcquireRequest, ReleaseBatch, ReleaseRequest, RenewBatch, RenewRequest, paths,
};
use holdfast_client::{Cause, Error, Instant, RawReply};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What becomes of one request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is answered after 2 ms.
    Answered,
    /// It is answered after so long.
    Slow(Duration),
    /// It is carried out, and its connection breaks.
    ReplyLost,
    /// It is answered 503.
    Unavailable,
}

/// A request as the gateway sees it.
pub(super) struct Call {
    pub(super) path: &'static str,
    pub(super) at: Instant,
}

/// How the gateway breaks its promises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    None,
    /// Every grant has the token 5.
    OneToken,
    /// Whoever asks gets the lock.
    GrantHeld,
    /// Renewals are answered 409 from the tenth second on.
    EndAll,
    /// Holds end after half their time.
    EndEarly,
    /// Renewals promise twice the time.
    RenewDouble,
    /// Releases are answered 409.
    RefuseRelease,
}

struct Hold {
    client: String,
    id: String,
    token: u64,
    until: Instant,
}

pub(super) struct Simulation {
    pub(super) fleet: Fleet,
    pub(super) now: Instant,
    pub(super) lie: Lie,
    fate: Box<dyn FnMut(&Call) -> Fate>,
    holds: HashMap<String, Hold>,
    tokens: u64,
    free_connections: usize,
    under_way: Vec<UnderWay>,
}

struct UnderWay {
    at: At,
    job: Job,
    reply: Result<RawReply, Error>,
}

const START: Instant = Instant::from_micros(1_000_000_000);
const WAY: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_millis(1);

impl Simulation {
    /// A run with these arguments, everything well.
    pub(super) fn new(args: &str) -> Self {
        let plan = Arc::new(plan(args).unwrap());
        let share = plan.shares().remove(0);
        Self {
            free_connections: share.connections,
            fleet: Fleet::new(plan, share, START),
            now: START,
            lie: Lie::None,
            fate: Box::new(|_| Fate::Answered),
            holds: HashMap::new(),
            tokens: 0,
            under_way: Vec::new(),
        }
    }

    pub(super) fn with_fate(mut self, fate: impl FnMut(&Call) -> Fate + 'static) -> Self {
        self.fate = Box::new(fate);
        self
    }

    pub(super) fn with_lie(mut self, lie: Lie) -> Self {
        self.lie = lie;
        self
    }

    /// Acquires all, and holds for so long.
    pub(super) fn hold_for(mut self, duration: Duration) -> Self {
        let locks = self.fleet.share.locks;
        let mut steps = 0;
        while self.fleet.first_grants() < locks {
            self.step();
            steps += 1;
            assert!(steps < 1_000_000, "the locks are not acquired");
        }
        self.fleet.begin_hold(self.now);
        self.run_for(duration);
        self
    }

    /// Releases all; panics when that does not come to an end.
    pub(super) fn release(mut self) -> Self {
        self.fleet.begin_release();
        let mut steps = 0;
        while !self.fleet.is_over() {
            self.step();
            steps += 1;
            assert!(steps < 1_000_000, "the release does not end");
        }
        assert!(self.fleet.phase() == Phase::Release);
        self
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.step();
        }
    }

    /// Names that are held at this moment.
    pub(super) fn held_names(&self) -> usize {
        let held = self.holds.values().filter(|hold| hold.until > self.now);
        held.count()
    }

    pub(super) fn kinds(&self) -> Vec<&str> {
        let counts = self.fleet.findings.counts.keys();
        counts.map(String::as_str).collect()
    }

    fn step(&mut self) {
        self.fleet.tick(self.now);
        while self.free_connections > 0
            && let Some(job) = self.fleet.next(self.now)
        {
            self.free_connections -= 1;
            self.send(job);
        }
        self.now = self.now + STEP;
        let (arrived, under_way) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|one: &UnderWay| one.at.received <= self.now);
        self.under_way = under_way;
        let arrived: Vec<UnderWay> = arrived;
        for one in arrived {
            self.free_connections += 1;
            let answer = self.fleet.read(&one.job, one.reply, one.at.sent);
            self.fleet.answer(one.job, one.at, answer);
        }
    }

    fn send(&mut self, job: Job) {
        let (path, body) = self.fleet.request(&job);
        let call = Call { path, at: self.now };
        let fate = (self.fate)(&call);
        let carried_out_at = self.now + WAY;
        let reply = match fate {
            Fate::Unavailable => Ok(raw(503, &json!({ "code": "cluster_unavailable" }))),
            Fate::ReplyLost => {
                self.serve(path, &body, carried_out_at);
                Err(Error::Unknown {
                    cause: Cause::Broken("reset".into()),
                    retry_after: None,
                })
            }
            Fate::Answered | Fate::Slow(_) => Ok(self.serve(path, &body, carried_out_at)),
        };
        let took = match fate {
            Fate::Slow(took) => took,
            _ => WAY * 2,
        };
        let at = At {
            sent: self.now,
            received: self.now + took,
        };
        self.under_way.push(UnderWay { at, job, reply });
    }

    fn serve(&mut self, path: &str, body: &[u8], at: Instant) -> RawReply {
        let results = |results: Vec<Value>| raw(200, &json!({ "results": results }));
        match path {
            paths::ACQUIRE => {
                let one: AcquireRequest<'_> = serde_json::from_slice(body).unwrap();
                raw(200, &self.acquire(&one, at))
            }
            paths::ACQUIRE_BATCH => {
                let batch: AcquireBatch<'_> = serde_json::from_slice(body).unwrap();
                let all = batch.acquisitions.iter().map(|one| self.acquire(one, at));
                results(all.collect())
            }
            paths::RENEW => {
                let one: RenewRequest<'_> = serde_json::from_slice(body).unwrap();
                let reply = self.renew(&one, at);
                raw(if reply["renewed"] == true { 200 } else { 409 }, &reply)
            }
            paths::RENEW_BATCH => {
                let batch: RenewBatch<'_> = serde_json::from_slice(body).unwrap();
                let all = batch.renewals.iter().map(|one| self.renew(one, at));
                results(all.collect())
            }
            paths::RELEASE => {
                let one: ReleaseRequest<'_> = serde_json::from_slice(body).unwrap();
                let reply = self.release_one(&one);
                raw(if reply["released"] == true { 204 } else { 409 }, &reply)
            }
            paths::RELEASE_BATCH => {
                let batch: ReleaseBatch<'_> = serde_json::from_slice(body).unwrap();
                let all = batch.releases.iter().map(|one| self.release_one(one));
                results(all.collect())
            }
            _ => panic!("no such route: {path}"),
        }
    }

    fn acquire(&mut self, one: &AcquireRequest<'_>, at: Instant) -> Value {
        let ttl = Duration::from_millis(one.ttl_ms);
        let until = at + self.lasts(ttl);
        let told = one.ttl_ms * 99 / 100;
        if let Some(hold) = self.holds.get_mut(&*one.name)
            && hold.until > at
        {
            if hold.client == one.client_id {
                hold.until = hold.until.max(until);
                return json!({ "acquired": true, "alreadyHeld": true, "lockId": hold.id,
                               "fencingToken": hold.token, "expiresAt": "", "ttlMs": told });
            }
            if self.lie != Lie::GrantHeld {
                return json!({ "acquired": false, "reason": "held", "expiresAt": "" });
            }
        }
        self.tokens += 1;
        let token = if self.lie == Lie::OneToken {
            5
        } else {
            self.tokens
        };
        let hold = Hold {
            client: one.client_id.to_string(),
            id: format!("lock-{}-{}", self.tokens, one.name),
            token,
            until,
        };
        let reply = json!({ "acquired": true, "lockId": hold.id, "fencingToken": token,
                            "expiresAt": "", "ttlMs": told });
        self.holds.insert(one.name.to_string(), hold);
        reply
    }

    fn renew(&mut self, one: &RenewRequest<'_>, at: Instant) -> Value {
        let ttl = self.fleet.plan.ttl;
        let until = at + self.lasts(ttl);
        let double = self.lie == Lie::RenewDouble;
        let told = (if double { ttl * 2 } else { ttl } * 99 / 100).as_millis();
        let ends = self.lie == Lie::EndAll && at.since(START) > Duration::from_secs(10);
        match self.hold_of(&one.lock_id) {
            Some(hold) if hold.until > at && !ends => {
                assert_eq!(hold.token, one.fencing_token);
                hold.until = hold.until.max(until);
                json!({ "renewed": true, "expiresAt": "", "ttlMs": told })
            }
            _ => {
                self.holds.retain(|_, hold| hold.id != *one.lock_id);
                json!({ "renewed": false, "reason": "expired" })
            }
        }
    }

    fn release_one(&mut self, one: &ReleaseRequest<'_>) -> Value {
        if self.lie == Lie::RefuseRelease {
            return json!({ "released": false, "reason": "token_mismatch" });
        }
        self.holds.retain(|_, hold| hold.id != *one.lock_id);
        json!({ "released": true })
    }

    fn hold_of(&mut self, id: &str) -> Option<&mut Hold> {
        let name = id.splitn(3, '-').nth(2)?;
        self.holds.get_mut(name).filter(|hold| hold.id == id)
    }

    fn lasts(&self, ttl: Duration) -> Duration {
        if self.lie == Lie::EndEarly {
            ttl / 2
        } else {
            ttl
        }
    }
}

fn raw(status: u16, body: &Value) -> RawReply {
    RawReply {
        status,
        retry_after: None,
        body: body.to_string().into(),
    }
}
