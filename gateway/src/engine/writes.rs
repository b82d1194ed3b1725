//! What is to be written to the cluster, and when: requests join the batch that leaves next.
//!
//! A batch leaves as soon as one may; while the permitted number is on its way, what comes in
//! waits and makes the next one larger. So a lone request has no delay, and a flood is carried
//! in full batches. What waits is kept by shard or by group: writes of one group share compares
//! ([`Bundle`]), and groups take turns.

use crate::engine::Engine;
use crate::engine::acquire::{Grant, Job};
use crate::engine::alarm::Space;
use crate::engine::arrivals::CopyPut;
use crate::engine::batch::Batch;
use crate::engine::bundle::Bundle;
use crate::engine::calls::Purpose;
use crate::engine::claims::Claim;
use crate::engine::closing::CloseWrite;
use crate::engine::filling::{Filling, Share};
use crate::engine::joining::{Join, Leave};
use crate::engine::lanes::Lanes;
use crate::engine::later::Task;
use crate::engine::records;
use crate::engine::rekey::Rekey;
use crate::engine::renew::Rewrite;
use crate::engine::tickets::Trouble;
use crate::engine::turns::Turns;
use crate::limits;
use crate::lock_id::{GroupId, Secret, SlotIndex};
use holdfast_store::{LeaseId, Op};
use shard_map::ShardId;
use std::collections::VecDeque;

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
    /// Of the group's stay in the cluster: what is found out about an earlier one says nothing.
    pub(crate) lease: LeaseId,
}

/// One write of a batch.
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
    /// Rewrites the record of a hold that is force-released.
    Close(Box<CloseWrite>),
    /// Puts waiters into the line of a name.
    Join(Box<Join>),
    /// Takes waiters out of it.
    Leave(Box<Leave>),
    /// Rewrites the key of a group.
    Rekey(Box<Rekey>),
    /// Deletes the key of a group whose place in another cluster is ready.
    Switch(GroupId),
    /// Puts the key of a group that arrives.
    Receive(GroupId),
    /// Puts a record of a group that arrives.
    Copy(Box<CopyPut>),
}

/// The queues in front of the batches.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Batches that must be sent as they are: parts of one that failed as a whole.
    split: VecDeque<Vec<Bundle>>,
    /// What somebody waits for, with compares of its own.
    queue: VecDeque<WriteOp>,
    /// Deletes that somebody waits for; perhaps of a hold whose delete is on its way.
    ends: Turns<GroupId, EndingRef>,
    /// Deletes that nobody waits for: they must not hold up the others when a million holds
    /// expire at once.
    expiries: Turns<GroupId, EndingRef>,
    acquires: Turns<ShardId, Job>,
    /// Records of groups that arrive: nobody waits for them either.
    copies: VecDeque<CopyPut>,
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

    /// How many acquires, other writes, and deletes that nobody waits for are not sent yet.
    pub(crate) fn waiting(&self) -> [usize; 3] {
        let bundles = self.split.iter().flatten();
        let split: usize = bundles.map(|bundle| bundle.ops.len()).sum();
        [
            self.acquires.len(),
            self.queue.len() + split,
            self.expiries.len(),
        ]
    }

    pub(crate) fn one_came_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(crate) fn send_soon(&mut self, op: WriteOp) {
        match op {
            WriteOp::Delete(ending) => self.ends.push(ending.at.group, ending),
            op => self.queue.push_back(op),
        }
    }

    pub(crate) fn copy_soon(&mut self, put: CopyPut) {
        self.copies.push_back(put);
    }

    pub(crate) fn send_as_they_are(&mut self, bundles: Vec<Bundle>) {
        self.split.push_back(bundles);
    }

    /// Whether one more batch may be on its way: few as long as they are small, because each costs
    /// etcd as much as many writes do, and more for a flood that somebody waits for.
    fn may_send(&self) -> bool {
        let waiting = self.queue.len() + self.ends.len() + self.acquires.len();
        self.in_flight < limits::SMALL_BATCHES_IN_FLIGHT_MAX
            || self.in_flight < limits::BATCHES_IN_FLIGHT_MAX
                && (waiting >= limits::BATCH_OPS_MAX || !self.split.is_empty())
    }
}

