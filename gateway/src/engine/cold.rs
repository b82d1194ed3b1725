//! Requests about locks that no table here knows. A miss in a table is never an answer: the
//! record is read by name.
//!
//! The answer "not held" is definite when the shard's guard, read at the same revision as the
//! record, is active here and says no `from`: then no other cluster can have the record. With a `from`
//! the other cluster is asked in between (`onward.rs`). Many look-ups share a read.

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::closing::{CloseJob, ForceJob};
use crate::engine::ending::ReleaseJob;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::onward::{Look, To, What};
use crate::engine::records::{self, LockRecord};
use crate::engine::renew::{RenewJob, RewriteJob, Whereabouts};
use crate::engine::round::RoundId;
use crate::engine::shards::{GuardSeen, admits, read_guard};
use crate::engine::tickets::{Ticket, Trouble, Via};
use crate::limits;
use crate::lock_id::LockId;
use crate::names::{Principal, Token};
use crate::service::{CloseOutcome, Ended, Forward, ReleaseOutcome, RenewOutcome};
use holdfast_store::{Get, KeyRange, KeyValue, Op, Reply, StoreError, Txn, TxnOpReply};
use shard_map::ShardId;
use shard_map::records::{GuardState, keys};
use std::collections::VecDeque;

/// A look-up by name.
#[derive(Debug)]
pub(crate) struct ColdJob {
    shard: ShardId,
    ask: ColdAsk,
    attempts: u8,
    /// Which round it waits for, or has waited for, to show the owner.
    round: Option<RoundId>,
    /// What is known of the name in the cluster that the shard comes from.
    look: Option<Look>,
}

/// What was asked.
#[derive(Debug)]
pub(crate) enum ColdAsk {
    Renew(RenewJob),
    Release(ReleaseJob),
    /// The record is wanted, to be written with a longer TTL.
    Rewrite(Box<RewriteJob>),
    /// Only the hold that the name has is wanted: another engine wants to grant the name if it has none
    /// here, or whoever asks has as many locks as it may.
    Look(Box<Job>),
    /// The hold of a name is to be ended, whosever it is:
    Force(ForceJob),
    /// it is this one.
    Close(CloseJob),
}

impl ColdAsk {
    fn ticket(&self) -> Ticket {
        match self {
            Self::Renew(job) => job.ticket,
            Self::Release(job) => job.ticket,
            Self::Rewrite(job) => job.ticket(),
            Self::Look(job) => job.ticket,
            Self::Force(job) => job.ticket,
            Self::Close(job) => job.ticket,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Look(job) => job.acquire.name.as_str(),
            Self::Force(job) => job.force.name.as_str(),
            Self::Close(job) => job.close.lock_id.name(),
            Self::Renew(job) => job.renew.lock_id.name(),
            Self::Release(job) => job.release.lock_id.name(),
            Self::Rewrite(job) => job.renew.lock_id.name(),
        }
    }

    fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Renew(job) => job.renew.principal.as_ref(),
            Self::Release(job) => job.release.principal.as_ref(),
            Self::Rewrite(job) => job.renew.principal.as_ref(),
            Self::Look(_) | Self::Force(_) | Self::Close(_) => None,
        }
    }

    /// Whether it is for this principal to ask about the hold of this record.
    fn may_touch(&self, record: &LockRecord) -> bool {
        matches!(self, Self::Close(_)) || record.is_open_to(self.principal())
    }

    /// The hold that it is about; `None` of what is about a name.
    fn hold(&self) -> Option<(&LockId, Token)> {
        match self {
            Self::Renew(job) => Some((&job.renew.lock_id, job.renew.token)),
            Self::Release(job) => Some((&job.release.lock_id, job.release.token)),
            Self::Rewrite(job) => Some((&job.renew.lock_id, job.renew.token)),
            Self::Close(job) => Some((&job.close.lock_id, job.close.token)),
            Self::Look(_) | Self::Force(_) => None,
        }
    }
}

impl ColdJob {
    pub(crate) fn new(shard: ShardId, ask: ColdAsk) -> Self {
        Self {
            shard,
            ask,
            attempts: 0,
            round: None,
            look: None,
        }
    }

