//! One lease group, as the engine knows it: its key, its state, and which of its slots are free.

use crate::engine::arrivals::Arrival;
use crate::engine::quota::Place;
use crate::engine::records::{SessionId, SourceRecord, TargetRecord};
use crate::engine::slot::{SlotState, SlotWord};
use crate::engine::table::{Group, Slot, Stay};
use crate::engine::wheel::Tick;
use crate::limits;
use crate::lock_id::SlotIndex;
use crate::time::{Instant, Millis};
use holdfast_store::{LeaseId, Revision};
use shard_map::ShardId;
use std::sync::Arc;

/// Where a group is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupState {
    /// Its lease is asked for.
    Granting,
    /// Its key is on its way.
    Writing,
    /// It takes grants.
    Open,
    /// It serves the locks that it has.
    Closed,
    /// It was claimed, and its records are being read.
    Loading,
    /// It is empty, and its key is being deleted.
    Retiring,
    /// It arrives from another cluster, whose engine has its slots until then.
    Arriving,
}

/// A short name of a group, for the wheel. Used again when the group is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupNumber(pub(crate) u32);

/// What the engine knows of a group beyond what renewals need.
#[derive(Debug)]
pub(crate) struct GroupCtl {
    pub(crate) group: Arc<Group>,
    /// How far its lease in this cluster is proven.
    pub(crate) stay: Arc<Stay>,
    /// Given when it is put among the others.
    pub(crate) number: GroupNumber,
    pub(crate) shard: ShardId,
    pub(crate) lease: LeaseId,
    /// Of the group's key, once it is confirmed.
    pub(crate) revision: Revision,
    pub(crate) state: GroupState,
    /// Whether its shard's list of groups with room has it.
    pub(crate) listed: bool,
    /// When its claim's success was received.
    pub(crate) claimed_at: Instant,
    /// The session that it was claimed from.
    pub(crate) claimed_from: Option<SessionId>,
    /// The session TTL of the owner it was claimed from.
    pub(crate) heir_of_ttl: Millis,
    /// When its slots are to be compared with etcd.
    pub(crate) check_due: Instant,
    /// Holds that have ended in it, ever.
    pub(crate) ends: u64,
    /// Records on its lease that this version cannot read: they are not served, but the lease
    /// must live for them.
    pub(crate) unreadable: usize,
    /// A write of its key is on its way that changes it.
    pub(crate) rekeying: bool,
    /// What its key says: it moves to another cluster,
    pub(crate) to: Option<TargetRecord>,
    /// or has come from one.
    pub(crate) from: Option<SourceRecord>,
    pub(crate) arrival: Option<Arrival>,
    free: Vec<SlotIndex>,
    used: usize,
    pub(crate) empty_since: Instant,
}

impl GroupCtl {
    pub(crate) fn new(
        group: Arc<Group>,
        shard: ShardId,
        lease: LeaseId,
        state: GroupState,
        now: Instant,
    ) -> Self {
        Self {
            stay: group.stay(),
            group,
            number: GroupNumber::default(),
            shard,
            lease,
            revision: Revision::ABSENT,
            state,
            listed: false,
            claimed_at: Instant::NEVER,
            claimed_from: None,
            heir_of_ttl: Millis::ZERO,
            check_due: now + limits::SURVEY_INTERVAL,
            ends: 0,
            unreadable: 0,
            rekeying: false,
            to: None,
            from: None,
            arrival: None,
            free: Vec::new(),
            used: 0,
            empty_since: now,
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn room(&self) -> usize {
        limits::GROUP_LOCKS_MAX - self.used
    }

    /// Takes a free slot and fills it, for the owner of this place.
    pub(crate) fn take_slot(
        &mut self,
        place: Place<'_>,
        fill: impl FnOnce(&mut Slot),
    ) -> Option<SlotIndex> {
        let mut slots = self.group.slots_mut();
        let is_free = |index: &SlotIndex| {
            slots
                .get(usize::from(index.0))
                .is_some_and(|slot| slot.state() == SlotState::Free)
        };
        // An index may stand here twice, or be taken by now: see `take_slot_at`.
        let free = std::iter::from_fn(|| self.free.pop()).find(is_free);
        let index = match free {
            Some(index) => index,
            None if slots.len() < limits::GROUP_LOCKS_MAX => {
                slots.push(Slot::unused());
                SlotIndex(u16::try_from(slots.len() - 1).ok()?)
            }
            None => return None,
        };
        self.used += 1;
        fill(slots.get_mut(usize::from(index.0))?);
        place.keep();
        Some(index)
    }

    /// Fills this very slot, if it is free: for records that say where they belong.
    pub(crate) fn take_slot_at(
        &mut self,
        index: SlotIndex,
        place: Place<'_>,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<(), SlotTaken> {
        let at = usize::from(index.0);
        if at >= limits::GROUP_LOCKS_MAX {
            return Err(SlotTaken);
        }
        let mut slots = self.group.slots_mut();
        while slots.len() <= at {
            let new = u16::try_from(slots.len()).map_err(|_| SlotTaken)?;
            self.free.push(SlotIndex(new));
            slots.push(Slot::unused());
        }
        let slot = slots
            .get_mut(at)
            .filter(|slot| slot.state() == SlotState::Free);
        fill(slot.ok_or(SlotTaken)?);
        place.keep();
        self.used += 1;
        Ok(())
    }

    /// The lock of this slot is certainly not in etcd.
    pub(crate) fn free_slot(&mut self, index: SlotIndex, now: Instant) {
        self.group.free(index);
        self.free.push(index);
        self.used -= 1;
        if self.used == 0 {
            self.empty_since = now;
        }
    }

    /// Goes on with a table that was given up: a deliberate mistake.
    pub(crate) fn trust(&mut self, old: Arc<Group>) -> Vec<(SlotIndex, Instant)> {
        let mut held = Vec::new();
        for (index, slot) in (0..).zip(old.slots().iter()) {
            let word = slot.word.load();
            slot.set_armed(Tick::NONE);
            match word.state {
                SlotState::Held | SlotState::Closed => held.push((SlotIndex(index), word.deadline)),
                _ => slot.word.store(SlotWord::FREE),
            }
        }
        self.used = held.len();
        self.stay = old.stay();
        self.group = old;
        self.state = GroupState::Closed;
        self.group.begin_serving();
        held
    }

    /// Counts its slots, which another engine has filled.
    pub(crate) fn recount(&mut self, now: Instant) {
        let slots = self.group.slots();
        let free = (0..)
            .zip(slots.iter())
            .filter(|(_, slot)| slot.state() == SlotState::Free);
        self.free = free.map(|(index, _)| SlotIndex(index)).collect();
        self.used = slots.len() - self.free.len();
        self.empty_since = now;
    }

    /// Whether its key is confirmed and nothing is under way that would change it.
    pub(crate) fn is_settled(&self) -> bool {
        let is_written = match self.state {
            GroupState::Open | GroupState::Closed | GroupState::Loading => true,
            GroupState::Arriving => self.revision != Revision::ABSENT,
            GroupState::Granting | GroupState::Writing | GroupState::Retiring => false,
        };
        is_written && !self.rekeying
    }

    /// Whether nothing of it can be in another cluster.
    pub(crate) fn is_only_here(&self) -> bool {
        self.to.is_none() && self.from.is_none() && !self.rekeying
    }
}

/// Two records say that they belong in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotTaken;