impl Engine {
    pub(crate) fn queue_write(&mut self, op: WriteOp) {
        if let WriteOp::Delete(ending) = &op {
            self.endings.send_again(ending.at);
        }
        self.writes.send_soon(op);
    }

    /// Deletes the record of a hold that is ending, when there is nothing more urgent.
    pub(crate) fn queue_expiry(&mut self, ending: EndingRef) {
        self.writes.expiries.push(ending.at.group, ending);
    }

    /// Forgets acquires that have been answered otherwise.
    pub(crate) fn drop_answered_acquires(&mut self) {
        let tickets = &self.tickets;
        let is_wanted = |job: &Job| job.place.is_some() || tickets.is_open(job.ticket);
        self.writes.acquires.retain(is_wanted);
    }

    pub(crate) fn queue_acquire(&mut self, job: Job) {
        self.writes.acquires.push(job.shard, job);
    }

    /// As [`Engine::queue_acquire`], before those of its shard that wait to be sent.
    pub(crate) fn queue_acquire_first(&mut self, job: Job) {
        self.writes.acquires.put_back(job.shard, vec![job]);
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
        self.pump_lines();
        while self.session.live().is_some()
            && self.fence.open().is_some()
            && !self.writes.paused
            && self.writes.may_send()
        {
            let bundles = self.next_bundles();
            if bundles.is_empty() {
                break;
            }
            self.send_batch(bundles);
        }
        // The names of acquires that may not become grants.
        self.pump_cold();
    }

    fn send_batch(&mut self, bundles: Vec<Bundle>) {
        let (Some(fence), Some(compare)) = (self.fence.open(), self.fence_compare()) else {
            let ops = bundles.into_iter().flat_map(|bundle| bundle.ops);
            return ops.for_each(|op| self.queue_write(op));
        };
        let lane = self.writes.lanes.take();
        let mut batch = Batch {
            bundles: Vec::with_capacity(bundles.len()),
            fence,
            lane,
        };
        let mut nested = Vec::with_capacity(bundles.len() + 1);
        for bundle in bundles {
            if let Some((bundle, txn)) = self.compile_bundle(bundle) {
                nested.push(txn);
                batch.bundles.push(bundle);
            }
        }
        let Some(txn) = (match batch.bundles.is_empty() {
            true => None,
            false => self.batch_txn(compare, lane, nested),
        }) else {
            return self.writes.lanes.give_back_unused(lane);
        };
        self.stats.batch_sizes.record(batch.count() as u64);
        self.writes.in_flight += 1;
        self.call(Op::Txn(txn), limits::CALL_TIMEOUT, Purpose::Batch(batch));
    }

    /// The next batch: what somebody waits for, then acquires, then what nobody waits for; each
    /// with room for the others when there are any. No key twice.
    fn next_bundles(&mut self) -> Vec<Bundle> {
        if let Some(bundles) = self.writes.split.pop_front() {
            return bundles;
        }
        let mut filling = Filling::default();
        let unasked = !self.writes.expiries.is_empty() || !self.writes.copies.is_empty();
        let others = unasked || !self.writes.acquires.is_empty();
        self.fill_with_writes(&mut filling, Share::quarters(if others { 2 } else { 4 }));
        self.fill_with_grants(&mut filling, Share::quarters(if unasked { 3 } else { 4 }));
        self.fill_with_copies(&mut filling);
        self.fill_with_ends(&mut filling, Share::quarters(4), Ends::Expired);
        self.fill_with_writes(&mut filling, Share::quarters(4));
        filling.into_bundles()
    }

    fn fill_with_writes(&mut self, filling: &mut Filling, share: Share) {
        let mut deferred = Vec::new();
        while filling.has_room(share) && deferred.len() < limits::BATCH_OPS_MAX {
            let Some(op) = self.writes.queue.pop_front() else {
                break;
            };
            match self.key_of(&op) {
                None => self.drop_op(op),
                Some(key) if filling.admits(&key, bytes_of(&op)) => filling.push(key, op),
                Some(_) => deferred.push(op),
            }
        }
        deferred
            .into_iter()
            .rev()
            .for_each(|op| self.writes.queue.push_front(op));
        self.fill_with_ends(filling, share, Ends::Awaited);
    }

