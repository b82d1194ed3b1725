//! `shard-map lookup`

use super::Failure;
use super::args::{LookupArgs, Output};
use super::connection::{Connection, read, records};
use super::show::pretty;
use futures::future::join_all;
use holdfast_console::{Align, table};
use holdfast_store::{EtcdStore, Get, KeyRange};
use serde::Serialize;
use shard_map::records::{Guard, Record, keys};
use shard_map::{Cluster, ClusterName, ShardId, ShardMap, check_name, limits};
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(super) async fn run(args: &LookupArgs) -> Result<String, Failure> {
    for name in &args.names {
        check_name(name).map_err(|error| Failure::Usage(format!("{name:?}: {error}")))?;
    }
    let connection = Connection::new(&args.connection)?;
    let map = connection.read_map().await?;
    let mut wanted: BTreeMap<&ClusterName, (&Cluster, BTreeSet<ShardId>)> = BTreeMap::new();
    for (shard, cluster) in args.names.iter().filter_map(|name| place(&map, name)) {
        let entry = wanted.entry(&cluster.name);
        entry
            .or_insert_with(|| (cluster, BTreeSet::new()))
            .1
            .insert(shard);
    }
    let mut asked = Vec::new();
    for (cluster, shards) in wanted.into_values() {
        let store = connection.store(&cluster.endpoints)?;
        asked.push(async move { read_guards(&store, &shards).await });
    }
    let guards: HashMap<ShardId, GuardSeen> = join_all(asked).await.into_iter().flatten().collect();
    let found: Vec<Found<'_>> = args
        .names
        .iter()
        .filter_map(|name| Found::new(&map, name, &guards))
        .collect();
    Ok(match args.connection.output {
        Output::Json => pretty(&found),
        Output::Text => text(&found),
    })
}

fn place<'a>(map: &'a ShardMap, name: &str) -> Option<(ShardId, &'a Cluster)> {
    let shard = map.shard_of(name);
    Some((shard, map.cluster_of(shard)?))
}

/// A shard's guard in the cluster that the map sends it to.
#[derive(Debug, Clone)]
enum GuardSeen {
    Read(Guard),
    Missing,
    Unknown(String),
}

async fn read_guards(store: &EtcdStore, shards: &BTreeSet<ShardId>) -> HashMap<ShardId, GuardSeen> {
    let mut seen = HashMap::new();
    let all: Vec<ShardId> = shards.iter().copied().collect();
    for chunk in all.chunks(limits::GUARDS_PER_TXN) {
        let gets = chunk
            .iter()
            .map(|&shard| Get::all(KeyRange::one(keys::guard(shard))));
        match read(store, gets).await {
            Ok(reply) => seen.extend(guards_of(chunk, &records(reply))),
            Err(error) => {
                let unknown = GuardSeen::Unknown(error.to_string());
                seen.extend(all.iter().map(|&shard| (shard, unknown.clone())));
                break;
            }
        }
    }
    seen
}

fn guards_of(
    shards: &[ShardId],
    records: &[holdfast_store::KeyValue],
) -> Vec<(ShardId, GuardSeen)> {
    let guard = |shard: ShardId| {
        let key = keys::guard(shard);
        let record = records.iter().find(|record| record.key == key);
        match record.map(|record| Guard::from_value(&key, &record.value)) {
            None => GuardSeen::Missing,
            Some(Ok(guard)) => GuardSeen::Read(guard),
            Some(Err(error)) => GuardSeen::Unknown(error.to_string()),
        }
    };
    shards.iter().map(|&shard| (shard, guard(shard))).collect()
}

/// Where a name lives.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found<'a> {
    name: &'a str,
    shard: ShardId,
    cluster: &'a ClusterName,
    /// `null`: missing or unknown.
    guard: Option<Guard>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard_problem: Option<String>,
}

impl<'a> Found<'a> {
    fn new(map: &'a ShardMap, name: &'a str, guards: &HashMap<ShardId, GuardSeen>) -> Option<Self> {
        let (shard, cluster) = place(map, name)?;
        let (guard, guard_problem) = match guards.get(&shard)? {
            GuardSeen::Read(guard) => (Some(guard.clone()), None),
            GuardSeen::Missing => (
                None,
                Some(format!("missing: cluster {} admits nothing", cluster.name)),
            ),
            GuardSeen::Unknown(problem) => (None, Some(format!("unknown: {problem}"))),
        };
        Some(Self {
            name,
            shard,
            cluster: &cluster.name,
            guard,
            guard_problem,
        })
    }
}

fn text(found: &[Found<'_>]) -> String {
    let row = |found: &Found<'_>| {
        let guard = found.guard.as_ref().map(describe);
        vec![
            found.name.to_owned(),
            found.shard.to_string(),
            found.cluster.to_string(),
            guard
                .or_else(|| found.guard_problem.clone())
                .unwrap_or_default(),
        ]
    };
    table(
        &[
            ("NAME", Align::Left),
            ("SHARD", Align::Right),
            ("CLUSTER", Align::Left),
            ("GUARD", Align::Left),
        ],
        found.iter().map(row),
    )
}

fn describe(guard: &Guard) -> String {
    let mut text = format!(
        "{}, epoch {}, token base {}",
        guard.state.as_str(),
        guard.epoch,
        guard.token_base.get()
    );
    for (word, cluster) in [("from", &guard.from), ("to", &guard.to)] {
        if let Some(cluster) = cluster {
            text.push_str(&format!(", {word} {cluster}"));
        }
    }
    text
}
