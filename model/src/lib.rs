//! A model of who owns a lock, and every state that it can be in.
//!
//! The engine's tests and the simulator run the code on what they think of; this is the protocol
//! itself, small enough that [stateright] visits every state of it: grants, renewals, expiries,
//! releases, sessions that are lost by time and by a wrong revoke, takeovers, writes that arrive
//! late or twice, gateways that stop, continue and die. In every state everything in
//! [`properties::names`] must hold. Each [`mutation::Mutation`] must break it.
//!
//! Begin with [`state::State`], then [`actions::Action`].
//!
//! # What is left out
//!
//! * One cluster, one name, one shard. A gateway's tables have one slot for the name, and a gateway
//!   waits for one write at a time; so writes of one gateway overtake each other only as late ones.
//! * Group leases do not end, and their proofs with them: half an hour is longer than anything
//!   here. A record is never rewritten: all TTLs are the same.
//! * Clocks do not drift, so there is no margin. A tick is a moment in which nothing is promised.
//! * What only asks or rewrites its own key is one step: a fence with its read, a round, a cold
//!   look-up, the load of a claimed group, the start of a session with its group. Where an answer
//!   comes later it finds the gateway in a later state that is visited too. A round proves from the
//!   moment of its read, which is the longest proof that it can give.
//! * A request is answered at once or not at all; a client counts its promise from the answer. Both
//!   make promises longer than they are.
//! * The answer to a write is that of its first copy. Elections are what they do: a session that is
//!   revoked.
//! * Anti-entropy, retiring of groups (a group without a record that nobody can write into is gone),
//!   hand-over (a session that is revoked by its own gateway), waiting, moves between clusters.

pub mod actions;
pub mod bounds;
mod canon;
mod forget;
mod healing;
pub mod moves;
pub mod mutation;
pub mod properties;
mod reached;
pub mod scenes;
pub mod search;
pub mod state;
mod steps;
mod visit;

use actions::Action;
use bounds::Bounds;
use mutation::Mutation;
use state::{ClientIx, GatewayIx, State};
use stateright::{Model, Property};
use steps::Step;

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Ownership {
    /// How large it is.
    pub bounds: Bounds,
    /// What is done wrong, if anything.
    pub mutation: Option<Mutation>,
    /// Whether states that differ only in which of the gateways, or clients, is which are the same.
    /// Then a way to a state may name them anew at each step.
    pub symmetry: bool,
}

impl Ownership {
    /// Within these bounds, and without a mistake.
    pub fn within(bounds: Bounds) -> Self {
        Self {
            bounds,
            mutation: None,
            symmetry: true,
        }
    }

    pub(crate) fn gateways(&self) -> impl Iterator<Item = GatewayIx> + use<> {
        (0..self.bounds.gateways).map(GatewayIx)
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientIx> + use<> {
        (0..self.bounds.clients).map(ClientIx)
    }
}

impl Model for Ownership {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.bounds)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.enabled(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let next = self.canonical(Step::after(self, state, action));
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = self.must_hold();
        properties.extend(self.must_be_reached());
        properties
    }
}
