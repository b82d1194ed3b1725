//! A group arrives in this cluster from another, whose engine has the say until its key there is gone
//! (`moves.rs`).
//!
//! It comes with a fresh lease; its key says where it comes from, and `arriving` until the source's key
//! is gone. Then it is this engine's, with its slots and deadlines as they are: the key becomes
//! `arrived`, the lease in the source is revoked, which removes the records that are left over there, and
//! then the key says nothing of it any more.
//!
//! When nobody in this gateway has the say any more, or its session is gone, an `arriving` group is
//! whose the source says: if a linearizable read shows no key of it there, of any session, it is here
//! and may be taken over like any other, its records read anew. If there is one, its owner undoes the
//! move.

use crate::engine::calls::{Purpose, as_txn};
use crate::engine::claims::{Claim, groups_of};
use crate::engine::group::{GroupCtl, GroupState};
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::records::{self, SourceRecord, Stage, lease_of};
use crate::engine::rekey::RekeyFor;
use crate::engine::shards::GuardSeen;
use crate::engine::slot::SlotState;
use crate::engine::table::Stay;
use crate::engine::wheel::Tick;
use crate::engine::words::{CopyOf, Place, Said, Word};
use crate::engine::writes::{EndingRef, SlotRef, WriteOp};
use crate::engine::{Engine, proof};
use crate::limits;
use crate::lock_id::{GroupId, SlotIndex};
use crate::time::{Instant, Millis};
use holdfast_store::{
    Compare, DefiniteError, Get, Key, KeyRange, KeyValue, LeaseId, Op, Put, Reply, Revision,
    StoreError, Txn, TxnOp, TxnOpReply,
};
use shard_map::records::{GuardState, keys};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a group that arrives.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    /// The shard's guard here that admits it. Once there is another one, nothing arrives any more, and
    /// whoever counts the groups here after that counts all.
    guard: Revision,
    /// Revisions of the records that were put.
    copies: BTreeMap<SlotIndex, Revision>,
    /// How many are to be put.
    wanted: usize,
    /// Nobody has the say over the move any more, as far as this engine was told.
    orphan: bool,
}

/// A record on its way to its new lease.
#[derive(Debug)]
pub(crate) struct CopyPut {
    pub(crate) group: GroupId,
    lease: LeaseId,
    copy: CopyOf,
}

impl CopyPut {
    pub(crate) fn key(&self) -> Key {
        self.copy.key.clone()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.copy.key.as_bytes().len() + self.copy.value.len() + 64
    }

    fn is(&self, kv: &KeyValue) -> bool {
        kv.value == self.copy.value && kv.lease == Some(self.lease)
    }
}

impl Engine {
    /// Another engine of this gateway says something.
    pub(crate) fn on_word(&mut self, from: &Arc<str>, Word(said): Word) {
        match said {
            Said::Prepare(place) => self.prepare_place(place),
            Said::NotYet(group) => self.place_not_yet(group),
            Said::Prepared(group, lease) => self.place_prepared(from, group, lease),
            Said::Receive(group, lease) => self.receive(from, group, lease),
            Said::Received(group, lease) => self.place_received(group, lease),
            Said::Copy(group, lease, copies) => self.put_copies(from, group, lease, copies),
            Said::Copied(group, lease, stay) => self.place_filled(group, lease, stay),
            Said::Failed(group, lease) => self.place_failed(group, lease),
            Said::Take(group, lease) => self.take(group, lease),
            Said::Orphaned(group, lease) => self.orphaned(group, lease),
            Said::Revoke(group, lease) => self.revoke_for(from, group, lease),
            Said::Revoked(group, lease) => self.revoked_elsewhere(group, lease),
            Said::IsThere(group) => self.is_there(from, group),
            Said::There(group, present) => self.there(group, present),
        }
    }

