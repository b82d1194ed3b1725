//! Writes of one batch that share compares.
//!
//! etcd pays for each compare and each read that a transaction names, whether it comes to it or not.
//! So the writes into one group are a transaction of their own inside the batch, which compares
//! what they have in common once: the guard of the shard and the group's key for grants, the
//! group's key for ends of holds.
//!
//! * **Ends of holds** stand in it side by side, each with the compare of its record's revision:
//!   nobody else writes the record of a hold that this gateway owns, so these compares fail about
//!   never, and together when they do.
//! * **Grants of names that are likely free** stand side by side too. If one of the names is not
//!   free, none is granted, and they are all tried again as
//! * **grants one by one**: a nested transaction each, so that a name that is held refuses its own
//!   grant only. For a while the shard's next grants are tried so at once.
//!
//! A bundle that is refused as a whole did nothing ([`Engine::bundle_refused`]). What this brought
//! stands in `docs/performance.md`.

use crate::engine::Engine;
use crate::engine::batch::{get_all, get_key};
use crate::engine::mutation::Mutation;
use crate::engine::outcome::{Found, Question};
use crate::engine::records;
use crate::engine::writes::WriteOp;
use crate::lock_id::GroupId;
use holdfast_store::{Compare, Header, Key, Revision, Txn, TxnOp, TxnOpReply};
use shard_map::ShardId;
use shard_map::records::keys;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) common: Common,
    pub(crate) ops: Vec<WriteOp>,
}

/// What the writes of a bundle have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Common {
    /// They are grants into this group, under its shard's guard as it was at this revision, of
    /// names that are likely free.
    LikelyFree(GroupId, ShardId, Revision),
    /// As that, of names that may be held: each of them stands alone.
    OneByOne(GroupId, ShardId, Revision),
    /// They delete records of this group.
    Ends(GroupId),
    /// It is one write, with all its compares in its own transaction.
    Nothing,
}

impl Common {
    pub(crate) fn of(op: &WriteOp) -> Self {
        match op {
            WriteOp::Grant(grant) => {
                let (group, shard) = (grant.at.group, grant.job.shard);
                match grant.likely_free {
                    true => Self::LikelyFree(group, shard, grant.guard_revision),
                    false => Self::OneByOne(group, shard, grant.guard_revision),
                }
            }
            WriteOp::Delete(ending) => Self::Ends(ending.at.group),
            WriteOp::Rewrite(_)
            | WriteOp::OpenGroup(_)
            | WriteOp::RetireGroup(_)
            | WriteOp::Claim(_)
            | WriteOp::Close(_)
            | WriteOp::Join(_)
            | WriteOp::Leave(_)
            | WriteOp::Rekey(_)
            | WriteOp::Switch(_)
            | WriteOp::Receive(_)
            | WriteOp::Copy(_) => Self::Nothing,
        }
    }
}

impl Bundle {
    /// Two of them, each with half of the writes.
    pub(crate) fn halves(mut self) -> [Self; 2] {
        let ops = self.ops.split_off(self.ops.len() / 2);
        let half = Self { ops, ..self };
        [self, half]
    }
}

impl Engine {
    /// The transaction of a bundle, and the bundle without what has become pointless; `None` when
    /// that is all of it.
    pub(crate) fn compile_bundle(&mut self, bundle: Bundle) -> Option<(Bundle, Txn)> {
        let Bundle { common, ops } = bundle;
        let mut kept = Vec::with_capacity(ops.len());
        let mut inner = Vec::with_capacity(ops.len());
        for op in ops {
            match self.compile(&op) {
                Some(txn) => {
                    kept.push(op);
                    inner.push(txn);
                }
                None => self.drop_op(op),
            }
        }
        if kept.is_empty() {
            return None;
        }
        let Some(txn) = self.under(common, inner) else {
            kept.into_iter().for_each(|op| self.drop_op(op));
            return None;
        };
        Some((Bundle { common, ops: kept }, txn))
    }

