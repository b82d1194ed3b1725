//! etcd misbehaves.

use crate::scene::{
    AMPLE, LONG, SESSION, SLACK, Scene, definite_renewal, etcdctl, granted, kept, kept_through,
    lasting, released, renewed,
};
use anyhow::{bail, ensure};
use holdfast_chaos::{Answer, Client, ClusterShape, Held, now};
use holdfast_rig::{Call, Rule, Trick, wait_until};
use std::time::Duration;

#[tokio::test]
async fn locks_whose_leases_were_revoked_by_hand_are_said_to_be_lost_and_others_can_be_acquired() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    scene.holds_may_overlap();
    let mut client = scene.client();
    let held = granted(&mut client, 0, 1, LONG).await;
    let leases = etcdctl(&scene, 0, &["lease", "list"]).await.unwrap();
    for lease in leases.lines().skip(1) {
        // One that was a lane's or a session's may be gone with another.
        let _ = etcdctl(&scene, 0, &["lease", "revoke", lease]).await;
    }
    let began = now();
    let new = granted(&mut client, 0, 2, LONG).await;
    let took = Duration::from_millis(now() - began);
    assert!(took <= Duration::from_secs(5) + SLACK, "{took:?}");
    let answer = definite_renewal(&mut client, 0, &held).await;
    assert!(matches!(answer, Answer::Ended(_)), "{answer:?}");
    renewed(&mut client, 0, &new).await;
    scene.verdict();
}

#[tokio::test]
async fn without_space_acquires_fail_and_renewals_and_releases_go_on() {
    let shape = ClusterShape {
        quota_bytes: Some(1_000_000),
        ..ClusterShape::ONE
    };
    let mut scene = Scene::start(1, &[shape]).await;
    scene.nothing_may_be_lost();
    let mut client = scene.client();
    let one = granted(&mut client, 0, 1, LONG).await;
    let mut two = granted(&mut client, 0, 2, LONG).await;
    let value = "x".repeat(100_000);
    wait_until("the space to be used up", AMPLE, || async {
        match etcdctl(&scene, 0, &["put", "fill", &value]).await {
            Ok(_) => bail!("there is space"),
            Err(refusal) => {
                let refusal = refusal.to_string();
                ensure!(refusal.contains("database space exceeded"), "{refusal}");
                Ok(())
            }
        }
    })
    .await
    .unwrap();
    wait_until("the alarm", AMPLE, || async {
        let alarms = etcdctl(&scene, 0, &["alarm", "list"]).await?;
        ensure!(alarms.contains("NOSPACE"), "{alarms:?}");
        Ok(())
    })
    .await
    .unwrap();
    kept(&mut client, &mut two, SESSION + Duration::from_secs(2)).await;
    // The alarm is looked at every two seconds while there are acquires.
    let began = now();
    loop {
        let (answer, held) = client.acquire(0, None, 3, 5_000).await;
        let Some(held) = held else {
            assert!(matches!(answer, Answer::Unknown(_)), "{answer:?}");
            break;
        };
        released(&mut client, 0, &held).await;
        let took = Duration::from_millis(now() - began);
        assert!(took < AMPLE, "acquires go on without space");
    }
    renewed(&mut client, 0, &two).await;
    released(&mut client, 0, &one).await;
    scene.verdict();
}

/// A takeover begins with a watch on the sessions, which is a hint and no more.
#[tokio::test]
async fn a_takeover_needs_no_watch_event() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    scene.nothing_may_be_lost();
    scene.stack.clusters[0].doors()[0].play(Rule::new(Trick::SwallowEvents, Call::Watch));
    for way in scene.stack.clusters[0].ways_of(1) {
        way.drop_connections();
    }
    let mut client = scene.client();
    let mut held = granted(&mut client, 0, 1, LONG).await;
    renewed(&mut client, 1, &held).await;
    scene.stack.gateways[0].process().await.kill().unwrap();
    // A watch that is opened again finds its revision compacted.
    let status = etcdctl(&scene, 0, &["endpoint", "status", "--write-out=fields"]).await;
    let status = status.unwrap();
    let revision = status
        .lines()
        .find_map(|line| line.strip_prefix("\"Revision\" : "));
    etcdctl(&scene, 0, &["compaction", revision.unwrap()])
        .await
        .unwrap();
    for way in scene.stack.clusters[0].ways_of(1) {
        way.drop_connections();
    }
    kept_through(&mut client, &mut held, 3 * SESSION, Some(1)).await;
    renewed(&mut client, 1, &held).await;
    scene.verdict();
}

/// One hold in each cluster.
async fn one_in_each(scene: &mut Scene) -> Vec<(Client, Held)> {
    let mut found: Vec<Option<(Client, Held)>> = Vec::new();
    found.resize_with(scene.stack.clusters.len(), || None);
    for name in 0..40 {
        let mut client = scene.client();
        let held = granted(&mut client, 0, name, LONG).await;
        for (index, cluster) in scene.stack.clusters.iter().enumerate() {
            let key = format!("/locks/row/{name}");
            let is_here = cluster.keys(&key).await.unwrap().contains(&key);
            if is_here && found[index].is_none() {
                found[index] = Some((client, held));
                break;
            }
        }
        if found.iter().all(Option::is_some) {
            return found.into_iter().flatten().collect();
        }
    }
    panic!("forty names are all in one cluster");
}

