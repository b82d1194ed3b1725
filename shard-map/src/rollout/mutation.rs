//! Deliberate mistakes, to test the tests: the simulator and the property tests must find each of
//! them from outside.
//!
//! Without the feature `mutations` there are none, and what asks for them is compiled away.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mutation {
    /// A guard is written without comparing the one that was read.
    GuardUncompared = 1,
    /// A change of direction takes the epoch that the guards have, so that one of them is lowered.
    GuardLowered,
    /// A rollback leaves the guard of the cluster absent to which the shard was going.
    RollbackLeavesAbsent,
    /// The guard that a rollback creates has no token base.
    RollbackWithoutBase,
    /// `from` is dropped, and the other guard moved, while groups are still on their way.
    FromDroppedEarly,
    /// A rollback leaves the guards of shards as they were whose turn had not come.
    RestLeftAsItWas,
}

impl Mutation {
    /// Every mistake there is.
    pub const ALL: &'static [Self] = &[
        Self::GuardUncompared,
        Self::GuardLowered,
        Self::RollbackLeavesAbsent,
        Self::RollbackWithoutBase,
        Self::FromDroppedEarly,
        Self::RestLeftAsItWas,
    ];
}

/// Which mistake is made, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mistake(#[cfg(any(test, feature = "mutations"))] Option<Mutation>);

impl Mistake {
    /// No mistake.
    pub const NONE: Self = Self(
        #[cfg(any(test, feature = "mutations"))]
        None,
    );

    /// This mistake.
    #[cfg(any(test, feature = "mutations"))]
    pub const fn of(mutation: Mutation) -> Self {
        Self(Some(mutation))
    }

    #[cfg(any(test, feature = "mutations"))]
    pub(super) fn is(self, mutation: Mutation) -> bool {
        self.0 == Some(mutation)
    }

    #[cfg(not(any(test, feature = "mutations")))]
    #[expect(
        clippy::unused_self,
        reason = "the same call as with the feature `mutations`"
    )]
    pub(super) const fn is(self, _: Mutation) -> bool {
        false
    }
}
