//! What the driver of a rollout does next: a state machine over what was read.
//!
//! Calling order, again and again: [`Driver::window`] says which shards are looked at; their
//! [`Survey`]s are read first in the clusters that they leave, then in those where they go;
//! [`Driver::decide`] says what to write. All that a driver remembers is which shards are done and how
//! long it has waited for gateways, so a new one goes on where another was killed.

use super::gateways::{Attendance, SessionEnd};
use super::mutation::Mistake;
use super::record::{GatewayReport, Rollout};
use super::steps::{GuardRead, GuardWrite, Next, Side, next_step};
use super::survey::Survey;
use crate::records::GuardState;
use crate::{ClusterName, MapVersion, ShardId, ShardMap};
use std::collections::{BTreeMap, BTreeSet};

/// What has been read of the clusters. A cluster that did not answer is missing.
pub type Surveys = BTreeMap<ClusterName, Survey>;

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Driver {
    map: MapVersion,
    done: BTreeSet<ShardId>,
    attendance: Attendance,
    mistake: Mistake,
}

/// A shard, the cluster that it leaves, and the one where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moving {
    /// The shard.
    pub shard: ShardId,
    /// The cluster that it leaves.
    pub from: ClusterName,
    /// Where it goes.
    pub to: ClusterName,
}

/// What was read, and when.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What the live gateways say in home.
    pub gateways: &'a [GatewayReport],
    /// The window's shards in the clusters that they leave,
    pub left: &'a Surveys,
    /// and, read after it, in those where they go.
    pub goals: &'a Surveys,
    /// In milliseconds since 1970.
    pub now_unix_ms: u64,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Guards to write. Each may be refused, which means that somebody else has written it.
    pub writes: Vec<GuardWrite>,
    /// Sessions to end.
    pub ends: Vec<SessionEnd>,
    /// Shards that wait for their groups, or for gateways.
    pub waiting: BTreeSet<ShardId>,
    /// Shards of which a cluster did not answer.
    pub unread: BTreeSet<ShardId>,
    /// The map is not the present one any more: home is to be read again.
    pub stale: bool,
    /// Why nobody goes on by itself.
    pub broken: Option<String>,
    /// Every shard of the canary is done, and others are not.
    pub canary_done: bool,
    /// Every shard is done.
    pub all_done: bool,
}

impl Driver {
    /// A driver for the rollout of which `map` is the present map.
    pub fn new(map: &ShardMap) -> Self {
        Self::mistaken(map, Mistake::NONE)
    }

    /// A driver that makes a mistake.
    pub fn mistaken(map: &ShardMap, mistake: Mistake) -> Self {
        Self {
            map: map.version(),
            done: BTreeSet::new(),
            attendance: Attendance::default(),
            mistake,
        }
    }

    /// Whether it is the driver of this map's rollout.
    pub fn is_for(&self, map: &ShardMap) -> bool {
        self.map == map.version()
    }

    /// The shards whose turn it is: the canary's first, then by number, those that are not done, as
    /// many as may move at one time.
    pub fn window(&self, map: &ShardMap, rollout: &Rollout) -> Vec<Moving> {
        let max = usize::try_from(rollout.max_moving.max(1)).unwrap_or(usize::MAX);
        let canary = canary(map, rollout);
        let first = canary
            .iter()
            .copied()
            .filter(|shard| !self.done.contains(shard));
        let first: Vec<ShardId> = first.take(max).collect();
        if !first.is_empty() {
            return moving(map, first);
        }
        let rest = map.moving().filter(|shard| !self.done.contains(shard));
        moving(map, rest.take(max))
    }

    /// What to do, by what was read of the window's shards.
    pub fn decide(&mut self, map: &ShardMap, rollout: &Rollout, seen: &Seen<'_>) -> Decision {
        let window = self.window(map, rollout);
        let (left, goals, now) = (seen.left, seen.goals, seen.now_unix_ms);
        let unready = self.attendance.unready(seen.gateways, goals, now);
        let mut decision = Decision {
            ends: self.attendance.stranded(&window, left, goals, now),
            ..Decision::default()
        };
        for moving in window {
            let shard = moving.shard;
            let (Some(left), Some(goal)) = (left.get(&moving.from), goals.get(&moving.to)) else {
                decision.unread.insert(shard);
                continue;
            };
            match self.next(&moving, left, goal) {
                Next::Done => {
                    self.done.insert(shard);
                }
                Next::Write(_) if unready.contains(&moving.to) && is_active(left.guard(shard)) => {
                    decision.waiting.insert(shard);
                }
                Next::Write(write) => decision.writes.push(write),
                Next::Groups { .. } | Next::Count => {
                    decision.waiting.insert(shard);
                }
                Next::Stale => decision.stale = true,
                Next::Elsewhere { at, with } => {
                    decision.broken = Some(format!(
                        "shard {shard} is on cluster {at} and moves between it and cluster {with}, which is \
                         not this rollout"
                    ));
                }
                Next::Broken(why) => {
                    decision.broken = Some(format!(
                        "shard {shard} between clusters {} and {}: {why}",
                        moving.from, moving.to
                    ));
                }
            }
        }
        let open = |shard: &ShardId| !self.done.contains(shard);
        let canary = canary(map, rollout);
        decision.all_done = !map.moving().any(|shard| open(&shard));
        decision.canary_done =
            rollout.canary.is_some() && !decision.all_done && !canary.iter().any(open);
        decision
    }

    fn next(&self, moving: &Moving, left: &Survey, goal: &Survey) -> Next {
        let shard = moving.shard;
        let other = Side::counted(&moving.from, left.guard(shard), left.groups(shard));
        let goal = Side::counted(&moving.to, goal.guard(shard), goal.groups(shard));
        next_step(self.map, shard, goal, other, self.mistake)
    }
}

fn is_active(guard: &GuardRead) -> bool {
    matches!(guard, GuardRead::Present(guard, _) if guard.state == GuardState::Active)
}

/// Where a moving shard is on its way, for people.
pub fn phase(left: &GuardRead, goal: &GuardRead) -> &'static str {
    use crate::records::GuardState::{Active, Leaving, Moved};
    let state = |read: &GuardRead| match read {
        GuardRead::Present(guard, _) => Some((guard.state, guard.from.is_some())),
        _ => None,
    };
    match (state(left), state(goal)) {
        (Some((Active, _)), _) => "waits",
        (Some((Leaving, _)), Some((Active, _))) => "moving",
        (Some((Leaving, _)), _) => "begins",
        (Some((Moved, _)) | None, Some((Active, true))) => "ends",
        (Some((Moved, _)) | None, Some((Active, false))) => "done",
        _ => "unclear",
    }
}

/// These shards of a rollout with their clusters.
pub fn moving(map: &ShardMap, shards: impl IntoIterator<Item = ShardId>) -> Vec<Moving> {
    let one = |shard| {
        let (from, to) = (map.source_of(shard)?, map.cluster_of(shard)?);
        Some(Moving {
            shard,
            from: from.name.clone(),
            to: to.name.clone(),
        })
    };
    shards.into_iter().filter_map(one).collect()
}

/// The shards of the canary that move at all.
fn canary(map: &ShardMap, rollout: &Rollout) -> Vec<ShardId> {
    let listed = rollout.canary.iter().flat_map(|canary| canary.iter());
    listed
        .filter(|&shard| map.source_of(shard).is_some())
        .collect()
}