    pub(crate) fn prepare_place(&mut self, place: Place) {
        let group = place.group.id;
        self.places.remove(&group);
        if self.groups.get(group).is_some()
            || self.session.live().is_none()
            || self.groups.len() >= limits::GROUPS_MAX
        {
            return;
        }
        if self.guard_that_admits(&place).is_none() {
            return self.place_waits(place);
        }
        if let Some(ctl) = self.groups.remove_arriving(group) {
            // Of a move that the other engine has given up since.
            self.revoke(ctl.lease);
        }
        let lease = self.new_lease_id();
        let ttl_s = u32::try_from(self.settings.group_ttl.as_secs()).unwrap_or(u32::MAX);
        let op = Op::LeaseGrant { lease, ttl_s };
        let purpose = Purpose::PlaceLease(Box::new(place), lease);
        self.call(op, limits::CALL_TIMEOUT, purpose);
    }

    /// The revision of the shard's guard here, if it is active and says that it comes from there: while
    /// both guards are leaving, groups would go to and fro.
    pub(crate) fn guard_that_admits(&self, place: &Place) -> Option<Revision> {
        match self.shards.get(&place.shard).map(|shard| &shard.guard) {
            Some(GuardSeen::Read(guard, revision)) => {
                let from = guard.from.as_ref().map(shard_map::ClusterName::as_str);
                let admits =
                    guard.state == GuardState::Active && from == Some(place.from.cluster.as_str());
                admits.then_some(*revision)
            }
            _ => None,
        }
    }

    pub(crate) fn on_place_lease(
        &mut self,
        place: Place,
        lease: LeaseId,
        sent: Instant,
        result: Result<Reply, StoreError>,
    ) {
        let Ok(Reply::LeaseGranted { ttl_s, .. }) = result else {
            // No key names it, so nobody can use it.
            return self.revoke(lease);
        };
        let group = place.group.id;
        if self.groups.arriving(group).is_some() || self.groups.get(group).is_some() {
            // An earlier try had asked too, and the move goes on with the lease that came first.
            return self.revoke(lease);
        }
        let Some(guard) = self.guard_that_admits(&place) else {
            self.revoke(lease);
            return self.place_waits(place);
        };
        let ttl = Millis::from_secs(u64::try_from(ttl_s).unwrap_or(0));
        let stay = Stay::new(Arc::clone(&self.proof));
        stay.set_proven_until(proof::proven_until(sent, ttl));
        let mut ctl = GroupCtl::new(
            place.group,
            place.shard,
            lease,
            GroupState::Arriving,
            self.now,
        );
        ctl.stay = stay;
        let source: Arc<str> = place.from.cluster.as_str().into();
        ctl.from = Some(place.from);
        ctl.arrival = Some(Arrival {
            guard,
            ..Arrival::default()
        });
        self.groups.insert_arriving(ctl);
        self.say(&source, Said::Prepared(group, lease));
    }

    /// The group that arrives on this lease.
    fn arriving(&mut self, group: GroupId, lease: LeaseId) -> Option<&mut GroupCtl> {
        let ctl = self.groups.arriving_mut(group)?;
        (ctl.lease == lease).then_some(ctl)
    }

    fn receive(&mut self, from: &Arc<str>, group: GroupId, lease: LeaseId) {
        match self.arriving(group, lease) {
            Some(_) => self.queue_write(WriteOp::Receive(group)),
            None => self.say(from, Said::Failed(group, lease)),
        }
    }

    pub(crate) fn compile_receive(&self, group: GroupId) -> Option<Txn> {
        let ctl = self.groups.arriving(group)?;
        (ctl.revision == Revision::ABSENT).then_some(())?;
        let guard = ctl.arrival.as_ref()?.guard;
        let key = records::group_key(self.session.live()?.id, group);
        let mut compare = vec![Compare::absent(KeyRange::one(key.clone()))];
        let unguarded = self.mutated(Mutation::ReceivedWithoutGuard)
            || self.mutated(Mutation::SwitchWithoutGuard);
        if !unguarded {
            compare.push(Compare::mod_revision(keys::guard(ctl.shard), guard));
        }
        let put = Put {
            key: key.clone(),
            value: self.group_value(ctl.shard, ctl.lease, None, ctl.from.clone()),
            lease: Some(ctl.lease),
        };
        Some(Txn {
            compare,
            then: vec![TxnOp::Put(put)],
            or_else: vec![TxnOp::Get(Get::keys(KeyRange::one(key)))],
        })
    }

