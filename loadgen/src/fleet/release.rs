//! Releases by holders: some all the time, all at the end.

use super::Fleet;
use super::lock::State;
use crate::checker::At;
use crate::limits::BUSY_PAUSE;
use crate::outcome::{Op, Outcome, Phase};
use crate::schedule::Item;
use holdfast_client::backoff::pause_after;
use holdfast_client::{Error, Instant};
use rand::RngExt as _;

impl Fleet {
    pub(super) fn churn_at(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Hold => self.churn.as_ref().map(|churn| churn.next_at(now)),
            Phase::Acquire | Phase::Release => None,
        }
    }

    /// Lets go of a random lock for every moment of the churn that has come.
    pub(super) fn start_churn(&mut self, now: Instant) {
        if self.phase != Phase::Hold {
            return;
        }
        while let Some(moment) = self.churn.as_mut().and_then(|churn| churn.take(now)) {
            let index = self.random.random_range(0..self.share.locks);
            if self.lock(index).state == State::Held {
                let item = self.item(index, Op::Release, moment);
                self.errands.push(now, item);
            }
        }
    }

    pub(super) fn is_ready_to_release(&mut self, item: &Item, now: Instant) -> bool {
        let lock = self.lock(item.lock);
        match lock.state {
            // Its renewal's answer would be hard to tell from a loss.
            State::Held if lock.busy => {
                self.errands.push(now + BUSY_PAUSE, *item);
                false
            }
            State::Held => self.start_release(item.lock, now),
            // Only repetitions; two first tries would be one too many.
            State::Releasing => item.tries > 0,
            State::Waiting | State::Stopped | State::Done => false,
        }
    }

    fn start_release(&mut self, index: u32, now: Instant) -> bool {
        if self.lose_if_late(index, now) {
            return false;
        }
        self.lock(index).known.release_sent();
        self.set_state(index, State::Releasing);
        true
    }

    /// The next locks of those that are to be released at the end.
    pub(super) fn next_releases(&mut self, now: Instant) -> Vec<Item> {
        let mut items = Vec::new();
        while items.len() < self.plan.acquire_batch && self.release_next < self.share.locks {
            let item = self.item(self.release_next, Op::Release, now);
            self.release_next += 1;
            if self.is_ready_to_release(&item, now) {
                items.push(item);
            }
        }
        items
    }

    pub(super) fn released(&mut self, item: Item, at: At, result: Result<(), Error>) {
        self.note(&item, at, &result, Outcome::RELEASED);
        if !self.is_current(&item) {
            return;
        }
        match result {
            Ok(()) => {
                self.lock(item.lock).known.released();
                self.is_free(&item, at);
            }
            Err(Error::Refused(_)) => {
                let found = self.lock(item.lock).known.release_refused();
                self.report(item.lock, at.received, [found]);
                self.is_free(&item, at);
            }
            Err(error) => {
                let wanted = error.retry_after().unwrap_or_default();
                let pause = pause_after(u32::from(item.tries), self.random()).max(wanted);
                self.errands.push(at.received + pause, item.again());
            }
        }
    }

    fn is_free(&mut self, item: &Item, at: At) {
        self.stats
            .latency(self.phase, Op::Release, item.intended, at.received, None);
        self.want_again(item.lock, at.received);
    }
}