    pub(crate) fn with_look(mut self, look: Option<Look>) -> Self {
        self.look = look;
        self
    }

    pub(crate) fn shard(&self) -> ShardId {
        self.shard
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ask.ticket()
    }

    pub(crate) fn lock_id(&self) -> Option<&LockId> {
        self.ask.hold().map(|(id, _)| id)
    }

    /// What another engine of this gateway is to go on with; a rewrite and a look stay.
    pub(crate) fn to_onward(&self, look: Option<Look>) -> Option<What> {
        match &self.ask {
            ColdAsk::Force(job) => Some(What::Force(job.force.clone(), look)),
            _ => self.to_forward().map(|forward| What::Hold(forward, look)),
        }
    }

    /// What another gateway is to be asked; only about a hold.
    pub(crate) fn to_forward(&self) -> Option<Forward> {
        match &self.ask {
            ColdAsk::Renew(job) => Some(Forward::Renew(job.renew.clone())),
            ColdAsk::Release(job) => Some(Forward::Release(job.release.clone())),
            ColdAsk::Close(job) => Some(Forward::Close(job.close.clone())),
            ColdAsk::Rewrite(_) | ColdAsk::Look(_) | ColdAsk::Force(_) => None,
        }
    }
}

/// The look-ups that wait, and how many reads are on their way.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    queue: VecDeque<ColdJob>,
    in_flight: usize,
    /// Those whose record is there, and whose owner the next round is to show.
    ownerless: Vec<ColdJob>,
}

impl Engine {
    pub(crate) fn queue_cold(&mut self, job: ColdJob) {
        if self.cold.queue.len() >= limits::COLD_QUEUE_MAX {
            self.fail(job.ask.ticket(), Trouble::Overloaded);
        } else {
            self.cold.queue.push_back(job);
        }
    }

    /// Whether so many look-ups wait that a whole fleet must be asking, as it does when its gateway
    /// has died: then those about locks that are certainly elsewhere are spared.
    pub(crate) fn cold_is_busy(&self) -> bool {
        self.cold.queue.len() >= limits::COLD_BUSY
    }

    pub(crate) fn pump_cold(&mut self) {
        while self.cold.in_flight < limits::COLD_READS_IN_FLIGHT_MAX && !self.cold.queue.is_empty()
        {
            let mut jobs = Vec::new();
            while jobs.len() < limits::COLD_BATCH_MAX {
                let Some(job) = self.cold.queue.pop_front() else {
                    break;
                };
                if self.tickets.is_open(job.ask.ticket()) {
                    jobs.push(job);
                }
            }
            if jobs.is_empty() {
                break;
            }
            self.stats.cold_lookups.add(jobs.len() as u64);
            let gets = jobs.iter().flat_map(|job| {
                let record = KeyRange::one(records::lock_key(job.ask.name()));
                [
                    Get::all(record),
                    Get::all(KeyRange::one(keys::guard(job.shard))),
                ]
            });
            let op = Op::Txn(Txn::read(gets));
            self.cold.in_flight += 1;
            self.call(op, limits::CALL_TIMEOUT, Purpose::Cold(jobs));
        }
    }

    pub(crate) fn on_cold(&mut self, jobs: Vec<ColdJob>, result: Result<Reply, StoreError>) {
        self.cold.in_flight = self.cold.in_flight.saturating_sub(1);
        let Ok(reply) = as_txn(result) else {
            for job in jobs {
                if self.mutated(Mutation::UnknownTakenAsLost) {
                    self.not_held(&job.ask, Ended::Expired);
                    continue;
                }
                self.look_again(job, Trouble::Unproven);
            }
            return;
        };
        let mut read = reply.ops.into_iter().map(|op| match op {
            TxnOpReply::Get(get) => get.kvs.into_iter().next(),
            _ => None,
        });
        for job in jobs {
            let (record, guard) = (read.next().flatten(), read.next().flatten());
            self.cold_found(job, record.as_ref(), guard.as_ref());
        }
    }

