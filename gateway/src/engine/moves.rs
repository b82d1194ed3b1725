//! A group leaves this cluster for another, with its locks held and renewed all the while.
//!
//! This engine has the say. The steps: the other engine grants a fresh lease; the group's key here is
//! marked with it, which ends grants and makes every write that is on its way under the old revision
//! fail; the other puts the group's key there, `arriving`; the records are read here by a counting key
//! list and put there; from then on a promise needs both proofs; then *the switch*: if the group's key
//! and the shard's guard are as they were before the mark, the key is deleted, it alone. What it leaves
//! is the other engine's.
//!
//! Until the switch is confirmed this cluster is right, so whatever goes wrong before it is undone: the
//! lease there is revoked first, which ends its key, its copies, and every put that is late; then the
//! mark is taken off. A gateway that claims a marked group undoes likewise, and never finishes what
//! another began.
//!
//! From the mark on no record of the group is deleted or rewritten here: there may be a copy. A hold that
//! ends meanwhile is deleted, and whoever waits is told, as soon as the move is over, in whichever
//! cluster the group is then.

use crate::engine::Effect;
use crate::engine::Engine;
use crate::engine::calls::Purpose;
use crate::engine::group::{GroupCtl, GroupState};
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::pace::{Paces, rest_after};
use crate::engine::records::{self, LockRecord, SourceRecord, TargetRecord, lease_of};
use crate::engine::rekey::RekeyFor;
use crate::engine::shards::Shard;
use crate::engine::slot::SlotState;
use crate::engine::step::Left;
use crate::engine::table::Stay;
use crate::engine::words::{CopyOf, Place, Said, Word};
use crate::engine::writes::WriteOp;
use crate::limits;
use crate::lock_id::GroupId;
use crate::time::{Instant, Millis};
use holdfast_store::{Key, KeyRange, KeyValue, LeaseId, Op, Revision, Txn, TxnOp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One group on its way out.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) to: Arc<str>,
    /// The lease there; none before it is granted.
    lease: Option<LeaseId>,
    /// The shard's guard here, as it was read before the mark.
    pub(crate) guard: Revision,
    phase: Phase,
    began: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The other engine is asked for a lease.
    Preparing,
    /// The mark is on its way.
    Marking,
    /// The other engine puts the group's key.
    Receiving,
    /// The records are read here and put there.
    Copying,
    /// The switch is on its way.
    Switching,
    /// The lease there is being revoked, then the mark is taken off.
    Undoing,
    Unmarking,
}

/// The groups that are on their way out.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    by_group: BTreeMap<GroupId, Move>,
    paces: Paces,
    guards_next: Instant,
}

impl Moves {
    /// Whether a copy of one of its records may be in another cluster, or arrive there: from when its
    /// mark is on its way. What was sent before lands before the mark or not at all.
    pub(crate) fn may_copy(&self, group: GroupId) -> bool {
        let it = self.by_group.get(&group);
        it.is_some_and(|it| it.phase != Phase::Preparing)
    }

    pub(crate) fn has(&self, group: GroupId) -> bool {
        self.by_group.contains_key(&group)
    }

    pub(crate) fn of(&self, group: GroupId) -> Option<&Move> {
        self.by_group.get(&group)
    }

    /// The move is over, whatever came of it; the next one waits at least so long.
    fn remove(&mut self, group: GroupId, now: Instant, rest_min: Millis) -> Option<Move> {
        let it = self.by_group.remove(&group)?;
        let rest = rest_after(now.since(it.began)).max(rest_min);
        self.paces.ends(&it.to, group, now + rest);
        Some(it)
    }
}

impl Engine {
    pub(crate) fn say(&mut self, to: &Arc<str>, said: Said) {
        tracing::debug!(cluster = %self.settings.cluster, %to, ?said, "moving a group");
        self.out.push(Effect::Word(Arc::clone(to), Word(said)));
    }

    /// Looks at the guards of the shards that have groups here, and begins the moves that they want.
    pub(crate) fn keep_moves(&mut self) {
        let is_due = self.now >= self.moves.guards_next;
        if is_due {
            self.moves.guards_next = self.now + limits::GUARDS_INTERVAL;
        }
        if self.session.live().is_none() || !self.is_proven() {
            return;
        }
        if is_due {
            let shards = self.guards_to_look_at();
            self.want_guards(shards);
        }
        self.undo_late_moves();
        self.ask_about_late_arrivals();
        self.start_moves();
    }

    /// What is wanted when the next tick is.
    pub(crate) fn moves_wakeup(&self) -> Option<Instant> {
        let has_any = self.groups.with_arriving().next().is_some();
        let look = has_any.then_some(self.moves.guards_next);
        let rest_ends = self.moves.paces.next_wakeup(self.now);
        look.into_iter().chain(rest_ends).min()
    }