    /// The group's key is here, `arriving`.
    pub(crate) fn received(&mut self, group: GroupId, revision: Revision) {
        let Some(ctl) = self.groups.arriving_mut(group) else {
            return;
        };
        ctl.revision = revision;
        let lease = ctl.lease;
        if let Some(source) = ctl.from.as_ref().map(SourceRecord::cluster) {
            self.say(&source, Said::Received(group, lease));
        }
    }

    /// The place cannot be used.
    pub(crate) fn place_lost(&mut self, group: GroupId) {
        let Some(ctl) = self.groups.remove_arriving(group) else {
            return;
        };
        ctl.stay.set_proven_until(Instant::NEVER);
        if let Some(source) = ctl.from.as_ref().map(SourceRecord::cluster) {
            self.say(&source, Said::Failed(group, ctl.lease));
        }
    }

    fn put_copies(&mut self, from: &Arc<str>, group: GroupId, lease: LeaseId, copies: Vec<CopyOf>) {
        let Some(ctl) = self.arriving(group, lease) else {
            return self.say(from, Said::Failed(group, lease));
        };
        let stay = Arc::clone(&ctl.stay);
        let Some(arrival) = &mut ctl.arrival else {
            return;
        };
        arrival.wanted = copies.len();
        arrival.copies.clear();
        if copies.is_empty() {
            return self.say(from, Said::Copied(group, lease, stay));
        }
        for copy in copies {
            self.writes.copy_soon(CopyPut { group, lease, copy });
        }
    }

    pub(crate) fn compile_copy(&self, put: &CopyPut) -> Option<Txn> {
        let ctl = self.groups.arriving(put.group)?;
        (ctl.lease == put.lease).then_some(())?;
        let group_key = records::group_key(self.session.live()?.id, put.group);
        let group_compare = Compare::mod_revision(group_key, ctl.revision);
        let key = put.copy.key.clone();
        Some(Txn {
            compare: vec![group_compare, Compare::absent(KeyRange::one(key.clone()))],
            then: vec![TxnOp::Put(Put {
                key: key.clone(),
                value: put.copy.value.clone(),
                lease: Some(put.lease),
            })],
            or_else: vec![TxnOp::Get(Get::all(KeyRange::one(key)))],
        })
    }

    pub(crate) fn copied(&mut self, put: &CopyPut, revision: Revision) {
        let Some(ctl) = self.arriving(put.group, put.lease) else {
            return;
        };
        let (stay, source) = (
            Arc::clone(&ctl.stay),
            ctl.from.as_ref().map(SourceRecord::cluster),
        );
        let Some(arrival) = &mut ctl.arrival else {
            return;
        };
        arrival.copies.insert(put.copy.slot, revision);
        if arrival.copies.len() == arrival.wanted
            && let Some(source) = source
        {
            self.say(&source, Said::Copied(put.group, put.lease, stay));
        }
    }

    /// The copy was not put; this is what is there.
    pub(crate) fn copy_refused(&mut self, put: CopyPut, found: Option<&KeyValue>) {
        match found {
            // A copy of this very batch has put it.
            Some(kv) if put.is(kv) => {
                let revision = kv.mod_revision;
                self.copied(&put, revision);
            }
            _ => {
                self.round.want();
                self.copy_failed(&put);
            }
        }
    }

    pub(crate) fn copy_resolved(&mut self, put: CopyPut, found: Option<&KeyValue>) {
        match found {
            None => self.writes.copy_soon(put),
            found => self.copy_refused(put, found),
        }
    }

    pub(crate) fn copy_failed(&mut self, put: &CopyPut) {
        let Some(ctl) = self.arriving(put.group, put.lease) else {
            return;
        };
        if let Some(source) = ctl.from.as_ref().map(SourceRecord::cluster) {
            self.say(&source, Said::Failed(put.group, put.lease));
        }
    }

