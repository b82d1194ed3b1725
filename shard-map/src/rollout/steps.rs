//! What comes next for one shard: a pure function of the guards and of what is left to move.
//!
//! Every step is a compare-and-set of one guard that raises (epoch, state), so whoever takes it and
//! however often, it happens once; two drivers that see the same guards send the same write. There
//! is no other state: a rollback is the same function with another goal.
//!
//! A guard's epoch is the version of the map under which it was written. A driver that has slept, and
//! still works for an earlier map, sees a later epoch and does nothing; and a shard whose turn had not
//! come when the rollout was taken back has its guard raised all the same, so that a first step which
//! is still on its way finds another guard than it compares. Otherwise that step would arrive when
//! nobody looks any more, and leave the shard without a cluster.

use super::mutation::{Mistake, Mutation};
use crate::records::{Guard, GuardState, Record, keys};
use crate::{ClusterName, Epoch, MapVersion, ShardId, TokenBase};
use holdfast_store::{Compare, KeyRange, Put, Revision, Txn, TxnOp};

/// A shard's guard in one cluster, as a linearizable read showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardRead {
    /// There is none: the shard never was in this cluster.
    Absent,
    /// This one, last written at that revision.
    Present(Guard, Revision),
    /// Something that this version does not understand.
    Unreadable,
}

/// One of the two clusters between which a shard moves.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Its name.
    pub cluster: &'a ClusterName,
    /// Its guard.
    pub guard: &'a GuardRead,
    /// The shard's groups in it. `None`: not counted.
    pub groups: Option<Groups>,
}

impl<'a> Side<'a> {
    /// This cluster, of which the guard and the groups were read.
    pub fn counted(cluster: &'a ClusterName, guard: &'a GuardRead, groups: Groups) -> Self {
        Self {
            cluster,
            guard,
            groups: Some(groups),
        }
    }
}

/// Lease groups of one shard in one cluster.
///
/// They count only if they were read at the revision of the guard beside them or later, and the
/// goal's only if they were read after the other's: then no group can come to the cluster that is
/// left any more, and each that has gone is seen where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Groups {
    /// All of them.
    pub all: u64,
    /// Those whose key says that they come from another cluster.
    pub arriving: u64,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The shard is where it should be, and nothing of it is anywhere else.
    Done,
    /// This write.
    Write(GuardWrite),
    /// Its groups have to move first; gateways do that by themselves.
    Groups {
        /// Groups in the cluster that is left.
        left: u64,
        /// Groups in the goal that are still arriving.
        arriving: u64,
    },
    /// The groups of both clusters have to be counted.
    Count,
    /// It moves between other clusters than these two; that must end, or be taken back, first.
    Elsewhere {
        /// The cluster that has it now, as far as these guards say.
        at: ClusterName,
        /// The other cluster of that move.
        with: ClusterName,
    },
    /// A later map has written a guard: this one is not the present map any more.
    Stale,
    /// The guards contradict the order in which guards are written; nobody goes on by itself.
    Broken(&'static str),
}

/// One compare-and-set of a guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardWrite {
    /// Where.
    pub cluster: ClusterName,
    /// The guard's shard.
    pub shard: ShardId,
    /// What must still be there: a guard last written at this revision, [`Revision::ABSENT`] for
    /// none.
    pub read_at: Revision,
    /// The guard to write.
    pub guard: Guard,
    compared: bool,
}

impl GuardWrite {
    /// The transaction. It succeeds once at most, whenever and how often it arrives.
    pub fn txn(&self) -> Txn {
        let key = keys::guard(self.shard);
        let as_read = match self.read_at {
            _ if !self.compared => None,
            Revision::ABSENT => Some(Compare::absent(KeyRange::one(key.clone()))),
            revision => Some(Compare::mod_revision(key.clone(), revision)),
        };
        Txn {
            compare: as_read.into_iter().collect(),
            then: vec![TxnOp::Put(Put {
                key,
                value: self.guard.to_value(),
                lease: None,
            })],
            or_else: Vec::new(),
        }
    }
}

/// What comes next to bring `shard` to `goal`, as `map` wants it, when `other` is the one cluster beside
/// it that has anything of it.
pub fn next_step(
    map: MapVersion,
    shard: ShardId,
    goal: Side<'_>,
    other: Side<'_>,
    mistake: Mistake,
) -> Next {
    let step = Step {
        epoch: Epoch(map.0),
        shard,
        goal,
        other,
        mistake,
    };
    match (goal.guard, other.guard) {
        (GuardRead::Unreadable, _) | (_, GuardRead::Unreadable) => {
            Next::Broken("a guard that this version cannot read")
        }
        (GuardRead::Present(guard, _), _) | (_, GuardRead::Present(guard, _))
            if guard.epoch > step.epoch =>
        {
            Next::Stale
        }
        (GuardRead::Absent, GuardRead::Absent) => Next::Broken("no guard in either cluster"),
        (GuardRead::Present(guard, at), GuardRead::Absent) => step.only_goal(guard, *at),
        (GuardRead::Absent, GuardRead::Present(guard, at)) => step.only_other(guard, *at),
        (GuardRead::Present(g, g_at), GuardRead::Present(o, o_at)) => {
            step.both((g, *g_at), (o, *o_at))
        }
    }
}

