//! Acquires by holders: the first ones at their pace, later ones as needed.

use super::lock::State;
use super::{Fleet, Job};
use crate::checker::{At, Who};
use crate::limits::{BUSY_PAUSE, REFUSED_PAUSE, REJECTED_PAUSE};
use crate::outcome::{Op, Outcome, Phase};
use crate::schedule::Item;
use holdfast_client::backoff::pause_after;
use holdfast_client::{Error, Granted, Instant};
use std::time::Duration;

impl Fleet {
    /// Everything that holders ask for besides renewals.
    pub(super) fn next_errands(&mut self, now: Instant) -> Option<Job> {
        if self.errands_in_flight >= self.errands_max() {
            return None;
        }
        self.start_churn(now);
        let mut items = self.due_errands(now);
        if items.is_empty() {
            items = match self.phase {
                Phase::Release => self.next_releases(now),
                Phase::Acquire | Phase::Hold => self.next_fresh(now),
            };
        }
        let op = items.first()?.op;
        Some(Job { op, items })
    }

    pub(super) fn next_errand_at(&self, now: Instant) -> Option<Instant> {
        if self.errands_in_flight >= self.errands_max() {
            return None;
        }
        let fresh = (self.phase != Phase::Release && self.fresh_next < self.share.locks)
            .then(|| self.fresh.next_at(now));
        let release =
            (self.phase == Phase::Release && self.release_next < self.share.locks).then_some(now);
        let churn = self.churn_at(now);
        let all = [self.errands.next_at(), fresh, release, churn];
        all.into_iter().flatten().min()
    }

    /// Errands of one kind that are due.
    fn due_errands(&mut self, now: Instant) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        while items.len() < self.plan.acquire_batch {
            let wanted = items.first().map(|first| first.op);
            let Some(item) = self.errands.take(now, wanted) else {
                break;
            };
            if self.is_ready(&item, now) {
                self.stats.retries += u64::from(item.tries > 0);
                items.push(item);
            }
        }
        items
    }

    fn is_ready(&mut self, item: &Item, now: Instant) -> bool {
        match item.op {
            Op::Return => self.is_ready_to_return(item, now),
            _ if !self.is_current(item) => false,
            Op::Release => self.is_ready_to_release(item, now),
            // What was tried before may have been granted: that must come to light to be released.
            Op::Acquire if self.phase == Phase::Release && item.tries == 0 => {
                self.set_state(item.lock, State::Done);
                false
            }
            Op::Acquire | Op::Renew | Op::Contend => true,
        }
    }

    fn next_fresh(&mut self, now: Instant) -> Vec<Item> {
        let mut items = Vec::new();
        while items.len() < self.plan.acquire_batch
            && self.fresh_next < self.share.locks
            && let Some(moment) = self.fresh.take(now)
        {
            items.push(self.item(self.fresh_next, Op::Acquire, moment));
            self.fresh_next += 1;
        }
        items
    }

    pub(super) fn acquired(&mut self, item: Item, at: At, result: Result<Granted, Error>) {
        let good = result.as_ref().map_or(Outcome::RENEWED, Outcome::of_grant);
        self.note(&item, at, &result, good);
        if !self.is_current(&item) {
            return;
        }
        match result {
            Ok(granted) => self.granted(&item, at, &granted),
            Err(error) if self.phase == Phase::Release && !error.may_retry() => {
                self.set_state(item.lock, State::Done);
            }
            Err(error) => {
                if let Error::Rejected { .. } = error
                    && self.first_grants == 0
                {
                    self.fatal = Some(error.to_string());
                }
                let due = at.received + self.pause_before_acquire(&error, item.tries);
                self.errands.push(due, item.again());
            }
        }
    }

    fn granted(&mut self, item: &Item, at: At, granted: &Granted) {
        let foreign = self.foreign.get(&item.lock);
        let lock = &mut self.locks[item.lock as usize];
        let found = lock
            .known
            .granted(Who::Holder, granted, at, self.plan.ttl, foreign);
        self.first_grants += u32::from(lock.generation == 0);
        lock.next_generation();
        self.report(item.lock, at.received, found);
        self.stats
            .latency(self.phase, Op::Acquire, item.intended, at.received, None);
        self.set_state(item.lock, State::Held);
        if !self.lose_if_late(item.lock, at.received) && self.phase == Phase::Release {
            let release = self.item(item.lock, Op::Release, at.received);
            self.errands.push(at.received, release);
        }
    }

    fn pause_before_acquire(&mut self, error: &Error, tries: u8) -> Duration {
        let random = self.random();
        match error {
            // Nobody is to be found where all look at one time.
            Error::Refused(_) => REFUSED_PAUSE.mul_f64(0.5 + random).max(BUSY_PAUSE),
            Error::Rejected { .. } => REJECTED_PAUSE,
            Error::Unknown { .. } | Error::Limited { .. } => {
                let wanted = error.retry_after().unwrap_or_default();
                pause_after(u32::from(tries), random).max(wanted)
            }
        }
    }
}