    /// The source's key is gone: the group is here, with its slots as they are.
    fn take(&mut self, group: GroupId, lease: LeaseId) {
        let now = self.now;
        let check_due = now + self.survey_interval;
        let is_orphan = |ctl: &GroupCtl| ctl.arrival.as_ref().is_some_and(|it| it.orphan);
        if self.groups.arriving(group).is_some_and(is_orphan) || self.groups.get(group).is_some() {
            // Too late: it is found out without this word, and its records are read anew.
            return;
        }
        let ctl = self.groups.remove_arriving(group);
        let ctl = ctl.filter(|ctl| ctl.lease == lease && ctl.group.is_in(&self.proof));
        let Some(mut ctl) = ctl else {
            return self.table.remove(group, &self.proof);
        };
        let copies = ctl.arrival.take().map(|arrival| arrival.copies);
        ctl.state = GroupState::Closed;
        ctl.check_due = check_due;
        ctl.recount(now);
        let mut held = Vec::new();
        let mut ending = Vec::new();
        let copies = copies.unwrap_or_default();
        for (index, slot) in (0..).zip(ctl.group.slots_mut().iter_mut()) {
            let at = SlotRef {
                group,
                slot: SlotIndex(index),
            };
            slot.revision = copies.get(&at.slot).copied().unwrap_or_default();
            slot.set_armed(Tick::NONE);
            let word = slot.word.load();
            match word.state {
                SlotState::Held | SlotState::Closed => held.push((at, word.deadline)),
                SlotState::Ending => ending.push(EndingRef {
                    at,
                    secret: slot.secret,
                    lease,
                }),
                SlotState::Free | SlotState::Pending => {}
            }
        }
        self.groups.insert(ctl);
        held.into_iter()
            .for_each(|(at, deadline)| self.arm(at, deadline));
        ending
            .into_iter()
            .for_each(|ending| self.end_after_take(ending));
        self.rekey_arrived(group);
    }

    fn rekey_arrived(&mut self, group: GroupId) {
        self.rekey(group, RekeyFor::Arrived, |rekey| {
            if let Some(from) = &mut rekey.from {
                from.stage = Stage::Arrived;
            }
        });
    }

    /// Has the lease in the source revoked for good; until then the key says `from`.
    pub(crate) fn leave_source(&mut self, group: GroupId) {
        let Some(ctl) = self.groups.get(group) else {
            return;
        };
        let Some(from) = ctl
            .from
            .as_ref()
            .filter(|from| from.stage == Stage::Arrived)
        else {
            return;
        };
        let (source, lease) = (from.cluster(), lease_of(&from.lease));
        if self.mutated(Mutation::GroupForgetsSource) {
            return self.rekey(group, RekeyFor::Settled, |rekey| rekey.from = None);
        }
        if let Some(lease) = lease {
            self.say(&source, Said::Revoke(group, lease));
            self.do_later(limits::MOVE_RETRY, Task::LeaveSource(group));
        }
    }

    fn revoked_elsewhere(&mut self, group: GroupId, lease: LeaseId) {
        if self.moves.has(group) {
            return self.place_revoked(group, lease);
        }
        let Some(ctl) = self.groups.get(group) else {
            return;
        };
        let is_left = ctl.from.as_ref().is_some_and(|from| {
            from.stage == Stage::Arrived && lease_of(&from.lease) == Some(lease)
        });
        if is_left && !ctl.rekeying {
            self.rekey(group, RekeyFor::Settled, |rekey| rekey.from = None);
        }
    }

    /// Revokes a lease for another engine, and tells it when that is certain.
    fn revoke_for(&mut self, from: &Arc<str>, group: GroupId, lease: LeaseId) {
        match self.groups.get(group) {
            Some(ctl) if ctl.lease == lease => {
                tracing::error!(
                    cluster = %self.settings.cluster, group = %group,
                    "the lease of a group that lives here is not revoked"
                );
                return;
            }
            _ => {}
        }
        if let Some(ctl) = self.arriving(group, lease) {
            ctl.stay.set_proven_until(Instant::NEVER);
            self.groups.remove_arriving(group);
        }
        let purpose = Purpose::RevokeFor(Arc::clone(from), group, lease);
        self.call(Op::LeaseRevoke { lease }, limits::CALL_TIMEOUT, purpose);
    }

    pub(crate) fn on_revoked_for(
        &mut self,
        from: &Arc<str>,
        group: GroupId,
        lease: LeaseId,
        result: &Result<Reply, StoreError>,
    ) {
        if matches!(
            result,
            Ok(_) | Err(StoreError::Definite(DefiniteError::LeaseNotFound))
        ) {
            self.say(from, Said::Revoked(group, lease));
        }
    }

