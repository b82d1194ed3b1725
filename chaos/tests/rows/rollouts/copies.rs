//! Something happens to a lock while its record is being copied.

use super::roller::{ONE, RECORD, Roller, TTL, cluster_of};
use crate::forced::stolen;
use crate::scene::{AMPLE, SESSION, Scene, all_kept, granted, kept_through, released, renewed};
use anyhow::ensure;
use holdfast_chaos::{Answer, Client, Held};
use holdfast_rig::{Call, Rule, Trick, wait_until};
use std::time::Duration;

/// One copy arrives when the gateway has just given it up.
fn once() -> Rule {
    Rule::new(Trick::ApplyLate(Duration::from_secs(4)), Call::Txn).times(1)
}

/// Every copy arrives when the test is over.
fn always() -> Rule {
    Rule::new(Trick::ApplyLate(2 * AMPLE), Call::Txn)
}

/// The copy of one lock is late, and just on its way. The lock was renewed until now.
async fn with_a_late_copy(
    scene: &mut Scene,
    roller: &Roller,
    ttl: Duration,
    late: Rule,
) -> (Client, Held) {
    let mut client = scene.client();
    let mut name = 0;
    while cluster_of(roller, &client, name).await != "c0" {
        name += 1;
    }
    let held = granted(&mut client, 0, name, ttl).await;
    let door = &scene.stack.clusters[1].doors()[0];
    let moving = async {
        roller.plan(&["--remove", "c0"]).await;
        door.play(late.containing(RECORD));
        roller.apply(&[], 0).await;
        wait_until("the copy to be on its way", AMPLE, || async {
            let late = door.figures().values().sum::<u64>();
            ensure!(late > 0, "it is not");
            Ok(())
        })
        .await
        .unwrap();
    };
    let mut holder = [(client, held)];
    all_kept(&mut holder, None, moving).await;
    let [holder] = holder;
    holder
}

#[tokio::test]
async fn a_release_during_the_copy_of_that_very_lock_is_not_undone_by_the_copy() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let (mut client, held) = with_a_late_copy(&mut scene, &roller, TTL, once()).await;
    let mut other = scene.client();
    released(&mut client, 1, &held).await;
    let again = granted(&mut other, 0, held.name, TTL).await;
    assert!(again.token > held.token);
    roller.until_settled().await;
    released(&mut other, 1, &again).await;
    scene.until_all_is_free().await;
    roller.clean(&scene).await;
    scene.verdict();
}

#[tokio::test]
async fn an_expiry_during_the_copy_of_that_very_lock_ends_it() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    let roller = Roller::new(&scene);
    let ttl = Duration::from_secs(3);
    let (_client, held) = with_a_late_copy(&mut scene, &roller, ttl, once()).await;
    let mut other = scene.client();
    let again = granted(&mut other, 0, held.name, TTL).await;
    assert!(again.token > held.token);
    roller.until_settled().await;
    renewed(&mut other, 1, &again).await;
    roller.clean(&scene).await;
    scene.verdict();
}

#[tokio::test]
async fn a_re_entry_and_a_takeover_during_the_copy_of_that_very_lock_keep_it() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let (mut client, mut held) = with_a_late_copy(&mut scene, &roller, TTL, once()).await;
    let again = granted(&mut client, 1, held.name, TTL).await;
    assert_eq!((&again.lock_id, again.token), (&held.lock_id, held.token));
    // The gateway that moves it dies; the copy arrives when another has the group.
    scene.stack.gateways[0].process().await.kill().unwrap();
    kept_through(&mut client, &mut held, 2 * SESSION, Some(1)).await;
    roller.until_settled().await;
    renewed(&mut client, 1, &held).await;
    roller.clean(&scene).await;
    scene.verdict();
}

#[tokio::test]
async fn a_force_release_during_the_copy_of_that_very_lock_is_for_later_and_then_done() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    let roller = Roller::new(&scene);
    let (mut client, held) = with_a_late_copy(&mut scene, &roller, TTL, always()).await;
    let (mut operator, mut next) = (scene.client(), scene.client());
    for (through, immediate) in [(0, false), (1, true)] {
        let answer = operator.force_release(through, held.name, immediate).await;
        assert_eq!(answer, Answer::Unknown("shard_moving".to_owned()));
    }
    renewed(&mut client, 1, &held).await;
    scene.stack.clusters[1].doors()[0].play_nothing();
    roller.until_settled().await;
    renewed(&mut client, 0, &held).await;
    let answer = operator.force_release(1, held.name, true).await;
    let is_forced = matches!(answer, Answer::Forced { token, .. } if token == held.token);
    assert!(is_forced, "{answer:?}");
    let new = granted(&mut next, 0, held.name, TTL).await;
    assert!(new.token > held.token);
    stolen(&mut client, &held).await;
    roller.clean(&scene).await;
    scene.verdict();
}
