//! A batch as one etcd transaction: outside, the fence of this gateway's session; inside, one
//! nested transaction per bundle ([`Bundle`]) with compares of its own, so that one flipped guard
//! fails the locks of its shard and not the batch.

use crate::engine::Engine;
use crate::engine::acquire::Grant;
use crate::engine::bundle::Bundle;
use crate::engine::claims::Claim;
use crate::engine::group::GroupState;
use crate::engine::lanes::Lane;
use crate::engine::mutation::Mutation;
use crate::engine::records;
use crate::engine::renew::Rewrite;
use crate::engine::slot::SlotState;
use crate::engine::writes::{EndingRef, WriteOp};
use crate::lock_id::GroupId;
use holdfast_store::{Compare, Get, Key, KeyRange, Put, Revision, Txn, TxnOp};
use shard_map::records::keys;

/// Writes on their way in one transaction.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bundles: Vec<Bundle>,
    /// The revision of the session's key that the transaction compares.
    pub(crate) fence: Revision,
    pub(crate) lane: Lane,
}

impl Batch {
    /// How many writes it has.
    pub(crate) fn count(&self) -> usize {
        self.bundles.iter().map(|bundle| bundle.ops.len()).sum()
    }

    /// Its writes, in the order of its reply.
    pub(crate) fn into_ops(self) -> impl Iterator<Item = WriteOp> {
        self.bundles.into_iter().flat_map(|bundle| bundle.ops)
    }
}

pub(crate) fn get_all(key: Key) -> TxnOp {
    TxnOp::Get(Get::all(KeyRange::one(key)))
}

pub(crate) fn get_key(key: Key) -> TxnOp {
    TxnOp::Get(Get::keys(KeyRange::one(key)))
}

impl Engine {
    /// The transaction: the lane's own first, then one for each bundle.
    pub(crate) fn batch_txn(
        &self,
        fence: Compare,
        lane: Lane,
        mut nested: Vec<Txn>,
    ) -> Option<Txn> {
        let bare = |txn: &Txn| txn.compare.is_empty();
        let unfenced = self.mutated(Mutation::WriteWithoutFence)
            || self.mutated(Mutation::ReleaseWithoutCompare) && nested.iter().all(bare);
        let compare = match unfenced {
            true => Vec::new(),
            false => vec![fence, self.lane_compare(lane)?],
        };
        nested.insert(0, self.lane_put(lane)?);
        Some(Txn {
            compare,
            then: nested.into_iter().map(TxnOp::Txn).collect(),
            or_else: self.get_session_key().into_iter().map(TxnOp::Get).collect(),
        })
    }

    /// The key that tells whether the write has happened.
    pub(crate) fn evidence_of(&self, op: &WriteOp) -> Option<Key> {
        match op {
            WriteOp::Join(join) => Some(join.first_key()),
            WriteOp::Leave(leave) => leave.first_key(),
            op => self.key_of(op),
        }
    }

    /// The key that the write is about, of which a batch has one write at most; for a line that is the
    /// lock's; `None` when there is nothing left to write.
    pub(crate) fn key_of(&self, op: &WriteOp) -> Option<Key> {
        match op {
            WriteOp::Grant(grant) => Some(records::lock_key(grant.job.acquire.name.as_str())),
            WriteOp::Rewrite(rewrite) => Some(records::lock_key(rewrite.lock_id.name())),
            WriteOp::Delete(ending) => self.ending_key(*ending),
            WriteOp::OpenGroup(id) | WriteOp::RetireGroup(id) => self.own_group_key(*id),
            WriteOp::Claim(claim) => self.own_claim_key(claim),
            WriteOp::Close(write) => Some(write.key.clone()),
            WriteOp::Join(join) => Some(join.lock_key()),
            WriteOp::Leave(leave) => Some(leave.lock_key()),
            WriteOp::Rekey(rekey) => self.own_group_key(rekey.group),
            WriteOp::Switch(id) => self.own_group_key(*id),
            WriteOp::Receive(id) => {
                self.groups.arriving(*id)?;
                Some(records::group_key(self.session.live()?.id, *id))
            }
            WriteOp::Copy(put) => {
                self.groups.arriving(put.group)?;
                Some(put.key())
            }
        }
    }

