//! The turns of drivers, and the one step that an engine takes by itself.
//!
//! As `shard_map::rollout::take_turn`: home, then guard and groups of the cluster that is left, at one
//! revision, then those of the goal, then the write that follows from the two, compared with the guard
//! as it was read.

use super::Moves;
use super::guards::Next;
use super::mutation::Mutation;
use super::rollout::{GuardState, GuardWrite, MapVersion, SlowIx, SlowTurn, Survey};
use super::state::{ClusterIx, Lease, Origin, State};

impl Moves {
    /// What a driver writes that reads everything now.
    pub(crate) fn due(&self, state: &State) -> Option<GuardWrite> {
        let goal = state.map.goal();
        let (left, goal) = (state.survey(goal.other()), state.survey(goal));
        self.next_guard(state.map, left, goal).write()
    }

    pub(crate) fn look_goal(&self, state: &mut State, at: SlowIx) {
        let Some(SlowTurn::HasLeft { map, left }) = state.slow_turns[at.index()] else {
            return;
        };
        let next = self.next_guard(map, left, state.survey(map.goal()));
        // Reads of two moments may contradict each other. Only if the guard of what is left is still as it
        // was, a driver believes them: then both guards were so when it read the goal.
        let still_so = left.guard == state.cluster(map.goal().other()).guard;
        let stops_early = match next {
            Next::Broken => still_so || self.mutated(Mutation::ContradictionBelieved),
            Next::Done => !state.is_settled(),
            Next::Write(_) | Next::Waits => false,
        };
        // What it then writes in home is compared with the map that it has read.
        state.stopped_early |= stops_early && map == state.map;
        state.set_slow_turn(at, next.write().map(SlowTurn::Decided));
    }

    pub(crate) fn slow_write(&self, state: &mut State, at: SlowIx) {
        if let Some(SlowTurn::Decided(guard)) = state.slow_turns[at.index()] {
            state.set_slow_turn(at, None);
            self.write_guard(state, guard);
        }
    }

    /// Step 3, which needs no count: it follows from the guards alone, in the epoch of the one that is
    /// leaving, whatever the map says by now.
    pub(crate) fn following(&self, state: &State, at: ClusterIx) -> Option<GuardWrite> {
        let (left, goal) = (state.survey(at.other()), state.survey(at));
        let map = left.guard?.epoch;
        let write = self.next_guard(map, left, goal).write()?;
        (write.at == at && write.write.state == GuardState::Active && write.write.from)
            .then_some(write)
    }
}

impl State {
    pub(crate) fn look_left(&mut self, map: MapVersion) {
        let left = self.survey(map.goal().other());
        if let Some(at) = self.slow_turns.iter().position(Option::is_none) {
            self.slow_turns[at] = Some(SlowTurn::HasLeft { map, left });
            self.slow_turns.sort_unstable();
            self.left.slow_turns -= 1;
        }
    }

    fn set_slow_turn(&mut self, at: SlowIx, turn: Option<SlowTurn>) {
        self.slow_turns[at.index()] = turn;
        self.slow_turns.sort_unstable();
    }

    /// The shard is where the operator wants it, and so is all that belongs to it.
    pub(crate) fn is_settled(&self) -> bool {
        let at = self.map.goal();
        let (goal, left) = (self.survey(at), self.survey(at.other()));
        let active = goal.guard.is_some_and(|guard| {
            guard.state == GuardState::Active && !guard.from && guard.epoch == self.map
        });
        let record = self.cluster(at.other()).record;
        active && !goal.arriving && !left.groups && record.is_none()
    }

    /// The group that moves counts, and the one that holds later grants.
    pub(crate) fn survey(&self, at: ClusterIx) -> Survey {
        let cluster = self.cluster(at);
        let other = cluster
            .record
            .is_some_and(|record| record.lease == Lease::OTHER);
        let arriving = cluster.group.is_some_and(|key| key.from != Origin::Nowhere);
        Survey {
            guard: cluster.guard,
            groups: cluster.group.is_some() || other,
            arriving,
        }
    }
}
