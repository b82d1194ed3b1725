//! What came of a batch.
//!
//! A reply is definite for every write in it. An ambiguous error is not: the fence makes sure
//! that the batch can have no effect any more, then a linearizable read tells which of its writes
//! had one. Meanwhile its slots stay as they are.

use crate::engine::Engine;
use crate::engine::batch::Batch;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::lanes::Lane;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::records::LockRecord;
use crate::engine::tickets::Trouble;
use crate::engine::writes::WriteOp;
use crate::limits;
use holdfast_store::{
    DefiniteError, Get, Header, KeyRange, KeyValue, Op, Reply, Revision, StoreError, Txn, TxnOp,
    TxnOpReply, TxnReply,
};

/// What a nested transaction read when its compares failed, in the order it asked.
pub(crate) struct Found(Vec<Option<KeyValue>>);

fn first(op: TxnOpReply) -> Option<KeyValue> {
    match op {
        TxnOpReply::Get(get) => get.kvs.into_iter().next(),
        _ => None,
    }
}

/// Writes that can have no effect any more. What they had is to be read.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) ops: Vec<WriteOp>,
    /// That of their batch, if it is not known whether that was carried out.
    pub(crate) lane: Option<Lane>,
}

impl Question {
    /// What became of a batch.
    pub(crate) fn of(batch: Batch) -> Self {
        Self {
            lane: Some(batch.lane),
            ops: batch.into_ops().collect(),
        }
    }
}

impl Found {
    pub(crate) fn new(ops: Vec<TxnOpReply>) -> Self {
        Self(ops.into_iter().map(first).collect())
    }

    pub(crate) fn get(&self, at: usize) -> Option<&KeyValue> {
        self.0.get(at)?.as_ref()
    }

    /// What was asked for last.
    pub(crate) fn last(&self) -> Option<&KeyValue> {
        self.0.last()?.as_ref()
    }
}

impl Engine {
    pub(crate) fn on_batch(&mut self, batch: Batch, result: Result<Reply, StoreError>) {
        self.writes.one_came_back();
        match as_txn(result) {
            Ok(reply) if reply.succeeded => self.batch_done(batch, reply),
            Ok(reply) => {
                // Refused by the fence compare: nothing of it happened. The lane is given up, since
                // it is not told that its compare held.
                let present = Found::new(reply.ops);
                let before = self.session.live();
                self.adopt_fence(present.get(0).cloned());
                if self.session.live() == before {
                    batch.into_ops().for_each(|op| self.queue_write(op));
                }
            }
            Err(StoreError::Ambiguous(why)) => {
                tracing::debug!(cluster = %self.settings.cluster, why, "batch outcome unknown");
                if self.mutated(Mutation::UnknownTakenAsLost) {
                    return batch.into_ops().for_each(|op| match op {
                        WriteOp::Grant(grant) => self.grant_undone(*grant),
                        WriteOp::Delete(ending) => self.hold_ended(ending),
                        op => self.queue_write(op),
                    });
                }
                if self.mutated(Mutation::UnknownTakenAsGranted) {
                    let revision = Revision(batch.fence.0 + 1);
                    return batch.into_ops().for_each(|op| match op {
                        WriteOp::Grant(grant) => self.grant_landed(*grant, revision),
                        op => self.queue_write(op),
                    });
                }
                self.fence_then_read(batch);
            }
            Err(StoreError::Definite(error)) => self.batch_refused(batch, &error),
        }
    }

    fn batch_done(&mut self, batch: Batch, reply: TxnReply) {
        self.writes
            .lanes
            .give_back(batch.lane, reply.header.revision);
        // The first of them is the lane's own.
        let replies = reply.ops.into_iter().skip(1);
        for (bundle, done) in batch.bundles.into_iter().zip(replies) {
            self.bundle_done(bundle, done, reply.header);
        }
    }

    /// etcd's reply to a write with a nested transaction of its own.
    pub(crate) fn op_came_back(
        &mut self,
        op: WriteOp,
        succeeded: bool,
        found: &Found,
        header: Header,
    ) {
        match op {
            WriteOp::Join(join) if succeeded => {
                let shown = join.shown(found, header.revision);
                self.joined(*join, Some(shown));
            }
            WriteOp::Grant(grant) if succeeded => {
                self.grant_came_back(*grant, found, header.revision);
            }
            op if succeeded => self.op_done(op, header),
            op => self.op_refused(op, found, header.revision),
        }
    }

