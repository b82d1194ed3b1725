//! Whether what lies in the clusters is as the guards say.
//!
//! The clusters are read one after the other while locks come and go and shards move. What a moment
//! between two reads can explain is no problem: a copy of a lock while its shard moves, say. A
//! problem that is reported stays one when the command is repeated.

use crate::records::{GroupPlace, Guard, GuardState, Record, keys};
use crate::{ClusterName, ShardId, ShardMap};
use holdfast_store::{KeyValue, LeaseId};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was read of one cluster.
#[derive(Debug, Clone)]
pub struct Contents {
    cluster: ClusterName,
    guards: BTreeMap<ShardId, Guard>,
    /// Leases of groups, and the shard of each.
    groups: BTreeMap<LeaseId, ShardId>,
    locks: Vec<Lock>,
    problems: Vec<String>,
}

/// A lock's record, as far as it is looked at.
#[derive(Debug, Clone)]
struct Lock {
    name: String,
    lease: Option<LeaseId>,
    token_base: u64,
    token: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockTokens {
    token_base: u64,
    #[serde(default)]
    token: Option<u64>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Locks that were looked at.
    pub locks: u64,
    /// Groups that were looked at.
    pub groups: u64,
    /// Sentences; none if all is well.
    pub problems: Vec<String>,
}

impl Contents {
    /// From the records of guards, groups and locks.
    pub fn new(
        cluster: ClusterName,
        guards: &[KeyValue],
        groups: &[KeyValue],
        locks: &[KeyValue],
    ) -> Self {
        let mut problems = Vec::new();
        let mut unreadable = |key: &holdfast_store::Key| {
            problems.push(format!(
                "cluster {cluster}: the record at {key:?} cannot be read"
            ));
        };
        let mut contents = Self {
            guards: BTreeMap::new(),
            groups: BTreeMap::new(),
            locks: Vec::new(),
            problems: Vec::new(),
            cluster: cluster.clone(),
        };
        for record in guards {
            match keys::shard_of_guard(&record.key)
                .zip(Guard::from_value(&record.key, &record.value).ok())
            {
                Some((shard, guard)) => drop(contents.guards.insert(shard, guard)),
                None => unreadable(&record.key),
            }
        }
        for record in groups {
            match record
                .lease
                .zip(GroupPlace::from_value(&record.key, &record.value).ok())
            {
                Some((lease, place)) => {
                    contents.groups.insert(lease, place.shard);
                }
                None => unreadable(&record.key),
            }
        }
        for record in locks {
            let name = record
                .key
                .as_str()
                .and_then(|key| key.strip_prefix("/locks/"));
            match name.zip(serde_json::from_slice::<LockTokens>(&record.value).ok()) {
                Some((name, it)) => contents.locks.push(Lock {
                    name: name.to_owned(),
                    lease: record.lease,
                    token_base: it.token_base,
                    token: it.token.unwrap_or_else(|| {
                        it.token_base
                            .saturating_add(record.mod_revision.0.unsigned_abs())
                    }),
                }),
                None => unreadable(&record.key),
            }
        }
        contents.problems = problems;
        contents
    }
}

/// Checks every guard, group and lock of the clusters of `map`.
pub fn verify(map: &ShardMap, all: &[Contents]) -> Verdict {
    let mut verdict = Verdict::default();
    for contents in all {
        verdict.locks += contents.locks.len() as u64;
        verdict.groups += contents.groups.len() as u64;
        verdict.problems.extend(contents.problems.iter().cloned());
    }
    for shard in map.shards().shards() {
        check_guards(map, all, shard, &mut verdict.problems);
    }
    for contents in all {
        check_places(map, contents, &mut verdict.problems);
    }
    check_twice(map, all, &mut verdict.problems);
    verdict
}

/// One cluster is active, or one is leaving for another; a shard that does not move is where the map
/// says.
fn check_guards(map: &ShardMap, all: &[Contents], shard: ShardId, problems: &mut Vec<String>) {
    let with = |state: GuardState| -> Vec<&ClusterName> {
        let found = all.iter().filter(|it| {
            it.guards
                .get(&shard)
                .is_some_and(|guard| guard.state == state)
        });
        found.map(|it| &it.cluster).collect()
    };
    let (active, leaving) = (with(GuardState::Active), with(GuardState::Leaving));
    match active.as_slice() {
        [] if leaving.is_empty() => problems.push(format!("shard {shard}: no cluster has it")),
        [_, _, ..] => {
            let names: Vec<_> = active.iter().map(|name| name.as_str()).collect();
            problems.push(format!(
                "shard {shard}: active in clusters {}",
                names.join(" and ")
            ));
        }
        _ => {}
    }
    let moves = map.source_of(shard).is_some();
    let goal = map.cluster_of(shard).map(|cluster| &cluster.name);
    if !moves && active.first().copied() != goal {
        problems.push(format!(
            "shard {shard}: not active in the cluster that the map names"
        ));
    }
    let arriving = |it: &&Contents| {
        it.guards
            .get(&shard)
            .is_some_and(|guard| guard.from.is_some())
    };
    if !moves && let Some(contents) = all.iter().find(arriving) {
        problems.push(format!(
            "shard {shard}: still arriving in cluster {}, and no rollout moves it",
            contents.cluster
        ));
    }
}

/// Records lie where a guard admits them, on a lease of a group of their shard, with a token above
/// their base.
fn check_places(map: &ShardMap, contents: &Contents, problems: &mut Vec<String>) {
    let cluster = &contents.cluster;
    let admits = |shard: ShardId| {
        contents
            .guards
            .get(&shard)
            .is_some_and(|guard| guard.state != GuardState::Moved)
    };
    for &shard in contents.groups.values() {
        if !admits(shard) {
            problems.push(format!(
                "cluster {cluster}: has a group of shard {shard}, which is not there"
            ));
        }
    }
    for lock in &contents.locks {
        let shard = map.shard_of(&lock.name);
        let named = format!("cluster {cluster}: a lock of shard {shard}");
        if !admits(shard) {
            problems.push(format!("{named} is there, but the shard is not"));
        }
        if lock.lease.and_then(|lease| contents.groups.get(&lease)) != Some(&shard)
            && map.source_of(shard).is_none()
        {
            problems.push(format!("{named} hangs from no group of its shard"));
        }
        let base = contents.guards.get(&shard).map(|guard| guard.token_base);
        if base.is_some_and(|base| lock.token_base > base.get()) {
            problems.push(format!("{named} has a base above its guard's"));
        }
        if lock.token <= lock.token_base {
            problems.push(format!("{named} has a token that is not above its base"));
        }
    }
}

/// No name has a record in two clusters, unless its shard moves between them.
fn check_twice(map: &ShardMap, all: &[Contents], problems: &mut Vec<String>) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for lock in all.iter().flat_map(|contents| &contents.locks) {
        let shard = map.shard_of(&lock.name);
        if !seen.insert(&lock.name) && map.source_of(shard).is_none() {
            problems.push(format!("shard {shard}: a name has records in two clusters"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, DeploymentId, ShardCount};
    use holdfast_store::{Key, Revision};

    fn map() -> ShardMap {
        let cluster = |name: &str| {
            Cluster::new(
                name.parse().unwrap(),
                vec![format!("http://{name}:1").parse().unwrap()],
            )
        };
        let shards = ShardCount::try_from(2).unwrap();
        ShardMap::initial(
            DeploymentId::from_random_bits(1),
            shards,
            vec![cluster("a"), cluster("b")],
        )
        .unwrap()
    }

    fn record(key: impl Into<Key>, value: &[u8], lease: i64) -> KeyValue {
        KeyValue {
            key: key.into(),
            value: value.to_vec(),
            create_revision: Revision(7),
            mod_revision: Revision(7),
            version: 1,
            lease: (lease != 0).then_some(LeaseId(lease)),
        }
    }

    /// A name of each shard.
    fn name_of(shard: u32) -> String {
        (0..)
            .map(|it| format!("n{it}"))
            .find(|name| map().shard_of(name) == ShardId(shard))
            .unwrap()
    }

    /// One cluster: the states of its guards, a group per shard and a lock in each.
    fn contents(cluster: &str, guards: &[(u32, Guard)], locks: &[(u32, &str)]) -> Contents {
        let guard = |(shard, guard): &(u32, Guard)| {
            record(keys::guard(ShardId(*shard)), &guard.to_value(), 0)
        };
        let guards: Vec<_> = guards.iter().map(guard).collect();
        let group = |(shard, _): &(u32, &str)| {
            let value = format!(r#"{{"shard":{shard}}}"#);
            record(
                format!("/holdfast/groups/s/{shard}"),
                value.as_bytes(),
                i64::from(*shard) + 1,
            )
        };
        let groups: Vec<_> = locks.iter().map(group).collect();
        let lock = |(shard, value): &(u32, &str)| {
            record(
                format!("/locks/{}", name_of(*shard)),
                value.as_bytes(),
                i64::from(*shard) + 1,
            )
        };
        let locks: Vec<_> = locks.iter().map(lock).collect();
        Contents::new(cluster.parse().unwrap(), &guards, &groups, &locks)
    }

    fn moved() -> Guard {
        Guard {
            state: GuardState::Moved,
            ..Guard::first()
        }
    }

    const GOOD: &str = r#"{"tokenBase":0}"#;

    #[test]
    fn records_where_guards_and_map_say_are_clean() {
        let a = contents("a", &[(0, Guard::first())], &[(0, GOOD)]);
        let b = contents(
            "b",
            &[(1, Guard::first()), (0, moved())],
            &[(1, r#"{"tokenBase":0,"token":9}"#)],
        );
        let verdict = verify(&map(), &[a, b]);
        assert_eq!(
            verdict,
            Verdict {
                locks: 2,
                groups: 2,
                problems: Vec::new()
            }
        );
    }

    #[test]
    fn each_thing_out_of_place_is_a_problem() {
        let first = Guard::first;
        let well = || contents("b", &[(1, first())], &[]);
        let arriving = Guard {
            from: Some("b".parse().unwrap()),
            ..first()
        };
        for (a, b, expected) in [
            (
                contents("a", &[(0, first()), (1, first())], &[]),
                well(),
                "active in clusters a and b",
            ),
            (
                contents("a", &[(0, moved())], &[]),
                well(),
                "shard 0: no cluster has it",
            ),
            (
                contents("a", &[(0, arriving)], &[]),
                well(),
                "still arriving in cluster a",
            ),
            (
                contents("a", &[(0, first()), (1, moved())], &[(1, GOOD)]),
                well(),
                "is there, but the shard is not",
            ),
            (
                contents("a", &[(0, first())], &[(0, r#"{"tokenBase":0,"token":0}"#)]),
                well(),
                "not above its base",
            ),
            (
                contents("a", &[(0, first())], &[(0, r#"{"tokenBase":5}"#)]),
                well(),
                "a base above its guard's",
            ),
            (
                contents("a", &[(0, first())], &[(0, "{}")]),
                well(),
                "cannot be read",
            ),
            (
                contents("a", &[(0, first())], &[(0, GOOD)]),
                contents("b", &[(1, first())], &[(0, GOOD)]),
                "a name has records in two clusters",
            ),
        ] {
            let problems = verify(&map(), &[a, b]).problems.join("\n");
            assert!(problems.contains(expected), "{problems}");
        }
    }
}
