//! A slot's state and deadline in one atomic word.
//!
//! Renewals run on many threads while the engine ends holds on its own; with both in one word a
//! renewal and the expiry of the same slot cannot both win. `Held → Ending` is final.

use crate::time::Instant;
use std::sync::atomic::{AtomicU64, Ordering};

const STATE_BITS: u32 = 3;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;
/// A hold that is only offered.
const OFFERED: u64 = 5;

/// What a slot is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Nothing: no lock, or one whose end etcd has confirmed.
    Free,
    /// A grant is on its way and its outcome is not known.
    Pending,
    /// A hold with a deadline.
    Held,
    /// A hold that is over here; its record may still be in etcd.
    Ending,
    /// A hold that was force-released: it lasts until its deadline, which nothing moves any more.
    Closed,
}

impl SlotState {
    /// Whether there is a promise that may not have ended.
    pub(crate) fn is_hold(self) -> bool {
        matches!(self, Self::Held | Self::Closed)
    }
}

/// A state and, for a hold, its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotWord {
    pub(crate) state: SlotState,
    pub(crate) deadline: Instant,
    /// Of a hold: so far only one answer tells of it, to a client that may have gone while it waited.
    pub(crate) offered: bool,
}

impl SlotWord {
    pub(crate) const FREE: Self = Self::new(SlotState::Free, Instant::NEVER);
    pub(crate) const PENDING: Self = Self::new(SlotState::Pending, Instant::NEVER);
    pub(crate) const ENDING: Self = Self::new(SlotState::Ending, Instant::NEVER);

    const fn new(state: SlotState, deadline: Instant) -> Self {
        Self {
            state,
            deadline,
            offered: false,
        }
    }

    pub(crate) const fn held(deadline: Instant) -> Self {
        Self::new(SlotState::Held, deadline)
    }

    /// A hold that may still turn out to reach nobody ([`AtomicSlotWord::take_back`]).
    pub(crate) const fn offered(deadline: Instant) -> Self {
        Self {
            offered: true,
            ..Self::held(deadline)
        }
    }

    pub(crate) const fn closed(deadline: Instant) -> Self {
        Self::new(SlotState::Closed, deadline)
    }

    const fn pack(self) -> u64 {
        let state = match self.offered {
            true => OFFERED,
            false => self.state as u64,
        };
        (self.deadline.as_ms() << STATE_BITS) | state
    }

    const fn unpack(word: u64) -> Self {
        let state = match word & STATE_MASK {
            0 => SlotState::Free,
            1 => SlotState::Pending,
            2 | OFFERED => SlotState::Held,
            4 => SlotState::Closed,
            _ => SlotState::Ending,
        };
        Self {
            state,
            deadline: Instant::from_ms(word >> STATE_BITS),
            offered: word & STATE_MASK == OFFERED,
        }
    }
}

/// The word, shared between the engine and the threads that renew.
#[derive(Debug)]
pub(crate) struct AtomicSlotWord(AtomicU64);

impl AtomicSlotWord {
    pub(crate) const fn new(word: SlotWord) -> Self {
        Self(AtomicU64::new(word.pack()))
    }

    pub(crate) fn load(&self) -> SlotWord {
        SlotWord::unpack(self.0.load(Ordering::Acquire))
    }

    /// Sets it whatever it was. Only for the engine, and never on a hold that others may renew.
    pub(crate) fn store(&self, word: SlotWord) {
        self.0.store(word.pack(), Ordering::Release);
    }