    fn own_group_key(&self, id: GroupId) -> Option<Key> {
        self.groups.get(id)?;
        Some(records::group_key(self.session.live()?.id, id))
    }

    fn own_claim_key(&self, claim: &Claim) -> Option<Key> {
        Some(records::group_key(
            self.session.live()?.id,
            claim.orphan.group,
        ))
    }

    pub(crate) fn ending_key(&self, ending: EndingRef) -> Option<Key> {
        let ctl = self.groups.get(ending.at.group)?;
        (ctl.lease == ending.lease).then_some(())?;
        ctl.group.with_slot(ending.at.slot, |slot| {
            let this = slot.secret == ending.secret && slot.state() == SlotState::Ending;
            let name = slot.name.as_ref().filter(|_| this);
            name.map(|name| records::lock_key(name.as_str()))
        })?
    }

    /// The write as a transaction, with what is known at this moment and without what its bundle
    /// compares; `None` when there is nothing left to write.
    pub(crate) fn compile(&self, op: &WriteOp) -> Option<Txn> {
        match op {
            WriteOp::Grant(grant) => self.compile_grant(grant),
            WriteOp::Delete(ending) => self.compile_delete(*ending),
            WriteOp::Rewrite(rewrite) => self.compile_rewrite(rewrite),
            WriteOp::OpenGroup(id) => self.compile_open(*id),
            WriteOp::RetireGroup(id) => self.compile_retire(*id),
            WriteOp::Claim(claim) => self.compile_claim(claim),
            WriteOp::Close(write) => self.compile_close(write),
            WriteOp::Join(join) => Some(self.compile_join(join)),
            WriteOp::Leave(leave) => Some(self.compile_leave(leave)),
            WriteOp::Rekey(rekey) => self.compile_rekey(rekey),
            WriteOp::Switch(id) => self.compile_switch(*id),
            WriteOp::Receive(id) => self.compile_receive(*id),
            WriteOp::Copy(put) => self.compile_copy(put),
        }
    }

    /// Under the compares of its bundle: nobody holds the name or queues for it. Where grants stand
    /// alone, the record tells who refuses this one; if there is none, it is a waiter.
    fn compile_grant(&self, grant: &Grant) -> Option<Txn> {
        if !self.tickets.is_open(grant.job.ticket) {
            return None;
        }
        let lease = self.groups.get(grant.at.group)?.lease;
        let name = grant.job.acquire.name.as_str();
        let lock_key = records::lock_key(name);
        let mut compare = vec![Compare::absent(KeyRange::one(lock_key.clone()))];
        let mut then = vec![TxnOp::Put(Put {
            key: lock_key.clone(),
            value: grant.record.clone(),
            lease: Some(lease),
        })];
        let mut or_else = match grant.likely_free {
            true => Vec::new(),
            false => vec![get_all(lock_key)],
        };
        match grant.job.place {
            Some(place) => {
                compare.extend(self.waiter_compares(name, place));
                then.extend(self.waiter_gone(name, place));
                // Whoever is first now is known before the lock is released.
                then.push(self.read_head(name));
                or_else.push(self.read_head(name));
            }
            None if self.mutated(Mutation::NewcomerOvertakes) => {}
            None => compare.push(Compare::absent(records::waiters_of(name))),
        }
        Some(Txn {
            compare,
            then,
            or_else,
        })
    }

    /// Under the compare of its bundle: the record is as this gateway knows it.
    fn compile_delete(&self, ending: EndingRef) -> Option<Txn> {
        if self.moves.may_copy(ending.at.group) && !self.mutated(Mutation::CopyNotChased) {
            // There may be a copy of it: it is deleted when the move is over.
            return None;
        }
        let lock_key = self.ending_key(ending)?;
        let ctl = self.groups.get(ending.at.group)?;
        let revision = ctl.group.with_slot(ending.at.slot, |slot| slot.revision)?;
        Some(Txn {
            compare: vec![Compare::mod_revision(lock_key.clone(), revision)],
            then: vec![TxnOp::Delete(KeyRange::one(lock_key))],
            or_else: Vec::new(),
        })
    }

