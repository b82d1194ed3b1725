//! A batch as one etcd transaction: outside, the fence of this gateway's session; inside, one
//! nested transaction per write with compares of its own, so that one flipped guard fails one
//! lock and not the batch.

use crate::engine::Engine;
use crate::engine::acquire::Grant;
use crate::engine::claims::Claim;
use crate::engine::group::GroupState;
use crate::engine::lanes::Lane;
use crate::engine::mutation::Mutation;
use crate::engine::records::{self, GroupRecord};
use crate::engine::renew::Rewrite;
use crate::engine::slot::SlotState;
use crate::engine::tickets::Trouble;
use crate::engine::writes::{EndingRef, WriteOp};
use crate::lock_id::GroupId;
use holdfast_store::{Compare, Get, Key, KeyRange, LeaseId, Put, Revision, Txn, TxnOp};
use shard_map::ShardId;
use shard_map::records::keys;

/// Writes on their way in one transaction.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) ops: Vec<WriteOp>,
    /// The revision of the session's key that the transaction compares.
    pub(crate) fence: Revision,
    pub(crate) lane: Lane,
}

fn get_all(key: Key) -> TxnOp {
    TxnOp::Get(Get::all(KeyRange::one(key)))
}

fn get_key(key: Key) -> TxnOp {
    TxnOp::Get(Get::keys(KeyRange::one(key)))
}

impl Engine {
    /// The transaction: the lane's own first, then one for each write.
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

    /// The key that the write is about; `None` when there is nothing left to write.
    pub(crate) fn key_of(&self, op: &WriteOp) -> Option<Key> {
        match op {
            WriteOp::Grant(grant) => Some(records::lock_key(grant.job.acquire.name.as_str())),
            WriteOp::Rewrite(rewrite) => Some(records::lock_key(rewrite.lock_id.name())),
            WriteOp::Delete(ending) => self.ending_key(*ending),
            WriteOp::OpenGroup(id) | WriteOp::RetireGroup(id) => self.own_group_key(*id),
            WriteOp::Claim(claim) => self.own_claim_key(claim),
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

    fn ending_key(&self, ending: EndingRef) -> Option<Key> {
        let ctl = self.groups.get(ending.at.group)?;
        ctl.group.with_slot(ending.at.slot, |slot| {
            let this = slot.secret == ending.secret && slot.state() == SlotState::Ending;
            let name = slot.name.as_ref().filter(|_| this);
            name.map(|name| records::lock_key(name.as_str()))
        })?
    }

    /// The write as a transaction, with what is known at this moment; `None` when there is
    /// nothing left to write.
    pub(crate) fn compile(&self, op: &WriteOp) -> Option<Txn> {
        match op {
            WriteOp::Grant(grant) => self.compile_grant(grant),
            WriteOp::Delete(ending) => self.compile_delete(*ending),
            WriteOp::Rewrite(rewrite) => self.compile_rewrite(rewrite),
            WriteOp::OpenGroup(id) => self.compile_open(*id),
            WriteOp::RetireGroup(id) => self.compile_retire(*id),
            WriteOp::Claim(claim) => self.compile_claim(claim),
        }
    }

    /// The compare that every write into a group carries, and its key.
    fn group_compare(&self, id: GroupId) -> Option<(Compare, Key, LeaseId)> {
        let ctl = self.groups.get(id)?;
        let key = records::group_key(self.session.live()?.id, id);
        Some((
            Compare::mod_revision(key.clone(), ctl.revision),
            key,
            ctl.lease,
        ))
    }

    fn compile_grant(&self, grant: &Grant) -> Option<Txn> {
        if !self.tickets.is_open(grant.job.ticket) {
            return None;
        }
        let (group_compare, group_key, lease) = self.group_compare(grant.at.group)?;
        let name = grant.job.acquire.name.as_str();
        let lock_key = records::lock_key(name);
        let guard_key = keys::guard(grant.job.shard);
        let first_waiter = Get {
            limit: 1,
            ..Get::keys(records::waiters_of(name))
        };
        Some(Txn {
            compare: vec![
                Compare::absent(KeyRange::one(lock_key.clone())),
                Compare::absent(records::waiters_of(name)),
                Compare::mod_revision(guard_key.clone(), grant.guard_revision),
                group_compare,
            ],
            then: vec![TxnOp::Put(Put {
                key: lock_key.clone(),
                value: grant.record.clone(),
                lease: Some(lease),
            })],
            or_else: vec![
                get_all(lock_key),
                get_all(guard_key),
                get_key(group_key),
                TxnOp::Get(first_waiter),
            ],
        })
    }

    fn compile_delete(&self, ending: EndingRef) -> Option<Txn> {
        let lock_key = self.ending_key(ending)?;
        let (group_compare, group_key, _) = self.group_compare(ending.at.group)?;
        let ctl = self.groups.get(ending.at.group)?;
        let revision = ctl.group.with_slot(ending.at.slot, |slot| slot.revision)?;
        let compare = match self.mutated(Mutation::ReleaseWithoutCompare) {
            true => Vec::new(),
            false => vec![
                group_compare,
                Compare::mod_revision(lock_key.clone(), revision),
            ],
        };
        Some(Txn {
            compare,
            then: vec![TxnOp::Delete(KeyRange::one(lock_key.clone()))],
            or_else: vec![get_all(lock_key), get_key(group_key)],
        })
    }

    fn compile_rewrite(&self, rewrite: &Rewrite) -> Option<Txn> {
        let (group_compare, group_key, lease) = self.group_compare(rewrite.at.group)?;
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
            value: self.group_value(ctl.shard, ctl.lease),
            lease: Some(ctl.lease),
        };
        Some(Txn {
            compare: vec![Compare::absent(KeyRange::one(key.clone()))],
            then: vec![TxnOp::Put(put)],
            or_else: vec![get_key(key)],
        })
    }

    fn compile_retire(&self, id: GroupId) -> Option<Txn> {
        let (group_compare, key, _) = self.group_compare(id)?;
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
            value: self.group_value(claim.shard, orphan.lease),
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

    fn group_value(&self, shard: ShardId, lease: LeaseId) -> Vec<u8> {
        let record = GroupRecord {
            shard: shard.0,
            lease: lease.to_string(),
            session_ttl_ms: Some(self.settings.session_ttl.as_ms()),
            to: None,
            from: None,
        };
        serde_json::to_vec(&record).unwrap_or_default()
    }

    /// The write has become pointless before it was sent; it certainly did not happen.
    pub(crate) fn drop_op(&mut self, op: WriteOp) {
        match op {
            WriteOp::Grant(grant) => self.grant_undone(*grant),
            WriteOp::Rewrite(rewrite) => self.fail_rewrite(*rewrite, Trouble::Unknown),
            WriteOp::Claim(claim) => self.claim_ends(claim.orphan.group),
            WriteOp::Delete(_) | WriteOp::OpenGroup(_) | WriteOp::RetireGroup(_) => {}
        }
    }
}
