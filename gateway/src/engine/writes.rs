//! What is to be written to the cluster, and when: requests join the batch that leaves next.
//!
//! A batch leaves as soon as one may; while the permitted number is on its way, what comes in
//! waits and makes the next one larger. So a lone request has no delay, and a flood is carried
//! in full batches.

use crate::engine::Engine;
use crate::engine::acquire::{Grant, Job};
use crate::engine::alarm::Space;
use crate::engine::batch::Batch;
use crate::engine::calls::Purpose;
use crate::engine::claims::Claim;
use crate::engine::lanes::Lanes;
use crate::engine::later::Task;
use crate::engine::records;
use crate::engine::renew::Rewrite;
use crate::engine::tickets::Trouble;
use crate::limits;
use crate::lock_id::{GroupId, Secret, SlotIndex};
use holdfast_store::{Key, Op};
use std::collections::{HashMap, VecDeque};

/// A slot of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotRef {
    pub(crate) group: GroupId,
    pub(crate) slot: SlotIndex,
}

/// A hold that is ending: the slot, and which of the holds that it had in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndingRef {
    pub(crate) at: SlotRef,
    pub(crate) secret: Secret,
}

/// One write: a nested transaction of a batch.
#[derive(Debug)]
pub(crate) enum WriteOp {
    /// Puts a lock on a group.
    Grant(Box<Grant>),
    /// Deletes the record of a hold that is ending.
    Delete(EndingRef),
    /// Rewrites a record with a longer TTL.
    Rewrite(Box<Rewrite>),
    /// Puts the key of a new group.
    OpenGroup(GroupId),
    /// Deletes the key of an empty group.
    RetireGroup(GroupId),
    /// Takes over a group whose session is gone.
    Claim(Claim),
}

/// The queues in front of the batches.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Batches that must be sent as they are: parts of one that failed as a whole.
    split: VecDeque<Vec<WriteOp>>,
    /// What somebody waits for.
    queue: VecDeque<WriteOp>,
    /// Deletes that nobody waits for: they must not hold up the others when a million holds
    /// expire at once.
    expiries: VecDeque<EndingRef>,
    acquires: VecDeque<Job>,
    in_flight: usize,
    pub(crate) lanes: Lanes,
    paused: bool,
}

impl Writes {
    pub(crate) fn clear(&mut self) {
        let paused = self.paused;
        *self = Self {
            paused,
            ..Self::default()
        };
    }

    pub(crate) fn resume(&mut self) {
        self.paused = false;
    }

    pub(crate) fn one_came_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(crate) fn send_soon(&mut self, op: WriteOp) {
        self.queue.push_back(op);
    }

    pub(crate) fn send_alone(&mut self, ops: Vec<WriteOp>) {
        self.split.push_back(ops);
    }
}

impl Engine {
    pub(crate) fn queue_write(&mut self, op: WriteOp) {
        self.writes.send_soon(op);
    }

    /// Deletes the record of a hold that is ending, when there is nothing more urgent.
    pub(crate) fn queue_expiry(&mut self, ending: EndingRef) {
        self.writes.expiries.push_back(ending);
    }

    /// Forgets acquires that have been answered otherwise.
    pub(crate) fn drop_answered_acquires(&mut self) {
        let tickets = &self.tickets;
        self.writes
            .acquires
            .retain(|job| tickets.is_open(job.ticket));
    }

    pub(crate) fn queue_acquire(&mut self, job: Job) {
        self.writes.acquires.push_back(job);
    }

    /// Sends nothing for a while: the cluster is not reached.
    pub(crate) fn pause_writes(&mut self) {
        if !self.writes.paused {
            self.writes.paused = true;
            self.do_later(limits::RETRY_BACKOFF, Task::Resume);
        }
    }

    /// Sends what can be sent.
    pub(crate) fn pump(&mut self) {
        self.pump_cold();
        while self.session.live().is_some()
            && self.fence.open().is_some()
            && !self.writes.paused
            && self.writes.in_flight < limits::BATCHES_IN_FLIGHT_MAX
        {
            let ops = self.next_ops();
            if ops.is_empty() {
                break;
            }
            self.send_batch(ops);
        }
    }

    fn send_batch(&mut self, ops: Vec<WriteOp>) {
        let (Some(fence), Some(compare)) = (self.fence.open(), self.fence_compare()) else {
            return ops.into_iter().for_each(|op| self.queue_write(op));
        };
        let lane = self.writes.lanes.take();
        let mut batch = Batch {
            ops: Vec::with_capacity(ops.len()),
            fence,
            lane,
        };
        let mut nested = Vec::with_capacity(ops.len());
        for op in ops {
            match self.compile(&op) {
                Some(txn) => {
                    nested.push(txn);
                    batch.ops.push(op);
                }
                None => self.drop_op(op),
            }
        }
        let Some(txn) = (match batch.ops.is_empty() {
            true => None,
            false => self.batch_txn(compare, lane, nested),
        }) else {
            return self.writes.lanes.give_back_unused(lane);
        };
        self.stats.batches.add(1);
        self.stats.batched_ops.add(batch.ops.len() as u64);
        self.writes.in_flight += 1;
        self.call(Op::Txn(txn), limits::CALL_TIMEOUT, Purpose::Batch(batch));
    }