    fn undo_late_moves(&mut self) {
        let late: Vec<_> = self
            .moves
            .by_group
            .iter()
            .filter(|(group, it)| {
                let waits = !matches!(
                    it.phase,
                    Phase::Switching | Phase::Undoing | Phase::Unmarking
                );
                let shard = self.groups.get(**group).map(|ctl| ctl.shard);
                let guard = shard.and_then(|shard| self.guard_revision(shard));
                waits
                    && (self.now.since(it.began) >= limits::MOVE_TIME_MAX
                        || guard != Some(it.guard))
            })
            .map(|(group, _)| *group)
            .collect();
        late.into_iter().for_each(|group| self.undo_move(group));
    }

    fn start_moves(&mut self) {
        if !self.shards.values().any(|shard| shard.goal().is_some()) {
            return;
        }
        let mut turns: BTreeMap<Arc<str>, GroupId> = BTreeMap::new();
        let mut empty = Vec::new();
        for (group, ctl) in self.groups.iter() {
            let goal = self.shards.get(&ctl.shard).and_then(Shard::goal);
            let Some((to, ..)) = goal.filter(|_| self.may_leave(group, ctl)) else {
                continue;
            };
            let paces = &self.moves.paces;
            let is_next = || {
                let first = turns.get(&to);
                first.is_none_or(|first| paces.goes_before(&to, group, *first))
            };
            if ctl.used() == 0 {
                empty.push(group);
            } else if paces.is_free(&to, self.now) && is_next() {
                turns.insert(to, group);
            }
        }
        for group in empty.into_iter().take(limits::BATCH_BUNDLES_MAX) {
            self.retire(group);
        }
        for group in turns.into_values() {
            self.start_move(group);
        }
    }

    fn may_leave(&self, group: GroupId, ctl: &GroupCtl) -> bool {
        matches!(ctl.state, GroupState::Open | GroupState::Closed)
            && ctl.is_only_here()
            && ctl.unreadable == 0
            && !self.moves.has(group)
            && !self.closings.has_any_of(group)
    }

    fn start_move(&mut self, group: GroupId) {
        let Some(ctl) = self.groups.get_mut(group) else {
            return;
        };
        let Some((to, guard, at)) = self.shards.get(&ctl.shard).and_then(Shard::goal) else {
            return;
        };
        let left = Left {
            cluster: Arc::clone(&self.settings.cluster),
            guard: guard.clone(),
            at,
        };
        // What is on its way lands before the mark or not at all; nothing more is begun.
        ctl.state = GroupState::Closed;
        let place = Place {
            group: Arc::clone(&ctl.group),
            shard: ctl.shard,
            from: SourceRecord::arriving(&self.settings.cluster, ctl.lease),
            left,
        };
        let guard = place.left.at;
        self.survey_ends(group);
        let it = Move {
            to: Arc::clone(&to),
            lease: None,
            guard,
            phase: Phase::Preparing,
            began: self.now,
        };
        self.moves.by_group.insert(group, it);
        self.moves.paces.begins(&to, group);
        self.stats.moves.add(1);
        self.say(&to, Said::Prepare(place));
    }

    /// The move in this phase, if its lease is this one.
    fn moving(&mut self, group: GroupId, lease: LeaseId, phase: Phase) -> Option<&mut Move> {
        let it = self.moves.by_group.get_mut(&group)?;
        (it.lease == Some(lease) && it.phase == phase).then_some(it)
    }

    /// The shard's guard there does not become active.
    pub(crate) fn place_not_yet(&mut self, group: GroupId) {
        let it = self.moves.by_group.get(&group);
        if it.is_some_and(|it| it.phase == Phase::Preparing) {
            self.undo_move(group);
        }
    }

    pub(crate) fn place_prepared(&mut self, from: &Arc<str>, group: GroupId, lease: LeaseId) {
        let it = self.moves.by_group.get_mut(&group);
        let Some(it) = it.filter(|it| it.phase == Phase::Preparing && it.to == *from) else {
            // The move is over: nothing was put on that lease.
            return self.say(from, Said::Revoke(group, lease));
        };
        it.lease = Some(lease);
        it.phase = Phase::Marking;
        let to = TargetRecord::new(from, lease);
        self.rekey(group, RekeyFor::Mark, |rekey| rekey.to = Some(to));
    }

    /// The mark is confirmed.
    pub(crate) fn marked(&mut self, group: GroupId) {
        let Some(it) = self.moves.by_group.get_mut(&group) else {
            return;
        };
        let (Some(lease), Phase::Marking) = (it.lease, it.phase) else {
            return;
        };
        it.phase = Phase::Receiving;
        let to = Arc::clone(&it.to);
        self.say(&to, Said::Receive(group, lease));
    }