    fn look_again(&mut self, mut job: ColdJob, trouble: Trouble) {
        job.attempts += 1;
        if job.attempts > 3 {
            self.fail(job.ask.ticket(), trouble);
        } else {
            self.do_later(limits::RETRY_BACKOFF, Task::Cold(Box::new(job)));
        }
    }

    fn cold_found(&mut self, job: ColdJob, record: Option<&KeyValue>, guard: Option<&KeyValue>) {
        self.guard_seen(job.shard, guard);
        if let ColdAsk::Rewrite(rewrite) = job.ask {
            return self.rewrite_read(*rewrite, record);
        }
        if let ColdAsk::Look(looking) = job.ask {
            return self.looked(*looking, record, &read_guard(guard));
        }
        let read = record.map(|kv| (kv, LockRecord::read(kv)));
        let (id, token) = match (&job.ask, job.ask.hold(), &read) {
            (_, Some((id, token)), _) => (id.clone(), token),
            (ColdAsk::Force(force), None, Some((kv, Some((record, id))))) => {
                return self.force_found(force, id, record.fencing_token(kv));
            }
            (_, None, Some((_, None))) => return self.fail(job.ask.ticket(), Trouble::Unknown),
            (_, None, _) => return self.not_here(job, &read_guard(guard), Ended::Expired),
        };
        match read {
            Some((_, None)) => self.fail(job.ask.ticket(), Trouble::Unknown),
            Some((kv, Some((record, found)))) if found == id => {
                if !job.ask.may_touch(&record) || record.fencing_token(kv) != token {
                    return self.wrong_token(&job.ask);
                }
                self.held_somewhere(job, &id);
            }
            other => {
                let ended = other.map_or(Ended::Expired, |_| Ended::Stolen);
                self.not_here(job, &read_guard(guard), ended);
            }
        }
    }

    /// The hold has no record here. That is the whole truth if the guard, read at the same revision, is
    /// active, and nothing of the shard can still be elsewhere.
    fn not_here(&mut self, job: ColdJob, guard: &GuardSeen, ended: Ended) {
        if self.is_to_look(job.look.as_ref())
            && let Some(look) = job.look.clone()
        {
            let (to, look) = self.back_from_look(look);
            return self.hold_goes_on(to, &job, Some(look));
        }
        match guard {
            GuardSeen::Read(guard, _) if admits(guard) => self.not_held(&job.ask, ended),
            GuardSeen::Read(guard, revision) if guard.state == GuardState::Active => {
                match &guard.from {
                    Some(from) if !self.has_looked(job.look.as_ref(), *revision) => {
                        let look = self.look_for(*revision);
                        self.hold_goes_on(To::Cluster(from.to_shared()), &job, Some(look));
                    }
                    _ => self.not_held(&job.ask, ended),
                }
            }
            GuardSeen::Read(guard, _) => match &guard.to {
                Some(to) => self.hold_goes_on(To::Cluster(to.to_shared()), &job, None),
                None => self.fail(job.ask.ticket(), Trouble::Moving),
            },
            _ if self.tickets.has_come_on(job.ticket()) => self.look_again(job, Trouble::Moving),
            _ => self.hold_goes_on(To::Before, &job, None),
        }
    }

    /// A name was looked for, in the stead of the cluster that its shard goes to, or because nothing
    /// more may be granted to whoever asks.
    fn looked(&mut self, mut job: Job, record: Option<&KeyValue>, guard: &GuardSeen) {
        let for_another = self.is_to_look(job.look.as_ref());
        match (record, job.look.take(), guard) {
            // Whoever waits does so there, and not as long as there is nothing more to wait for here.
            (Some(record), Some(look), _)
                if for_another && job.may_wait() && !is_same_client(record, &job) =>
            {
                job.held_there = true;
                self.acquire_goes_on(self.back_from_look(look).0, job);
            }
            (Some(record), ..) => {
                // It is answered here, so it has no place in any line.
                job.place = None;
                self.contended(job, record);
            }
            (None, Some(look), _) if for_another => {
                let (to, look) = self.back_from_look(look);
                job.look = Some(look);
                self.acquire_goes_on(to, job);
            }
            (None, look, GuardSeen::Read(guard, revision))
                if admits(guard) || self.has_looked(look.as_ref(), *revision) =>
            {
                self.fail(job.ticket, Trouble::QuotaFull);
            }
            // The shard has begun to move: its name may be held elsewhere by now.
            (None, look, _) => {
                job.look = look;
                self.queue_acquire(job);
            }
        }
    }

