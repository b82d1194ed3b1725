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
use crate::engine::later::Task;
use crate::engine::records;
use crate::engine::renew::Rewrite;
use crate::engine::tickets::Trouble;
use crate::limits;
use crate::lock_id::{GroupId, SlotIndex};
use holdfast_store::{Key, Op};
use std::collections::{HashSet, VecDeque};

/// A slot of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotRef {
    pub(crate) group: GroupId,
    pub(crate) slot: SlotIndex,
}

/// One write: a nested transaction of a batch.
#[derive(Debug)]
pub(crate) enum WriteOp {
    /// Puts a lock on a group.
    Grant(Box<Grant>),
    /// Deletes the record of a hold that is ending.
    Delete(SlotRef),
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
    queue: VecDeque<WriteOp>,
    acquires: VecDeque<Job>,
    in_flight: usize,
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

    pub(crate) fn send_alone(&mut self, ops: Vec<WriteOp>) {
        self.split.push_back(ops);
    }
}

impl Engine {
    pub(crate) fn queue_write(&mut self, op: WriteOp) {
        self.writes.queue.push_back(op);
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
        let mut batch = Batch {
            ops: Vec::with_capacity(ops.len()),
            fence,
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
        if batch.ops.is_empty() {
            return;
        }
        self.stats.batches.add(1);
        self.stats.batched_ops.add(batch.ops.len() as u64);
        self.writes.in_flight += 1;
        let txn = self.batch_txn(compare, nested);
        self.call(Op::Txn(txn), limits::CALL_TIMEOUT, Purpose::Batch(batch));
    }

    /// The next batch: writes first, but with room for acquires when some wait. No key twice.
    fn next_ops(&mut self) -> Vec<WriteOp> {
        if let Some(ops) = self.writes.split.pop_front() {
            return ops;
        }
        let mut filling = Filling::default();
        let share = match self.writes.acquires.is_empty() {
            true => limits::BATCH_OPS_MAX,
            false => limits::BATCH_OPS_MAX / 2,
        };
        self.fill_with_writes(&mut filling, share);
        self.fill_with_grants(&mut filling);
        self.fill_with_writes(&mut filling, limits::BATCH_OPS_MAX);
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
                Some(key) if filling.admits(key.clone(), 0) => filling.ops.push(op),
                Some(_) => deferred.push(op),
            }
        }
        deferred
            .into_iter()
            .rev()
            .for_each(|op| self.writes.queue.push_front(op));
    }

    fn fill_with_grants(&mut self, filling: &mut Filling) {
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
        while filling.ops.len() < limits::BATCH_OPS_MAX && deferred.len() < limits::BATCH_OPS_MAX {
            let Some(job) = self.writes.acquires.pop_front() else {
                break;
            };
            if !self.tickets.is_open(job.ticket) {
                continue;
            }
            let key = records::lock_key(job.acquire.name.as_str());
            if !filling.admits(key, job.bytes()) {
                deferred.push(job);
            } else if let Some(grant) = self.prepare_grant(job) {
                filling.ops.push(WriteOp::Grant(Box::new(grant)));
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
    keys: HashSet<Key>,
    bytes: usize,
}

impl Filling {
    fn admits(&mut self, key: Key, bytes: usize) -> bool {
        if self.bytes + bytes > limits::BATCH_BYTES_MAX && !self.ops.is_empty() {
            return false;
        }
        self.bytes += bytes;
        self.keys.insert(key)
    }
}