/// The guard that makes `to` the shard's cluster, once `left`, last written at `left_at`, is
/// leaving for it: step 3 of a move, which any gateway may take. `None`: its token base would be
/// too large.
pub fn arriving(left: &Guard, left_at: Revision, from: &ClusterName) -> Option<Guard> {
    Some(Guard {
        epoch: left.epoch,
        state: GuardState::Active,
        token_base: base_after(left, left_at)?,
        from: Some(from.clone()),
        to: None,
    })
}

/// Above every token that was granted under `left`, which became leaving at `left_at`.
fn base_after(left: &Guard, left_at: Revision) -> Option<TokenBase> {
    let granted = u64::try_from(left_at.0).ok()?;
    TokenBase::try_from(left.token_base.get().checked_add(granted)?).ok()
}

struct Step<'a> {
    /// That of the guards with which this map's rollout begins a change.
    epoch: Epoch,
    shard: ShardId,
    goal: Side<'a>,
    other: Side<'a>,
    mistake: Mistake,
}

impl Step<'_> {
    /// The goal has a guard, the other cluster never had one.
    fn only_goal(&self, goal: &Guard, at: Revision) -> Next {
        match goal.state {
            GuardState::Active => self.settled_or_elsewhere(goal, at),
            GuardState::Leaving if goal.to.as_ref() == Some(self.other.cluster) => {
                // A rollback after step 2. The guard must exist before the goal admits anything: a
                // late step 3 would find none, and make both clusters active.
                if self.mistake.is(Mutation::RollbackLeavesAbsent) {
                    return self.reactivate(goal, at);
                }
                self.turn_back(Revision::ABSENT, goal, at)
            }
            GuardState::Leaving => self.elsewhere(self.goal.cluster, goal.to.as_ref()),
            GuardState::Moved => Next::Broken("the goal's guard is moved, the other's is absent"),
        }
    }

    /// The other cluster has a guard, the goal never had one.
    fn only_other(&self, other: &Guard, at: Revision) -> Next {
        match other.state {
            GuardState::Active if other.from.is_some() => {
                self.elsewhere(self.other.cluster, other.from.as_ref())
            }
            GuardState::Active => self.leave(other, at),
            GuardState::Leaving if other.to.as_ref() == Some(self.goal.cluster) => {
                self.arrive(Revision::ABSENT, other, at)
            }
            GuardState::Leaving => self.elsewhere(self.other.cluster, other.to.as_ref()),
            GuardState::Moved => Next::Broken("the other's guard is moved, the goal's is absent"),
        }
    }

    fn both(&self, (goal, g_at): (&Guard, Revision), (other, o_at): (&Guard, Revision)) -> Next {
        use GuardState::{Active, Leaving, Moved};
        let to_goal = other.to.as_ref() == Some(self.goal.cluster);
        let to_other = goal.to.as_ref() == Some(self.other.cluster);
        let from_other = goal.from.as_ref() == Some(self.other.cluster);
        let from_goal = other.from.as_ref() == Some(self.goal.cluster);
        match (goal.state, other.state) {
            (Active, Active) => Next::Broken("both guards are active"),
            (Active, Leaving) if from_other && to_goal && goal.epoch == other.epoch => {
                self.finish_leaving(other, o_at)
            }
            (Active, Leaving) => Next::Broken("active here, and leaving there for another epoch"),
            (Active, Moved) if from_other && goal.epoch == other.epoch => self.settle(goal, g_at),
            (Active, Moved) if goal.epoch >= other.epoch => self.settled_or_elsewhere(goal, g_at),
            (Active, Moved) => Next::Broken("active in an older epoch than the other's moved"),
            // The direction changes in the middle of a move.
            (Leaving, Active) if to_other && from_goal && goal.epoch == other.epoch => {
                self.leave(other, o_at)
            }
            (Leaving, Active) => Next::Broken("leaving here, and active there for another epoch"),
            (Leaving, Leaving | Moved) if to_other && goal.epoch > other.epoch => {
                self.turn_back(o_at, goal, g_at)
            }
            (Leaving, Leaving) if to_goal && other.epoch > goal.epoch => {
                self.arrive(g_at, other, o_at)
            }
            (Leaving, _) if !to_other => self.elsewhere(self.goal.cluster, goal.to.as_ref()),
            (Moved, Leaving) if to_goal && other.epoch > goal.epoch => {
                self.arrive(g_at, other, o_at)
            }
            (Moved, Leaving) if !to_goal => self.elsewhere(self.other.cluster, other.to.as_ref()),
            (Moved, Active) if other.from.is_some() && !from_goal => {
                self.elsewhere(self.other.cluster, other.from.as_ref())
            }
            (Moved, Active) if other.epoch >= goal.epoch => self.leave(other, o_at),
            (Moved, Moved) => Next::Broken("moved in both clusters"),
            _ => Next::Broken("guards of one move with epochs that do not fit"),
        }
    }

    /// Step 2: no grants in the other cluster any more.
    fn leave(&self, other: &Guard, at: Revision) -> Next {
        let epoch = match self.mistake.is(Mutation::GuardLowered) {
            true => Epoch(other.epoch.0.saturating_sub(1)),
            false => self.epoch,
        };
        if epoch == other.epoch {
            return Next::Broken("it leaves where this very rollout has brought it");
        }
        self.write(
            self.other.cluster,
            at,
            Guard {
                epoch,
                state: GuardState::Leaving,
                token_base: other.token_base,
                from: None,
                to: Some(self.goal.cluster.clone()),
            },
        )
    }

    /// Step 3: grants in the goal from now on, above every token of the other cluster.
    fn arrive(&self, read_at: Revision, other: &Guard, at: Revision) -> Next {
        match arriving(other, at, self.other.cluster) {
            Some(guard) => self.write(self.goal.cluster, read_at, guard),
            None => Next::Broken("no token base is left below 2^53"),
        }
    }

    /// The goal is leaving for the other cluster, where nothing is active: the other's guard
    /// becomes leaving for the goal, in an epoch above both, with the base that step 3 would have
    /// given it. A late step 3 then finds another guard than it compares.
    fn turn_back(&self, read_at: Revision, goal: &Guard, at: Revision) -> Next {
        let base = match self.mistake.is(Mutation::RollbackWithoutBase) {
            true => Some(TokenBase::ZERO),
            false => base_after(goal, at),
        };
        let Some(token_base) = base else {
            return Next::Broken("no token base is left below 2^53");
        };
        if goal.epoch == self.epoch {
            return Next::Broken("it leaves the cluster where this very rollout brings it");
        }
        self.write(
            self.other.cluster,
            read_at,
            Guard {
                epoch: self.epoch,
                state: GuardState::Leaving,
                token_base,
                from: None,
                to: Some(self.goal.cluster.clone()),
            },
        )
    }

    /// Step 6, first half: nothing of the shard is left in the other cluster.
    fn finish_leaving(&self, other: &Guard, at: Revision) -> Next {
        let early = self.mistake.is(Mutation::FromDroppedEarly);
        match (self.other.groups, self.goal.groups) {
            (Some(left), Some(come)) if left.all == 0 && come.arriving == 0 => {}
            _ if early => {}
            (Some(left), Some(come)) => {
                return Next::Groups {
                    left: left.all,
                    arriving: come.arriving,
                };
            }
            _ => return Next::Count,
        }
        self.write(
            self.other.cluster,
            at,
            Guard {
                state: GuardState::Moved,
                ..other.clone()
            },
        )
    }

    /// Step 6, second half: names need not be looked for in the other cluster any more.
    fn settle(&self, goal: &Guard, at: Revision) -> Next {
        self.write(
            self.goal.cluster,
            at,
            Guard {
                from: None,
                ..goal.clone()
            },
        )
    }

    /// The goal is active, and nothing of the shard is in the other cluster.
    fn settled_or_elsewhere(&self, goal: &Guard, at: Revision) -> Next {
        match &goal.from {
            Some(from) => self.elsewhere(self.goal.cluster, Some(from)),
            None if goal.epoch == self.epoch || self.mistake.is(Mutation::RestLeftAsItWas) => {
                Next::Done
            }
            // Raised, so that what an earlier map's driver has sent finds another guard.
            None => self.write(
                self.goal.cluster,
                at,
                Guard {
                    epoch: self.epoch,
                    ..goal.clone()
                },
            ),
        }
    }

    fn elsewhere(&self, at: &ClusterName, with: Option<&ClusterName>) -> Next {
        match with {
            Some(with) => Next::Elsewhere {
                at: at.clone(),
                with: with.clone(),
            },
            None => Next::Broken("a guard that is leaving for nowhere"),
        }
    }

    /// The mistake [`Mutation::RollbackLeavesAbsent`]: as if step 2 had only to be undone.
    fn reactivate(&self, goal: &Guard, at: Revision) -> Next {
        let guard = Guard {
            epoch: self.epoch,
            state: GuardState::Active,
            to: None,
            ..goal.clone()
        };
        self.write(self.goal.cluster, at, guard)
    }

    fn write(&self, cluster: &ClusterName, read_at: Revision, guard: Guard) -> Next {
        Next::Write(GuardWrite {
            cluster: cluster.clone(),
            shard: self.shard,
            read_at,
            guard,
            compared: !self.mistake.is(Mutation::GuardUncompared),
        })
    }
}
