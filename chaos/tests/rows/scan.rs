//! Whether what lies in etcd is where the guards say, found out with `etcdctl` and nothing of
//! `shard-map verify`, which is checked by it.

use crate::scene::{Scene, etcdctl};
use base64::Engine as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One key, at the one revision at which its cluster was read.
#[derive(Debug)]
struct Found {
    key: String,
    value: Value,
    lease: i64,
    revision: u64,
}

/// What one cluster has.
#[derive(Debug, Default)]
struct Contents {
    /// State and token base, by shard; and where it comes from.
    guards: BTreeMap<u64, Value>,
    /// Shards, by lease.
    groups: BTreeMap<i64, u64>,
    /// Lease, base and token, by key.
    locks: BTreeMap<String, (i64, u64, u64)>,
}

/// The locks of each cluster of the map, by name, and what is wrong. No rollout may run.
pub(crate) async fn scan(scene: &Scene) -> (BTreeMap<String, usize>, Vec<String>) {
    let mut all = BTreeMap::new();
    for (index, cluster) in scene.stack.clusters.iter().enumerate() {
        let found = read(scene, index, "/").await;
        all.insert(cluster.name().to_owned(), contents(&found));
    }
    let map = read(scene, 0, "/holdfast/map/current").await;
    let lives = lives(&map[0].value["table"]);
    let mapped: BTreeSet<&str> = lives.values().map(String::as_str).collect();
    let mut problems = Vec::new();
    check_guards(&all, &lives, &mut problems);
    let mut seen = BTreeMap::new();
    for (name, contents) in &all {
        if !mapped.contains(name.as_str()) && !contents.groups.is_empty() {
            problems.push(format!("{name} is not in the map and has groups"));
        }
        for shard in contents.groups.values().filter(|it| lives[it] != *name) {
            problems.push(format!("{name} has a group of shard {shard}"));
        }
        for (lock, (lease, base, token)) in &contents.locks {
            match contents.groups.get(lease) {
                None => problems.push(format!("{name}: {lock} hangs from no group")),
                Some(shard) if lives[shard] != *name => {
                    problems.push(format!("{name}: {lock} is of shard {shard}"));
                }
                Some(_) => {}
            }
            if token <= base {
                problems.push(format!("{name}: the token of {lock} is not above its base"));
            }
            if let Some(other) = seen.insert(lock, name) {
                problems.push(format!("{lock} is in {other} and in {name}"));
            }
        }
    }
    let counts = all.iter().map(|(name, it)| (name.clone(), it.locks.len()));
    (counts.collect(), problems)
}

fn check_guards(
    all: &BTreeMap<String, Contents>,
    lives: &BTreeMap<u64, String>,
    problems: &mut Vec<String>,
) {
    for (shard, home) in lives {
        let state = |contents: &Contents| contents.guards.get(shard).map(|it| it["state"].clone());
        let active = all
            .iter()
            .filter(|(_, it)| state(it) == Some("active".into()));
        let active: Vec<&String> = active.map(|(name, _)| name).collect();
        if active != [home] {
            problems.push(format!("shard {shard} of {home} is active in {active:?}"));
        }
        let guard = &all[home].guards.get(shard);
        if guard.is_some_and(|guard| guard.get("from").is_some()) {
            problems.push(format!("shard {shard} still arrives in {home}"));
        }
    }
}

async fn read(scene: &Scene, cluster: usize, prefix: &str) -> Vec<Found> {
    let printed = etcdctl(scene, cluster, &["get", prefix, "--prefix", "-w", "json"]).await;
    let reply: Value = serde_json::from_str(&printed.unwrap()).unwrap();
    let records = reply["kvs"].as_array().cloned().unwrap_or_default();
    let one = |kv: &Value| Found {
        key: String::from_utf8(bytes(&kv["key"])).unwrap(),
        value: serde_json::from_slice(&bytes(&kv["value"])).unwrap_or_default(),
        lease: kv["lease"].as_i64().unwrap_or(0),
        revision: kv["mod_revision"].as_u64().unwrap(),
    };
    records.iter().map(one).collect()
}

fn contents(found: &[Found]) -> Contents {
    let mut contents = Contents::default();
    for one in found {
        if let Some(shard) = one.key.strip_prefix("/holdfast/shards/") {
            let shard = shard.parse().unwrap();
            contents.guards.insert(shard, one.value.clone());
        } else if one.key.starts_with("/holdfast/groups/") {
            let shard = one.value["shard"].as_u64().unwrap();
            contents.groups.insert(one.lease, shard);
        } else if one.key.starts_with("/locks/") {
            let base = one.value["tokenBase"].as_u64().unwrap();
            let token = one.value["token"].as_u64().unwrap_or(base + one.revision);
            let lock = (one.lease, base, token);
            contents.locks.insert(one.key.clone(), lock);
        }
    }
    contents
}

/// `{"a": "0-3,7"}` as shard → cluster.
fn lives(table: &Value) -> BTreeMap<u64, String> {
    let mut lives = BTreeMap::new();
    for (name, ranges) in table.as_object().unwrap() {
        let ranges = ranges.as_str().unwrap().split(',');
        for range in ranges.filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let shards = first.parse::<u64>().unwrap()..=last.parse().unwrap();
            lives.extend(shards.map(|shard| (shard, name.clone())));
        }
    }
    lives
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}
