//! Waiting in line, on real etcd and real gateways.

use crate::scene::{AMPLE, SESSION, SLACK, Scene, granted, kept_through, released, renewed};
use anyhow::ensure;
use holdfast_chaos::{Answer, Client, ClusterShape, Held, now};
use holdfast_rig::{Call, Rule, Trick, wait_until};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The name that everybody wants.
pub(crate) const NAME: usize = 1;
/// No hold ends by itself here, however slow the machine is,
pub(crate) const TTL: Duration = Duration::from_secs(120);
/// and no wait.
const WAIT: Duration = Duration::from_secs(100);

/// Waits until so many stand in line.
pub(crate) async fn until_standing(scene: &Scene, count: usize) {
    wait_until("the line to be so long", AMPLE, || async {
        let mut standing = 0;
        for cluster in &scene.stack.clusters {
            standing += cluster.keys("/holdfast/waiters/").await?.len();
        }
        ensure!(standing == count, "{standing} stand in line, not {count}");
        Ok(())
    })
    .await
    .unwrap();
}

/// A client that waits; in the end its hold, and when it was told.
pub(crate) type Waiting = JoinHandle<(Client, Held, u64)>;

/// One more client that waits, through this gateway, as the last of a line that is so long then.
pub(crate) async fn stand(scene: &mut Scene, gateway: usize, length: usize) -> Waiting {
    stand_for(scene, gateway, length, TTL).await
}

/// As [`stand`], with another TTL.
async fn stand_for(scene: &mut Scene, gateway: usize, length: usize, ttl: Duration) -> Waiting {
    let mut client = scene.client();
    let waiting = tokio::spawn(async move {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        let (answer, held) = client
            .acquire_in_line(gateway, NAME, ms(ttl), ms(WAIT), WAIT + AMPLE)
            .await;
        let waited = matches!(answer, Answer::Granted { waited_ms, .. } if waited_ms > 0);
        assert!(waited, "{answer:?}");
        (client, held.unwrap(), now())
    });
    until_standing(scene, length).await;
    waiting
}

/// The client has the lock within this from now on.
pub(crate) async fn served(waiting: Waiting, within: Duration) -> (Client, Held) {
    let began = now();
    let served = tokio::time::timeout(AMPLE, waiting).await;
    let (client, held, told) = served.expect("it is not served").unwrap();
    let took = Duration::from_millis(told.saturating_sub(began));
    assert!(took <= within, "served after {took:?}, not {within:?}");
    (client, held)
}

#[tokio::test]
async fn a_lock_goes_from_hand_to_hand_in_order_across_gateways() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut first = scene.client();
    let mut hold = granted(&mut first, 0, NAME, TTL).await;
    let mut holder = first;
    let mut line = Vec::new();
    for length in 1..=5 {
        line.push(stand(&mut scene, length % 2, length).await);
    }
    let mut newcomer = scene.client();
    for (at, waiting) in line.into_iter().enumerate() {
        released(&mut holder, at % 2, &hold).await;
        let (client, next) = served(waiting, SLACK).await;
        assert!(next.token > hold.token);
        let (answer, _) = newcomer.acquire(at % 2, None, NAME, 4_000).await;
        assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
        until_standing(&scene, 4 - at).await;
        (holder, hold) = (client, next);
    }
    released(&mut holder, 0, &hold).await;
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn whoever_goes_away_or_dies_holds_up_nobody() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut holder = scene.client();
    let hold = granted(&mut holder, 0, NAME, TTL).await;
    let goes_away = stand(&mut scene, 0, 1).await;
    let dies = stand(&mut scene, 1, 2).await;
    let last = stand(&mut scene, 0, 3).await;
    goes_away.abort();
    until_standing(&scene, 2).await;
    scene.stack.gateways[1].process().await.kill().unwrap();
    released(&mut holder, 0, &hold).await;
    let (mut client, hold) = served(last, SESSION + SLACK).await;
    let error = dies.await.unwrap_err();
    assert!(error.is_panic(), "its gateway answers");
    released(&mut client, 0, &hold).await;
    until_standing(&scene, 0).await;
    scene.until_all_is_free().await;
    scene.verdict();
}

/// The client goes at some moment around that of the grant, again and again. Nobody waits behind a ghost,
/// but where the answer was on its way already: then, until the TTL is over.
#[tokio::test]
async fn whoever_goes_away_as_its_turn_comes_leaves_no_ghost() {
    const SHORT: Duration = Duration::from_secs(3);
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    for turn in 0..12 {
        let (mut holder, mut last) = (scene.client(), scene.client());
        let hold = granted(&mut holder, turn % 2, NAME, TTL).await;
        let goes_away = stand_for(&mut scene, turn % 2, 1, SHORT).await;
        let going = async {
            let moment = u64::try_from(turn % 6).unwrap();
            tokio::time::sleep(Duration::from_millis(moment)).await;
            goes_away.abort();
        };
        tokio::join!(released(&mut holder, 0, &hold), going);
        match goes_away.await {
            // It was told in time.
            Ok((mut client, held, _)) => released(&mut client, 1, &held).await,
            Err(gone) => assert!(gone.is_cancelled(), "{gone}"),
        }
        let began = now();
        let held = granted(&mut last, 1, NAME, TTL).await;
        let took = Duration::from_millis(now() - began);
        assert!(took <= SHORT + SLACK, "the name is taken for {took:?}");
        released(&mut last, 1, &held).await;
    }
    scene.until_all_is_free().await;
    scene.verdict();
}

/// What a watch tells is a hint: the line is looked at all the same.
#[tokio::test]
async fn waiters_need_no_watch_event() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    scene.stack.clusters[0].doors()[0].play(Rule::new(Trick::SwallowEvents, Call::Watch));
    for gateway in 0..2 {
        for way in scene.stack.clusters[0].ways_of(gateway) {
            way.drop_connections();
        }
    }
    let mut holder = scene.client();
    let mut hold = granted(&mut holder, 0, NAME, TTL).await;
    kept_through(&mut holder, &mut hold, Duration::from_millis(200), None).await;
    let near = stand(&mut scene, 0, 1).await;
    let far = stand(&mut scene, 1, 2).await;
    released(&mut holder, 0, &hold).await;
    let (mut holder, hold) = served(near, Duration::from_secs(1) + SLACK).await;
    renewed(&mut holder, 1, &hold).await;
    released(&mut holder, 0, &hold).await;
    let (mut holder, hold) = served(far, Duration::from_secs(1) + SLACK).await;
    released(&mut holder, 1, &hold).await;
    scene.verdict();
}
