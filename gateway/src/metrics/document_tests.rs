//! `docs/metrics.md` says of every family what the code says.

use super::*;
use crate::engine::ClusterProof;
use crate::time::Millis;
use shard_map::{Cluster, DeploymentId, ShardCount, ShardMap};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");

/// What a gateway with a map of one cluster shows.
fn shown() -> String {
    let name: Arc<str> = Arc::from("a");
    let cluster = Cluster::new("a".parse().unwrap(), vec!["http://a:2379".parse().unwrap()]);
    let (deployment, shards) = (DeploymentId::from_random_bits(1), ShardCount::try_from(4));
    let map = ShardMap::initial(deployment, shards.unwrap(), vec![cluster]).unwrap();
    Metrics::default().render(&Present {
        clusters: &[ClusterHealth {
            name: Arc::clone(&name),
            proven: true,
            proof_age: Some(Millis::ZERO),
            groups: 0,
            locks: 0,
        }],
        engines: &[EngineFigures {
            cluster: Arc::clone(&name),
            stats: Arc::default(),
            proof: ClusterProof::new(name),
            commands_queued: 0,
        }],
        shards: &[],
        map: &MapStatus {
            map: Some(Arc::new(map)),
            ..MapStatus::default()
        },
        tasks: &[("worker", 1)],
        phase: Phase::Serving,
        ready: true,
    })
}

/// A row of the document for each family.
fn rows(text: &str) -> BTreeMap<String, String> {
    let mut kinds = BTreeMap::new();
    let mut helps = BTreeMap::new();
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            helps.insert(name, help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        {
            kinds.insert(name, kind);
        } else if let Some((series, listed)) = line.split_once('{') {
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| series.strip_suffix(end).filter(|of| kinds.contains_key(of)))
                .unwrap_or(series);
            let names = listed.split("\",").flat_map(|part| part.split_once('='));
            let own = names.map(|(name, _)| name).filter(|name| *name != "le");
            labels.entry(family).or_default().extend(own);
        }
    }
    let row = |(name, kind): (&&str, &&str)| {
        let labels = labels.get(name).into_iter().flatten();
        let labels: Vec<String> = labels.map(|label| format!("`{label}`")).collect();
        let (labels, help) = (labels.join(", "), helps[name]);
        (
            (*name).to_owned(),
            format!("| `{name}` | {kind} | {labels} | {help} |"),
        )
    };
    kinds.iter().map(row).collect()
}

#[test]
fn the_document_has_a_row_for_every_metric_and_no_other() {
    let expected: Vec<String> = rows(&shown()).into_values().collect();
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let written: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `holdfast_") && !line.contains("_loadgen_"))
        .collect();
    assert!(
        written == expected,
        "the table must be:\n{}",
        expected.join("\n")
    );
}

#[test]
fn every_metric_has_a_help_text_a_good_name_and_no_label_of_a_client() {
    for (name, row) in rows(&shown()) {
        assert!(name.starts_with("holdfast_"), "{name}");
        let counter = row.contains("| counter |");
        assert_eq!(name.ends_with("_total"), counter, "{row}");
        for label in ["name", "client", "lock_id", "principal"] {
            assert!(!row.contains(&format!("`{label}`")), "{row}");
        }
    }
}
