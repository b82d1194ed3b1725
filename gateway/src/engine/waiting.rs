//! Waiting for a name that is held: joining its line, trying when its turn has come, leaving.
//!
//! **Joining** puts keys under the compare that none of the line is as great as the first of them, so
//! keys are in the order in which their places were taken. A place is made from the cluster's
//! revision as it was last seen; where another gateway has seen more, the compare fails and tells.
//!
//! **The head tries**: the compares of a grant, and instead of "no waiter" that its own key is there and
//! none before it; then the lock is put and the key deleted, in one step. Newcomers compare that there
//! is no waiter, so nobody overtakes.
//!
//! **When to try** is told by the end of a hold of this gateway; and by a watch, on the lock's key for the
//! head where another gateway has the lock, on the head's key for those behind other gateways' waiters.
//! What tells it is a hint. Every line is looked at from time to time anyway, with one linearizable read
//! of the record and the first key. So one release makes one attempt, and a hint that is lost costs a
//! little time. A grant reads who is first after it: at one gateway a lock changes hands in two writes,
//! and nothing is read or watched between.
//!
//! **Leaving**: with the grant, when the wait is over, when the client has gone, or with the session,
//! from whose leases the keys hang. A grant that nobody waits for any more is undone. Where the shard
//! leaves the cluster, its waiters go on to the other one, in their order.

use crate::engine::acquire::Job;
use crate::engine::calls::Purpose;
use crate::engine::line::{Busy, Full, Head, Next, Place};
use crate::engine::looking::Shown;
use crate::engine::mutation::Mutation;
use crate::engine::records::{self, LockRecord};
use crate::engine::renew::Whereabouts;
use crate::engine::tickets::{Ticket, Trouble};
use crate::engine::{Effect, Engine};
use crate::limits;
use crate::lock_id::LockId;
use crate::names::LockName;
use crate::service::Refusal;
use crate::time::Millis;
use holdfast_store::{Compare, Condition, Get, KeyRange, Relation, Revision, TxnOp};

/// The first key of a line.
pub(crate) fn head_of(name: &str) -> Get {
    Get {
        limit: 1,
        ..Get::keys(records::waiters_of(name))
    }
}

impl Engine {
    /// The name is not free, and the request may wait.
    pub(crate) fn stand_in_line(&mut self, job: Job, free_in: Millis) {
        let until = job.came_at + job.acquire.wait;
        let ticket = job.ticket;
        if !self.tickets.is_wanted(ticket) {
            return self.fail(ticket, Trouble::Unknown);
        }
        if until <= self.now {
            let waited = self.now.since(job.came_at);
            return self.refuse(ticket, Refusal::Timeout(waited), free_in);
        }
        if let Err(full) = self.lines.join(job, until) {
            let trouble = match full {
                Full::Lines => Trouble::LineFull,
                Full::Client => Trouble::WaitsTooOften,
            };
            self.fail(ticket, trouble);
        }
    }

    /// The request is answered, or forgotten.
    pub(crate) fn wait_over(&mut self, ticket: Ticket) {
        if self.lines.has(ticket) {
            self.lines.over(ticket);
        }
    }

    /// The client of a request that may wait has gone.
    pub(crate) fn on_abandoned(&mut self, ticket: Ticket) {
        let stands = self.lines.has(ticket);
        if stands {
            self.stats.waits_abandoned.add(1);
        }
        // One that has come from another engine may have to go back there, where it stands in line.
        let tries = self.lines.is_trying(ticket);
        match stands || !self.tickets.has_come_on(ticket) {
            true => self.fail(ticket, Trouble::Unknown),
            false => self.tickets.abandon(ticket),
        }
        if tries {
            // Its attempt may wait for something, and those behind it for the attempt.
            self.drop_answered_parked();
        }
    }

    /// The answer that tells of a grant has reached nobody.
    pub(crate) fn on_undelivered(&mut self, id: &LockId) {
        if let Whereabouts::Slot(at) = self.whereabouts(id) {
            self.take_back(at);
        }
    }

    /// Waits that are over, and lines that nobody has looked at for a while.
    pub(crate) fn keep_lines(&mut self) {
        while let Some((ticket, name)) = self.lines.pop_ended(self.now) {
            // What is told of the present hold is read first.
            if let Some(line) = self.lines.get_mut(&name) {
                line.timed_out.push(ticket);
            }
            self.lines.look(&name);
        }
        for name in self.lines.due(self.now) {
            self.give_up_those_away(&name);
            self.lines.look(&name);
        }
    }

    /// Does what is to be done next in the lines that have changed.
    pub(crate) fn pump_lines(&mut self) {
        let mut looks = Vec::new();
        for name in self.lines.take_changed() {
            while let Some(line) = self.lines.get_mut(&name) {
                match line.next() {
                    Next::Join => {
                        if !self.join_line(&name) {
                            // What else is to be done does not wait for a lease.
                            looks.extend(self.lines.begin_look(&name));
                            break;
                        }
                    }
                    Next::Leave => self.leave_line(&name),
                    Next::Try => self.try_head(&name),
                    Next::Look => looks.extend(self.lines.begin_look(&name)),
                    Next::End => self.end_line(&name),
                    Next::Nothing => break,
                }
            }
        }
        for names in looks.chunks(limits::LINES_PER_READ_MAX) {
            let op = self.ask_lines(names);
            self.call(op, limits::CALL_TIMEOUT, Purpose::Lines(names.to_vec()));
        }
    }