    fn fill_with_copies(&mut self, filling: &mut Filling) {
        let mut most = limits::COPIES_PER_BATCH_MAX;
        while most > 0 && filling.has_room(Share::quarters(4)) {
            let Some(put) = self.writes.copies.pop_front() else {
                break;
            };
            if self.groups.arriving(put.group).is_none() {
                continue;
            }
            most -= 1;
            let key = put.key();
            if !filling.admits(&key, put.bytes()) {
                self.writes.copies.push_front(put);
                break;
            }
            filling.push(key, WriteOp::Copy(Box::new(put)));
        }
    }

    fn fill_with_ends(&mut self, filling: &mut Filling, share: Share, which: Ends) {
        let mut deferred = Vec::new();
        while filling.has_room(share) {
            let queue = match which {
                Ends::Awaited => &mut self.writes.ends,
                Ends::Expired => &mut self.writes.expiries,
            };
            let Some((_, endings)) = queue.next_turn(limits::BUNDLE_OPS_MAX) else {
                break;
            };
            for ending in endings {
                match self.ending_key(ending) {
                    None => {}
                    // No room, or its name is being granted anew in this batch: later.
                    Some(key) if !filling.has_room(share) || !filling.admits(&key, 0) => {
                        deferred.push(ending);
                    }
                    Some(key) if self.endings.send(ending.at) => {
                        filling.push(key, WriteOp::Delete(ending));
                    }
                    Some(_) => {}
                }
            }
        }
        let later = match which {
            Ends::Awaited => &mut self.writes.ends,
            Ends::Expired => &mut self.writes.expiries,
        };
        deferred
            .into_iter()
            .for_each(|ending| later.push(ending.at.group, ending));
    }

    fn fill_with_grants(&mut self, filling: &mut Filling, share: Share) {
        if self.writes.acquires.is_empty() || !self.may_grant() {
            return;
        }
        let mut turns = 0;
        while filling.has_room(share) && turns < limits::BATCH_OPS_MAX {
            let Some((shard, jobs)) = self.writes.acquires.next_turn(limits::BUNDLE_OPS_MAX) else {
                break;
            };
            turns += 1;
            let mut deferred = Vec::new();
            for job in jobs {
                if !self.tickets.is_open(job.ticket) {
                    self.drop_job(job);
                    continue;
                }
                let key = records::lock_key(job.acquire.name.as_str());
                if let Some(grant) = filling.grant_of(&key) {
                    // One transaction asks for a name once; this one waits for what that shows.
                    grant.behind.push(job);
                } else if !filling.has_room(share) || !filling.admits(&key, job.bytes()) {
                    deferred.push(job);
                } else if let Some(grant) = self.prepare_grant(job) {
                    filling.push(key, WriteOp::Grant(Box::new(grant)));
                }
            }
            let none_fits = !deferred.is_empty();
            self.writes.acquires.put_back(shard, deferred);
            if none_fits {
                break;
            }
        }
    }

    /// Whether etcd has space for grants; if it certainly has none, they are refused.
    fn may_grant(&mut self) -> bool {
        match self.space() {
            Space::Left => true,
            Space::Unknown => false,
            Space::UsedUp => {
                let mut refused = std::mem::take(&mut self.writes.acquires);
                while let Some((_, jobs)) = refused.next_turn(usize::MAX) {
                    jobs.into_iter()
                        .for_each(|job| self.fail_job(job, Trouble::NoSpace));
                }
                false
            }
        }
    }
}

/// About how much a write that has compares of its own puts.
fn bytes_of(op: &WriteOp) -> usize {
    match op {
        WriteOp::Join(join) => join.bytes(),
        _ => 0,
    }
}

/// Which of the holds that are ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Somebody waits for the end.
    Awaited,
    /// Their deadline has passed and nobody waits.
    Expired,
}
