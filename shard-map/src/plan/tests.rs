//! From wishes to plans.

use super::*;
use crate::{Cluster, ShardCount, Weight};
use proptest::prelude::*;

fn name(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn cluster(cluster: &str) -> Cluster {
    Cluster::new(
        name(cluster),
        vec![format!("http://{cluster}:2379").parse().unwrap()],
    )
}

/// 256 shards: 0-127 on a, 128-255 on b; version 1.
fn present() -> ShardMap {
    let clusters = vec![cluster("a"), cluster("b")];
    let shards = ShardCount::try_from(256).unwrap();
    ShardMap::initial(DeploymentId::from_random_bits(7), shards, clusters).unwrap()
}

fn plan(wish: &Wish) -> Plan {
    Plan::new(&present(), wish).unwrap()
}

fn add_c() -> Wish {
    Wish {
        add: vec![cluster("c")],
        ..Wish::default()
    }
}

fn drain_a() -> Wish {
    Wish {
        add: vec![cluster("c")],
        remove: vec![name("a")],
        ..Wish::default()
    }
}

/// Moves as text.
fn told(plan: &Plan) -> Vec<String> {
    let one = |one: &Move| format!("{} {}>{}", one.shards, one.from, one.to);
    plan.moves().iter().map(one).collect()
}

#[test]
fn an_added_cluster_gets_its_share_from_the_others() {
    let plan = plan(&add_c());
    assert_eq!(told(&plan), ["86-127 a>c", "213-255 b>c"]);
    assert_eq!(plan.added().collect::<Vec<_>>(), [&name("c")]);
}

#[test]
fn a_removed_clusters_shards_go_to_the_others_and_it_stays_in_the_map_until_they_have_gone() {
    let plan = plan(&drain_a());
    assert_eq!(told(&plan), ["0-127 a>c"]);
    let during = plan.during().unwrap();
    assert_eq!(during.version(), MapVersion(2));
    assert!(during.cluster(&name("a")).is_some());
    assert_eq!(during.source_of(ShardId(5)).unwrap().name, name("a"));
    assert_eq!(during.cluster_of(ShardId(5)).unwrap().name, name("c"));
    assert_eq!(plan.after().cluster(&name("a")), None);
}

#[test]
fn a_move_by_hand_moves_that_shard_and_no_other() {
    let wish = Wish {
        moves: vec![(ShardId(3), name("b"))],
        ..Wish::default()
    };
    assert_eq!(told(&plan(&wish)), ["3 a>b"]);
}

#[test]
fn a_weight_moves_as_many_shards_as_it_says() {
    let wish = Wish {
        weights: vec![(name("a"), Weight::try_from(3).unwrap())],
        ..Wish::default()
    };
    assert_eq!(told(&plan(&wish)), ["192-255 b>a"]);
}

#[test]
fn other_endpoints_move_nothing() {
    let access = Access {
        endpoints: vec!["http://a2:2379".parse().unwrap()],
        tls: None,
        credentials_file: None,
    };
    let wish = Wish {
        access: vec![(name("a"), access)],
        ..Wish::default()
    };
    let plan = plan(&wish);
    assert_eq!(plan.moves(), []);
    assert_eq!(plan.reached_anew().collect::<Vec<_>>(), [&name("a")]);
    assert_eq!(plan.during().unwrap().document().moves, BTreeMap::new());
}

#[test]
fn a_wish_that_contradicts_the_map_or_itself_is_refused_and_says_what_to_do() {
    let wishes = [
        (Wish::default(), "nothing to do"),
        (
            Wish {
                remove: vec![name("c")],
                ..Wish::default()
            },
            "no cluster c",
        ),
        (
            Wish {
                remove: vec![name("a"), name("a")],
                ..Wish::default()
            },
            "named twice",
        ),
        (
            Wish {
                remove: vec![name("a"), name("b")],
                ..Wish::default()
            },
            "0 clusters",
        ),
        (
            Wish {
                add: vec![cluster("a")],
                ..Wish::default()
            },
            "a cluster a already",
        ),
        (
            Wish {
                moves: vec![(ShardId(256), name("a"))],
                ..Wish::default()
            },
            "no shard 256",
        ),
        (
            Wish {
                moves: vec![(ShardId(1), name("c"))],
                ..Wish::default()
            },
            "no cluster c",
        ),
    ];
    for (wish, expected) in wishes {
        let text = Plan::new(&present(), &wish).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    let running = plan(&add_c()).during().unwrap();
    let text = Plan::new(&running, &drain_a()).unwrap_err().to_string();
    assert!(text.contains("a rollout is running"), "{text}");
}

#[test]
fn a_plan_reads_back_from_its_file_and_an_edited_one_is_refused() {
    let plan = plan(&drain_a());
    let plan = plan
        .clone()
        .with_forecast(forecast(&plan, &[(name("a"), 1_000)].into()));
    assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan.clone()));

    let edited = |change: fn(&mut serde_json::Value)| {
        let mut value = serde_json::from_slice(&plan.to_json()).unwrap();
        change(&mut value);
        Plan::from_json(&serde_json::to_vec(&value).unwrap())
            .unwrap_err()
            .to_string()
    };
    for (text, expected) in [
        (edited(|plan| plan["format"] = 2.into()), "format 2"),
        (
            edited(|plan| plan["more"] = 2.into()),
            "unknown field `more`",
        ),
        (
            edited(|plan| plan["moves"][0]["shards"] = "0-9".into()),
            "must not be edited",
        ),
        (
            edited(|plan| plan["after"]["version"] = 9.into()),
            "must not be edited",
        ),
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_plan_for_another_version_of_the_map_is_stale() {
    let plan = plan(&add_c());
    assert_eq!(plan.check_fresh(&present()), Ok(()));
    let later = at_version(&present(), MapVersion(5)).unwrap();
    let text = plan.check_fresh(&later).unwrap_err().to_string();
    assert!(
        text.contains("made for map version 1, home has 5"),
        "{text}"
    );
}

#[test]
fn the_forecast_counts_what_moves() {
    let plan = plan(&drain_a());
    let forecast = forecast(&plan, &[(name("a"), 1_000), (name("b"), 9)].into());
    assert_eq!((forecast.shards, forecast.locks), (128, 1_000));
    assert_eq!(forecast.names_per_million, 500_000);
    assert!(forecast.risks[0].contains("Cluster a loses all its 128 shards"));
}

#[test]
fn a_forecast_says_no_lock_only_where_none_is_held() {
    // 64 shards on each, in order.
    let clusters = ["a", "b", "c", "d"].map(cluster).to_vec();
    let shards = ShardCount::try_from(256).unwrap();
    let map = ShardMap::initial(DeploymentId::from_random_bits(7), shards, clusters).unwrap();
    let locks = |moves: [(u32, &str); 2], a, b| {
        let wish = Wish {
            moves: moves.map(|(shard, to)| (ShardId(shard), name(to))).to_vec(),
            ..Wish::default()
        };
        let held = LocksIn::from([(name("a"), a), (name("b"), b)]);
        forecast(&Plan::new(&map, &wish).unwrap(), &held).locks
    };
    let of_a = [(0, "c"), (1, "d")];
    assert_eq!(locks(of_a, 1, 0), 1);
    assert_eq!(locks(of_a, 32, 0), 1);
    assert_eq!(locks(of_a, 33, 0), 2);
    assert_eq!(locks(of_a, 0, 1_000), 0);
    assert_eq!(locks([(0, "c"), (64, "d")], 1, 1), 2);
}

#[test]
fn the_shards_that_move_are_those_of_all_moves_in_order() {
    assert_eq!(plan(&add_c()).moving().to_string(), "86-127,213-255");
    let crossing = Wish {
        moves: vec![(ShardId(200), name("a")), (ShardId(3), name("b"))],
        ..Wish::default()
    };
    assert_eq!(plan(&crossing).moving().to_string(), "3,200");
}

proptest! {
    #[test]
    fn a_plan_and_its_undoing_lead_back_to_the_map_before(
        add in 0usize..3, remove in 0usize..3, weight in 1u32..5, shard in 0u32..256,
    ) {
        let wish = Wish {
            add: ["c", "d"][..add.min(2)].iter().map(|name| cluster(name)).collect(),
            remove: ["a", "b"][..remove.min(add)].iter().map(|&one| name(one)).collect(),
            weights: (remove == 0)
                .then(|| (name("b"), Weight::try_from(weight).unwrap()))
                .into_iter()
                .collect(),
            moves: (add > 0).then(|| (ShardId(shard), name("c"))).into_iter().collect(),
            ..Wish::default()
        };
        let Ok(plan) = Plan::new(&present(), &wish) else {
            return Ok(());
        };
        let applied = at_version(plan.after(), MapVersion(3)).unwrap();
        let undo = plan.undo(&applied).unwrap();
        prop_assert_eq!(undo.after(), &at_version(&present(), MapVersion(3)).unwrap());
        let back = |one: Move| Move { from: one.to, to: one.from, shards: one.shards };
        let mut back: Vec<_> = plan.moves().into_iter().map(back).collect();
        back.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
        prop_assert_eq!(undo.moves(), back);
        prop_assert_eq!(plan.undo(&present()), Err(PlanError::NotApplied));
    }
}
