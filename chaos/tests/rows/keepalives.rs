//! Keepalives whose answers say nothing.

use crate::scene::{LONG, SESSION, Scene, granted, kept, renewed};
use holdfast_chaos::ClusterShape;
use holdfast_rig::{Call, Rule, Trick};
use std::time::Duration;

/// While keepalives are tampered with, and afterwards, nothing is said to be lost.
async fn nothing_is_lost_while(trick: Trick, shape: ClusterShape) {
    let mut scene = Scene::start(1, &[shape]).await;
    scene.nothing_may_be_lost();
    let mut client = scene.client();
    let mut held = granted(&mut client, 0, 1, LONG).await;
    let door = &scene.stack.clusters[0].doors()[0];
    door.play(Rule::new(trick, Call::KeepAlive));
    let unknown = kept(&mut client, &mut held, SESSION + Duration::from_secs(1)).await;
    assert!(door.played(trick) > 0);
    assert!(
        !unknown.is_empty(),
        "the session stays proven without proof"
    );
    door.play_nothing();
    renewed(&mut client, 0, &held).await;
    scene.verdict();
}

#[tokio::test]
async fn a_keepalive_answered_with_ttl_zero_is_no_proof_and_no_loss() {
    nothing_is_lost_while(Trick::TtlZero, ClusterShape::ONE).await;
}

#[tokio::test]
async fn a_keepalive_answered_with_ttl_zero_is_no_proof_and_no_loss_on_etcd_3_4() {
    nothing_is_lost_while(Trick::TtlZero, ClusterShape::OLD).await;
}

#[tokio::test]
async fn a_keepalive_that_is_not_answered_is_no_proof_and_no_loss() {
    nothing_is_lost_while(Trick::Silence, ClusterShape::ONE).await;
}

#[tokio::test]
async fn a_keepalive_whose_stream_is_closed_is_no_proof_and_no_loss() {
    nothing_is_lost_while(Trick::CloseStream, ClusterShape::ONE).await;
}
