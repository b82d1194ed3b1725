//! What is a map, and what is refused.

use super::*;

fn name(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn cluster(cluster: &str, endpoint: &str) -> Cluster {
    Cluster::new(name(cluster), vec![endpoint.parse().unwrap()])
}

fn sample() -> ShardMap {
    ShardMap::initial(
        DeploymentId::from_random_bits(7),
        ShardCount::try_from(256).unwrap(),
        vec![cluster("b", "http://b:2379"), cluster("a", "http://a:2379")],
    )
    .unwrap()
}

/// The sample's document with one change is refused with this text.
#[track_caller]
fn refused(change: impl FnOnce(&mut MapDocument), expected: &str) {
    let mut document = sample().document().clone();
    change(&mut document);
    let error = ShardMap::try_from(document).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_map_reads_back_from_its_document() {
    let map = sample();
    assert_eq!(ShardMap::from_json(&map.to_json()).unwrap(), map);
}

#[test]
fn the_document_is_written_as_it_has_always_been() {
    let expected = concat!(
        r#"{"version":1,"deployment":"00000000000000000000000000000007","shards":256,"#,
        r#""hash":"xxh3_64","seed":0,"clusters":["#,
        r#"{"name":"a","endpoints":["http://a:2379"],"weight":1},"#,
        r#"{"name":"b","endpoints":["http://b:2379"],"weight":1}],"#,
        r#""table":{"a":"0-127","b":"128-255"}}"#,
    );
    assert_eq!(String::from_utf8(sample().to_json()).unwrap(), expected);
}

#[test]
fn the_first_map_does_not_depend_on_the_order_in_which_clusters_are_given() {
    let clusters = [
        cluster("a", "http://a:2379"),
        cluster("b", "http://b:2379"),
        cluster("c", "http://c:2379"),
    ];
    let map = |order: [usize; 3]| {
        let clusters = order.map(|place| clusters[place].clone()).to_vec();
        let shards = ShardCount::try_from(256).unwrap();
        ShardMap::initial(DeploymentId::from_random_bits(7), shards, clusters).unwrap()
    };
    assert_eq!(map([0, 1, 2]), map([2, 0, 1]));
    assert_eq!(map([0, 1, 2]).shards_of(&name("a")).to_string(), "0-85");
}

#[test]
fn a_cluster_without_shards_is_left_out_of_the_table() {
    let clusters = vec![cluster("a", "http://a:1"), cluster("b", "http://b:1")];
    let one = ShardCount::try_from(1).unwrap();
    let map = ShardMap::initial(DeploymentId::from_random_bits(7), one, clusters).unwrap();
    assert_eq!(map.document().table.len(), 1);
    assert_eq!(map.shards_of(&name("b")).count(), 0);
    assert!(map.cluster(&name("b")).is_some());
}

#[test]
fn every_shard_leads_to_the_cluster_that_the_table_says() {
    let map = sample();
    for shard in map.shards().shards() {
        let expected = if shard.0 < 128 { "a" } else { "b" };
        assert_eq!(map.cluster_of(shard).unwrap().name.as_str(), expected);
    }
    assert_eq!(map.cluster_of(ShardId(256)), None);
    assert_eq!(map.shard_of("a"), ShardId(14));
    assert_eq!(map.cluster(&name("c")), None);
}

#[test]
fn unknown_fields_are_refused() {
    let json = String::from_utf8(sample().to_json()).unwrap();
    for (known, unknown) in [
        (r#""seed":0"#, r#""seed":0,"sede":0"#),
        (r#""weight":1"#, r#""weight":1,"wieght":2"#),
        (r#""weight":1"#, r#""weight":1,"tls":{"cafile":"/ca.pem"}"#),
        (r#""xxh3_64""#, r#""xxh64""#),
        (r#""shards":256"#, r#""shards":0"#),
    ] {
        let changed = json.replacen(known, unknown, 1);
        assert_ne!(changed, json);
        let error = ShardMap::from_json(changed.as_bytes()).unwrap_err();
        assert!(matches!(error, MapError::Syntax(_)), "{error}");
    }
}

#[test]
fn a_document_that_breaks_a_rule_is_refused_and_the_reason_names_it() {
    refused(|map| map.version = MapVersion(0), "version 0");
    refused(|map| map.seed = 1, "seed 1");
    refused(|map| map.clusters.clear(), "0 clusters");
    refused(|map| map.clusters.reverse(), "cluster a is listed after b");
    refused(
        |map| map.clusters[1].name = name("a"),
        "cluster a is listed after a",
    );
    refused(
        |map| map.clusters[0].endpoints.clear(),
        "cluster a has 0 endpoints",
    );
    refused(
        |map| map.clusters[1].endpoints = vec!["https://a:2379".parse().unwrap()],
        "https://a:2379 is listed twice: in cluster a and in cluster b",
    );
    refused(
        |map| map.clusters[1].tls = Some(crate::TlsFiles::default()),
        "cluster b has TLS files, but its endpoint http://b:2379 is not https",
    );
    refused(
        |map| {
            map.clusters[0].tls = Some(crate::TlsFiles {
                cert_file: Some("/cert.pem".to_owned().try_into().unwrap()),
                ..crate::TlsFiles::default()
            });
        },
        "cluster a has only one of certFile and keyFile",
    );
}

#[test]
fn a_table_that_is_not_exactly_the_shards_is_refused() {
    let put = |cluster: &'static str, ranges: &'static str| {
        move |map: &mut MapDocument| {
            map.table.insert(name(cluster), ranges.parse().unwrap());
        }
    };
    refused(put("a", "0-126"), "leaves out shard 127");
    refused(
        put("a", "0-128"),
        "shard 128 twice: on cluster a and on cluster b",
    );
    refused(put("b", "128-256"), "shard 256, but there are only 256");
    refused(put("b", "128-4294967295"), "shard 4294967295");
    refused(put("c", ""), "cluster c, which the map does not have");
}

#[test]
fn the_largest_table_fits_into_etcd() {
    let shards = ShardCount::try_from(limits::SHARDS_MAX).unwrap();
    let clusters = vec![cluster("a", "http://a:1"), cluster("b", "http://b:1")];
    let map = ShardMap::initial(DeploymentId::from_random_bits(7), shards, clusters).unwrap();
    let mut document = map.document().clone();
    for (cluster, odd) in [("a", 0), ("b", 1)] {
        let every_other = shards.shards().filter(|shard| shard.0 % 2 == odd).collect();
        document.table.insert(name(cluster), every_other);
    }
    assert!(ShardMap::try_from(document).is_ok());
}

#[test]
fn a_document_that_does_not_fit_into_etcd_is_refused() {
    let big = vec![b' '; limits::MAP_BYTES_MAX + 1];
    let error = ShardMap::from_json(&big).unwrap_err();
    assert_eq!(error, MapError::TooLarge(limits::MAP_BYTES_MAX + 1));
    refused(
        |map| {
            map.table.clear();
            map.clusters = (0..256)
                .map(|place| Cluster {
                    name: name(&format!("c{place:03}")),
                    endpoints: (1..=32)
                        .map(|port| format!("http://{}{place}:{port}", "h".repeat(200)))
                        .map(|url| url.parse().unwrap())
                        .collect(),
                    ..map.clusters[0].clone()
                })
                .collect();
            map.table.insert(name("c000"), "0-255".parse().unwrap());
        },
        "bytes; allowed are",
    );
}

#[test]
fn a_map_says_where_a_moving_shard_comes_from() {
    let mut document = sample().document().clone();
    document.moves = [(name("b"), "3-4".parse().unwrap())].into();
    let map = ShardMap::try_from(document).unwrap();
    assert_eq!(map.moving().collect::<Vec<_>>(), [ShardId(3), ShardId(4)]);
    assert_eq!(map.cluster_of(ShardId(3)).unwrap().name, name("a"));
    assert_eq!(map.source_of(ShardId(3)).unwrap().name, name("b"));
    assert_eq!(map.source_of(ShardId(5)), None);
    assert_eq!(ShardMap::from_json(&map.to_json()).unwrap(), map);
}

#[test]
fn a_shard_cannot_move_from_where_it_goes_nor_from_a_cluster_that_is_not_listed() {
    let moves = |source: &str| {
        let moves = (name(source), "3".parse().unwrap());
        move |document: &mut MapDocument| document.moves = [moves].into()
    };
    refused(
        moves("a"),
        "shard 3 moves from cluster a, where the table has it",
    );
    refused(moves("c"), "cluster c, which the map does not have");
}
