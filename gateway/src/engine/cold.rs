//! Requests about locks that no table here knows. A miss in a table is never an answer: the
//! record is read by name.
//!
//! The answer "not held" is definite when the shard's guard, read at the same revision as the
//! record, is active here: then no other cluster can have the record. Many look-ups share a read.

use crate::engine::Engine;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::ending::ReleaseJob;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::records::{self, LockRecord};
use crate::engine::renew::{RenewJob, RewriteJob, Whereabouts};
use crate::engine::round::RoundId;
use crate::engine::shards::{GuardSeen, admits, read_guard};
use crate::engine::tickets::{Ticket, Trouble, Via};
use crate::limits;
use crate::lock_id::LockId;
use crate::names::{Principal, Token};
use crate::service::{Ended, Forward, ReleaseOutcome, RenewOutcome};
use holdfast_store::{Get, KeyRange, KeyValue, Op, Reply, StoreError, Txn, TxnOpReply};
use shard_map::ShardId;
use shard_map::records::keys;
use std::collections::VecDeque;

/// A look-up by name.
#[derive(Debug)]
pub(crate) struct ColdJob {
    shard: ShardId,
    ask: ColdAsk,
    attempts: u8,
    /// Which round it waits for, or has waited for, to show the owner.
    round: Option<RoundId>,
}

/// What was asked.
#[derive(Debug)]
pub(crate) enum ColdAsk {
    Renew(RenewJob),
    Release(ReleaseJob),
    /// The record is wanted, to be written with a longer TTL.
    Rewrite(Box<RewriteJob>),
}

impl ColdAsk {
    fn ticket(&self) -> Ticket {
        match self {
            Self::Renew(job) => job.ticket,
            Self::Release(job) => job.ticket,
            Self::Rewrite(job) => job.ticket(),
        }
    }

    fn lock_id(&self) -> &LockId {
        match self {
            Self::Renew(job) => &job.renew.lock_id,
            Self::Release(job) => &job.release.lock_id,
            Self::Rewrite(job) => &job.renew.lock_id,
        }
    }

    fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Renew(job) => job.renew.principal.as_ref(),
            Self::Release(job) => job.release.principal.as_ref(),
            Self::Rewrite(job) => job.renew.principal.as_ref(),
        }
    }

    fn token(&self) -> Token {
        match self {
            Self::Renew(job) => job.renew.token,
            Self::Release(job) => job.release.token,
            Self::Rewrite(job) => job.renew.token,
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
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ask.ticket()
    }

    pub(crate) fn lock_id(&self) -> &LockId {
        self.ask.lock_id()
    }

    /// What another gateway is to be asked; a rewrite never is.
    pub(crate) fn to_forward(&self) -> Option<Forward> {
        match &self.ask {
            ColdAsk::Renew(job) => Some(Forward::Renew(job.renew.clone())),
            ColdAsk::Release(job) => Some(Forward::Release(job.release.clone())),
            ColdAsk::Rewrite(_) => None,
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
                let record = KeyRange::one(records::lock_key(job.ask.lock_id().name()));
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
        if !matches!(read_guard(guard), GuardSeen::Read(guard, _) if admits(&guard)) {
            return self.fail(job.ask.ticket(), Trouble::Moving);
        }
        let Some(kv) = record else {
            return self.not_held(&job.ask, Ended::Expired);
        };
        let Some((record, id)) = LockRecord::read(kv) else {
            return self.fail(job.ask.ticket(), Trouble::Unknown);
        };
        if id != *job.ask.lock_id() {
            return self.not_held(&job.ask, Ended::Stolen);
        }
        let own = record.is_open_to(job.ask.principal());
        if !own || record.fencing_token(kv) != job.ask.token() {
            return self.wrong_token(&job.ask);
        }
        self.held_somewhere(job, &id);
    }

    /// The record is there, so the hold lives and has an owner.
    fn held_somewhere(&mut self, job: ColdJob, id: &LockId) {
        match self.whereabouts(id) {
            // It has come in the meantime.
            Whereabouts::Slot(_) => match job.ask {
                ColdAsk::Renew(job) => self.renew_somewhere(job),
                ColdAsk::Release(job) => self.release_somewhere(job),
                ColdAsk::Rewrite(_) => {}
            },
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
                let id = job.lock_id().clone();
                self.held_somewhere(job, &id);
            }
        }
    }

    fn not_held(&mut self, ask: &ColdAsk, ended: Ended) {
        match ask {
            ColdAsk::Renew(job) => self.answer_renew(job.ticket, RenewOutcome::Ended(ended)),
            ColdAsk::Release(job) => self.answer_release(job.ticket, ReleaseOutcome::Released),
            ColdAsk::Rewrite(_) => {}
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
            ColdAsk::Rewrite(_) => {}
        }
    }
}
