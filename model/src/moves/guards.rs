//! The rollout's steps: which write of a guard comes next, and what it does.

use super::Moves;
use super::mutation::Mutation;
use super::rollout::{Guard, GuardState, GuardWrite, MapVersion, Survey};
use super::state::{ClusterIx, State};

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Write(GuardWrite),
    /// Nothing before groups have moved, or home is read again.
    Waits,
    Done,
    /// The guards contradict the order in which they are written: nobody goes on by itself.
    Broken,
}

impl Next {
    pub(crate) fn write(self) -> Option<GuardWrite> {
        match self {
            Self::Write(write) => Some(write),
            Self::Waits | Self::Done | Self::Broken => None,
        }
    }
}

impl Moves {
    /// What `shard_map::rollout::next_step` says, for two clusters.
    pub(crate) fn next_guard(&self, map: MapVersion, left: Survey, goal: Survey) -> Next {
        use GuardState::{Active, Leaving, Moved};
        let step = Step { model: self, map };
        let later = |guard: Option<Guard>| guard.is_some_and(|guard| guard.epoch > map);
        if later(left.guard) || later(goal.guard) {
            return Next::Waits;
        }
        let state = |guard: Option<Guard>| guard.map(|guard| (guard.state, guard));
        match (state(goal.guard), state(left.guard)) {
            (Some((Active, goal)), None) => step.settled(goal),
            (Some((Leaving, goal)), None) if self.mutated(Mutation::RollbackLeavesAbsent) => step
                .to_goal(
                    Some(goal),
                    Guard {
                        epoch: map,
                        state: Active,
                        ..goal
                    },
                ),
            (Some((Leaving, goal)), None) => step.turn_back(None, goal),
            (None, Some((Active, left))) if !left.from => step.leave(left),
            (None, Some((Leaving, left))) => step.arrive(None, left),
            (Some((Active, g)), Some((Leaving, l))) if g.from && g.epoch == l.epoch => {
                let moved = !left.groups && !goal.arriving;
                match moved || self.mutated(Mutation::FromDroppedEarly) {
                    true => step.to_left(Some(l), Guard { state: Moved, ..l }),
                    false => Next::Waits,
                }
            }
            (Some((Active, goal)), Some((Moved, left)))
                if goal.from && goal.epoch == left.epoch =>
            {
                let from = false;
                step.to_goal(Some(goal), Guard { from, ..goal })
            }
            (Some((Active, goal)), Some((Moved, left))) if goal.epoch >= left.epoch => {
                step.settled(goal)
            }
            (Some((Leaving, goal)), Some((Active, left)))
                if left.from && goal.epoch == left.epoch =>
            {
                step.leave(left)
            }
            (Some((Leaving, goal)), Some((Leaving | Moved, left))) if goal.epoch > left.epoch => {
                step.turn_back(Some(left), goal)
            }
            (Some((Leaving | Moved, goal)), Some((Leaving, left))) if left.epoch > goal.epoch => {
                step.arrive(Some(goal), left)
            }
            (Some((Moved, goal)), Some((Active, left))) if left.epoch >= goal.epoch => {
                step.leave(left)
            }
            _ => Next::Broken,
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
        if after.admits_groups() {
            cluster.admitting = Some(after);
        }
        cluster.guard = Some(after);
        state.guard_lowered |= before.is_some_and(|before| after.rank() <= before.rank());
    }
}

struct Step<'a> {
    model: &'a Moves,
    map: MapVersion,
}

impl Step<'_> {
    /// No grants in the cluster that is left any more.
    fn leave(&self, left: Guard) -> Next {
        let epoch = match self.model.mutated(Mutation::GuardLowered) {
            true => MapVersion(left.epoch.0.saturating_sub(1)),
            false => self.map,
        };
        if epoch == left.epoch {
            return Next::Broken;
        }
        let leaving = Guard {
            epoch,
            state: GuardState::Leaving,
            from: false,
            left_at: 0,
            ..left
        };
        self.to_left(Some(left), leaving)
    }

    /// Grants in the goal from now on, above every token of the cluster that is left.
    fn arrive(&self, read: Option<Guard>, left: Guard) -> Next {
        let active = Guard {
            epoch: left.epoch,
            state: GuardState::Active,
            from: true,
            base: left.base + left.left_at,
            left_at: 0,
        };
        self.to_goal(read, active)
    }

    /// The goal is leaving for the other cluster, where nothing is active: that becomes leaving, too.
    fn turn_back(&self, read: Option<Guard>, goal: Guard) -> Next {
        if goal.epoch == self.map {
            return Next::Broken;
        }
        let base = match self.model.mutated(Mutation::RollbackWithoutBase) {
            true => 0,
            false => goal.base + goal.left_at,
        };
        let leaving = Guard {
            epoch: self.map,
            state: GuardState::Leaving,
            from: false,
            base,
            left_at: 0,
        };
        self.to_left(read, leaving)
    }

    /// The goal is active and the rest is nowhere. Its guard is raised, so that what the driver of an
    /// earlier map has sent finds another one.
    fn settled(&self, goal: Guard) -> Next {
        match goal.epoch == self.map || self.model.mutated(Mutation::RestLeftAsItWas) {
            _ if goal.from => Next::Broken,
            true => Next::Done,
            false => {
                let epoch = self.map;
                self.to_goal(Some(goal), Guard { epoch, ..goal })
            }
        }
    }

    fn to_goal(&self, read: Option<Guard>, write: Guard) -> Next {
        Self::write(self.map.goal(), read, write)
    }

    fn to_left(&self, read: Option<Guard>, write: Guard) -> Next {
        Self::write(self.map.goal().other(), read, write)
    }

    fn write(at: ClusterIx, read: Option<Guard>, write: Guard) -> Next {
        Next::Write(GuardWrite { at, read, write })
    }
}
