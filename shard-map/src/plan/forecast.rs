//! What is expected of a plan.

use super::Plan;
use crate::{ClusterName, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many locks are held in each cluster.
pub type LocksIn = BTreeMap<ClusterName, u64>;

/// What is expected of a plan: for deciding, not for relying on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forecast {
    /// Shards that move.
    pub shards: u64,
    /// Of a million names, how many move.
    pub names_per_million: u64,
    /// Held locks that move, if the locks of each cluster are spread evenly over its shards; a part of a
    /// lock counts as one, so that none is said only where none is held.
    pub locks: u64,
    /// How long it takes at the default `--max-moving`, in seconds.
    pub seconds: u64,
    /// What can go wrong with it, each a sentence that says what to look at.
    pub risks: Vec<String>,
}

/// What is expected of `plan`, with so many locks held in the clusters now.
pub fn forecast(plan: &Plan, locks: &LocksIn) -> Forecast {
    let before = plan.before();
    let moves = plan.moves();
    let shards: u64 = moves.iter().map(|one| one.shards.count()).sum();
    let mut leaving: BTreeMap<&ClusterName, u64> = BTreeMap::new();
    for one in &moves {
        *leaving.entry(&one.from).or_default() += one.shards.count();
    }
    let locks = leaving.iter().map(|(from, leaving)| {
        let held = locks.get(*from).copied().unwrap_or(0);
        let of = before.shards_of(from).count().max(1);
        (u128::from(held) * u128::from(*leaving)).div_ceil(u128::from(of))
    });
    let locks = u64::try_from(locks.sum::<u128>()).unwrap_or(u64::MAX);
    let rounds = shards.div_ceil(u64::from(limits::MAX_MOVING_DEFAULT));
    Forecast {
        shards,
        names_per_million: shards * 1_000_000 / u64::from(before.shards().get()),
        locks,
        seconds: rounds * limits::SHARD_MOVE_SECONDS + locks / limits::LOCKS_MOVED_PER_SECOND,
        risks: risks(plan),
    }
}

fn risks(plan: &Plan) -> Vec<String> {
    let mut risks = Vec::new();
    for one in plan.moves() {
        let left = plan.before().shards_of(&one.from).count();
        if one.shards.count() == left {
            risks.push(format!(
                "Cluster {} loses all its {left} shards to others; until they have gone, new locks of shards that \
                 are moving need both clusters.",
                one.from
            ));
        }
    }
    for cluster in plan.after().clusters() {
        let count = |map: &crate::ShardMap| map.shards_of(&cluster.name).count();
        let (before, after) = (count(plan.before()), count(plan.after()));
        if before > 0 && after > before + before / 2 {
            risks.push(format!(
                "Cluster {} gets {after} shards instead of {before}; check that it has the memory and disk for them.",
                cluster.name
            ));
        }
    }
    for name in plan.reached_anew() {
        risks.push(format!(
            "Cluster {name} is reached at other endpoints or with other files; each gateway must reach them, and \
             find the files, before the plan is applied."
        ));
    }
    risks
}