    fn compile_rewrite(&self, rewrite: &Rewrite) -> Option<Txn> {
        if self.keeps_records(rewrite.at.group) {
            return None;
        }
        let (group_compare, group_key) = self.group_compare(rewrite.at.group)?;
        let lease = self.groups.get(rewrite.at.group)?.lease;
        let lock_key = records::lock_key(rewrite.lock_id.name());
        Some(Txn {
            compare: vec![
                group_compare,
                Compare::mod_revision(lock_key.clone(), rewrite.read_revision),
            ],
            then: vec![TxnOp::Put(Put {
                key: lock_key.clone(),
                value: rewrite.record.clone(),
                lease: Some(lease),
            })],
            or_else: vec![get_all(lock_key), get_key(group_key)],
        })
    }

    fn compile_open(&self, id: GroupId) -> Option<Txn> {
        let ctl = self
            .groups
            .get(id)
            .filter(|ctl| ctl.state == GroupState::Writing)?;
        let key = self.own_group_key(id)?;
        let put = Put {
            key: key.clone(),
            value: self.group_value(ctl.shard, ctl.lease, None, None),
            lease: Some(ctl.lease),
        };
        Some(Txn {
            compare: vec![Compare::absent(KeyRange::one(key.clone()))],
            then: vec![TxnOp::Put(put)],
            or_else: vec![get_key(key)],
        })
    }

    fn compile_retire(&self, id: GroupId) -> Option<Txn> {
        let (group_compare, key) = self.group_compare(id)?;
        Some(Txn {
            compare: vec![group_compare],
            then: vec![TxnOp::Delete(KeyRange::one(key.clone()))],
            or_else: vec![get_key(key)],
        })
    }

    fn compile_claim(&self, claim: &Claim) -> Option<Txn> {
        let orphan = &claim.orphan;
        let old_session = records::session_key(orphan.session);
        let old_key = records::group_key(orphan.session, orphan.group);
        let put = Put {
            key: self.own_claim_key(claim)?,
            value: self.group_value(
                claim.shard,
                orphan.lease,
                claim.to.clone(),
                claim.from.clone(),
            ),
            lease: Some(orphan.lease),
        };
        let mut compare = vec![Compare::mod_revision(old_key.clone(), orphan.revision)];
        if !self.mutated(Mutation::ClaimWhileSessionLives) {
            compare.push(Compare::absent(KeyRange::one(old_session)));
        }
        Some(Txn {
            compare,
            then: vec![TxnOp::Delete(KeyRange::one(old_key)), TxnOp::Put(put)],
            or_else: Vec::new(),
        })
    }

    /// If the group's key and the shard's guard are as they were before the mark, the key goes, and
    /// nothing else.
    fn compile_switch(&self, id: GroupId) -> Option<Txn> {
        let (group_compare, key) = self.group_compare(id)?;
        let guard_key = keys::guard(self.groups.get(id)?.shard);
        let guard = self.moves.of(id)?.guard;
        let mut compare = vec![group_compare];
        let unguarded = self.mutated(Mutation::SwitchWithoutGuard)
            || self.mutated(Mutation::FinishedByClaimer) && guard == Revision::ABSENT;
        if !unguarded {
            compare.push(Compare::mod_revision(guard_key.clone(), guard));
        }
        Some(Txn {
            compare,
            then: vec![TxnOp::Delete(KeyRange::one(key.clone()))],
            or_else: vec![get_key(key), get_all(guard_key)],
        })
    }

    /// The write has become pointless before it was sent; it certainly did not happen.
    pub(crate) fn drop_op(&mut self, op: WriteOp) {
        match op {
            WriteOp::Grant(grant) => self.grant_undone(*grant),
            WriteOp::Rewrite(rewrite) => self.drop_rewrite(*rewrite),
            WriteOp::Claim(claim) => self.claim_ends(claim.orphan.group),
            WriteOp::Close(write) => self.close_undone(&write),
            WriteOp::Join(join) => self.join_refused(*join),
            WriteOp::Leave(leave) => self.not_left(*leave),
            // Its group moves, or it has ended: whoever wants it sent queues it again.
            WriteOp::Delete(ending) => self.endings.send_again(ending.at),
            WriteOp::OpenGroup(_)
            | WriteOp::RetireGroup(_)
            | WriteOp::Rekey(_)
            | WriteOp::Switch(_)
            | WriteOp::Receive(_)
            | WriteOp::Copy(_) => {}
        }
    }
}
