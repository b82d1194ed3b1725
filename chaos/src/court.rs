//! Where clients report what they were told, and the resource that they write to.
//!
//! One lock orders everything: what is reported is given to the judge in the order in which it was
//! received, with the time read under the lock.

use crate::resource::Resource;
use holdfast_client::{BootClock, Clock};
use holdfast_judge::{
    Asked, Client, Finding, Grant, HoldNo, Judge, PartyClock, Promise, Real, Refused, Rule, Terms,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All clients read the same clock, `CLOCK_BOOTTIME`.
const CLOCK: (i64, u64) = (0, 0);

/// See the module.
#[derive(Debug)]
pub struct Court {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    judge: Judge,
    resource: Resource,
    counts: Counts,
    /// Names that somebody else was refused since the last grant.
    wanted: BTreeSet<usize>,
    /// The last things that happened to each name.
    events: BTreeMap<usize, Vec<String>>,
    finding: Option<Finding>,
}

/// Events that are kept of each name, for the report of a finding.
const EVENTS_KEPT: usize = 60;

/// What clients met.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counts {
    /// Grants that were told, re-entries and retries not counted.
    pub grants: u64,
    /// Of these, those of a name that somebody else had been refused since the grant before.
    pub contended_grants: u64,
    /// Answered with the hold that the client had already.
    pub held_already: u64,
    /// Acquires that were to wait in line.
    pub waits: u64,
    /// Of the grants, those after a wait.
    pub grants_in_line: u64,
    /// Waits that were over before the client's turn came.
    pub waits_timed_out: u64,
    /// Waits whose client went away before it was answered.
    pub waits_cancelled: u64,
    /// Acquires answered "held".
    pub refusals: u64,
    /// Renewals answered with a promise.
    pub renewals: u64,
    /// Renewals answered with the end of the hold.
    pub ended: u64,
    /// Releases confirmed.
    pub releases: u64,
    /// 503, 502, 504, time-outs and broken connections.
    pub unknown: u64,
    /// Fenced writes that were let through.
    pub writes: u64,
    /// Fenced writes with a token older than one seen: of clients that had overslept.
    pub writes_refused: u64,
    /// Requests with forged, truncated or wrong ids and tokens, all refused.
    pub hostile: u64,
    /// Requests that were sent to two gateways at once.
    pub doubled: u64,
    /// Tries for a lock whose client disconnected before the answer.
    pub cut_off: u64,
    /// Clients that slept past the end of their hold.
    pub overslept: u64,
}

/// A request, before its answer.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Who asks.
    pub client: Client,
    /// About which name.
    pub name: usize,
    /// When it was sent.
    pub at: Real,
    /// So long would it wait in line, in milliseconds; 0: not at all.
    pub wait_ms: u64,
}

impl Default for Court {
    fn default() -> Self {
        Self {
            inner: Mutex::new(Inner {
                judge: Judge::new(Terms::default()),
                resource: Resource::default(),
                counts: Counts::default(),
                wanted: BTreeSet::new(),
                events: BTreeMap::new(),
                finding: None,
            }),
        }
    }
}

/// Milliseconds of the clock that counts suspend.
#[must_use]
pub fn now() -> Real {
    BootClock.now().as_micros() / 1_000
}

