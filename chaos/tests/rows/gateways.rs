//! Gateways misbehave.

use crate::scene::{
    AMPLE, LONG, SESSION, SLACK, Scene, all_kept, definite_renewal, granted, kept, kept_through,
    lasting, released, renewed,
};
use futures::future::join_all;
use holdfast_chaos::{Answer, Client, ClusterShape, Harm, Held, now};
use holdfast_rig::{Process, ProcessSpec, Way};
use std::time::Duration;

/// What is taken over must be renewed in this time, by holders that are many.
const TTL: Duration = Duration::from_secs(30);

async fn holders(scene: &mut Scene, count: usize, ttl: Duration) -> Vec<(Client, Held)> {
    let gateways = scene.stack.gateways.len();
    let mut holders = Vec::new();
    for name in 0..count {
        let mut client = scene.client();
        let held = granted(&mut client, name % gateways, name, ttl).await;
        holders.push((client, held));
    }
    holders
}

async fn all_kept_for(holders: &mut [(Client, Held)], duration: Duration) {
    let keeping = holders
        .iter_mut()
        .map(|(client, held)| kept(client, held, duration));
    join_all(keeping).await;
}

#[tokio::test]
async fn the_locks_of_a_killed_gateway_are_renewed_through_a_survivor() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE, ClusterShape::OLD]).await;
    scene.nothing_may_be_lost();
    let mut holders = holders(&mut scene, 30, TTL).await;
    scene.stack.gateways[0].process().await.kill().unwrap();
    all_kept_for(&mut holders, 3 * SESSION).await;
    for (client, held) in &mut holders {
        renewed(client, 1, held).await;
        assert!(scene.court.is_promised(held.no));
    }
    scene.verdict();
}

#[tokio::test]
async fn a_rolling_restart_is_only_a_retry() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    scene.nothing_may_be_lost();
    let mut holders = holders(&mut scene, 10, Duration::from_secs(10)).await;
    let restarts = async {
        for gateway in &scene.stack.gateways {
            let mut process = gateway.process().await;
            process.terminate().await.unwrap();
            process.restart().await.unwrap();
        }
    };
    all_kept(&mut holders, None, restarts).await;
    all_kept_for(&mut holders, SESSION).await;
    for (client, held) in &mut holders {
        renewed(client, 0, held).await;
        assert!(scene.court.is_promised(held.no));
    }
    scene.verdict();
}

#[tokio::test]
async fn a_gateway_that_was_stopped_answers_nothing_from_stale_memory() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut old = holders(&mut scene, 8, LONG).await;
    let others: Vec<Client> = old.iter().map(|_| scene.client()).collect();
    // Of these, the stopped gateway owns half.
    let mut stopped = scene.stack.gateways[0].process().await;
    stopped.stop().await.unwrap();
    // Renewals that wait in its sockets and are read when it continues.
    let waiting = old.iter_mut().map(|(client, held)| {
        let mut held = held.clone();
        async move { client.renew(0, None, &mut held).await }
    });
    let answers = join_all(waiting).await;
    let is_unknown = |answer: &Answer| matches!(answer, Answer::Unknown(_));
    assert!(answers.iter().all(is_unknown), "{answers:?}");
    lasting(SESSION).await;
    // Its groups are taken over, the locks released, and granted again.
    let mut new = Vec::new();
    for ((client, held), mut other) in old.iter_mut().zip(others) {
        released(client, 1, held).await;
        let held = granted(&mut other, 1, held.name, LONG).await;
        new.push((other, held));
    }
    stopped.cont().unwrap();
    for _ in 0..20 {
        for (client, held) in &mut old {
            client.renew(0, None, &mut held.clone()).await;
        }
        for (client, held) in &mut new {
            client.renew(0, None, &mut held.clone()).await;
        }
    }
    for ((old_client, old_held), (client, held)) in old.iter_mut().zip(&mut new) {
        let answer = definite_renewal(old_client, 0, old_held).await;
        assert!(matches!(answer, Answer::Ended(_)), "{answer:?}");
        renewed(client, 0, held).await;
    }
    scene.verdict();
}