#[tokio::test]
async fn a_cluster_that_is_down_is_noticed_by_its_own_locks_alone() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE, ClusterShape::ONE]).await;
    scene.nothing_may_be_lost();
    let mut holds = one_in_each(&mut scene).await;
    let [(here, held_here), (there, held_there)] = &mut holds[..] else {
        panic!("two clusters");
    };
    let mut etcd = scene.stack.clusters[1].etcd().await;
    etcd.member(0).kill().unwrap();
    let down = SESSION + Duration::from_secs(2);
    let (unknown_here, unknown_there) =
        tokio::join!(kept(here, held_here, down), kept(there, held_there, down),);
    assert_eq!(
        unknown_here,
        Vec::<String>::new(),
        "a cluster that works is noticed to be down"
    );
    assert!(!unknown_there.is_empty(), "a promise without proof");
    etcd.restart().await.unwrap();
    renewed(there, 0, held_there).await;
    scene.verdict();
}

#[tokio::test]
async fn a_hold_whose_time_passed_while_its_cluster_was_down_is_over_when_it_is_back() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE, ClusterShape::ONE]).await;
    let mut client = scene.client();
    let mut held = Vec::new();
    for name in 0..8 {
        held.push(granted(&mut client, 0, name, Duration::from_secs(2)).await);
    }
    {
        let mut etcd = scene.stack.clusters[1].etcd().await;
        etcd.member(0).kill().unwrap();
        lasting(SESSION + Duration::from_secs(1)).await;
        etcd.restart().await.unwrap();
    }
    for held in &held {
        let answer = definite_renewal(&mut client, 0, held).await;
        assert!(matches!(answer, Answer::Ended(_)), "{answer:?}");
    }
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn duplicates_of_old_transactions_and_lease_revokes_change_nothing() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut client = scene.client();
    for name in 0..20 {
        let held = granted(&mut client, name % 2, name, LONG).await;
        released(&mut client, name % 2, &held).await;
    }
    // A gateway that ends revokes its session's lease; the other one takes over.
    {
        let mut process = scene.stack.gateways[0].process().await;
        process.terminate().await.unwrap();
        process.restart().await.unwrap();
    }
    let mut holds = Vec::new();
    for name in 0..20 {
        holds.push(granted(&mut client, name % 2, name, LONG).await);
    }
    let door = &scene.stack.clusters[0].doors()[0];
    let txns = door.repeat(Call::Txn, b"", 5_000).await.unwrap();
    assert!(txns.ok > 40, "{txns:?}");
    let revokes = door.repeat(Call::LeaseRevoke, b"", 100).await.unwrap();
    assert!(revokes.refused > 0 && revokes.ok == 0, "{revokes:?}");
    for held in &holds {
        renewed(&mut client, 1, held).await;
    }
    for (name, held) in holds.iter().enumerate() {
        assert_eq!(scene.records_of(name).await, 1);
        released(&mut client, 0, held).await;
    }
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn an_endpoint_that_belongs_to_another_cluster_is_refused_by_name() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE, ClusterShape::ONE]).await;
    let mut client = scene.client();
    let holds = one_in_each(&mut scene).await;
    let held: Vec<Held> = holds.into_iter().map(|(_, held)| held).collect();
    let wrong = scene.stack.clusters[0].etcd().await.member(0).client_port();
    scene.stack.clusters[1].doors()[0].lead_to(wrong);
    for way in scene.stack.clusters[1].ways_of(0) {
        way.drop_connections();
    }
    lasting(SESSION + Duration::from_secs(1)).await;
    let answer = client.renew(0, None, &mut held[1].clone()).await;
    assert!(matches!(answer, Answer::Unknown(_)), "{answer:?}");
    wait_until("the gateway to say so", AMPLE, || async {
        let log = scene.stack.gateways[0].process().await.log();
        let said = log
            .lines()
            .find(|line| line.contains("belongs to another etcd cluster"));
        ensure!(said.is_some_and(|line| line.contains("c1")), "{log}");
        Ok(())
    })
    .await
    .unwrap();
    // Nothing of the one cluster was taken for the other's.
    renewed(&mut client, 0, &held[0]).await;
    let right = scene.stack.clusters[1].etcd().await.member(0).client_port();
    scene.stack.clusters[1].doors()[0].lead_to(right);
    for way in scene.stack.clusters[1].ways_of(0) {
        way.drop_connections();
    }
    scene.nothing_may_be_lost();
    renewed(&mut client, 0, &held[1]).await;
    scene.verdict();
}

#[tokio::test]
async fn an_outage_of_everything_for_less_than_a_third_of_the_ttl_is_only_a_retry() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    scene.nothing_may_be_lost();
    let mut client = scene.client();
    let ttl = Duration::from_secs(12);
    let mut held = granted(&mut client, 0, 1, ttl).await;
    renewed(&mut client, 0, &held).await;
    {
        let mut etcd = scene.stack.clusters[0].etcd().await;
        let mut one = scene.stack.gateways[0].process().await;
        let mut two = scene.stack.gateways[1].process().await;
        etcd.member(0).stop().await.unwrap();
        one.stop().await.unwrap();
        two.stop().await.unwrap();
        lasting(ttl / 3 - Duration::from_millis(500)).await;
        two.cont().unwrap();
        one.cont().unwrap();
        etcd.member(0).cont().unwrap();
    }
    renewed(&mut client, 0, &held).await;
    assert!(scene.court.is_promised(held.no));
    kept(&mut client, &mut held, SESSION).await;
    scene.verdict();
}
