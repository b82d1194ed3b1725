//! The expiry wheel: one entry per hold, re-armed lazily.
//!
//! A renewal only stores a later deadline in the slot. When the entry comes due the engine looks
//! at the slot and, if the hold goes on, arms the entry again: a lock renewed three times per TTL
//! costs the wheel one visit per TTL.
//!
//! Two levels: ticks of [`TICK`] for the next few seconds, and laps of them beyond. An entry for a
//! time that lies further ahead than the wheel reaches is armed for its end, and again when it
//! gets there. Written here because it must hold a million entries in eight bytes each and be
//! driven by virtual time.

use crate::engine::group::GroupNumber;
use crate::lock_id::SlotIndex;
use crate::time::{Instant, Millis};

/// The wheel's resolution: an entry comes due at most this much after its time.
pub(crate) const TICK: Millis = Millis::from_ms(32);
const SLOTS: u64 = 256;
const LAPS: u64 = 256;
/// Ticks that an entry can tell apart.
const TICKS_TOLD: u64 = 1 << 16;

const _: () = assert!(SLOTS * LAPS <= TICKS_TOLD);

/// A tick of the clock, counted from its zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Tick(u32);

impl Tick {
    /// Before every tick that an entry can have.
    pub(crate) const NONE: Self = Self(0);

    fn from_u64(tick: u64) -> Self {
        Self(u32::try_from(tick).unwrap_or(u32::MAX))
    }

    /// As a plain number, to be kept in a slot.
    pub(crate) fn as_u32(self) -> u32 {
        self.0
    }

    /// From [`Tick::as_u32`].
    pub(crate) fn from_u32(tick: u32) -> Self {
        Self(tick)
    }

    /// What tells it from every other tick that the wheel reaches.
    fn low(self) -> u16 {
        u16::try_from(u64::from(self.0) % TICKS_TOLD).unwrap_or(0)
    }
}

/// A slot to look at, and the tick it was armed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    group: GroupNumber,
    slot: SlotIndex,
    tick: u16,
}

const _: () = assert!(size_of::<Entry>() == 8);

impl Entry {
    /// `tick` is what [`Wheel::tick_for`] says.
    pub(crate) fn new(group: GroupNumber, slot: SlotIndex, tick: Tick) -> Self {
        let tick = tick.low();
        Self { group, slot, tick }
    }

    pub(crate) fn group(&self) -> GroupNumber {
        self.group
    }

    pub(crate) fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// Whether it was armed for this tick. Entries that were armed earlier are stale.
    pub(crate) fn is_armed_for(&self, tick: Tick) -> bool {
        tick != Tick::NONE && tick.low() == self.tick
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// Every tick before this one has been handed out.
    next: u64,
    near: Vec<Vec<Entry>>,
    far: Vec<Vec<Entry>>,
    len: usize,
}

impl Wheel {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            next: now.as_ms() / TICK.as_ms(),
            near: (0..SLOTS).map(|_| Vec::new()).collect(),
            far: (0..LAPS).map(|_| Vec::new()).collect(),
            len: 0,
        }
    }

    /// The tick in which an entry for this time comes due: the first that begins at or after
    /// `time` and that the wheel can still hand out.
    pub(crate) fn tick_for(&self, time: Instant) -> Tick {
        let tick = time.as_ms().div_ceil(TICK.as_ms());
        let end = (self.next / SLOTS + LAPS) * SLOTS;
        Tick::from_u64(tick.clamp(self.next, end - 1))
    }

    /// Has the entry come due at its tick.
    pub(crate) fn arm(&mut self, entry: Entry) {
        self.len += 1;
        self.place(entry);
    }

    /// Moves every entry that is due at `now` to `due`.
    pub(crate) fn advance(&mut self, now: Instant, due: &mut Vec<Entry>) {
        let end = now.as_ms() / TICK.as_ms() + 1;
        if self.len == 0 {
            self.next = self.next.max(end);
            return;
        }
        while self.next < end {
            let slot = &mut self.near[index(self.next, SLOTS)];
            self.len -= slot.len();
            if due.is_empty() {
                std::mem::swap(due, slot);
            } else {
                due.append(slot);
            }
            self.next += 1;
            if self.next.is_multiple_of(SLOTS) {
                // At once, so that `next_wakeup` sees what this lap has.
                self.begin_lap(self.next / SLOTS);
            }
        }
    }

    /// When the wheel wants to be advanced next; `None` when it is empty.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        let lap_end = (self.next / SLOTS + 1) * SLOTS;
        let tick = (self.next..lap_end)
            .find(|tick| !self.near[index(*tick, SLOTS)].is_empty())
            .unwrap_or(lap_end);
        Some(Instant::from_ms(tick * TICK.as_ms()))
    }

    pub(crate) fn clear(&mut self) {
        self.near
            .iter_mut()
            .chain(&mut self.far)
            .for_each(|slot| *slot = Vec::new());
        self.len = 0;
    }

    fn begin_lap(&mut self, lap: u64) {
        for entry in std::mem::take(&mut self.far[index(lap, LAPS)]) {
            self.place(entry);
        }
    }

    fn place(&mut self, entry: Entry) {
        // No entry lies behind, and none as far ahead as ticks look the same again.
        let ahead = (u64::from(entry.tick) + TICKS_TOLD - self.next % TICKS_TOLD) % TICKS_TOLD;
        let tick = self.next + ahead;
        let lap = tick / SLOTS;
        if lap == self.next / SLOTS {
            self.near[index(tick, SLOTS)].push(entry);
        } else {
            self.far[index(lap, LAPS)].push(entry);
        }
    }
}

