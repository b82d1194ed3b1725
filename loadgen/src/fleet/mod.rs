//! What to ask next, and what an answer means for the lock it is about: one worker's locks as
//! values. Time, answers and random numbers come in, requests go out; nothing here does I/O.
//!
//! Calling order: [`Fleet::next`] for as long as there is a free connection, [`Fleet::answer`]
//! (or [`Fleet::unsent`]) once for every job, [`Fleet::tick`] now and then.

mod acquire;
mod body;
mod contend;
mod lock;
mod release;
mod renew;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

use crate::checker::{At, Event, Findings, Foreign, FreeTimes, Violation};
use crate::limits::ERRANDS_SHARE;
use crate::outcome::{Op, Outcome, Phase};
use crate::plan::{Plan, Share};
use crate::schedule::{DueHeap, Grid, Item, Pace};
use crate::stats::Stats;
use holdfast_client::{Error, Granted, Instant, Promise};
use lock::{Lock, State};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// One request.
#[derive(Debug)]
pub(crate) struct Job {
    /// What is asked.
    pub(crate) op: Op,
    /// For which locks.
    pub(crate) items: Vec<Item>,
}

/// One answer, item by item in the order of the request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To an acquire.
    Granted(Vec<Result<Granted, Error>>),
    /// To a renewal.
    Renewed(Vec<Result<Promise, Error>>),
    /// To a release.
    Released(Vec<Result<(), Error>>),
}

/// One worker's locks.
pub(crate) struct Fleet {
    plan: Arc<Plan>,
    share: Share,
    began: Instant,
    phase: Phase,
    stop_at: Instant,
    locks: Vec<Lock>,
    states: [u32; State::COUNT],
    foreign: HashMap<u32, Foreign>,
    /// Scheduled renewals, and renewals to be repeated.
    grid: Grid,
    renewals: DueHeap,
    /// First acquires, and everything else that holders ask for.
    fresh: Pace,
    fresh_next: u32,
    first_grants: u32,
    churn: Option<Pace>,
    errands: DueHeap,
    release_next: u32,
    /// What contenders ask for.
    polls: DueHeap,
    contend_at: Instant,
    contending: HashSet<u32>,
    errands_in_flight: usize,
    in_flight: usize,
    swept_at: Instant,
    sweep_next: u32,
    random: Xoshiro256PlusPlus,
    /// What was counted.
    pub(crate) stats: Stats,
    /// What was found.
    pub(crate) findings: Findings,
    /// When the locks of stopped holders became free.
    pub(crate) free: FreeTimes,
    /// Why it makes no sense to go on.
    pub(crate) fatal: Option<String>,
    /// The last thing that went wrong, for those who watch, and how much did.
    pub(crate) last_trouble: Option<String>,
    pub(crate) troubles: u64,
}

impl Fleet {
    /// A fleet that holds nothing yet.
    pub(crate) fn new(plan: Arc<Plan>, share: Share, now: Instant) -> Self {
        let batch = u32::try_from(plan.batch).unwrap_or(u32::MAX);
        let groups = share.locks.div_ceil(batch);
        // The workers' moments lie between each other's.
        let worker = u32::try_from(share.worker).unwrap_or(0);
        let threads = u32::try_from(plan.threads).unwrap_or(1);
        let offset = plan.renew_every / groups.max(1) * worker / threads;
        let seed = u64::from(plan.seed) << 32 | u64::from(worker);
        let mut states = [0; State::COUNT];
        states[State::Waiting as usize] = share.locks;
        Self {
            began: now,
            phase: Phase::Acquire,
            stop_at: now,
            locks: (0..share.locks).map(|_| Lock::default()).collect(),
            states,
            foreign: HashMap::new(),
            grid: Grid::new(now + offset, plan.renew_every, groups),
            renewals: DueHeap::default(),
            fresh: Pace::new(now, share.rate),
            fresh_next: 0,
            first_grants: 0,
            churn: None,
            errands: DueHeap::default(),
            release_next: 0,
            polls: DueHeap::default(),
            contend_at: now,
            contending: HashSet::new(),
            errands_in_flight: 0,
            in_flight: 0,
            swept_at: now,
            sweep_next: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            stats: Stats::new(),
            findings: Findings::default(),
            free: FreeTimes::default(),
            fatal: None,
            last_trouble: None,
            troubles: 0,
            plan,
            share,
        }
    }

