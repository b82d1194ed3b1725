//! Force-release: the end of somebody else's hold.
//!
//! Whoever is asked reads the name's record and passes the hold on to its owner; only the owner ends it.
//! The owner closes the slot first: the deadline that it has stands, nothing is promised beyond it,
//! and the name is free when it has passed. Then the record is rewritten with `closed`, so that an heir
//! does not revive the hold, and only then is anybody told. Until that is confirmed a renewal is told
//! that nothing is known; after it, that the hold is stolen.
//!
//! With `immediate` the hold ends at once, like by a release: only the fencing token keeps the old
//! holder out.
//!
//! While a group moves between clusters none of its records is rewritten, so a force-release is
//! answered `shard_moving`, and no move begins while a record is to be closed.

use crate::engine::Engine;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::cold::{ColdAsk, ColdJob};
use crate::engine::ending::Waiter;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::onward::To;
use crate::engine::records::{self, LockRecord};
use crate::engine::renew::Whereabouts;
use crate::engine::slot::SlotState;
use crate::engine::table::Slot;
use crate::engine::tickets::{Kind, Ticket, Trouble, Via};
use crate::engine::writes::{SlotRef, WriteOp};
use crate::limits;
use crate::lock_id::{GroupId, LockId, Secret, SlotIndex};
use crate::names::Token;
use crate::service::{Close, CloseOutcome, ForceRelease};
use crate::time::{Instant, Millis};
use holdfast_store::{
    Compare, Get, Key, KeyRange, KeyValue, Op, Put, Reply, Revision, StoreError, Txn, TxnOp,
    TxnOpReply,
};
use shard_map::ShardId;
use std::collections::BTreeMap;

/// A force-release of a name.
#[derive(Debug)]
pub(crate) struct ForceJob {
    pub(crate) ticket: Ticket,
    pub(crate) shard: ShardId,
    pub(crate) force: ForceRelease,
}

/// A force-release of the hold that the name was found to have.
#[derive(Debug)]
pub(crate) struct CloseJob {
    pub(crate) ticket: Ticket,
    pub(crate) shard: ShardId,
    pub(crate) close: Close,
}

/// The holds that are closed here and not yet in their records.
#[derive(Debug, Default)]
pub(crate) struct Closings(BTreeMap<SlotRef, Closing>);

#[derive(Debug)]
struct Closing {
    secret: Secret,
    token: Token,
    /// When the name is free.
    free_at: Instant,
    waiting: Vec<Ticket>,
}

/// A record with `closed`, to be written where the hold's record is as it was read.
#[derive(Debug)]
pub(crate) struct CloseWrite {
    at: SlotRef,
    secret: Secret,
    pub(crate) key: Key,
    read_revision: Revision,
    record: Vec<u8>,
}

