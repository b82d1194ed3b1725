//! How large the model is.

use crate::state::{CLIENTS_MAX, GATEWAYS_MAX, LATE_WRITES_MAX, Left};

/// The longest TTL, in ticks.
const TTL_MAX: u8 = 16;

/// What there is of everything. Times are in ticks.
///
/// Nothing else bounds a search: there is no last moment and no greatest depth. Times are what is
/// left of them, ids and revisions that nothing compares any more are the same one, so there are
/// finitely many states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// At most [`GATEWAYS_MAX`].
    pub gateways: u8,
    /// At most [`CLIENTS_MAX`].
    pub clients: u8,
    /// Of a gateway's session.
    pub session_ttl: Left,
    /// Of the lock.
    pub lock_ttl: Left,
    /// Copies of writes that are under way although nobody waits for them, at a time. At most
    /// [`LATE_WRITES_MAX`].
    pub late_writes: u8,
    /// Sessions that are revoked although they were kept alive.
    pub wrong_revokes: Often,
    /// Gateways that die without a word and are started again.
    pub kills: Often,
    /// Changes of the shard's guard.
    pub guard_changes: Often,
}

/// How often a fault may happen in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Often {
    /// So many times more.
    Times(u8),
    /// Without an end.
    Always,
}

impl Often {
    /// Never at all.
    pub const NEVER: Self = Self::Times(0);

    pub(crate) fn is_left(self) -> bool {
        self != Self::NEVER
    }

    pub(crate) fn once_less(self) -> Self {
        match self {
            Self::Times(times) => Self::Times(times.saturating_sub(1)),
            Self::Always => Self::Always,
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            gateways: 2,
            clients: 2,
            session_ttl: Left(2),
            lock_ttl: Left(2),
            late_writes: 1,
            wrong_revokes: Often::NEVER,
            kills: Often::NEVER,
            guard_changes: Often::NEVER,
        }
    }
}

impl Bounds {
    /// Whether a model of this size can be made.
    pub fn are_possible(&self) -> bool {
        (1..=GATEWAYS_MAX).contains(&usize::from(self.gateways))
            && (1..=CLIENTS_MAX).contains(&usize::from(self.clients))
            && usize::from(self.late_writes) <= LATE_WRITES_MAX
            && (1..=TTL_MAX).contains(&self.session_ttl.0)
            && (1..=TTL_MAX).contains(&self.lock_ttl.0)
    }

    /// A name that nobody holds any more is free after this, once everything works again: its
    /// gateway's session may have to end, and its heir waits for the TTL and the session's TTL.
    /// The last tick is for a round that has just been made.
    pub fn free_within(&self) -> Left {
        Left(self.lock_ttl.0 + 2 * self.session_ttl.0 + 1)
    }

    /// How long an heir keeps what it has claimed (HEIR).
    pub(crate) fn heir_keeps(&self) -> Left {
        Left(self.lock_ttl.0 + self.session_ttl.0)
    }
}