    /// The next batch: what somebody waits for, then acquires, then what nobody waits for; each
    /// with room for the others when there are any. No key twice.
    fn next_ops(&mut self) -> Vec<WriteOp> {
        if let Some(ops) = self.writes.split.pop_front() {
            return ops;
        }
        let mut filling = Filling::default();
        let (whole, half) = (limits::BATCH_OPS_MAX, limits::BATCH_OPS_MAX / 2);
        let others = !self.writes.acquires.is_empty() || !self.writes.expiries.is_empty();
        self.fill_with_writes(&mut filling, if others { half } else { whole });
        let expiries = !self.writes.expiries.is_empty();
        self.fill_with_grants(
            &mut filling,
            if expiries { whole - half / 2 } else { whole },
        );
        self.fill_with_expiries(&mut filling);
        self.fill_with_writes(&mut filling, whole);
        filling.ops
    }

    fn fill_with_writes(&mut self, filling: &mut Filling, ops_max: usize) {
        let mut deferred = Vec::new();
        while filling.ops.len() < ops_max && deferred.len() < limits::BATCH_OPS_MAX {
            let Some(op) = self.writes.queue.pop_front() else {
                break;
            };
            match self.key_of(&op) {
                None => self.drop_op(op),
                Some(key) if filling.admits(&key, 0) => filling.push(key, op),
                Some(_) => deferred.push(op),
            }
        }
        deferred
            .into_iter()
            .rev()
            .for_each(|op| self.writes.queue.push_front(op));
    }

    fn fill_with_expiries(&mut self, filling: &mut Filling) {
        while filling.ops.len() < limits::BATCH_OPS_MAX {
            let Some(ending) = self.writes.expiries.pop_front() else {
                break;
            };
            let op = WriteOp::Delete(ending);
            match self.key_of(&op) {
                None => {}
                Some(key) if filling.admits(&key, 0) => filling.push(key, op),
                // Its name is being granted anew in this batch, which cannot be: later.
                Some(_) => self.writes.queue.push_back(op),
            }
        }
    }

    fn fill_with_grants(&mut self, filling: &mut Filling, ops_max: usize) {
        if self.writes.acquires.is_empty() {
            return;
        }
        match self.space() {
            Space::Unknown => return,
            Space::UsedUp => {
                for job in std::mem::take(&mut self.writes.acquires) {
                    self.fail(job.ticket, Trouble::NoSpace);
                }
                return;
            }
            Space::Left => {}
        }
        let mut deferred = Vec::new();
        while filling.ops.len() < ops_max && deferred.len() < limits::BATCH_OPS_MAX {
            let Some(job) = self.writes.acquires.pop_front() else {
                break;
            };
            if !self.tickets.is_open(job.ticket) {
                continue;
            }
            let key = records::lock_key(job.acquire.name.as_str());
            if let Some(grant) = filling.grant_of(&key) {
                // One transaction asks for a name once; this one waits for what that shows.
                grant.behind.push(job);
            } else if !filling.admits(&key, job.bytes()) {
                deferred.push(job);
            } else if let Some(grant) = self.prepare_grant(job) {
                filling.push(key, WriteOp::Grant(Box::new(grant)));
            }
        }
        deferred
            .into_iter()
            .rev()
            .for_each(|job| self.writes.acquires.push_front(job));
    }
}

/// A batch that is being filled.
#[derive(Debug, Default)]
struct Filling {
    ops: Vec<WriteOp>,
    keys: HashMap<Key, usize>,
    bytes: usize,
}

impl Filling {
    fn admits(&self, key: &Key, bytes: usize) -> bool {
        let fits = self.ops.is_empty() || self.bytes + bytes <= limits::BATCH_BYTES_MAX;
        fits && !self.keys.contains_key(key)
    }

    fn push(&mut self, key: Key, op: WriteOp) {
        self.bytes += match &op {
            WriteOp::Grant(grant) => grant.job.bytes(),
            _ => 0,
        };
        self.keys.insert(key, self.ops.len());
        self.ops.push(op);
    }

    fn grant_of(&mut self, key: &Key) -> Option<&mut Grant> {
        match self.ops.get_mut(*self.keys.get(key)?)? {
            WriteOp::Grant(grant) => Some(grant),
            _ => None,
        }
    }
}
