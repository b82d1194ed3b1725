//! Lost and late answers.

use crate::scene::{AMPLE, LONG, SESSION, SLACK, Scene, granted, lasting, released, renewed};
use anyhow::ensure;
use holdfast_chaos::{Answer, ClusterShape, now};
use holdfast_rig::{Call, Rule, Trick, wait_until};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(4);

fn row_name(name: usize) -> String {
    format!("/locks/row/{name}")
}

/// The trick is played once, on the next write about this name.
fn play_once(scene: &Scene, trick: Trick, name: usize) {
    let rule = Rule::new(trick, Call::Txn);
    scene.stack.clusters[0].doors()[0].play(rule.containing(row_name(name)).times(1));
}

async fn one_grant_in_spite_of(trick: Trick, shape: ClusterShape) {
    let mut scene = Scene::start(1, &[shape]).await;
    let mut client = scene.client();
    play_once(&scene, trick, 1);
    let first = granted(&mut client, 0, 1, LONG).await;
    assert_eq!(scene.stack.clusters[0].doors()[0].played(trick), 1);
    let again = granted(&mut client, 0, 1, LONG).await;
    assert_eq!((&first.lock_id, first.token), (&again.lock_id, again.token));
    assert_eq!(scene.records_of(1).await, 1);
    released(&mut client, 0, &first).await;
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_granted_once() {
    one_grant_in_spite_of(Trick::LoseAnswer, ClusterShape::ONE).await;
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_granted_once_on_etcd_3_4() {
    one_grant_in_spite_of(Trick::LoseAnswer, ClusterShape::OLD).await;
}

#[tokio::test]
async fn an_acquire_whose_call_breaks_after_it_was_applied_is_granted_once() {
    one_grant_in_spite_of(Trick::BreakAnswer, ClusterShape::ONE).await;
}

#[tokio::test]
async fn an_acquire_that_is_applied_and_answered_no_space_is_granted_once() {
    one_grant_in_spite_of(Trick::ApplyAndRefuseForSpace, ClusterShape::ONE).await;
}

/// Nobody comes back for the grant, whose gateway may die too. How long the name stays taken,
/// from when it was asked for.
async fn time_until_a_lost_grant_is_free(and_its_gateway: bool) -> Duration {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let (mut gone, mut other) = (scene.client(), scene.client());
    play_once(&scene, Trick::LoseAnswer, 1);
    let began = now();
    {
        let asking = gone.acquire(0, None, 1, 4_000);
        let written = wait_until("the record", AMPLE, || async {
            ensure!(scene.records_of(1).await == 1, "it is not there");
            Ok(())
        });
        tokio::select! {
            // If finding the record takes longer than the gateway: the client goes away all the same.
            _ = asking => {}
            written = written => written.unwrap(),
        }
    }
    if and_its_gateway {
        scene.stack.gateways[0].process().await.kill().unwrap();
    }
    let held = granted(&mut other, 1, 1, TTL).await;
    let took = Duration::from_millis(now() - began);
    released(&mut other, 1, &held).await;
    scene.verdict();
    took
}

#[tokio::test]
async fn a_lost_grant_that_nobody_comes_back_for_is_free_a_second_after_its_ttl() {
    let took = time_until_a_lost_grant_is_free(false).await;
    assert!(took <= TTL + Duration::from_secs(1) + SLACK, "{took:?}");
}

#[tokio::test]
async fn a_lost_grant_is_free_two_sessions_later_if_its_gateway_died_too() {
    let took = time_until_a_lost_grant_is_free(true).await;
    let bound = TTL + 2 * SESSION + Duration::from_secs(1);
    assert!(took <= bound + SLACK, "{took:?}");
}

#[tokio::test]
async fn an_acquire_that_etcd_applies_after_it_was_given_up_leaves_no_ghost() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    let (mut gone, mut other) = (scene.client(), scene.client());
    let late = Duration::from_secs(12);
    let trick = Trick::ApplyLate(late);
    play_once(&scene, trick, 1);
    let began = now();
    let since = || Duration::from_millis(now() - began);
    // The gateway gives the write up after four seconds, fences it off and tries anew; the first
    // one is still on its way.
    if let (_, Some(held)) = gone.acquire(0, None, 1, 4_000).await {
        released(&mut gone, 0, &held).await;
    }
    let held = granted(&mut other, 0, 1, TTL).await;
    let took = since();
    assert!(took < late, "after {took:?} the write is not late any more");
    released(&mut other, 0, &held).await;
    lasting((late + Duration::from_secs(1)).saturating_sub(since())).await;
    assert_eq!(scene.stack.clusters[0].doors()[0].played(trick), 1);
    assert_eq!(scene.records_of(1).await, 0);
    scene.verdict();
}

#[tokio::test]
async fn a_release_that_arrives_again_does_not_end_the_next_hold_of_its_client() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    let mut client = scene.client();
    let old = granted(&mut client, 0, 1, LONG).await;
    play_once(&scene, Trick::LoseAnswer, 1);
    released(&mut client, 0, &old).await;
    let new = granted(&mut client, 0, 1, LONG).await;
    assert_ne!(old.lock_id, new.lock_id);
    // The client's request arrives again, and so does every write that etcd has seen of this name.
    released(&mut client, 0, &old).await;
    let door = &scene.stack.clusters[0].doors()[0];
    let repeated = door.repeat(Call::Txn, row_name(1).as_bytes(), 100).await;
    let repeated = repeated.unwrap();
    assert!(repeated.ok >= 3, "{repeated:?}");
    renewed(&mut client, 0, &new).await;
    assert_eq!(scene.records_of(1).await, 1);
    released(&mut client, 0, &new).await;
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn renewals_and_releases_at_the_same_time_leave_the_lock_free() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let (mut holder, mut twin) = (scene.client(), scene.client());
    for round in 0..300 {
        let held = granted(&mut holder, round % 2, 1, LONG).await;
        let mut copy = held.clone();
        let renewing = async {
            for through in 0..2 {
                twin.renew(through, None, &mut copy).await;
            }
        };
        let (answer, ()) = tokio::join!(holder.release(0, None, &held), renewing);
        if answer != Answer::Released {
            released(&mut holder, 0, &held).await;
        }
    }
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn a_request_that_goes_to_two_gateways_has_one_effect() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut one = scene.client();
    let mut two = one.twin();
    for name in 0..30 {
        // Both are answered before the next step: a copy that nobody hears may be served after the
        // release, and holds the name anew.
        let (held, again) = tokio::join!(
            granted(&mut one, 0, name, LONG),
            granted(&mut two, 1, name, LONG)
        );
        assert_eq!(again.lock_id, held.lock_id);
        assert_eq!(scene.records_of(name).await, 1);
        tokio::join!(released(&mut one, 0, &held), released(&mut two, 1, &again));
    }
    scene.until_all_is_free().await;
    scene.verdict();
}
