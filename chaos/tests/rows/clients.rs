//! Clients misbehave: the rows about renewals, and a short form of `make soak`.

use crate::scene::{
    LONG, Scene, definite_renewal, granted, kept_through, lasting, released, renewed,
};
use futures::future::join_all;
use holdfast_chaos::{Answer, ClusterShape, SoakOptions, StackOptions, soak};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_holder_that_sleeps_past_its_ttl_is_refused_by_the_fenced_resource() {
    let mut scene = Scene::start(1, &[ClusterShape::ONE]).await;
    let (mut sleeper, mut other) = (scene.client(), scene.client());
    let old = granted(&mut sleeper, 0, 1, TTL).await;
    assert!(scene.court.write(old.no));
    let new = granted(&mut other, 0, 1, TTL).await;
    assert!(new.token > old.token);
    assert!(scene.court.write(new.no));
    assert!(!scene.court.write(old.no));
    scene.verdict();
}

#[tokio::test]
async fn renewals_with_anothers_id_a_wrong_token_or_a_forged_id_are_refused_and_change_nothing() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut client = scene.client();
    let one = granted(&mut client, 0, 1, LONG).await;
    let two = granted(&mut client, 0, 2, LONG).await;
    let forged = one.lock_id.replace("lock-", "lock-x");
    let truncated = &one.lock_id[..20];
    for through in 0..2 {
        for (lock_id, token, statuses) in [
            (one.lock_id.as_str(), two.token, &[409][..]),
            (one.lock_id.as_str(), 0, &[400, 409]),
            (two.lock_id.as_str(), one.token, &[409]),
            (forged.as_str(), one.token, &[400, 409]),
            (truncated, one.token, &[400]),
            ("", one.token, &[400]),
            ("lock-", one.token, &[400]),
        ] {
            let answer = client.renew_unreported(through, lock_id, token).await;
            let status = match answer {
                Answer::Ended(_) => 409,
                Answer::Rejected(status, _) => status,
                other => panic!("{lock_id:?} with {token} is answered {other:?}"),
            };
            assert!(
                statuses.contains(&status),
                "{lock_id:?} with {token}: {status}"
            );
        }
    }
    renewed(&mut client, 0, &one).await;
    renewed(&mut client, 1, &two).await;
    released(&mut client, 0, &one).await;
    released(&mut client, 0, &two).await;
    scene.verdict();
}

#[tokio::test]
async fn a_storm_of_renewals_of_locks_that_are_gone_harms_nobody_else() {
    let mut scene = Scene::start_calm(1, &[ClusterShape::ONE], 0).await;
    scene.nothing_may_be_lost();
    let mut holder = scene.client();
    let mut held = granted(&mut holder, 0, 1, LONG).await;
    let mut storm = Vec::new();
    for name in 2..18 {
        let mut client = scene.client();
        let gone = granted(&mut client, 0, name, TTL).await;
        released(&mut client, 0, &gone).await;
        storm.push((client, gone));
    }
    let raging = storm.iter_mut().map(|(client, gone)| async move {
        for _ in 0..100 {
            let answer = client.renew_unreported(0, &gone.lock_id, gone.token).await;
            assert!(matches!(answer, Answer::Ended(_)), "{answer:?}");
        }
    });
    let holding = kept_through(&mut holder, &mut held, 2 * TTL, Some(0));
    let (_, unknown) = tokio::join!(join_all(raging), holding);
    assert_eq!(unknown, Vec::<String>::new());
    scene.verdict();
}

#[tokio::test]
async fn a_hold_that_nobody_renews_ends_and_says_so() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let mut client = scene.client();
    let held = granted(&mut client, 0, 1, TTL).await;
    lasting(TTL + Duration::from_secs(1)).await;
    for through in 0..2 {
        let answer = definite_renewal(&mut client, through, &held).await;
        assert!(matches!(answer, Answer::Ended(_)), "{answer:?}");
    }
    scene.until_all_is_free().await;
    scene.verdict();
}

#[tokio::test]
async fn after_cut_off_requests_and_restarts_etcd_has_what_is_held_and_nothing_has_grown() {
    let stack = StackOptions::new(3, vec![ClusterShape::ONE], None).unwrap();
    let options = SoakOptions::new(1, Duration::from_secs(15), stack, 24);
    let report = soak(&options, |_| {}).await.unwrap();
    assert!(report.is_clean(), "{report}");
}