    /// The hold phase begins.
    pub(crate) fn begin_hold(&mut self, now: Instant) {
        self.phase = Phase::Hold;
        self.stop_at = now + self.plan.duration / 2;
        self.churn = self.share.churn.map(|rate| Pace::new(now, Some(rate)));
    }

    /// The release phase begins: nothing is acquired any more.
    pub(crate) fn begin_release(&mut self) {
        self.phase = Phase::Release;
    }

    /// Whether all that is held has been released, and every answer has come.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Release
            && self.unreleased() == 0
            && self.foreign.is_empty()
            && self.errands.next_at().is_none()
            && self.in_flight == 0
    }

    /// Notices promises that have ended. To be called every few milliseconds.
    pub(crate) fn tick(&mut self, now: Instant) {
        let late = now.since(self.grid.next_at()).as_secs_f64();
        let behind = late / self.plan.renew_every.as_secs_f64() * f64::from(self.held());
        // A count of locks: not negative, and far below 2^53.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "see above"
        )]
        let behind = behind as u64;
        self.stats.backlog_max = self.stats.backlog_max.max(behind);
        let part = now.since(self.swept_at).as_secs_f64() / self.plan.renew_every.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "see above"
        )]
        let count = (f64::from(self.share.locks) * part.min(1.0)) as u32;
        if count > 0 {
            self.swept_at = now;
            for _ in 0..count {
                let index = self.sweep_next;
                self.sweep_next = (index + 1) % self.share.locks;
                self.lose_if_late(index, now);
            }
        }
    }

    /// The next request to send, if one is due.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Job> {
        let job = self
            .next_renewals(now)
            .or_else(|| self.next_errands(now))
            .or_else(|| self.next_contend(now))?;
        self.in_flight += 1;
        match job.op {
            Op::Acquire | Op::Release | Op::Return => self.errands_in_flight += 1,
            Op::Contend => self
                .contending
                .extend(job.items.iter().map(|item| item.lock)),
            Op::Renew => {}
        }
        Some(job)
    }

    /// When [`Fleet::next`] may have something, as far as is known now.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let scheduled = (self.held() > 0).then(|| self.grid.next_at());
        let renewals = [self.renewals.next_at(), scheduled];
        let all = renewals.into_iter().flatten();
        let all = all.chain(self.next_errand_at(now));
        all.chain(self.next_contend_at()).min()
    }

    /// A job's answer.
    pub(crate) fn answer(&mut self, job: Job, at: At, answer: Answer) {
        self.landed(&job);
        self.stats.request(self.phase);
        match answer {
            Answer::Renewed(results) => {
                for (item, result) in job.items.into_iter().zip(results) {
                    self.renewed(item, at, result);
                }
            }
            Answer::Granted(results) => {
                for (item, result) in job.items.into_iter().zip(results) {
                    match item.op {
                        Op::Contend => self.contended(item, at, result),
                        _ => self.acquired(item, at, result),
                    }
                }
            }
            Answer::Released(results) => {
                for (item, result) in job.items.into_iter().zip(results) {
                    match item.op {
                        Op::Return => self.returned(item, at, result),
                        _ => self.released(item, at, result),
                    }
                }
            }
        }
    }

    /// Nothing of the job left this machine; it is due again.
    pub(crate) fn unsent(&mut self, job: Job, now: Instant) {
        self.landed(&job);
        for item in job.items {
            match item.op {
                Op::Renew => self.renewals.push(now, item),
                Op::Acquire | Op::Release | Op::Return => self.errands.push(now, item),
                Op::Contend => self.polls.push(now, item),
            }
        }
    }

    fn landed(&mut self, job: &Job) {
        self.in_flight -= 1;
        match job.op {
            Op::Acquire | Op::Release | Op::Return => self.errands_in_flight -= 1,
            Op::Contend => {
                for item in &job.items {
                    self.contending.remove(&item.lock);
                }
            }
            Op::Renew => {}
        }
    }

    /// Which phase it is.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Locks that are held.
    pub(crate) fn held(&self) -> u32 {
        self.count(State::Held)
    }

    /// Locks that were held at least once.
    pub(crate) fn first_grants(&self) -> u32 {
        self.first_grants
    }

    /// Locks that are not held and not wanted any more.
    pub(crate) fn done(&self) -> u32 {
        self.count(State::Done)
    }

    /// Locks that are held, or whose release has no answer yet.
    pub(crate) fn unreleased(&self) -> u32 {
        self.count(State::Held) + self.count(State::Releasing)
    }

    fn count(&self, state: State) -> u32 {
        self.states[state as usize]
    }

    fn lock(&mut self, index: u32) -> &mut Lock {
        // Indexes come from the schedule and from items, both made for this table.
        &mut self.locks[index as usize]
    }

    fn set_state(&mut self, index: u32, state: State) {
        let before = std::mem::replace(&mut self.lock(index).state, state);
        self.states[before as usize] -= 1;
        self.states[state as usize] += 1;
    }

    /// Whether the item is about the lock's present hold, or present lack of one.
    fn is_current(&self, item: &Item) -> bool {
        self.locks[item.lock as usize].generation == item.generation
    }

    fn item(&self, index: u32, op: Op, intended: Instant) -> Item {
        Item {
            intended,
            lock: index,
            generation: self.locks[index as usize].generation,
            tries: 0,
            op,
        }
    }

    fn errands_max(&self) -> usize {
        let (part, whole) = ERRANDS_SHARE;
        (self.share.connections * part / whole).max(1)
    }

    /// Every answer passes here.
    fn note<T>(&mut self, item: &Item, at: At, answer: &Result<T, Error>, good: Outcome) {
        let outcome = match answer {
            Ok(_) => good,
            Err(error) => Outcome::of_error(error),
        };
        self.stats.outcome(self.phase, item.op, outcome);
        if let Err(error) = answer
            && !matches!(error, Error::Refused(_))
        {
            self.stats.unknown += u64::from(error.is_unknown());
            self.trouble(error);
        }
        let sent_ms = at.sent.since(self.began).as_millis();
        let took_ms = at.received.since(at.sent).as_millis();
        self.lock(item.lock).known.history.push(Event {
            sent_ms: u32::try_from(sent_ms).unwrap_or(u32::MAX),
            took_ms: u16::try_from(took_ms).unwrap_or(u16::MAX),
            op: item.op,
            outcome,
        });
    }

    /// Something went wrong that is no answer about a lock.
    pub(crate) fn trouble(&mut self, what: &impl ToString) {
        self.last_trouble = Some(what.to_string());
        self.troubles += 1;
    }

    fn report(&mut self, index: u32, now: Instant, found: impl IntoIterator<Item = Violation>) {
        for violation in found {
            let name = self.plan.lock_name(self.share.first_lock + index);
            let at_ms = u64::try_from(now.since(self.began).as_millis()).unwrap_or(u64::MAX);
            let known = &self.locks[index as usize].known;
            self.findings.push(&violation, name, at_ms, known);
        }
    }

    fn lose_if_late(&mut self, index: u32, now: Instant) -> bool {
        let lock = self.lock(index);
        if lock.state != State::Held {
            return false;
        }
        let lost = lock.known.lost(now);
        let is_lost = lost.is_some();
        if is_lost {
            self.report(index, now, lost);
            self.want_again(index, now);
        }
        is_lost
    }

    /// The hold is over without a release: the holder wants the lock again.
    fn want_again(&mut self, index: u32, now: Instant) {
        self.lock(index).next_generation();
        if self.phase == Phase::Release {
            self.set_state(index, State::Done);
        } else {
            self.set_state(index, State::Waiting);
            let item = self.item(index, Op::Acquire, now);
            self.errands.push(now, item);
        }
    }

    fn random(&mut self) -> f64 {
        self.random.random()
    }
}
