//! Shards move between clusters.

mod copies;
mod gateways;
mod operators;
mod roller;
mod waiters;

use crate::scan::scan;
use crate::scene::{SESSION, Scene, all_kept, etcdctl, granted, kept, lasting, released, renewed};
use holdfast_chaos::{Answer, Client};
use roller::{HOLDERS, ONE, Roller, TTL, cluster_of, copies_take_long, holders};
use serde_json::Value;
use std::cell::Cell;
use std::time::Duration;

/// What was not known.
const NOTHING: Vec<String> = Vec::new();

/// Takes and gives back names that nobody else wants, until it is told to stop. Nothing but a grant
/// may be answered.
async fn churn(client: &mut Client, first: usize, over: &Cell<bool>) -> usize {
    let mut turns = 0;
    while !over.get() {
        let (name, through) = (first + turns % 20, turns % client.gateways());
        let (answer, held) = client.acquire(through, None, name, 8_000).await;
        let held = held.unwrap_or_else(|| panic!("an acquire is answered {answer:?}"));
        released(client, through, &held).await;
        turns += 1;
    }
    turns
}

#[tokio::test]
async fn shards_move_while_their_locks_are_held_renewed_released_and_contended() {
    let mut scene = Scene::start_calm(2, &[ONE, ONE, ONE], 1).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut holders = holders(&mut scene, HOLDERS).await;
    let (mut busy, mut rival) = (scene.client(), scene.client());
    let over = Cell::new(false);
    let contending = async {
        let mut turn = 0;
        while !over.get() {
            let (answer, _) = rival.acquire(turn % 2, None, turn % HOLDERS, 8_000).await;
            assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
            turn += 1;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let rolling = async {
        let add = scene.stack.clusters[2].as_argument();
        roller.plan(&["--add", &add]).await;
        roller.apply(&["--wait"], 0).await;
        let locks = roller.clean(&scene).await;
        assert!(locks["c2"] > 0, "{locks:?}");
        // Home is a cluster of the map like any other, and stays home.
        roller.plan(&["--remove", "c0"]).await;
        roller.apply(&["--wait"], 0).await;
    };
    let all = async {
        tokio::join!(contending, churn(&mut busy, 100, &over), async {
            rolling.await;
            over.set(true);
        });
    };
    let unknown = all_kept(&mut holders, None, all).await;
    assert_eq!(unknown, NOTHING, "renewals fail while shards move");
    let locks = roller.clean(&scene).await;
    assert_eq!((locks["c0"], locks["c1"] + locks["c2"]), (0, HOLDERS));
    for (client, held) in &mut holders {
        released(client, 0, held).await;
    }
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn when_the_source_dies_half_way_what_has_moved_works_and_the_rest_waits() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut client = scene.client();
    let mut names = Vec::new();
    for name in 0.. {
        if cluster_of(&roller, &client, name).await == "c1" {
            names.push(name);
        }
        if names.len() == 2 {
            break;
        }
    }
    let shard = async |name: usize| {
        let text = roller
            .run(&["lookup", "-o", "json", &client.name(name)], 0)
            .await;
        serde_json::from_str::<Value>(&text).unwrap()[0]["shard"].to_string()
    };
    let (first, second) = (shard(names[0]).await, shard(names[1]).await);
    assert_ne!(first, second);
    let mut moved = granted(&mut client, 0, names[0], TTL).await;
    let mut waits = granted(&mut client, 1, names[1], TTL).await;
    roller.plan(&["--remove", "c1"]).await;
    roller.apply(&["--canary", &first, "--wait"], 0).await;
    scene.stack.clusters[1]
        .etcd()
        .await
        .member(0)
        .kill()
        .unwrap();
    roller.run(&["resume"], 0).await;
    let mut other = scene.client();
    let down = async {
        lasting(SESSION + Duration::from_secs(1)).await;
        let (answer, _) = other.acquire(0, None, names[1], 8_000).await;
        assert!(matches!(answer, Answer::Unknown(_)), "{answer:?}");
        let status = roller.state().await;
        assert_eq!(status["rollout"]["unreachable"], serde_json::json!(["c1"]));
    };
    let mut keeper = scene.client();
    std::mem::swap(&mut keeper, &mut client);
    let ((), unknown) = tokio::join!(
        down,
        kept(&mut keeper, &mut moved, SESSION + Duration::from_secs(2))
    );
    assert_eq!(unknown, NOTHING, "what has moved needs its old cluster");
    scene.stack.clusters[1]
        .etcd()
        .await
        .member(0)
        .restart()
        .await
        .unwrap();
    renewed(&mut keeper, 1, &waits).await;
    let ending = roller.until_settled();
    let keeping = async {
        for _ in 0..4 {
            kept(&mut keeper, &mut waits, Duration::from_secs(1)).await;
            renewed(&mut keeper, 0, &moved).await;
        }
    };
    tokio::join!(ending, keeping);
    roller.clean(&scene).await;
    scene.verdict();
}

#[tokio::test]
async fn a_rollback_half_way_ends_where_it_began_and_tokens_grow() {
    let mut scene = Scene::start_calm(2, &[ONE, ONE, ONE], 1).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut holders = holders(&mut scene, HOLDERS).await;
    let before = roller.run(&["show"], 0).await;
    let rolling = async {
        let wish = [
            "--add",
            &scene.stack.clusters[2].as_argument(),
            "--remove",
            "c1",
        ];
        roller.plan(&wish).await;
        copies_take_long(&scene, 2);
        roller.apply(&[], 0).await;
        roller.until_half_way().await;
        roller.run(&["rollback"], 0).await;
        scene.stack.clusters[2].doors()[0].play_nothing();
        roller.until_settled().await;
    };
    let unknown = all_kept(&mut holders, None, rolling).await;
    assert_eq!(unknown, NOTHING);
    let locks = roller.clean(&scene).await;
    assert_eq!(locks["c2"], 0, "{locks:?}");
    let table = |text: &str| {
        text.lines()
            .filter(|it| it.contains("http"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(table(&roller.run(&["show"], 0).await), table(&before));
    for (client, held) in &mut holders {
        released(client, 0, held).await;
        let again = granted(client, 1, held.name, TTL).await;
        assert!(again.token > held.token);
    }
    scene.verdict();
}

#[tokio::test]
async fn verify_and_a_scan_of_ones_own_agree_on_what_lies_wrong() {
    let mut scene = Scene::start(1, &[ONE, ONE]).await;
    let roller = Roller::new(&scene);
    let holders = holders(&mut scene, HOLDERS / 2).await;
    roller.clean(&scene).await;
    let mut stray = None;
    for (client, held) in &holders {
        if cluster_of(&roller, client, held.name).await == "c0" {
            stray = Some(client.name(held.name));
        }
    }
    let stray = stray.unwrap();
    let text = roller.run(&["lookup", "-o", "json", &stray], 0).await;
    let found: Value = serde_json::from_str(&text).unwrap();
    let guard = format!("/holdfast/shards/{}", found[0]["shard"]);
    for (key, value) in [
        (format!("/locks/{stray}"), r#"{"tokenBase":0}"#),
        (guard, r#"{"epoch":1,"state":"active","tokenBase":0}"#),
    ] {
        etcdctl(&scene, 1, &["put", &key, value]).await.unwrap();
        let said = roller.run(&["verify"], 4).await;
        let (_, problems) = scan(&scene).await;
        assert!(!problems.is_empty(), "only verify finds: {said}");
        etcdctl(&scene, 1, &["del", &key]).await.unwrap();
        roller.clean(&scene).await;
    }
}
