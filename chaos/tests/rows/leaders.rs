//! Clusters of three members.

use crate::scene::{AMPLE, LONG, SESSION, Scene, granted, kept_through, lasting, renewed};
use anyhow::ensure;
use holdfast_chaos::{Answer, ClusterShape, Fleet, FleetOptions};
use holdfast_rig::wait_until;
use std::time::Duration;

/// What is taken over must be renewed in this time.
const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_leader_killed_during_acquires_grants_nothing_twice() {
    let scene = Scene::start(2, &[ClusterShape::THREE]).await;
    let options = FleetOptions::new(12, 8);
    let targets = scene.stack.targets();
    let fleet = Fleet::start(&scene.court, &targets, &options, 1, &"fleet/".into());
    lasting(Duration::from_secs(3)).await;
    {
        let mut etcd = scene.stack.clusters[0].etcd().await;
        let leader = etcd.wait_leader().await.unwrap();
        etcd.member(leader).kill().unwrap();
    }
    let before = scene.court.counts().grants;
    wait_until("grants without one of three", AMPLE, || async {
        let counts = scene.court.counts();
        ensure!(counts.grants > before, "{counts:?}");
        Ok(())
    })
    .await
    .unwrap();
    lasting(2 * SESSION).await;
    fleet.release().await;
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn a_leader_stopped_for_two_sessions_and_continued_loses_no_live_lock() {
    let mut scene = Scene::start(2, &[ClusterShape::THREE]).await;
    scene.nothing_may_be_lost();
    let mut clients = Vec::new();
    for name in 0..6 {
        let mut client = scene.client();
        let held = granted(&mut client, name % 2, name, TTL).await;
        clients.push((client, held));
    }
    let mut etcd = scene.stack.clusters[0].etcd().await;
    let leader = etcd.wait_leader().await.unwrap();
    let stopped = async {
        etcd.member(leader).stop().await.unwrap();
        lasting(2 * SESSION).await;
        etcd.member(leader).cont().unwrap();
    };
    // Long enough for what the old leader revokes to be found gone, and for groups to be claimed.
    let renewing = clients
        .iter_mut()
        .enumerate()
        .map(|(index, (client, held))| kept_through(client, held, 6 * SESSION, Some(index % 2)));
    tokio::join!(stopped, futures::future::join_all(renewing));
    for (client, held) in &mut clients {
        renewed(client, 0, held).await;
    }
    scene.verdict();
}

#[tokio::test]
async fn a_gateway_that_reaches_only_a_minority_neither_grants_nor_renews_there() {
    let mut scene = Scene::start(2, &[ClusterShape::THREE]).await;
    let mut client = scene.client();
    let mut held = granted(&mut client, 0, 1, LONG).await;
    let cluster = &scene.stack.clusters[0];
    let ways = cluster.ways_of(0);
    ways[1].close();
    ways[2].close();
    cluster.ways_of(1)[0].close();
    for other in [1, 2] {
        for way in cluster.ways_between(0, other).await {
            way.hold_all();
        }
    }
    lasting(SESSION).await;
    let answer = client.renew(0, None, &mut held).await;
    let (acquired, _) = client.acquire(0, None, 2, 4_000).await;
    assert!(matches!(answer, Answer::Unknown(_)), "{answer:?}");
    assert!(matches!(acquired, Answer::Unknown(_)), "{acquired:?}");
    // Those who reach the majority go on, with the hold of the one that does not.
    renewed(&mut client, 1, &held).await;
    granted(&mut client, 1, 3, LONG).await;
    scene.verdict();
}
