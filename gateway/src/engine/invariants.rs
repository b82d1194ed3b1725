//! What must hold of an engine's own state, swept after each input in debug builds.

use crate::engine::Engine;
use crate::engine::slot::SlotState;
use crate::engine::wheel::Tick;
use crate::engine::writes::SlotRef;
use crate::lock_id::SlotIndex;

/// The invariants of the design, and those of the tables they rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvariantId {
    /// A slot is counted as used exactly when it is not free.
    SlotCount,
    /// A hold that is ending is on its way out: someone will delete its record.
    EndingTracked,
    /// Every hold has an entry in the wheel, or it would never end.
    HoldArmed,
    /// PROOF: without a session nothing is proven.
    Proof,
    /// BOUND: no group has more slots than it may.
    Bound,
    /// Who stands in line is known by its ticket, in the order of places, and somebody will look.
    Lines,
}

impl Engine {
    /// Panics on a broken invariant, in debug builds only.
    pub(crate) fn check_invariants(&self) {
        if cfg!(debug_assertions) && !self.proof.is_mutated() && self.groups.len() < 64 {
            let broken = self.broken_invariant();
            debug_assert!(broken.is_none(), "invariant broken: {broken:?}");
        }
    }

    fn broken_invariant(&self) -> Option<InvariantId> {
        if self.session.live().is_none() && self.proof.is_proven(self.now) {
            return Some(InvariantId::Proof);
        }
        if !self.lines.are_sound() {
            return Some(InvariantId::Lines);
        }
        for at in self.endings.iter() {
            let state = self
                .groups
                .get(at.group)
                .and_then(|ctl| ctl.group.with_slot(at.slot, |slot| slot.state()));
            if state != Some(SlotState::Ending) {
                return Some(InvariantId::EndingTracked);
            }
        }
        for (group, ctl) in self.groups.iter() {
            let slots = ctl.group.slots();
            for (at, slot) in slots.iter().enumerate() {
                let at = SlotRef {
                    group,
                    slot: SlotIndex(u16::try_from(at).unwrap_or(u16::MAX)),
                };
                match slot.state() {
                    SlotState::Ending if !self.endings.has(at) => {
                        return Some(InvariantId::EndingTracked);
                    }
                    SlotState::Held | SlotState::Closed if slot.armed() == Tick::NONE => {
                        return Some(InvariantId::HoldArmed);
                    }
                    _ => {}
                }
            }
            let used = slots
                .iter()
                .filter(|slot| slot.state() != SlotState::Free)
                .count();
            if used != ctl.used() {
                return Some(InvariantId::SlotCount);
            }
            if slots.len() > crate::limits::GROUP_LOCKS_MAX {
                return Some(InvariantId::Bound);
            }
        }
        None
    }
}
