//! The rollout's steps: which write of a guard comes next, and what it does.

use super::Moves;
use super::mutation::Mutation;
use super::state::{ClusterIx, Guard, GuardState, GuardWrite, Lease, Origin, State};

impl Moves {
    /// What `shard_map::rollout::next_step` says, for two clusters.
    pub(crate) fn next_guard(&self, state: &State) -> Option<GuardWrite> {
        use GuardState::{Active, Leaving, Moved};
        let (at, beside) = (state.goal, state.goal.other());
        let (goal, other) = (state.cluster(at).guard, state.cluster(beside).guard);
        let write =
            |at: ClusterIx, read: Option<Guard>, write: Guard| Some(GuardWrite { at, read, write });
        let leave = |other: Guard, above: u8| {
            let epoch = match self.mutated(Mutation::GuardLowered) {
                true => other.epoch.max(above).saturating_sub(1),
                false => other.epoch.max(above) + 1,
            };
            let leaving = Guard {
                epoch,
                state: Leaving,
                from: false,
                ..other
            };
            write(beside, Some(other), leaving)
        };
        let arrive = |read: Option<Guard>, other: Guard| {
            let active = Guard {
                epoch: other.epoch,
                state: Active,
                from: true,
                base: other.base + other.left_at,
                left_at: 0,
            };
            write(at, read, active)
        };
        let turn_back = |read: Option<Guard>, goal: Guard| {
            let base = match self.mutated(Mutation::RollbackWithoutBase) {
                true => 0,
                false => goal.base + goal.left_at,
            };
            let leaving = Guard {
                epoch: goal.epoch + 1,
                state: Leaving,
                from: false,
                base,
                left_at: 0,
            };
            write(beside, read, leaving)
        };
        match (
            goal.map(|guard| (guard.state, guard)),
            other.map(|guard| (guard.state, guard)),
        ) {
            (Some((Leaving, goal)), None) if self.mutated(Mutation::RollbackLeavesAbsent) => {
                let active = Guard {
                    epoch: goal.epoch + 1,
                    state: Active,
                    ..goal
                };
                write(at, Some(goal), active)
            }
            (Some((Leaving, goal)), None) => turn_back(None, goal),
            (None, Some((Active, other))) => leave(other, 0),
            (None, Some((Leaving, other))) => arrive(None, other),
            (Some((Active, goal)), Some((Leaving, other))) if goal.epoch == other.epoch => {
                let empty = state.is_left(beside) && state.has_arrived(at);
                let moved = Guard {
                    state: Moved,
                    ..other
                };
                (empty || self.mutated(Mutation::FromDroppedEarly))
                    .then(|| write(beside, Some(other), moved))?
            }
            (Some((Active, goal)), Some((Moved, _))) if goal.from => write(
                at,
                Some(goal),
                Guard {
                    from: false,
                    ..goal
                },
            ),
            (Some((Leaving | Moved, goal)), Some((Active, other))) => leave(other, goal.epoch),
            (Some((Leaving, goal)), Some((Leaving | Moved, other))) if goal.epoch > other.epoch => {
                turn_back(Some(other), goal)
            }
            (Some((Leaving | Moved, goal)), Some((Leaving, other))) => arrive(Some(goal), other),
            _ => None,
        }
    }

    pub(crate) fn write_guard(&self, state: &mut State, guard: GuardWrite) {
        let cluster = state.cluster_mut(guard.at);
        let before = cluster.guard;
        if before != guard.read && !self.mutated(Mutation::GuardUncompared) {
            return;
        }
        let mut after = guard.write;
        if after.state == GuardState::Leaving && after.left_at == 0 {
            cluster.revision += 1;
            after.left_at = cluster.revision;
        }
        cluster.guard = Some(after);
        state.guard_lowered |= before.is_some_and(|before| after.rank() <= before.rank());
    }
}

impl Guard {
    /// (epoch, state), in the order in which a guard goes through them.
    fn rank(&self) -> (u8, u8) {
        let state = match (self.state, self.from) {
            (GuardState::Active, true) => 0,
            (GuardState::Active, false) => 1,
            (GuardState::Leaving, _) => 2,
            (GuardState::Moved, _) => 3,
        };
        (self.epoch, state)
    }
}

impl State {
    /// No group of the shard is in this cluster: neither the one that moves nor the one that holds
    /// later grants.
    fn is_left(&self, at: ClusterIx) -> bool {
        let cluster = self.cluster(at);
        let other = cluster
            .record
            .is_some_and(|record| record.lease == Lease::OTHER);
        cluster.group.is_none() && !other
    }

    fn has_arrived(&self, at: ClusterIx) -> bool {
        let group = self.cluster(at).group;
        group.is_none_or(|key| key.from == Origin::Nowhere)
    }

    /// The shard is where the operator wants it, and so is all that belongs to it.
    pub(crate) fn is_settled(&self) -> bool {
        let at = self.goal;
        let active = self
            .cluster(at)
            .guard
            .is_some_and(|guard| guard.state == GuardState::Active && !guard.from);
        let left = self.is_left(at.other()) && self.cluster(at.other()).record.is_none();
        active && left && self.has_arrived(at)
    }
}