    /// Nothing of the batch happened.
    fn batch_refused(&mut self, mut batch: Batch, error: &DefiniteError) {
        let own_fault = match error {
            // Which of its leases is missing, or which of its values is too large, is not told:
            // halve it until it is one.
            DefiniteError::LeaseNotFound | DefiniteError::Invalid(_) => true,
            DefiniteError::Unreachable(_)
            | DefiniteError::Denied(_)
            | DefiniteError::LeaseExists => false,
        };
        tracing::debug!(cluster = %self.settings.cluster, %error, "batch refused");
        self.writes.lanes.give_back_unused(batch.lane);
        if !own_fault {
            batch.into_ops().for_each(|op| self.queue_write(op));
            self.round.want();
            return self.pause_writes();
        }
        let half = batch.bundles.split_off(batch.bundles.len() / 2);
        if !batch.bundles.is_empty() {
            self.writes.send_as_they_are(batch.bundles);
            self.writes.send_as_they_are(half);
            return;
        }
        for bundle in half {
            if bundle.ops.len() > 1 {
                let halves = bundle.halves().into_iter();
                halves.for_each(|half| self.writes.send_as_they_are(vec![half]));
            } else {
                let ops = bundle.ops.into_iter();
                ops.for_each(|op| self.op_impossible(op, error));
            }
        }
    }

    fn op_impossible(&mut self, op: WriteOp, error: &DefiniteError) {
        match op {
            WriteOp::Grant(grant) => {
                self.suspect_group(grant.at.group);
                self.grant_undone(*grant);
            }
            WriteOp::Rewrite(rewrite) => {
                self.suspect_group(rewrite.at.group);
                self.fail_rewrite(*rewrite, Trouble::Unknown);
            }
            WriteOp::OpenGroup(id) => self.group_failed(id, &StoreError::Definite(error.clone())),
            WriteOp::Claim(claim) => self.claim_ends(claim.orphan.group),
            WriteOp::Close(write) => self.close_undone(&write),
            WriteOp::Join(join) => {
                // Perhaps a lease of theirs is gone.
                join.leases().for_each(|lease| self.line_lease_lost(lease));
                self.join_refused(*join);
                self.round.want();
            }
            WriteOp::Leave(leave) => self.left(*leave),
            WriteOp::Delete(ending) => {
                self.suspect_group(ending.at.group);
                self.do_later(limits::RETRY_BACKOFF, Task::Write(WriteOp::Delete(ending)));
            }
            op @ (WriteOp::RetireGroup(_) | WriteOp::Rekey(_) | WriteOp::Switch(_)) => {
                self.do_later(limits::RETRY_BACKOFF, Task::Write(op));
            }
            WriteOp::Receive(id) => self.place_lost(id),
            WriteOp::Copy(put) => self.copy_failed(&put),
        }
    }

    pub(crate) fn op_done(&mut self, op: WriteOp, header: Header) {
        match op {
            WriteOp::Grant(grant) => self.grant_landed(*grant, header.revision),
            WriteOp::Delete(ending) => self.hold_ended(ending),
            WriteOp::Rewrite(rewrite) => self.rewrite_landed(*rewrite, header.revision),
            WriteOp::OpenGroup(id) => self.group_opened(id, header.revision),
            WriteOp::RetireGroup(id) => self.group_retired(id),
            WriteOp::Claim(claim) => self.claimed(claim, header.revision),
            WriteOp::Close(write) => self.close_landed(&write, header.revision),
            WriteOp::Join(join) => self.joined(*join, None),
            WriteOp::Leave(leave) => self.left(*leave),
            WriteOp::Rekey(rekey) => self.rekeyed(*rekey, header.revision),
            WriteOp::Switch(id) => self.switched(id),
            WriteOp::Receive(id) => self.received(id, header.revision),
            WriteOp::Copy(put) => self.copied(&put, header.revision),
        }
    }

    /// The compares of the write failed; it did not happen.
    fn op_refused(&mut self, op: WriteOp, found: &Found, revision: Revision) {
        match op {
            WriteOp::Grant(grant) => {
                self.grant_refused(*grant, found.get(0), found.get(1), revision);
            }
            // Only its bundle is refused, never a delete alone.
            WriteOp::Delete(ending) => self.queue_write(WriteOp::Delete(ending)),
            WriteOp::Rewrite(rewrite) => {
                self.round.want();
                self.fail_rewrite(*rewrite, Trouble::Unknown);
            }
            WriteOp::OpenGroup(id) => {
                let error = StoreError::Definite(DefiniteError::LeaseExists);
                self.group_failed(id, &error);
            }
            WriteOp::RetireGroup(id) => {
                if let Some(ctl) = self.groups.get_mut(id) {
                    // Not as it was written: the next round takes its table.
                    ctl.state = crate::engine::group::GroupState::Closed;
                }
                self.round.want();
            }
            WriteOp::Claim(claim) => self.claim_ends(claim.orphan.group),
            WriteOp::Join(join) => self.join_refused(*join),
            WriteOp::Leave(leave) => self.not_left(*leave),
            WriteOp::Close(write) => {
                self.round.want();
                self.close_undone(&write);
            }
            WriteOp::Rekey(rekey) => self.rekey_refused(&rekey),
            WriteOp::Switch(id) => {
                if let Some(shard) = self.groups.get(id).map(|ctl| ctl.shard) {
                    self.guard_seen(shard, found.get(1));
                }
                match found.get(0) {
                    Some(kv) if self.is_own_mark(id, kv) => self.switch_refused(id),
                    // The fence held, so nobody but this gateway can have deleted the key.
                    _ => self.switched(id),
                }
            }
            WriteOp::Receive(id) => self.place_lost(id),
            WriteOp::Copy(put) => self.copy_refused(*put, found.get(0)),
        }
    }