    pub(crate) fn place_received(&mut self, group: GroupId, lease: LeaseId) {
        if let Some(it) = self.moving(group, lease, Phase::Receiving) {
            it.phase = Phase::Copying;
            self.survey_to_move(group);
        }
    }

    /// Lists what is to be copied, as soon as every grant that was on its way has an outcome.
    pub(crate) fn survey_to_move(&mut self, group: GroupId) {
        if self
            .moves
            .of(group)
            .is_none_or(|it| it.phase != Phase::Copying)
        {
            return;
        }
        let pending = self.groups.get(group).is_none_or(|ctl| {
            let slots = ctl.group.slots();
            slots.iter().any(|slot| slot.state() == SlotState::Pending)
        });
        match pending {
            true => self.do_later(limits::LOOK_AGAIN, Task::SurveyToMove(group)),
            false => self.start_move_survey(group),
        }
    }

    /// Everything on the group's lease, listed after the mark.
    pub(crate) fn copies_listed(&mut self, group: GroupId, records: &[(Key, Option<KeyValue>)]) {
        let Some(it) = self.moves.by_group.get(&group) else {
            return;
        };
        let (Some(lease), Phase::Copying) = (it.lease, it.phase) else {
            return;
        };
        let to = Arc::clone(&it.to);
        let read = records.iter().filter_map(|(_, kv)| kv.as_ref());
        let copies: Option<Vec<_>> = read.map(|kv| copy_of(kv, lease, group)).collect();
        match copies {
            Some(copies) => self.say(&to, Said::Copy(group, lease, copies)),
            None => self.undo_move(group),
        }
    }

    /// All copies are confirmed there, and the lease is proven so far.
    pub(crate) fn place_filled(&mut self, group: GroupId, lease: LeaseId, there: Arc<Stay>) {
        let now = self.now;
        if self.moving(group, lease, Phase::Copying).is_none() {
            return;
        }
        let Some(ctl) = self.groups.get_mut(group) else {
            return;
        };
        let latest = ctl.group.promise_in_both(Some(Arc::clone(&there)));
        if latest >= there.proven_until() || !there.cluster.is_proven(now) || ctl.rekeying {
            ctl.group.promise_in_both(None);
            return self.undo_move(group);
        }
        let too_soon = there.cluster.mutated(Mutation::ServedBeforeSwitch);
        if too_soon {
            ctl.group.promise_in(there);
        }
        ctl.rekeying = true;
        if let Some(it) = self.moving(group, lease, Phase::Copying) {
            it.phase = Phase::Switching;
            if too_soon {
                let to = Arc::clone(&it.to);
                self.say(&to, Said::Take(group, lease));
            }
        }
        if self.mutated(Mutation::RecordsDeletedBeforeSwitch) {
            self.delete_records(group);
        }
        self.queue_write(WriteOp::Switch(group));
    }

    /// Deletes the records of a group, and not its key: a deliberate mistake.
    fn delete_records(&mut self, group: GroupId) {
        let Some(ctl) = self.groups.get(group) else {
            return;
        };
        let names: Vec<_> = ctl
            .group
            .slots()
            .iter()
            .filter_map(|it| it.name.clone())
            .collect();
        for name in names {
            let key = records::lock_key(name.as_str());
            let txn = Txn {
                then: vec![TxnOp::Delete(KeyRange::one(key))],
                ..Txn::default()
            };
            self.call(Op::Txn(txn), limits::CALL_TIMEOUT, Purpose::Revoke);
        }
    }

    /// The switch is confirmed as this gateway's own.
    pub(crate) fn switched(&mut self, group: GroupId) {
        let moved = self.moves.remove(group, self.now, Millis::ZERO);
        let (Some(it), Some(ctl)) = (moved, self.groups.remove(group)) else {
            return;
        };
        let Some(lease) = it.lease else { return };
        self.stats.moved.add(1);
        if let Some(there) = ctl.group.next_stay() {
            ctl.group.promise_in(there);
        }
        self.say(&it.to, Said::Take(group, lease));
        self.survey_ends(group);
        self.endings_of_lost_group(group);
    }

    /// Whether this is the key of the group as it was marked.
    pub(crate) fn is_own_mark(&self, group: GroupId, kv: &KeyValue) -> bool {
        let marked = self.groups.get(group).map(|ctl| ctl.revision);
        marked == Some(kv.mod_revision)
    }

    /// The switch was refused: nothing of it happened.
    pub(crate) fn switch_refused(&mut self, group: GroupId) {
        if let Some(ctl) = self.groups.get_mut(group) {
            ctl.rekeying = false;
            ctl.group.promise_in_both(None);
        }
        self.round.want();
        if let Some(it) = self.moves.by_group.get_mut(&group) {
            it.phase = Phase::Copying;
        }
        self.undo_move(group);
    }

