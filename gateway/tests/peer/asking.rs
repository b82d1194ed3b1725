//! What a client gets through a gateway that does not own its lock.

use crate::fixture::{SECRET, World, wish};
use futures::future::join_all;
use holdfast_api::ErrorCode;
use holdfast_gateway::service::{
    AcquireOutcome, Ended, Locks as _, Release, ReleaseOutcome, RenewOutcome,
};
use tokio::net::TcpListener;

#[tokio::test]
async fn any_gateway_renews_releases_and_enters_again() {
    let mut world = World::new().await;
    let (owner, other) = (world.gateway(SECRET).await, world.gateway(SECRET).await);
    let hold = owner.hold("n").await;
    assert!(matches!(
        other.renew(&hold).await,
        Ok(RenewOutcome::Renewed(_))
    ));
    match other.service.acquire(wish("worker", "n")).await {
        Ok(AcquireOutcome::Granted(again)) => assert!(again.already_held),
        unexpected => panic!("{unexpected:?}"),
    }
    let release = Release {
        lock_id: hold.lock_id.clone(),
        token: hold.token,
        principal: None,
    };
    let released = other.service.release(release.clone()).await;
    assert_eq!(released, Ok(ReleaseOutcome::Released));
    assert_eq!(
        other.renew(&hold).await,
        Ok(RenewOutcome::Ended(Ended::Expired))
    );
    let again = other.service.release(release).await;
    assert_eq!(again, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn many_renewals_at_once_are_all_answered() {
    let mut world = World::new().await;
    let (owner, other) = (world.gateway(SECRET).await, world.gateway(SECRET).await);
    let names: Vec<_> = (0..500).map(|i| format!("n{i}")).collect();
    let holds = join_all(names.iter().map(|name| owner.hold(name))).await;
    for _ in 0..4 {
        for outcome in join_all(holds.iter().map(|hold| other.renew(hold))).await {
            assert!(
                matches!(outcome, Ok(RenewOutcome::Renewed(_))),
                "{outcome:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_gateway_that_does_not_know_the_secret_is_not_answered() {
    let mut world = World::new().await;
    let owner = world.gateway(SECRET).await;
    let stranger = world.gateway(b"another secret, and long").await;
    let hold = owner.hold("n").await;
    let error = stranger.renew(&hold).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OwnerUnreachable);
}

#[tokio::test]
async fn an_owner_that_accepts_and_says_nothing_costs_its_own_locks_only() {
    let mut world = World::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deaf = world.deaf_gateway(&silent).await;
    let (owner, other) = (world.gateway(SECRET).await, world.gateway(SECRET).await);
    let (lost, kept) = (deaf.hold("n1").await, owner.hold("n2").await);
    let error = other.renew(&lost).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OwnerUnreachable);
    assert!(matches!(
        other.renew(&kept).await,
        Ok(RenewOutcome::Renewed(_))
    ));
    assert!(
        matches!(deaf.renew(&lost).await, Ok(RenewOutcome::Renewed(_))),
        "its own clients do not notice"
    );
}

#[tokio::test]
async fn a_gateway_that_has_stopped_forwards_to_its_heir() {
    let mut world = World::new().await;
    let (leaving, heir) = (world.gateway(SECRET).await, world.gateway(SECRET).await);
    let hold = leaving.hold("n").await;
    leaving.service.stop().await;
    // Until the heir has claimed and loaded, nothing is known.
    let renewed = loop {
        match leaving.renew(&hold).await {
            Ok(outcome) => break outcome,
            Err(error) => assert!(
                matches!(
                    error.code,
                    ErrorCode::Draining | ErrorCode::OwnerUnreachable
                ),
                "{error:?}"
            ),
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(renewed, RenewOutcome::Renewed(_)));
    assert!(matches!(
        heir.renew(&hold).await,
        Ok(RenewOutcome::Renewed(_))
    ));
    let refused = leaving.service.acquire(wish("worker", "n2")).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::Draining);
}