fn index(tick: u64, size: u64) -> usize {
    usize::try_from(tick % size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The time after which the wheel's reach begins anew.
    const REACH_MS: u64 = (LAPS - 1) * SLOTS * 32;

    fn arm(wheel: &mut Wheel, slot: u16, deadline_ms: u64) {
        let tick = wheel.tick_for(Instant::from_ms(deadline_ms));
        wheel.arm(Entry::new(GroupNumber(1), SlotIndex(slot), tick));
    }

    #[test]
    fn an_entry_of_the_next_lap_is_seen_when_this_one_has_just_ended() {
        let mut wheel = Wheel::new(Instant::NEVER);
        let mut due = Vec::new();
        let lap_ms = SLOTS * TICK.as_ms();
        arm(&mut wheel, 1, 2 * lap_ms - TICK.as_ms());
        arm(&mut wheel, 2, 2 * lap_ms + 8 * TICK.as_ms());
        wheel.advance(Instant::from_ms(2 * lap_ms - TICK.as_ms()), &mut due);
        assert_eq!(due.len(), 1);
        let wakeup = Instant::from_ms(2 * lap_ms + 8 * TICK.as_ms());
        assert_eq!(wheel.next_wakeup(), Some(wakeup));
    }

    #[test]
    fn an_entry_beyond_the_reach_comes_due_at_its_end_and_can_be_told() {
        let mut wheel = Wheel::new(Instant::from_ms(5_000));
        let deadline = Instant::from_ms(10 * REACH_MS);
        let tick = wheel.tick_for(deadline);
        arm(&mut wheel, 1, deadline.as_ms());
        let mut due = Vec::new();
        wheel.advance(Instant::from_ms(REACH_MS), &mut due);
        assert!(due.is_empty());
        wheel.advance(Instant::from_ms(2 * REACH_MS), &mut due);
        assert!(due.len() == 1 && due[0].is_armed_for(tick));
        assert!(!due[0].is_armed_for(wheel.tick_for(deadline)));
    }

    proptest! {
        #[test]
        fn every_entry_comes_due_once_not_early_and_at_most_a_tick_late(
            start in 0u64..100_000,
            entries in prop::collection::vec(0..REACH_MS, 1..60),
            steps in prop::collection::vec(1u64..40_000, 1..200),
        ) {
            let mut wheel = Wheel::new(Instant::from_ms(start));
            for (slot, after) in entries.iter().enumerate() {
                arm(&mut wheel, u16::try_from(slot).unwrap(), start + after);
            }
            let mut now = start;
            let mut seen = vec![0; entries.len()];
            for step in steps.iter().copied().chain([3_100_000]) {
                let before = now;
                now += step;
                let mut due = Vec::new();
                wheel.advance(Instant::from_ms(now), &mut due);
                for entry in due {
                    let slot = usize::from(entry.slot.0);
                    let deadline = start + entries[slot];
                    prop_assert!(deadline <= now);
                    prop_assert!(deadline + TICK.as_ms() > before || deadline <= start);
                    seen[slot] += 1;
                }
            }
            prop_assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
            prop_assert_eq!(wheel.next_wakeup(), None);
        }

        #[test]
        fn waking_when_asked_finds_every_entry_in_time(
            start in 0u64..100_000,
            entries in prop::collection::vec(0..REACH_MS, 1..40),
        ) {
            let mut wheel = Wheel::new(Instant::from_ms(start));
            for (slot, after) in entries.iter().enumerate() {
                arm(&mut wheel, u16::try_from(slot).unwrap(), start + after);
            }
            let mut found = 0;
            while let Some(now) = wheel.next_wakeup() {
                let mut due = Vec::new();
                wheel.advance(now, &mut due);
                for entry in due {
                    let deadline = start + entries[usize::from(entry.slot.0)];
                    prop_assert!(now.as_ms() < deadline + 2 * TICK.as_ms());
                    found += 1;
                }
            }
            prop_assert_eq!(found, entries.len());
        }
    }
}