    pub(crate) fn place_failed(&mut self, group: GroupId, lease: LeaseId) {
        let it = self.moves.by_group.get(&group);
        if it.is_some_and(|it| {
            it.lease == Some(lease) && matches!(it.phase, Phase::Receiving | Phase::Copying)
        }) {
            self.undo_move(group);
        }
    }

    /// Gives a move up that is not switched.
    pub(crate) fn undo_move(&mut self, group: GroupId) {
        let Some(it) = self.moves.by_group.get_mut(&group) else {
            return;
        };
        if it.phase == Phase::Marking {
            // As soon as it is known whether the mark is there.
            return;
        }
        let Some(lease) = it.lease else {
            return self.unmarked(group);
        };
        it.phase = Phase::Undoing;
        let to = Arc::clone(&it.to);
        if self
            .groups
            .get(group)
            .is_some_and(|ctl| ctl.state != GroupState::Loading)
        {
            self.survey_ends(group);
        }
        if self.mutated(Mutation::UnmarkedBeforeRevoke) {
            return self.place_revoked(group, lease);
        }
        self.say(&to, Said::Revoke(group, lease));
        self.do_later(limits::MOVE_RETRY, Task::Undo(group, lease));
    }

    /// The other engine has not answered that the lease is revoked: it is asked again.
    pub(crate) fn undo_again(&mut self, group: GroupId, lease: LeaseId) {
        if self.moving(group, lease, Phase::Undoing).is_some() {
            self.undo_move(group);
        }
    }

    pub(crate) fn place_revoked(&mut self, group: GroupId, lease: LeaseId) {
        let Some(it) = self.moving(group, lease, Phase::Undoing) else {
            return;
        };
        it.phase = Phase::Unmarking;
        if self.groups.get(group).is_some_and(|ctl| ctl.to.is_none()) {
            return self.unmarked(group);
        }
        self.rekey(group, RekeyFor::Unmark, |rekey| rekey.to = None);
    }

    pub(crate) fn unmarked(&mut self, group: GroupId) {
        // It is where it was.
        self.moves.remove(group, self.now, limits::RETRY_BACKOFF);
        self.stats.moves_undone.add(1);
        self.end_what_waited(group);
    }

    /// Holds that have ended while the group moved are deleted now.
    fn end_what_waited(&mut self, group: GroupId) {
        for ending in self.endings_of(group) {
            self.queue_expiry(ending);
        }
    }

    /// A group was claimed that its last owner had marked: what that one began is undone.
    pub(crate) fn undo_of_claimed(&mut self, group: GroupId, to: &TargetRecord) {
        let Some(lease) = lease_of(&to.lease) else {
            return;
        };
        let it = Move {
            to: to.cluster.as_str().into(),
            lease: Some(lease),
            guard: Revision::ABSENT,
            phase: Phase::Undoing,
            began: self.now,
        };
        self.moves.by_group.insert(group, it);
        if self.mutated(Mutation::FinishedByClaimer) {
            if let Some(it) = self.moves.by_group.get_mut(&group) {
                it.phase = Phase::Switching;
            }
            return self.queue_write(WriteOp::Switch(group));
        }
        self.undo_move(group);
    }

    /// The session is over: nobody here has the say over its moves any more.
    pub(crate) fn give_moves_up(&mut self) {
        for (group, it) in std::mem::take(&mut self.moves).by_group {
            if let Some(lease) = it.lease {
                self.say(&it.to, Said::Orphaned(group, lease));
            }
        }
    }

    /// The group's key is not this gateway's any more, and with it the say over its move.
    pub(crate) fn move_lost(&mut self, group: GroupId) {
        if let Some(Move {
            to,
            lease: Some(lease),
            ..
        }) = self.moves.remove(group, self.now, Millis::ZERO)
        {
            self.say(&to, Said::Orphaned(group, lease));
        }
    }

    /// The mark was refused or lost.
    pub(crate) fn mark_failed(&mut self, group: GroupId) {
        if let Some(it) = self.moves.by_group.get_mut(&group)
            && it.phase == Phase::Marking
        {
            it.phase = Phase::Copying;
            self.undo_move(group);
        }
    }
}

/// The record as it is to be there: with its token, on that lease. `None`: it cannot be read.
fn copy_of(kv: &KeyValue, lease: LeaseId, group: GroupId) -> Option<CopyOf> {
    let (mut record, id) = LockRecord::read(kv).filter(|(_, id)| id.group() == group)?;
    record.token = Some(record.fencing_token(kv).0);
    record.lease_id = lease.to_string();
    Some(CopyOf {
        slot: id.slot(),
        key: kv.key.clone(),
        value: record.to_bytes(),
    })
}