impl Court {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What clients met so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner().counts.clone()
    }

    /// Counts something.
    pub fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.inner().counts);
    }

    /// The first finding, with what happened to the name.
    #[must_use]
    pub fn finding(&self) -> Option<(Finding, Vec<String>)> {
        let mut inner = self.inner();
        inner.collect();
        let finding = inner.finding.clone()?;
        let events = finding.name.and_then(|name| inner.events.get(&name));
        Some((finding.clone(), events.cloned().unwrap_or_default()))
    }

    /// Something is found by others than the judge.
    pub fn find(&self, rule: Rule, name: Option<usize>, text: String) {
        self.inner().judge.find(rule, now(), name, text);
    }

    /// What is asked for from now on.
    pub fn set_terms(&self, terms: Terms) {
        self.inner().judge.terms = terms;
    }

    /// Notes what happened to a name, for the report of a finding.
    pub fn note(&self, name: usize, what: String) {
        self.inner().note(now(), name, what);
    }

    /// An acquire was answered with a hold.
    pub fn granted(&self, sent: Sent, ttl_ms: u64, grant: &Grant<'_>) -> HoldNo {
        let mut inner = self.inner();
        let now = now();
        let counts = &mut inner.counts;
        if grant.already_held {
            counts.held_already += 1;
        } else {
            counts.grants += 1;
            counts.grants_in_line += u64::from(grant.waited_ms > 0);
        }
        if !grant.already_held && inner.wanted.remove(&sent.name) {
            inner.counts.contended_grants += 1;
        }
        let again = if grant.already_held { " again" } else { "" };
        let text = format!(
            "{:?} is granted token {}{again} for {} ms, asked at {}",
            sent.client, grant.token, grant.promise.ttl_ms, sent.at
        );
        inner.note(now, sent.name, text);
        inner.judge.granted(now, &asked(sent, now), ttl_ms, grant)
    }

    /// An acquire was answered that the name is held.
    pub fn refused(&self, sent: Sent, refused: Refused) {
        let mut inner = self.inner();
        let now = now();
        inner.counts.refusals += 1;
        inner.counts.waits_timed_out += u64::from(refused.timed_out);
        inner.wanted.insert(sent.name);
        inner.judge.refused(now, &asked(sent, now), refused);
    }

    /// A renewal was answered with a promise.
    pub fn renewed(&self, sent: Sent, hold: HoldNo, ttl_ms: u64, promise: Promise) {
        let mut inner = self.inner();
        let now = now();
        inner.counts.renewals += 1;
        let text = format!(
            "{:?} is renewed for {} ms, asked at {}",
            sent.client, promise.ttl_ms, sent.at
        );
        inner.note(now, sent.name, text);
        let asked = asked(sent, now);
        inner.judge.renewed(now, &asked, hold, ttl_ms, promise);
    }

    /// A renewal was answered with the end of its hold.
    pub fn ended(&self, sent: Sent, hold: HoldNo, why: &str) {
        let mut inner = self.inner();
        let now = now();
        inner.counts.ended += 1;
        let text = format!("{:?} is told: {why}, asked at {}", sent.client, sent.at);
        inner.note(now, sent.name, text);
        inner.judge.ended(now, hold, why);
    }

    /// The names of the holds that are promised now.
    #[must_use]
    pub fn held(&self) -> BTreeSet<usize> {
        self.inner().judge.all_promised(now()).collect()
    }

    /// Every lock id that a client was told.
    #[must_use]
    pub fn lock_ids(&self) -> Vec<String> {
        let inner = self.inner();
        inner.judge.lock_ids().map(str::to_owned).collect()
    }

    /// A renewal with a wrong token was answered as renewed.
    pub fn wrong_token_renewed(&self, hold: HoldNo) {
        self.inner().judge.wrong_token_renewed(now(), hold);
    }

    /// An operator asks for an end of whatever hold the name has.
    pub fn force_asked(&self, name: usize, immediate: bool) {
        let mut inner = self.inner();
        let at_once = if immediate { " at once" } else { "" };
        inner.note(now(), name, format!("it is to be force-released{at_once}"));
        inner.judge.force_asked(name, immediate);
    }

    /// The hold with this token was said to be force-released.
    pub fn force_released(&self, name: usize, token: u64) {
        let mut inner = self.inner();
        let now = now();
        inner.note(now, name, format!("token {token} is force-released"));
        inner.judge.force_released(now, name, token);
    }

    /// The client gives the hold up.
    pub fn given_up(&self, client: Client, hold: HoldNo) {
        let mut inner = self.inner();
        let now = now();
        let name = inner.judge.hold(hold).name;
        inner.note(now, name, format!("{client:?} gives it up"));
        inner.judge.given_up(hold, now);
    }

    /// A release was confirmed.
    pub fn released(&self, sent: Sent, hold: HoldNo) {
        let mut inner = self.inner();
        let now = now();
        inner.counts.releases += 1;
        inner.note(now, sent.name, format!("{:?} has released it", sent.client));
        inner.judge.released(now, hold);
    }

    /// A release with the right token was answered "token mismatch".
    pub fn mismatch(&self, hold: HoldNo) {
        self.inner().judge.mismatch(now(), hold, true);
    }

    /// Whether the client has an unexpired promise.
    #[must_use]
    pub fn is_promised(&self, hold: HoldNo) -> bool {
        self.inner().judge.hold(hold).is_promised(now())
    }

    /// A client that renews all the time looks at its promise.
    pub fn must_be_promised(&self, hold: HoldNo) {
        self.inner().judge.must_be_promised(now(), hold);
    }

    /// A client writes to the resource, with the token of its hold. Whether the resource took it.
    /// It must, of a client that has a promise.
    pub fn write(&self, hold: HoldNo) -> bool {
        let mut inner = self.inner();
        let now = now();
        let known = inner.judge.hold(hold);
        let (name, token, is_promised) = (known.name, known.token, known.is_promised(now));
        let taken = inner.resource.write(name, token);
        match taken {
            Ok(()) => inner.counts.writes += 1,
            Err(newer) => {
                inner.counts.writes_refused += 1;
                if is_promised && inner.judge.terms.one_holder {
                    let text = format!(
                        "the write of a promised hold with token {token} comes after one with {newer}"
                    );
                    inner.judge.find(Rule::OneHolder, now, Some(name), text);
                }
            }
        }
        taken.is_ok()
    }
}

impl Inner {
    fn note(&mut self, now: Real, name: usize, what: String) {
        let events = self.events.entry(name).or_default();
        if events.len() == EVENTS_KEPT {
            events.remove(0);
        }
        events.push(format!("{now}: {what}"));
        self.collect();
    }

    /// The judge's finding is kept with what led to it: nothing is noted after it.
    fn collect(&mut self) {
        if self.finding.is_none() {
            self.finding = self.judge.take_finding();
        }
    }
}

fn asked(sent: Sent, now: Real) -> Asked {
    Asked {
        client: sent.client,
        clock: PartyClock::new(CLOCK.0, CLOCK.1),
        sent: sent.at,
        answered: now,
        name: sent.name,
        shard: 0,
        wait_ms: sent.wait_ms,
    }
}
