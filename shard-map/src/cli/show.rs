//! `shard-map show`

use super::Failure;
use super::args::{Output, ShowArgs};
use super::connection::Connection;
use holdfast_console::{Align, table};
use serde::Serialize;
use shard_map::{
    Cluster, DeploymentId, Endpoint, Hash, MapVersion, ShardCount, ShardMap, ShardRanges,
};

/// A list of shards longer than this is cut in a table.
const RANGES_CHARS_MAX: usize = 48;

pub(super) async fn run(args: &ShowArgs) -> Result<String, Failure> {
    let map = Connection::new(&args.connection)?.read_map().await?;
    Ok(match args.connection.output {
        Output::Json => pretty(&MapView::of(&map)),
        Output::Text => text_of(&map),
    })
}

/// A map, as programs read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MapView<'a> {
    version: MapVersion,
    deployment: DeploymentId,
    shards: ShardCount,
    hash: Hash,
    seed: u64,
    clusters: Vec<ClusterView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterView<'a> {
    #[serde(flatten)]
    cluster: &'a Cluster,
    shard_count: u64,
    shards: ShardRanges,
}

impl<'a> MapView<'a> {
    pub(super) fn of(map: &'a ShardMap) -> Self {
        let view = |cluster: &'a Cluster| {
            let shards = map.shards_of(&cluster.name);
            ClusterView {
                cluster,
                shard_count: shards.count(),
                shards,
            }
        };
        Self {
            version: map.version(),
            deployment: map.deployment(),
            shards: map.shards(),
            hash: map.document().hash,
            seed: map.document().seed,
            clusters: map.clusters().iter().map(view).collect(),
        }
    }
}

/// A map, as people read it.
pub(super) fn text_of(map: &ShardMap) -> String {
    let row = |cluster: &Cluster| {
        let shards = map.shards_of(&cluster.name);
        let endpoints: Vec<_> = cluster.endpoints.iter().map(Endpoint::as_str).collect();
        vec![
            cluster.name.to_string(),
            cluster.weight.get().to_string(),
            shards.count().to_string(),
            cut(&shards.to_string()),
            endpoints.join(","),
        ]
    };
    format!(
        "map version {}, {} shards, deployment {}\n\n{}",
        map.version(),
        map.shards(),
        map.deployment(),
        table(
            &[
                ("CLUSTER", Align::Left),
                ("WEIGHT", Align::Right),
                ("SHARDS", Align::Right),
                ("WHICH", Align::Left),
                ("ENDPOINTS", Align::Left),
            ],
            map.clusters().iter().map(row)
        )
    )
}

/// Digits, commas and dashes only, so that bytes are characters.
pub(super) fn cut(ranges: &str) -> String {
    if ranges.len() <= RANGES_CHARS_MAX {
        return ranges.to_owned();
    }
    let whole = ranges[..RANGES_CHARS_MAX].rfind(',').unwrap_or(0);
    format!("{},...", &ranges[..whole])
}

/// JSON for programs that people read too.
pub(super) fn pretty(view: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(view).unwrap_or_default();
    json.push('\n');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_shards_is_cut_after_a_whole_range() {
        assert_eq!(cut("0-127"), "0-127");
        let long: ShardRanges = (0..200).step_by(2).map(shard_map::ShardId).collect();
        assert_eq!(
            cut(&long.to_string()),
            "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,..."
        );
    }
}
