//! Those who want what others hold: contenders, and those who wait for the locks of holders that
//! have stopped.

use super::lock::State;
use super::{Fleet, Job};
use crate::checker::{At, Foreign, Who};
use crate::limits::{
    CONTENDER_PAUSE, NAMES_PER_CONTENDER, POLL_BEFORE, POLL_PAUSE_MAX, POLL_PAUSE_MIN,
};
use crate::outcome::{Op, Outcome, Phase};
use crate::schedule::Item;
use holdfast_client::backoff::pause_after;
use holdfast_client::{Error, Granted, Instant};
use rand::RngExt as _;
use std::time::Duration;

impl Fleet {
    pub(super) fn next_contend(&mut self, now: Instant) -> Option<Job> {
        if self.contending.len() >= self.share.pollers {
            return None;
        }
        let item = self.next_poll(now).or_else(|| self.next_try(now))?;
        Some(Job {
            op: Op::Contend,
            items: vec![item],
        })
    }

    pub(super) fn next_contend_at(&self) -> Option<Instant> {
        if self.contending.len() >= self.share.pollers || self.phase != Phase::Hold {
            return None;
        }
        let tries = (self.share.contenders > 0).then_some(self.contend_at);
        self.polls.next_at().into_iter().chain(tries).min()
    }

    fn next_poll(&mut self, now: Instant) -> Option<Item> {
        if self.phase != Phase::Hold {
            return None;
        }
        while let Some(item) = self.polls.take(now, None) {
            if self.may_contend(item.lock) && self.is_current(&item) {
                return Some(item);
            }
        }
        None
    }

    fn next_try(&mut self, now: Instant) -> Option<Item> {
        let contenders = u32::try_from(self.share.contenders).unwrap_or(u32::MAX);
        if contenders == 0 || self.phase != Phase::Hold || now < self.contend_at {
            return None;
        }
        self.contend_at = now + CONTENDER_PAUSE / contenders;
        let names = contenders.saturating_mul(NAMES_PER_CONTENDER);
        let names = names.min(self.share.locks);
        // Names from the whole range, so that every shard has some of them.
        let apart = self.share.locks / names;
        let index = self.random.random_range(0..names) * apart;
        (self.lock(index).state == State::Held && self.may_contend(index))
            .then(|| self.item(index, Op::Contend, now))
    }

    /// One contender at a time, so that its answers are in order.
    fn may_contend(&self, index: u32) -> bool {
        !self.foreign.contains_key(&index) && !self.contending.contains(&index)
    }

    /// The holder stops without a release.
    pub(super) fn stop(&mut self, index: u32) {
        self.set_state(index, State::Stopped);
        self.free.stopped += 1;
        let due = self.lock(index).known.until() - POLL_BEFORE;
        let item = self.item(index, Op::Contend, due);
        self.polls.push(due, item);
    }

    pub(super) fn contended(&mut self, item: Item, at: At, result: Result<Granted, Error>) {
        let good = result.as_ref().map_or(Outcome::RENEWED, Outcome::of_grant);
        self.note(&item, at, &result, good);
        self.stats
            .latency(self.phase, Op::Contend, at.sent, at.received, None);
        let stopped = self.lock(item.lock).state == State::Stopped;
        let until = self.lock(item.lock).known.until();
        match result {
            Ok(granted) => {
                self.got_hold(&item, at, &granted);
                if stopped {
                    self.free.freed(until, at.received);
                    self.set_state(item.lock, State::Done);
                }
            }
            Err(error) if stopped => {
                if let Error::Refused(_) = error {
                    self.free.refused(until, at.sent);
                }
                self.poll_again(item, at, until);
            }
            Err(_) => {}
        }
    }

    fn poll_again(&mut self, item: Item, at: At, until: Instant) {
        if at.received < until {
            self.polls.push(until, item);
            return;
        }
        let pause = POLL_PAUSE_MIN.mul_f64(1.5f64.powi(i32::from(item.tries)));
        let due = at.received + pause.min(POLL_PAUSE_MAX);
        self.polls.push(due, item.again());
    }

    fn got_hold(&mut self, item: &Item, at: At, granted: &Granted) {
        let foreign = self.foreign.get(&item.lock);
        let known = &mut self.locks[item.lock as usize].known;
        let found = known.granted(Who::Contender, granted, at, self.plan.ttl, foreign);
        self.report(item.lock, at.received, found);
        let hold = Foreign {
            id: granted.lock_id.clone(),
            token: granted.token,
            until: granted.promise.until,
        };
        self.foreign.insert(item.lock, hold);
        let give_back = self.item(item.lock, Op::Return, at.received);
        self.errands.push(at.received, give_back);
    }

    /// The contender gives back what it got.
    pub(super) fn is_ready_to_return(&mut self, item: &Item, now: Instant) -> bool {
        match self.foreign.get_mut(&item.lock) {
            Some(hold) => {
                hold.until = hold.until.min(now);
                true
            }
            None => false,
        }
    }

    pub(super) fn returned(&mut self, item: Item, at: At, result: Result<(), Error>) {
        self.note(&item, at, &result, Outcome::RELEASED);
        self.stats
            .latency(self.phase, Op::Return, at.sent, at.received, None);
        match result {
            Ok(()) => drop(self.foreign.remove(&item.lock)),
            Err(Error::Refused(_)) => {
                self.foreign.remove(&item.lock);
                let found = crate::checker::Violation::ReleaseRefused;
                self.report(item.lock, at.received, [found]);
            }
            Err(error) => {
                let wanted: Duration = error.retry_after().unwrap_or_default();
                let pause = pause_after(u32::from(item.tries), self.random()).max(wanted);
                self.errands.push(at.received + pause, item.again());
            }
        }
    }
}