    /// The record is there, so the hold lives and has an owner.
    pub(crate) fn held_somewhere(&mut self, job: ColdJob, id: &LockId) {
        match self.whereabouts(id) {
            // It has come in the meantime.
            Whereabouts::Slot(_) => match job.ask {
                ColdAsk::Renew(job) => self.renew_somewhere(job),
                ColdAsk::Release(job) => self.release_somewhere(job),
                ColdAsk::Close(job) => self.close_somewhere(job),
                ColdAsk::Rewrite(_) | ColdAsk::Look(_) | ColdAsk::Force(_) => {}
            },
            Whereabouts::Neighbour(cluster) => {
                self.hold_goes_on(To::Cluster(cluster), &job, None);
            }
            Whereabouts::NoSlot(group) => {
                self.want_check(group);
                self.look_again(job, Trouble::Unknown);
            }
            Whereabouts::Loading => self.fail(job.ask.ticket(), Trouble::Loading),
            Whereabouts::OtherOwner if self.may_ask_owner(job.ticket(), id) => {
                self.forward_job(job);
            }
            Whereabouts::Unclaimed => self.fail(job.ask.ticket(), Trouble::Unclaimed),
            Whereabouts::OtherOwner | Whereabouts::Unknown => self.await_owner(job),
        }
    }

    /// The owner that is known is not the owner, or none is known: looks once more, linearizably.
    pub(crate) fn await_owner(&mut self, mut job: ColdJob) {
        let forwarded = self.tickets.via(job.ticket()) == Some(Via::Gateway);
        if job.round.is_some() || forwarded || self.cold.ownerless.len() >= limits::COLD_QUEUE_MAX {
            return self.fail(job.ticket(), Trouble::OtherOwner);
        }
        job.round = Some(self.round.next_id());
        self.cold.ownerless.push(job);
        self.round.want_soon(self.now);
    }

    /// A round has shown who owns what.
    pub(crate) fn owners_shown(&mut self, shown: RoundId) {
        for job in std::mem::take(&mut self.cold.ownerless) {
            if !self.tickets.is_open(job.ticket()) {
                continue;
            }
            if job.round > Some(shown) {
                self.cold.ownerless.push(job);
                self.round.want_soon(self.now);
            } else {
                if let Some(id) = job.lock_id().cloned() {
                    self.held_somewhere(job, &id);
                }
            }
        }
    }

    fn not_held(&mut self, ask: &ColdAsk, ended: Ended) {
        match ask {
            ColdAsk::Renew(job) => self.answer_renew(job.ticket, RenewOutcome::Ended(ended)),
            ColdAsk::Release(job) => self.answer_release(job.ticket, ReleaseOutcome::Released),
            ColdAsk::Force(ForceJob { ticket, .. }) | ColdAsk::Close(CloseJob { ticket, .. }) => {
                self.answer_close(*ticket, CloseOutcome::NotHeld);
            }
            ColdAsk::Rewrite(_) | ColdAsk::Look(_) => {}
        }
    }

    fn wrong_token(&mut self, ask: &ColdAsk) {
        match ask {
            ColdAsk::Renew(job) => {
                self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::Stolen));
            }
            ColdAsk::Release(job) => {
                self.answer_release(job.ticket, ReleaseOutcome::TokenMismatch);
            }
            // The record was rewritten since it was read, with another token: that never happens.
            ColdAsk::Close(job) => self.fail(job.ticket, Trouble::Unknown),
            ColdAsk::Rewrite(_) | ColdAsk::Look(_) | ColdAsk::Force(_) => {}
        }
    }
}

fn is_same_client(kv: &KeyValue, job: &Job) -> bool {
    LockRecord::read(kv).is_some_and(|(record, _)| record.is_of(&job.acquire))
}
