//! A cluster that was restored from an older snapshot: what Holdfast makes of it today.

use crate::scene::{AMPLE, SESSION, Scene, granted, lasting, released};
use anyhow::ensure;
use holdfast_chaos::{Answer, ClusterShape};
use holdfast_judge::Rule;
use holdfast_rig::{RestoredAs, wait_until};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(4);

async fn restored(scene: &mut Scene, restored_as: RestoredAs) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let mut etcd = scene.stack.clusters[0].etcd().await;
    etcd.save_snapshot(&file).await.unwrap();
    drop(etcd);
    let mut client = scene.client();
    // Tokens that the restored cluster does not know of.
    for _ in 0..5 {
        let held = granted(&mut client, 0, 1, TTL).await;
        released(&mut client, 0, &held).await;
    }
    etcd = scene.stack.clusters[0].etcd().await;
    etcd.restore_snapshot(&file, restored_as).await.unwrap();
}

#[tokio::test]
async fn a_running_gateway_grants_nothing_in_a_cluster_that_came_back_with_another_id() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    restored(&mut scene, RestoredAs::New).await;
    let mut client = scene.client();
    for _ in 0..4 {
        let (answer, _) = client.acquire(0, None, 1, 4_000).await;
        assert!(matches!(answer, Answer::Unknown(_)), "{answer:?}");
        lasting(SESSION / 5).await;
    }
    wait_until("the gateway to say why", AMPLE, || async {
        let log = scene.stack.gateways[0].process().await.log();
        ensure!(log.contains("belongs to another etcd cluster"), "{log}");
        Ok(())
    })
    .await
    .unwrap();
    scene.verdict();
}

/// A limit, shown so that nobody has to guess: under its old id and with its sessions in the
/// snapshot, a restored cluster looks like the one that it was, and its revisions go back.
#[tokio::test]
async fn a_cluster_that_came_back_under_its_old_id_is_not_noticed_and_tokens_repeat() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    restored(&mut scene, RestoredAs::Same).await;
    let mut client = scene.client();
    granted(&mut client, 0, 1, TTL).await;
    let (finding, _) = scene.court.finding().unwrap();
    assert_eq!(finding.rule, Rule::Fence, "{finding}");
}
