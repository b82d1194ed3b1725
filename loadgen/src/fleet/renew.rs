//! Renewals: on schedule, and again when nobody knows what came of them.

use super::lock::State;
use super::{Fleet, Job};
use crate::checker::{At, Standing};
use crate::outcome::{Op, Outcome, Phase};
use crate::schedule::{Item, Turn};
use holdfast_client::backoff::pause_after;
use holdfast_client::{Error, Instant, Promise, Refused};

/// A gateway that asks for a pause gets at most this part of what is left of the promise.
const PAUSE_SHARE: u32 = 3;

impl Fleet {
    pub(super) fn next_renewals(&mut self, now: Instant) -> Option<Job> {
        let mut items = Vec::new();
        while items.len() < self.plan.batch
            && let Some(item) = self.renewals.take(now, None)
        {
            // What is not current has been lost or has ended since.
            if self.is_current(&item) && !self.lose_if_late(item.lock, now) {
                self.stats.retries += u64::from(item.tries > 0);
                items.push(item);
            }
        }
        if items.is_empty() {
            items = self.next_scheduled(now);
        }
        let op = Op::Renew;
        (!items.is_empty()).then_some(Job { op, items })
    }

    fn next_scheduled(&mut self, now: Instant) -> Vec<Item> {
        let mut items = Vec::new();
        while items.is_empty()
            && let Some(turn) = self.grid.take(now)
        {
            let batch = u32::try_from(self.plan.batch).unwrap_or(u32::MAX);
            let first = turn.group.saturating_mul(batch);
            let end = first.saturating_add(batch).min(self.share.locks);
            for index in first..end {
                if self.is_renewable(index, now) {
                    let intended = self.intended(index, turn);
                    self.lock(index).busy = true;
                    self.stats.sent(intended, now);
                    items.push(self.item(index, Op::Renew, intended));
                }
            }
        }
        items
    }

    /// The first moment since the lock was granted that had no turn of its own.
    fn intended(&mut self, index: u32, turn: Turn) -> Instant {
        let told_at = self.lock(index).known.told_at();
        let mut moment = turn.moment;
        for _ in 0..turn.missed {
            let earlier = moment - self.plan.renew_every;
            if earlier < told_at {
                break;
            }
            self.stats.missed += 1;
            moment = earlier;
        }
        moment
    }

    fn is_renewable(&mut self, index: u32, now: Instant) -> bool {
        let lock = self.lock(index);
        if lock.state != State::Held || lock.busy || self.lose_if_late(index, now) {
            return false;
        }
        if self.stops(index, now) {
            self.stop(index);
            return false;
        }
        true
    }

    fn stops(&self, index: u32, now: Instant) -> bool {
        self.phase == Phase::Hold
            && now >= self.stop_at
            && self.plan.stops(self.share.first_lock + index)
    }

    pub(super) fn renewed(&mut self, item: Item, at: At, result: Result<Promise, Error>) {
        self.note(&item, at, &result, Outcome::RENEWED);
        if !self.is_current(&item) {
            return;
        }
        match result {
            Ok(promise) => {
                let foreign = self.foreign.get(&item.lock);
                let lock = &mut self.locks[item.lock as usize];
                lock.busy = false;
                let (standing, found) = lock.known.renewed(&promise, at, self.plan.ttl, foreign);
                self.report(item.lock, at.received, found);
                self.renewal_answered(&item, at);
                if standing == Standing::Lost {
                    self.want_again(item.lock, at.received);
                }
            }
            Err(Error::Refused(Refused::Ended(reason))) => {
                let found = self.lock(item.lock).known.ended(reason, at);
                self.report(item.lock, at.received, found);
                self.renewal_answered(&item, at);
                self.want_again(item.lock, at.received);
            }
            Err(error) => {
                let until = self.lock(item.lock).known.until();
                let left = until.since(at.received) / PAUSE_SHARE;
                let wanted = error.retry_after().unwrap_or_default().min(left);
                let pause = pause_after(u32::from(item.tries), self.random()).max(wanted);
                // Not later than the end of the promise, so that the loss is noticed then.
                self.renewals
                    .push((at.received + pause).min(until), item.again());
            }
        }
    }

    fn renewal_answered(&mut self, item: &Item, at: At) {
        let every = Some(self.plan.renew_every);
        self.stats
            .latency(self.phase, Op::Renew, item.intended, at.received, every);
    }
}
