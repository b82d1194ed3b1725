//! The shard map that runs, and how far the shards' guards in etcd agree with it.

use super::exposition::{Exposition, Kind};
use super::flag;
use crate::map::{MapProblem, MapStatus};
use crate::service::ShardStatus;
use shard_map::ShardMap;
use shard_map::records::GuardState;

const STATES: [Option<GuardState>; 4] = [
    Some(GuardState::Active),
    Some(GuardState::Leaving),
    Some(GuardState::Moved),
    None,
];

/// Writes what is known.
pub(super) fn render(out: &mut Exposition, status: &MapStatus, shards: &[ShardStatus]) {
    let map = status.map.as_deref();
    let version = map.map_or(0, |map| map.version().0);
    let unreachable = matches!(status.problem, Some(MapProblem::Unreachable(_)));
    let refused = matches!(status.problem, Some(MapProblem::Refused(_)));
    gauge(
        out,
        "holdfast_map_version",
        "Version of the shard map that runs; 0: none.",
        version as f64,
    );
    gauge(
        out,
        "holdfast_map_home_seen",
        "1 once home has answered with a map that was accepted; nothing is granted before.",
        flag(status.home_seen),
    );
    out.family(
        "holdfast_map_problem",
        Kind::Gauge,
        "1 while the last look at home brought no map: home unreachable, or its map refused.",
    );
    for (problem, is) in [("unreachable", unreachable), ("refused", refused)] {
        out.sample("holdfast_map_problem", &[("problem", problem)], flag(is));
    }
    gauge(
        out,
        "holdfast_map_disk_problem",
        "1 while the copy of the map on disk is not the map that runs.",
        flag(status.disk_problem.is_some()),
    );
    out.family(
        "holdfast_map_shards",
        Kind::Gauge,
        "Shards that the map sends to the cluster.",
    );
    for (cluster, count) in map.map(shards_by_cluster).unwrap_or_default() {
        out.sample("holdfast_map_shards", &[("cluster", cluster)], count as f64);
    }
    gauge(
        out,
        "holdfast_map_shards_moving",
        "Shards that the map has on their way between two clusters.",
        map.map_or(0, |map| map.moving().count()) as f64,
    );
    render_guards(out, map, shards);
}

fn gauge(out: &mut Exposition, name: &str, help: &str, value: f64) {
    out.family(name, Kind::Gauge, help);
    out.sample(name, &[], value);
}

fn shards_by_cluster(map: &ShardMap) -> Vec<(&str, usize)> {
    let of = |name: &str| {
        let shards = map
            .shards()
            .shards()
            .filter_map(|shard| map.cluster_of(shard));
        shards
            .filter(|cluster| cluster.name.as_str() == name)
            .count()
    };
    let names = map.clusters().iter().map(|cluster| cluster.name.as_str());
    names.map(|name| (name, of(name))).collect()
}

fn render_guards(out: &mut Exposition, map: Option<&ShardMap>, shards: &[ShardStatus]) {
    const NAME: &str = "holdfast_shard_guards";
    out.family(
        NAME,
        Kind::Gauge,
        "Shards in use here, by the state of their guard as last read in the cluster.",
    );
    for cluster in map.map(ShardMap::clusters).into_iter().flatten() {
        let name = cluster.name.as_str();
        for state in STATES.map(|state| state.map(GuardState::as_str)) {
            let found = shards
                .iter()
                .filter(|shard| &*shard.cluster == name && shard.state == state);
            let labels = [("cluster", name), ("state", state.unwrap_or("unread"))];
            out.sample(NAME, &labels, found.count() as f64);
        }
    }
}
