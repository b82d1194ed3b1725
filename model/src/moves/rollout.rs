//! What a rollout is made of: maps, guards, and what drivers have read and are about to write.

use super::state::ClusterIx;

/// Turns that drivers take long over, at a time.
pub(crate) const SLOW_TURNS: usize = 2;

/// The version of a map that says where the shard goes; each turn of the goal makes a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapVersion(pub u8);

impl MapVersion {
    /// That of the first rollout, to the other cluster.
    pub(crate) const FIRST: Self = Self(2);

    /// Where it wants the shard.
    pub(crate) fn goal(self) -> ClusterIx {
        match self.0 % 2 {
            0 => ClusterIx::B,
            _ => ClusterIx::A,
        }
    }

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// It and those before it.
    pub(crate) fn so_far(self) -> impl Iterator<Item = Self> {
        (Self::FIRST.0..=self.0).map(Self)
    }
}

/// The guard of the shard in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Guard {
    /// The map under which it was written.
    pub(crate) epoch: MapVersion,
    pub(crate) state: GuardState,
    /// Names may still be held in the other cluster.
    pub(crate) from: bool,
    pub(crate) base: u8,
    /// The revision at which it became leaving.
    pub(crate) left_at: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GuardState {
    Active,
    Leaving,
    Moved,
}

impl Guard {
    /// Groups may come here from the other cluster.
    pub(crate) fn admits_groups(&self) -> bool {
        self.state == GuardState::Active && self.from
    }

    /// (epoch, state), in the order in which a guard goes through them.
    pub(crate) fn rank(&self) -> (MapVersion, u8) {
        let state = match (self.state, self.from) {
            (GuardState::Active, true) => 0,
            (GuardState::Active, false) => 1,
            (GuardState::Leaving, _) => 2,
            (GuardState::Moved, _) => 3,
        };
        (self.epoch, state)
    }
}

/// A compare-and-set of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GuardWrite {
    pub(crate) at: ClusterIx,
    pub(crate) read: Option<Guard>,
    pub(crate) write: Guard,
}

/// What a driver reads of one cluster, all of it at one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Survey {
    pub(crate) guard: Option<Guard>,
    /// There are groups of the shard,
    pub(crate) groups: bool,
    /// and some that come from the other cluster.
    pub(crate) arriving: bool,
}

/// A turn of a driver between two of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SlowTurn {
    /// It works for this map, and has read the cluster that is left.
    HasLeft { map: MapVersion, left: Survey },
    /// It has read the goal, too, and this write is on its way.
    Decided(GuardWrite),
}

/// One of the slow turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlowIx(pub u8);

impl SlowIx {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}