    /// Moves the deadline of a hold to `until` unless it is later already. The hold is not only offered
    /// any more: whoever renews it knows of it.
    ///
    /// Returns the deadline that it had; `None`, and changes nothing, when there is no hold or its
    /// deadline has come at `now`.
    pub(crate) fn extend(&self, now: Instant, until: Instant) -> Option<Instant> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let word = SlotWord::unpack(seen);
            if word.state != SlotState::Held || word.deadline <= now {
                return None;
            }
            if until <= word.deadline && !word.offered {
                return Some(word.deadline);
            }
            match self.0.compare_exchange_weak(
                seen,
                SlotWord::held(until.max(word.deadline)).pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(word.deadline),
                Err(changed) => seen = changed,
            }
        }
    }

    /// Ends a hold if its deadline has come at `now`. `Err` tells the word that forbids it.
    pub(crate) fn expire(&self, now: Instant) -> Result<(), SlotWord> {
        self.end_if(|word| word.deadline <= now)
    }

    /// Ends a hold whatever its deadline is. `Err` tells the word that forbids it.
    pub(crate) fn end(&self) -> Result<(), SlotWord> {
        self.end_if(|_| true)
    }

    /// Ends a hold that is only offered, because the answer that tells of it has reached nobody. `Err`
    /// tells the word that forbids it.
    pub(crate) fn take_back(&self) -> Result<(), SlotWord> {
        self.end_if(|word| word.offered)
    }

    /// Closes a hold: its deadline, which is told, stands. `Err` tells the word that forbids it.
    pub(crate) fn close(&self) -> Result<Instant, SlotWord> {
        let may_close = |word: SlotWord| word.state == SlotState::Held;
        self.change_if(may_close, |word| SlotWord::closed(word.deadline))
            .map(|word| word.deadline)
    }

    fn end_if(&self, may_end: impl Fn(SlotWord) -> bool) -> Result<(), SlotWord> {
        let may_end = |word: SlotWord| word.state.is_hold() && may_end(word);
        self.change_if(may_end, |_| SlotWord::ENDING).map(drop)
    }

    /// Changes the word if it may be changed, and tells the one that it was; `Err` that which may
    /// not.
    fn change_if(
        &self,
        may: impl Fn(SlotWord) -> bool,
        change: impl Fn(SlotWord) -> SlotWord,
    ) -> Result<SlotWord, SlotWord> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let word = SlotWord::unpack(seen);
            if !may(word) {
                return Err(word);
            }
            match self.0.compare_exchange_weak(
                seen,
                change(word).pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(word),
                Err(changed) => seen = changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ms(ms)
    }

    #[test]
    fn a_word_holds_state_and_deadline() {
        for word in [
            SlotWord::FREE,
            SlotWord::PENDING,
            SlotWord::ENDING,
            SlotWord::held(at(0)),
            SlotWord::held(at((1 << 61) - 1)),
            SlotWord::offered(at((1 << 61) - 1)),
            SlotWord::closed(at((1 << 61) - 1)),
        ] {
            assert_eq!(SlotWord::unpack(word.pack()), word);
        }
    }

    #[test]
    fn a_renewal_after_the_deadline_is_expired_not_revived() {
        let word = AtomicSlotWord::new(SlotWord::held(at(100)));
        assert_eq!(word.extend(at(100), at(200)), None);
        assert_eq!(word.load(), SlotWord::held(at(100)));
    }

    #[test]
    fn a_renewal_never_shortens() {
        let word = AtomicSlotWord::new(SlotWord::held(at(100)));
        assert!(word.extend(at(10), at(50)).is_some());
        assert_eq!(word.load(), SlotWord::held(at(100)));
        assert!(word.extend(at(10), at(150)).is_some());
        assert_eq!(word.load(), SlotWord::held(at(150)));
    }

    #[test]
    fn ending_is_final() {
        let word = AtomicSlotWord::new(SlotWord::held(at(100)));
        assert_eq!(word.expire(at(99)), Err(SlotWord::held(at(100))));
        assert_eq!(word.expire(at(100)), Ok(()));
        assert_eq!(word.extend(at(0), at(1000)), None);
        assert_eq!(word.end(), Err(SlotWord::ENDING));
    }

    #[test]
    fn what_is_closed_is_not_renewed_and_ends_at_its_deadline() {
        let word = AtomicSlotWord::new(SlotWord::held(at(100)));
        assert_eq!(word.close(), Ok(at(100)));
        assert_eq!(word.extend(at(10), at(200)), None);
        assert_eq!(word.close(), Err(SlotWord::closed(at(100))));
        assert_eq!(word.expire(at(99)), Err(SlotWord::closed(at(100))));
        assert_eq!(word.expire(at(100)), Ok(()));
        assert_eq!(word.load(), SlotWord::ENDING);
    }

    #[test]
    fn what_was_offered_is_taken_back_unless_somebody_has_renewed_it() {
        let word = AtomicSlotWord::new(SlotWord::offered(at(100)));
        assert_eq!(word.load().state, SlotState::Held);
        assert_eq!(word.take_back(), Ok(()));
        assert_eq!(word.extend(at(0), at(50)), None);
        let word = AtomicSlotWord::new(SlotWord::offered(at(100)));
        // Even one that moves nothing tells somebody of the hold.
        assert_eq!(word.extend(at(0), at(50)), Some(at(100)));
        assert_eq!(word.take_back(), Err(SlotWord::held(at(100))));
    }

    #[test]
    fn of_a_renewal_and_an_expiry_of_one_slot_exactly_one_wins() {
        for _ in 0..2000 {
            let word = AtomicSlotWord::new(SlotWord::held(at(100)));
            let (renewed, expired) = std::thread::scope(|scope| {
                let renewal = scope.spawn(|| word.extend(at(99), at(200)).is_some());
                let expiry = scope.spawn(|| word.expire(at(100)).is_ok());
                (renewal.join().unwrap(), expiry.join().unwrap())
            });
            assert!(renewed != expired);
        }
    }
}