impl Closings {
    pub(crate) fn has(&self, at: SlotRef) -> bool {
        self.0.contains_key(&at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn slots_of(&self, group: GroupId) -> Vec<SlotRef> {
        let slot = |index| SlotRef {
            group,
            slot: SlotIndex(index),
        };
        let of_group = self.0.range(slot(0)..=slot(u16::MAX));
        of_group.map(|(at, _)| *at).collect()
    }

    pub(crate) fn has_any_of(&self, group: GroupId) -> bool {
        !self.slots_of(group).is_empty()
    }
}

impl Engine {
    pub(crate) fn on_force_release(&mut self, ticket: Ticket, shard: ShardId, force: ForceRelease) {
        if self.open_ticket(ticket, Kind::Close, Via::CLIENT) {
            let job = ForceJob {
                ticket,
                shard,
                force,
            };
            self.queue_cold(ColdJob::new(shard, ColdAsk::Force(job)));
        }
    }

    /// This is the hold of the name that is to be force-released.
    pub(crate) fn force_found(&mut self, job: &ForceJob, id: &LockId, token: Token) {
        let close = Close {
            lock_id: id.clone(),
            token,
            immediate: job.force.immediate,
        };
        let job = CloseJob {
            ticket: job.ticket,
            shard: job.shard,
            close,
        };
        self.held_somewhere(ColdJob::new(job.shard, ColdAsk::Close(job)), id);
    }

    pub(crate) fn close_somewhere(&mut self, job: CloseJob) {
        let (ticket, shard) = (job.ticket, job.shard);
        match self.whereabouts(&job.close.lock_id) {
            Whereabouts::Slot(at) => self.close_slot(job, at),
            Whereabouts::Loading => self.fail(ticket, Trouble::Loading),
            Whereabouts::Neighbour(cluster) => {
                let job = ColdJob::new(shard, ColdAsk::Close(job));
                self.hold_goes_on(To::Cluster(cluster), &job, None);
            }
            Whereabouts::OtherOwner if self.may_ask_owner(ticket, &job.close.lock_id) => {
                self.forward_job(ColdJob::new(shard, ColdAsk::Close(job)));
            }
            Whereabouts::Unclaimed => self.fail(ticket, Trouble::Unclaimed),
            Whereabouts::OtherOwner | Whereabouts::NoSlot(_) | Whereabouts::Unknown => {
                self.queue_cold(ColdJob::new(shard, ColdAsk::Close(job)));
            }
        }
    }

    fn close_slot(&mut self, job: CloseJob, at: SlotRef) {
        let Some(ctl) = self.groups.get(at.group) else {
            return self.fail(job.ticket, Trouble::Unknown);
        };
        let Some((word, token)) = ctl
            .group
            .with_slot(at.slot, |slot| (slot.word.load(), slot.token))
        else {
            return self.fail(job.ticket, Trouble::Unknown);
        };
        match word.state {
            SlotState::Free => self.answer_close(job.ticket, CloseOutcome::NotHeld),
            SlotState::Pending => self.fail(job.ticket, Trouble::Unknown),
            // It is over, whatever was asked for here.
            SlotState::Ending => {
                let waiter = Waiter::Close(Box::new(job), CloseOutcome::NotHeld);
                self.end_hold(at, Some(waiter));
            }
            SlotState::Held | SlotState::Closed if word.deadline <= self.now => {
                let waiter = Waiter::Close(Box::new(job), CloseOutcome::NotHeld);
                self.end_passed_hold(at, waiter);
            }
            _ if self.moves.has(at.group) => self.fail(job.ticket, Trouble::Moving),
            SlotState::Held | SlotState::Closed if job.close.immediate => {
                self.mark_forced(at);
                let outcome = CloseOutcome::Closed {
                    token,
                    free_in: Millis::ZERO,
                };
                self.end_hold(at, Some(Waiter::Close(Box::new(job), outcome)));
            }
            SlotState::Closed if !self.closings.has(at) => {
                self.closed(job.ticket, token, word.deadline);
            }
            SlotState::Held | SlotState::Closed => self.begin_closing(&job, at),
        }
    }

    fn mark_forced(&mut self, at: SlotRef) {
        if let Some(ctl) = self.groups.get(at.group) {
            ctl.group.change_slot(at.slot, |slot| slot.set_forced(true));
        }
    }

    /// Whether the hold of the slot is closed, and that is not in its record yet.
    pub(crate) fn is_closing(&self, at: SlotRef, secret: Secret) -> bool {
        let closing = self.closings.0.get(&at);
        closing.is_some_and(|closing| closing.secret == secret)
    }

    fn begin_closing(&mut self, job: &CloseJob, at: SlotRef) {
        if let Some(closing) = self.closings.0.get_mut(&at) {
            return closing.waiting.push(job.ticket);
        }
        if self.closings.len() >= limits::CLOSINGS_MAX {
            return self.fail(job.ticket, Trouble::Overloaded);
        }
        self.mark_forced(at);
        let closed = self.groups.get(at.group).and_then(|ctl| {
            ctl.group.with_slot(at.slot, |slot| {
                let free_at = slot.word.close().ok()?;
                Some((free_at, slot.secret, slot.token))
            })
        });
        let Some((free_at, secret, token)) = closed.flatten() else {
            return self.fail(job.ticket, Trouble::Unknown);
        };
        let closing = Closing {
            secret,
            token,
            free_at,
            waiting: vec![job.ticket],
        };
        self.closings.0.insert(at, closing);
        if self.mutated(Mutation::ClosedUnrecorded) {
            return self.record_closed(at, secret);
        }
        self.read_to_close(at, secret);
    }

    /// Reads the record that is to be closed.
    pub(crate) fn read_to_close(&mut self, at: SlotRef, secret: Secret) {
        let ctl = self
            .groups
            .get(at.group)
            .filter(|_| self.is_closing(at, secret));
        let key = ctl.and_then(|ctl| {
            ctl.group.with_slot(at.slot, |slot| {
                let name = slot.name.as_ref().filter(|_| slot.secret == secret)?;
                Some(records::lock_key(name.as_str()))
            })
        });
        if let Some(key) = key.flatten() {
            let op = Op::Txn(Txn::read([Get::all(KeyRange::one(key))]));
            self.call(op, limits::CALL_TIMEOUT, Purpose::ToClose(at, secret));
        }
    }

    pub(crate) fn on_read_to_close(
        &mut self,
        at: SlotRef,
        secret: Secret,
        result: Result<Reply, StoreError>,
    ) {
        if !self.is_closing(at, secret) {
            return;
        }
        let read = as_txn(result)
            .ok()
            .and_then(|reply| reply.ops.into_iter().next());
        let kv = match read {
            Some(TxnOpReply::Get(get)) => get.kvs.into_iter().next(),
            _ => None,
        };
        let write = kv.and_then(|kv| {
            let (mut record, id) = LockRecord::read(&kv)?;
            (id.secret() == secret).then_some(())?;
            record.token = Some(record.fencing_token(&kv).0);
            record.closed = Some(true.into());
            Some(CloseWrite {
                at,
                secret,
                key: kv.key,
                read_revision: kv.mod_revision,
                record: record.to_bytes(),
            })
        });
        match write {
            Some(write) => self.queue_write(WriteOp::Close(Box::new(write))),
            // No answer; or it is gone, which whoever ends the hold finds out.
            None => self.close_again(at, secret),
        }
    }

    pub(crate) fn compile_close(&self, write: &CloseWrite) -> Option<Txn> {
        let (group_compare, _) = self.group_compare(write.at.group)?;
        let ctl = self.groups.get(write.at.group)?;
        let is_closed = |slot: &Slot| slot.secret == write.secret && slot.is_closed();
        let closed = ctl.group.with_slot(write.at.slot, is_closed) == Some(true);
        (closed && !self.moves.has(write.at.group)).then_some(())?;
        let lease = ctl.lease;
        Some(Txn {
            compare: vec![
                group_compare,
                Compare::mod_revision(write.key.clone(), write.read_revision),
            ],
            then: vec![TxnOp::Put(Put {
                key: write.key.clone(),
                value: write.record.clone(),
                lease: Some(lease),
            })],
            or_else: Vec::new(),
        })
    }

    /// The write can happen no more, and this is what is there.
    pub(crate) fn close_resolved(&mut self, write: &CloseWrite, found: Option<&KeyValue>) {
        let landed = found.filter(|kv| {
            LockRecord::read(kv)
                .is_some_and(|(record, id)| id.secret() == write.secret && record.closed.is_some())
        });
        match landed.map(|kv| kv.mod_revision) {
            Some(revision) => self.close_landed(write, revision),
            None => self.close_undone(write),
        }
    }

    /// The record says so, since `revision`.
    pub(crate) fn close_landed(&mut self, write: &CloseWrite, revision: Revision) {
        let CloseWrite { at, secret, .. } = *write;
        if let Some(ctl) = self.groups.get(at.group) {
            ctl.group.change_slot(at.slot, |slot| {
                if slot.secret == secret {
                    slot.revision = slot.revision.max(revision);
                }
            });
        }
        self.record_closed(at, secret);
    }

    fn record_closed(&mut self, at: SlotRef, secret: Secret) {
        if self.is_closing(at, secret)
            && let Some(closing) = self.closings.0.remove(&at)
        {
            for ticket in closing.waiting {
                self.closed(ticket, closing.token, closing.free_at);
            }
        }
    }

    /// The write certainly did not happen: the record is read again.
    pub(crate) fn close_undone(&mut self, write: &CloseWrite) {
        self.close_again(write.at, write.secret);
    }

    fn close_again(&mut self, at: SlotRef, secret: Secret) {
        if self.is_closing(at, secret) {
            self.want_check(at.group);
            self.do_later(limits::RETRY_BACKOFF, Task::Close(at, secret));
        }
    }

    /// The hold has ended before its record was closed.
    pub(crate) fn closing_ended(&mut self, at: SlotRef, secret: Secret) {
        if let Some(closing) = self.closings.0.get_mut(&at) {
            closing.free_at = Instant::NEVER;
        }
        self.record_closed(at, secret);
    }

    /// Nothing is known of the group's holds any more.
    pub(crate) fn closings_of_lost_group(&mut self, group: GroupId) {
        for at in self.closings.slots_of(group) {
            let closing = self.closings.0.remove(&at);
            for ticket in closing.into_iter().flat_map(|closing| closing.waiting) {
                self.fail(ticket, Trouble::Unknown);
            }
        }
    }

    fn closed(&mut self, ticket: Ticket, token: Token, free_at: Instant) {
        let free_in = free_at.since(self.now);
        self.answer_close(ticket, CloseOutcome::Closed { token, free_in });
    }
}