/// While a gateway is cut off, nobody is told that a live lock is lost, and its locks are renewed
/// through the other one.
async fn cut_off(scene: &mut Scene, ways: Vec<Way>, harm: Harm) {
    scene.nothing_may_be_lost();
    let mut holders = holders(scene, 6, TTL).await;
    for way in &ways {
        harm.to(way);
    }
    all_kept_for(&mut holders, 2 * SESSION).await;
    for way in &ways {
        way.open();
    }
    for (client, held) in &mut holders {
        renewed(client, 0, held).await;
        renewed(client, 1, held).await;
    }
    scene.verdict();
}

fn to_peers(scene: &Scene) -> Vec<Way> {
    let gateways = &scene.stack.gateways;
    vec![gateways[0].way_of(1), gateways[1].way_of(0)]
}

#[tokio::test]
async fn a_gateway_cut_off_from_a_cluster_says_nothing_false() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE, ClusterShape::ONE]).await;
    let ways = scene.stack.clusters[1].ways_of(0);
    cut_off(&mut scene, ways, Harm::HoldAll).await;
}

#[tokio::test]
async fn a_gateway_cut_off_from_its_peers_says_nothing_false() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let ways = to_peers(&scene);
    cut_off(&mut scene, ways, Harm::HoldAll).await;
}

#[tokio::test]
async fn a_gateway_that_hears_no_answers_says_nothing_false() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let ways = scene.stack.clusters[0].ways_of(0);
    cut_off(&mut scene, ways, Harm::HoldReplies).await;
}

#[tokio::test]
async fn a_gateway_cut_off_from_everything_says_nothing_false() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut ways = to_peers(&scene);
    ways.extend(scene.stack.clusters[0].ways_of(0));
    cut_off(&mut scene, ways, Harm::HoldAll).await;
}

#[tokio::test]
async fn a_gateway_whose_connections_are_half_open_says_nothing_false() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut ways = to_peers(&scene);
    ways.extend(scene.stack.clusters[0].ways_of(0));
    cut_off(&mut scene, ways, Harm::HalfOpen).await;
}

#[tokio::test]
async fn the_first_gateway_back_after_all_were_down_takes_everything_over() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let ttl = Duration::from_secs(4);
    let mut holders = holders(&mut scene, 6, ttl).await;
    for gateway in &scene.stack.gateways {
        gateway.process().await.kill().unwrap();
    }
    lasting(ttl + Duration::from_secs(1)).await;
    scene.stack.gateways[0]
        .process()
        .await
        .restart()
        .await
        .unwrap();
    let back = now();
    // Those who still renew keep their locks; the others end T + S after the takeover, which comes
    // within another S of the start.
    scene.nothing_may_be_lost();
    for (client, held) in &mut holders[..3] {
        renewed(client, 0, held).await;
    }
    let mut other = scene.client();
    let dead: Vec<usize> = holders[3..].iter().map(|(_, held)| held.name).collect();
    let keeping = async {
        let keeping = holders[..3]
            .iter_mut()
            .map(|(client, held)| kept_through(client, held, 4 * SESSION, Some(0)));
        join_all(keeping).await
    };
    let waiting = async {
        for name in dead {
            granted(&mut other, 0, name, ttl).await;
        }
        Duration::from_millis(now() - back)
    };
    let (_, took) = tokio::join!(keeping, waiting);
    assert!(took <= ttl + 2 * SESSION + SLACK, "{took:?}");
    scene.verdict();
}

#[tokio::test]
async fn a_second_gateway_with_the_same_configuration_ends_and_says_why() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    scene.nothing_may_be_lost();
    let mut client = scene.client();
    let mut held = granted(&mut client, 0, 1, LONG).await;
    let first = scene.stack.gateways[0].process().await.dir().to_owned();
    let program = std::env::current_exe().unwrap();
    let programs = program.parent().unwrap().parent().unwrap();
    let config = first.join("gateway.toml").display().to_string();
    let spec = ProcessSpec::new(programs.join("gateway")).args(["serve", "--config", &config]);
    let mut second = Process::start(spec).await.unwrap();
    let ended = tokio::time::timeout(AMPLE, second.wait_end())
        .await
        .unwrap();
    assert!(!ended.unwrap().success());
    let log = second.log();
    assert!(log.contains("in use"), "{log}");
    kept(&mut client, &mut held, SESSION).await;
    scene.verdict();
}