    /// The writes as one transaction, under what they have in common.
    fn under(&self, common: Common, mut inner: Vec<Txn>) -> Option<Txn> {
        let (group, guard) = match common {
            Common::Nothing => return inner.pop(),
            Common::Ends(group) => (group, None),
            Common::LikelyFree(group, shard, revision)
            | Common::OneByOne(group, shard, revision) => {
                (group, Some((keys::guard(shard), revision)))
            }
        };
        let (group_compare, group_key) = self.group_compare(group)?;
        let mut txn = Txn {
            compare: vec![group_compare],
            then: Vec::with_capacity(inner.len()),
            or_else: vec![get_key(group_key)],
        };
        let ends = guard.is_none();
        if let Some((key, revision)) = guard {
            txn.compare
                .push(Compare::mod_revision(key.clone(), revision));
            txn.or_else.push(get_all(key));
        }
        if let Common::OneByOne(..) = common {
            txn.then.extend(inner.into_iter().map(TxnOp::Txn));
            return Some(txn);
        }
        for one in inner {
            txn.compare.extend(one.compare);
            txn.then.extend(one.then);
        }
        if ends && self.mutated(Mutation::ReleaseWithoutCompare) {
            txn.compare.clear();
        }
        Some(txn)
    }

    /// The compare that every write into a group carries (OWNER), and its key.
    pub(crate) fn group_compare(&self, id: GroupId) -> Option<(Compare, Key)> {
        let ctl = self.groups.get(id)?;
        let key = records::group_key(self.session.live()?.id, id);
        Some((Compare::mod_revision(key.clone(), ctl.revision), key))
    }

    /// etcd's reply to a bundle of a batch that was carried out.
    pub(crate) fn bundle_done(&mut self, bundle: Bundle, done: TxnOpReply, header: Header) {
        let TxnOpReply::Txn { succeeded, ops } = done else {
            return;
        };
        match bundle.common {
            Common::Nothing => {
                let found = Found::new(ops);
                for op in bundle.ops {
                    self.op_came_back(op, succeeded, &found, header);
                }
            }
            Common::OneByOne(..) if succeeded => {
                for (op, done) in bundle.ops.into_iter().zip(ops) {
                    if let TxnOpReply::Txn { succeeded, ops } = done {
                        self.op_came_back(op, succeeded, &Found::new(ops), header);
                    }
                }
            }
            _ if succeeded => {
                let ops = bundle.ops.into_iter();
                ops.for_each(|op| self.op_done(op, header));
            }
            _ => self.bundle_refused(bundle, &Found::new(ops)),
        }
    }

    /// What the writes have in common was not so, or one of the records was not as it was thought:
    /// none of the bundle happened now. Whether one did before, by another copy of its batch, its
    /// record tells.
    fn bundle_refused(&mut self, bundle: Bundle, found: &Found) {
        let (group, guard) = match bundle.common {
            Common::Nothing => return,
            Common::Ends(group) => (group, None),
            Common::LikelyFree(group, shard, revision)
            | Common::OneByOne(group, shard, revision) => (group, Some((shard, revision))),
        };
        let known = self.groups.get(group).map(|ctl| ctl.revision);
        let mut holds = found.get(0).map(|kv| kv.mod_revision) == known;
        if !holds {
            self.suspect_group(group);
        }
        if let Some((shard, revision)) = guard {
            let present = found.get(1).map_or(Revision::ABSENT, |kv| kv.mod_revision);
            holds &= present == revision;
            self.guard_seen(shard, found.get(1));
            if holds && matches!(bundle.common, Common::LikelyFree(..)) {
                self.shard_contended(shard);
                return bundle.ops.into_iter().for_each(|op| self.try_alone(op));
            }
        }
        let ops = bundle.ops;
        self.resolve(Question { ops, lane: None });
    }

    /// One of the names was not free: the grants are tried again, each for itself.
    fn try_alone(&mut self, op: WriteOp) {
        match op {
            WriteOp::Grant(mut grant) => {
                grant.likely_free = false;
                self.queue_write(WriteOp::Grant(grant));
            }
            op => self.queue_write(op),
        }
    }
}
