//! A model of one shard that moves between two clusters, with the one group that it has, and every
//! state that it can be in.
//!
//! Gateways lose their sessions in one cluster or die at any step, write what they learn of late or
//! never, hold guards that they read long ago, take the group over in the middle of its move; the
//! goal of the rollout turns while it is under way; drivers read one cluster, then the other, and write
//! a guard that follows from both, while all of that goes on. The steps of guards, of grants and of the
//! group are those of the design. In every state everything in [`properties::names`] must hold, and from
//! every state the rollout must come to its end once nothing goes wrong any more. Each
//! [`mutation::Mutation`] must break something.
//!
//! Begin with [`state::State`], then [`actions::Action`].
//!
//! # What is left out
//!
//! * Time. Deadlines, proofs and what an heir waits for are in the model of ownership; here a
//!   session ends at any moment, and a gateway learns of it later.
//! * One name. Its first hold is in the group that moves. Later ones are in a group of their own
//!   that stays where it is; it keeps the rollout waiting until the hold is released.
//! * A write of a gateway without an answer may be carried out until the gateway has fenced it off or
//!   its session has ended; then it is refused. Writes of guards have no fence: those of slow turns may
//!   arrive at any later time.
//! * Gateways that come or do not come where the shard goes, and other shards. A driver takes steps for
//!   one shard, and waits for nothing but its groups.
//! * A driver remembers nothing from turn to turn. It may have read home long before the clusters: it
//!   works for any map there has been. That it finds a rollout over, or broken, is judged when it does.
//! * A gateway may take for present the newest guard under which its group could once go to the other
//!   cluster, whenever it was read, but none that came before that; the guard of the group's own cluster
//!   it reads when it begins.
//! * A revoke of a lease is one step. Its id is used once, so that a later revoke of it does nothing.

pub mod actions;
mod driver;
mod grants;
mod group;
mod guards;
mod healing;
pub mod mutation;
pub mod properties;
pub mod rollout;
pub mod state;
mod steps;

use actions::Action;
use mutation::Mutation;
use state::State;
use stateright::{Model, Property};

/// How much happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How often the goal of the rollout turns.
    pub turns: u8,
    /// How often a gateway loses a session, or dies.
    pub losses: u8,
    /// How often a driver takes long over a turn: anything may happen between its two reads, and
    /// before its write arrives. There are two such turns at a time at most; all others, of which there is
    /// no end, are one step. Without any, no write of a guard is late, and no count of groups old.
    pub slow_turns: u8,
    /// Whether a write of a gateway can have no answer.
    pub unheard: bool,
    /// How often the name is granted again.
    pub grants: u8,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Moves {
    /// How much happens.
    pub bounds: Bounds,
    /// What is done wrong, if anything.
    pub mutation: Option<Mutation>,
}

impl Moves {
    /// Within these bounds, and without a mistake.
    pub const fn within(bounds: Bounds) -> Self {
        Self {
            bounds,
            mutation: None,
        }
    }

    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Model for Moves {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.bounds)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.enabled(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let next = self.after(state, action);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = properties::must_hold();
        properties.extend(properties::must_be_reached());
        properties
    }
}
