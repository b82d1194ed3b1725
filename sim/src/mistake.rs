//! A deliberate mistake of a run: in the engine, or in the steps of guards.

use holdfast_gateway::engine::Mutation;
use shard_map::rollout;
use std::fmt;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mistake {
    /// In the engine.
    Engine(Mutation),
    /// In what a driver of a rollout writes next.
    Guards(rollout::Mutation),
}

impl Mistake {
    /// Every one there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let engine = Mutation::ALL.iter().copied().map(Self::Engine);
        engine.chain(rollout::Mutation::ALL.iter().copied().map(Self::Guards))
    }

    pub(crate) fn in_engine(self) -> Option<Mutation> {
        match self {
            Self::Engine(mutation) => Some(mutation),
            Self::Guards(_) => None,
        }
    }

    pub(crate) fn in_guards(self) -> rollout::Mistake {
        match self {
            Self::Engine(_) => rollout::Mistake::NONE,
            Self::Guards(mutation) => rollout::Mistake::of(mutation),
        }
    }
}

/// Its name alone.
impl fmt::Debug for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(mutation) => write!(f, "{mutation:?}"),
            Self::Guards(mutation) => write!(f, "{mutation:?}"),
        }
    }
}