    fn end_line(&mut self, name: &LockName) {
        if let Some(line) = self.lines.end(name)
            && line.watched.is_some()
        {
            self.out.push(Effect::Unwatch(name.clone()));
        }
    }

    /// The head has the first turn.
    fn try_head(&mut self, name: &LockName) {
        let now = self.now;
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        line.try_now = false;
        let Some(first) = line.standing.front_mut() else {
            return;
        };
        let Some(mut job) = first.job.take() else {
            return;
        };
        line.busy = Busy::Trying(first.place);
        // A granted waiter has its full TTL.
        job.asked_at = now;
        job.attempts = 0;
        job.look = None;
        job.left = None;
        self.stats.wait_attempts.add(1);
        self.queue_acquire_first(job);
    }

    /// The compares and writes that a waiter's grant has in the place of a newcomer's.
    pub(crate) fn waiter_compares(&self, name: &str, place: Place) -> Vec<Compare> {
        let own = records::waiter_key(name, place);
        let before = KeyRange {
            end: Some(own.clone()),
            ..records::waiters_of(name)
        };
        let is_there = Compare {
            range: KeyRange::one(own),
            condition: Condition::CreateRevision(Relation::Greater, Revision::ABSENT),
        };
        match self.mutated(Mutation::HeadUnchecked) {
            true => vec![is_there],
            false => vec![is_there, Compare::absent(before)],
        }
    }

    pub(crate) fn waiter_gone(&self, name: &str, place: Place) -> Option<TxnOp> {
        let own = records::waiter_key(name, place);
        (!self.mutated(Mutation::WaiterKept)).then(|| TxnOp::Delete(KeyRange::one(own)))
    }

    /// What shows who holds the name, where a waiter's grant was refused.
    pub(crate) fn read_head(&self, name: &str) -> TxnOp {
        TxnOp::Get(head_of(name))
    }

    /// The waiter has the lock since this revision. Tells whether anybody still waits for it.
    pub(crate) fn served(
        &mut self,
        name: &LockName,
        place: Place,
        ticket: Ticket,
        revision: Revision,
    ) -> bool {
        let waits = self.lines.has(ticket);
        let mut lease = None;
        if let Some(line) = self.lines.get_mut(name)
            && line.busy == Busy::Trying(place)
        {
            if let Ok(at) = line.standing.binary_search_by_key(&place, |it| it.place) {
                lease = line.standing.remove(at).map(|it| it.lease);
            }
            line.busy = Busy::No;
            line.head = Head::Unknown;
            line.as_of = revision;
            line.try_now = false;
            line.look_now = true;
        }
        if let Some(lease) = lease {
            self.lease_freed(lease);
        }
        self.lines.over(ticket);
        self.lines.touch(name);
        waits
    }

    /// The waiter's attempt came to nothing: it goes on waiting. `shown`: what refused it, if that was
    /// read.
    pub(crate) fn attempt_over(&mut self, job: Job, shown: Option<Shown>) {
        let Some(place) = job.place else {
            return self.queue_acquire(job);
        };
        let name = job.acquire.name.clone();
        let waits = self.lines.has(job.ticket);
        let Some(line) = self.lines.get_mut(&name) else {
            return;
        };
        if line.busy == Busy::Trying(place) {
            line.busy = Busy::No;
        }
        let (ticket, until) = (job.ticket, self.lines.until(job.ticket));
        let Some(line) = self.lines.get_mut(&name) else {
            return;
        };
        if let Some(it) = line.at(place) {
            it.ticket = ticket;
            it.job = Some(job);
        }
        if !waits {
            line.give_up(place);
        } else if until.is_some_and(|until| until <= self.now) {
            line.timed_out.push(ticket);
            line.look_now = true;
        }
        self.lines.touch(&name);
        match shown {
            Some(shown) => self.shown(&name, &shown),
            None => {
                let at = self.now + limits::LOOK_AGAIN;
                self.lines.look_by(&name, at);
            }
        }
        self.line_follows(&name);
    }

    /// A waiter's grant was refused by its own compares.
    pub(crate) fn refused_in_line(&mut self, job: Job, shown: Shown) {
        let record = shown.record.as_ref();
        let own = record.and_then(|kv| {
            let (record, id) = LockRecord::read(kv)?;
            let same = record.is_of(&job.acquire) && record.is_of_request(&job.acquire);
            (same && record.closed.is_none()).then(|| (id, record.fencing_token(kv)))
        });
        match own {
            // Another copy of the same request has got it.
            Some((id, token)) => {
                let job = self.leaves_line(job);
                self.enter_again(job, id, token);
            }
            None => self.attempt_over(job, Some(shown)),
        }
    }

    /// The session is over, and all places with it.
    pub(crate) fn give_lines_up(&mut self) {
        for name in self.lines.watched_names() {
            self.out.push(Effect::Unwatch(name));
        }
        self.lines = Default::default();
        self.line_leases = Default::default();
        // The next session's cluster may have been restored, with smaller revisions.
        self.seen = Revision::ABSENT;
    }
}