    fn is_there(&mut self, from: &Arc<str>, group: GroupId) {
        let read = Txn::read([Get::keys(records::all_groups())]);
        let purpose = Purpose::IsThere(Arc::clone(from), group);
        self.call(Op::Txn(read), limits::CALL_TIMEOUT, purpose);
    }

    pub(crate) fn on_is_there(
        &mut self,
        from: &Arc<str>,
        group: GroupId,
        result: Result<Reply, StoreError>,
    ) {
        let reply = as_txn(result).ok();
        let Some(TxnOpReply::Get(get)) = reply.and_then(|reply| reply.ops.into_iter().next())
        else {
            return;
        };
        let own = self.session.live().map(|session| session.id);
        let own_only = self.mutated(Mutation::AbsenceTakenForSwitch);
        let there = groups_of(&get.kvs)
            .iter()
            .any(|found| found.group == group && (!own_only || Some(found.session) == own));
        self.say(from, Said::There(group, there));
    }

    /// Groups that have not arrived in time, and of which no word has come that they will not.
    pub(crate) fn ask_about_late_arrivals(&mut self) {
        let late = |ctl: &GroupCtl| {
            let waits = ctl.arrival.as_ref().is_some_and(|arrival| !arrival.orphan);
            waits && self.now.since(ctl.empty_since) >= limits::ARRIVAL_TIME_MAX
        };
        let late: Vec<_> = self.groups.arriving_where(late).collect();
        for (group, lease) in late {
            self.orphaned(group, lease);
        }
    }

    /// The engine that had the say over the move has lost its session, or says nothing.
    fn orphaned(&mut self, group: GroupId, lease: LeaseId) {
        let anew = self.table.new_group(group, &self.proof);
        let Some(ctl) = self.arriving(group, lease) else {
            return;
        };
        if ctl.revision == Revision::ABSENT {
            // The key was never confirmed, so nothing was switched.
            self.groups.remove_arriving(group);
            return self.revoke(lease);
        }
        ctl.group = anew;
        ctl.stay.set_proven_until(Instant::NEVER);
        ctl.stay = ctl.group.stay();
        ctl.arrival = Some(Arrival {
            orphan: true,
            ..Arrival::default()
        });
        self.ask_source(group);
    }

    /// Asks whether the source still has a key of a group that nobody has the say over.
    pub(crate) fn ask_source(&mut self, group: GroupId) {
        let claim = self
            .claims
            .arriving
            .get(&group)
            .and_then(|claim| claim.from.as_ref());
        let orphan = self
            .groups
            .arriving(group)
            .filter(|ctl| ctl.arrival.as_ref().is_some_and(|arrival| arrival.orphan));
        let source = claim
            .or_else(|| orphan?.from.as_ref())
            .map(SourceRecord::cluster);
        if let Some(source) = source {
            self.say(&source, Said::IsThere(group));
            self.do_later(limits::MOVE_RETRY, Task::AskSource(group));
        }
    }

    fn there(&mut self, group: GroupId, present: bool) {
        if let Some(claim) = self.claims.arriving.remove(&group) {
            return match present {
                // Its owner there undoes the move.
                true => self.claim_ends(group),
                false => {
                    let from = claim.from.map(|from| SourceRecord {
                        stage: Stage::Arrived,
                        ..from
                    });
                    self.queue_write(WriteOp::Claim(Claim { from, ..claim }));
                }
            };
        }
        let now = self.now;
        let ctl = self.groups.arriving(group);
        let arrival = ctl.and_then(|ctl| ctl.arrival.as_ref());
        if present || arrival.is_none_or(|arrival| !arrival.orphan) {
            return;
        }
        let Some(mut ctl) = self.groups.remove_arriving(group) else {
            return;
        };
        ctl.arrival = None;
        ctl.state = GroupState::Loading;
        ctl.claimed_at = now;
        self.table.insert(Arc::clone(&ctl.group));
        self.groups.insert(ctl);
        self.rekey_arrived(group);
        self.round.want();
        self.want_load(group);
    }
}