    /// Reads what became of writes that can have no effect any more.
    pub(crate) fn resolve(&mut self, question: Question) {
        let Some(session) = self.get_session_key() else {
            return;
        };
        // The session's key is read with them: only while it is there is what they show the doing
        // of this gateway. A write whose group is gone is read all the same, to keep the order.
        let keys = question.ops.iter().map(|op| match self.evidence_of(op) {
            Some(key) => Get::all(KeyRange::one(key)),
            None => session.clone(),
        });
        let keys: Vec<_> = keys.collect();
        let lane = question.lane.and_then(|lane| self.lane_key(lane));
        let lane = lane.map_or(session.clone(), |key| Get::keys(KeyRange::one(key)));
        let mut read = Txn::read([session, lane]);
        let parts = keys.chunks(limits::RESOLVED_AT_ONCE_MAX);
        read.then
            .extend(parts.map(|part| TxnOp::Txn(Txn::read(part.iter().cloned()))));
        self.call(
            Op::Txn(read),
            limits::CALL_TIMEOUT,
            Purpose::Resolve(question),
        );
    }

    pub(crate) fn on_resolved(&mut self, question: Question, result: Result<Reply, StoreError>) {
        let reply = match as_txn(result) {
            Ok(reply) => reply,
            Err(_) => return self.do_later(limits::RETRY_BACKOFF, Task::Resolve(question)),
        };
        let mut replies = reply.ops.into_iter();
        let session = replies.next().and_then(first);
        if !session.is_some_and(|kv| self.is_session_key(&kv)) {
            return self.session_lost();
        }
        let lane = replies.next().and_then(first);
        if let Some(of_batch) = question.lane {
            let revision = lane.map_or(Revision::ABSENT, |kv| kv.mod_revision);
            self.writes.lanes.give_back(of_batch, revision);
        }
        let found = replies.flat_map(|part| match part {
            TxnOpReply::Txn { ops, .. } => Found::new(ops).0,
            _ => Vec::new(),
        });
        for (op, found) in question.ops.into_iter().zip(found) {
            self.op_resolved(op, found);
        }
    }

    /// The write can happen no more, and this is what is there.
    fn op_resolved(&mut self, op: WriteOp, found: Option<KeyValue>) {
        if self.key_of(&op).is_none() {
            return self.drop_op(op);
        }
        match op {
            WriteOp::Grant(grant) => {
                let ours = found
                    .as_ref()
                    .filter(|kv| LockRecord::read(kv).is_some_and(|(_, id)| id == grant.lock_id));
                match ours.map(|kv| kv.mod_revision) {
                    Some(revision) => self.grant_landed(*grant, revision),
                    None => self.grant_undone(*grant),
                }
            }
            WriteOp::Delete(ending) => self.delete_refused(ending, found.as_ref()),
            WriteOp::Rewrite(rewrite) => {
                // Whoever wrote it: what counts is that the record says enough.
                let landed = found.as_ref().filter(|kv| {
                    kv.mod_revision > rewrite.read_revision
                        && LockRecord::read(kv).is_some_and(|(record, id)| {
                            id == rewrite.lock_id && record.ttl() >= rewrite.ttl
                        })
                });
                match landed.map(|kv| kv.mod_revision) {
                    Some(revision) => self.rewrite_landed(*rewrite, revision),
                    None => self.fail_rewrite(*rewrite, Trouble::Unknown),
                }
            }
            WriteOp::OpenGroup(id) => match found {
                Some(kv) => self.group_opened(id, kv.mod_revision),
                None => self.queue_write(WriteOp::OpenGroup(id)),
            },
            WriteOp::RetireGroup(id) => match found {
                Some(_) => self.queue_write(WriteOp::RetireGroup(id)),
                // The session was alive when this was read, so nobody else can have deleted it.
                None => self.group_retired(id),
            },
            WriteOp::Claim(claim) => match found {
                Some(kv) => self.claimed(claim, kv.mod_revision),
                None => self.claim_ends(claim.orphan.group),
            },
            WriteOp::Join(join) => match found {
                Some(_) => self.joined(*join, None),
                // Or its first key is gone again, with its lease.
                None => self.join_lost(*join),
            },
            // It does no harm twice.
            WriteOp::Leave(leave) => self.not_left(*leave),
            WriteOp::Close(write) => self.close_resolved(&write, found.as_ref()),
            WriteOp::Rekey(rekey) => self.rekey_resolved(*rekey, found.as_ref()),
            WriteOp::Switch(id) => match found {
                Some(kv) if self.is_own_mark(id, &kv) => self.queue_write(WriteOp::Switch(id)),
                // The session was alive when this was read, so nobody else can have deleted it; what
                // may be there instead has come back since.
                _ => self.switched(id),
            },
            WriteOp::Receive(id) => match found {
                Some(kv) => self.received(id, kv.mod_revision),
                None => self.queue_write(WriteOp::Receive(id)),
            },
            WriteOp::Copy(put) => self.copy_resolved(*put, found.as_ref()),
        }
    }
}
