//! Rewriting the key of a group that this gateway owns: the mark of a move that begins, and where the
//! group came from. A rewrite changes the key's revision, so every write into the group that was on its
//! way before it fails.

use crate::engine::Engine;
use crate::engine::records::{self, SourceRecord, TargetRecord};
use crate::engine::writes::WriteOp;
use crate::lock_id::GroupId;
use holdfast_store::{Get, KeyRange, KeyValue, Put, Revision, Txn, TxnOp};

/// A rewrite of a group's key; one at a time.
#[derive(Debug)]
pub(crate) struct Rekey {
    pub(crate) group: GroupId,
    pub(crate) to: Option<TargetRecord>,
    pub(crate) from: Option<SourceRecord>,
    what: RekeyFor,
}

/// What for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RekeyFor {
    /// A move to another cluster begins.
    Mark,
    /// It was undone.
    Unmark,
    /// The source has no key of it any more.
    Arrived,
    /// Nothing of it is left in the source.
    Settled,
}

impl Engine {
    /// Has the key of a group written with what `change` changes of it.
    pub(crate) fn rekey(
        &mut self,
        group: GroupId,
        what: RekeyFor,
        change: impl FnOnce(&mut Rekey),
    ) {
        let Some(ctl) = self.groups.get_mut(group) else {
            return;
        };
        ctl.rekeying = true;
        let mut rekey = Rekey {
            group,
            to: ctl.to.clone(),
            from: ctl.from.clone(),
            what,
        };
        change(&mut rekey);
        self.queue_write(WriteOp::Rekey(Box::new(rekey)));
    }

    fn rekey_value(&self, rekey: &Rekey) -> Option<Vec<u8>> {
        let ctl = self.groups.get(rekey.group)?;
        let (to, from) = (rekey.to.clone(), rekey.from.clone());
        Some(self.group_value(ctl.shard, ctl.lease, to, from))
    }

    pub(crate) fn compile_rekey(&self, rekey: &Rekey) -> Option<Txn> {
        let (group_compare, key) = self.group_compare(rekey.group)?;
        let lease = self.groups.get(rekey.group)?.lease;
        Some(Txn {
            compare: vec![group_compare],
            then: vec![TxnOp::Put(Put {
                key: key.clone(),
                value: self.rekey_value(rekey)?,
                lease: Some(lease),
            })],
            or_else: vec![TxnOp::Get(Get::keys(KeyRange::one(key)))],
        })
    }

    pub(crate) fn rekeyed(&mut self, rekey: Rekey, revision: Revision) {
        let Some(ctl) = self.groups.get_mut(rekey.group) else {
            return;
        };
        ctl.revision = revision;
        ctl.rekeying = false;
        ctl.to = rekey.to;
        ctl.from = rekey.from;
        match rekey.what {
            RekeyFor::Mark => self.marked(rekey.group),
            RekeyFor::Unmark => self.unmarked(rekey.group),
            RekeyFor::Arrived => self.leave_source(rekey.group),
            RekeyFor::Settled => {}
        }
    }

    /// The key is not as it was known: the next round shows that the group is lost.
    pub(crate) fn rekey_refused(&mut self, rekey: &Rekey) {
        if let Some(ctl) = self.groups.get_mut(rekey.group) {
            ctl.rekeying = false;
        }
        if rekey.what == RekeyFor::Mark {
            self.mark_failed(rekey.group);
        }
        self.round.want();
    }

    /// The rewrite can happen no more, and this is what is there.
    pub(crate) fn rekey_resolved(&mut self, rekey: Rekey, found: Option<&KeyValue>) {
        let known = self.groups.get(rekey.group).map(|ctl| ctl.revision);
        match found {
            Some(kv) if Some(kv.mod_revision) == known => {
                self.queue_write(WriteOp::Rekey(Box::new(rekey)));
            }
            Some(kv) if self.rekey_value(&rekey).as_ref() == Some(&kv.value) => {
                let revision = kv.mod_revision;
                self.rekeyed(rekey, revision);
            }
            _ => self.rekey_refused(&rekey),
        }
    }

    pub(crate) fn group_value(
        &self,
        shard: shard_map::ShardId,
        lease: holdfast_store::LeaseId,
        to: Option<TargetRecord>,
        from: Option<SourceRecord>,
    ) -> Vec<u8> {
        let record = records::GroupRecord {
            shard: shard.0,
            lease: lease.to_string(),
            session_ttl_ms: Some(self.settings.session_ttl.as_ms()),
            to,
            from,
        };
        serde_json::to_vec(&record).unwrap_or_default()
    }
}
