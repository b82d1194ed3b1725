//! An operator ends somebody's hold.

use crate::scene::{LONG, Scene, definite_renewal, granted, released, renewed};
use holdfast_api::EndReason;
use holdfast_chaos::{Answer, Client, ClusterShape, Held, now};
use std::time::Duration;

/// `freeAt` is told by the wall clock, which may be set a little meanwhile.
const WALL_CLOCK_MS: u64 = 50;

/// Whichever gateway is asked, the hold is somebody else's, or an operator's.
pub(crate) async fn stolen(holder: &mut Client, hold: &Held) {
    for through in 0..holder.gateways() {
        let answer = definite_renewal(holder, through, hold).await;
        assert_eq!(answer, Answer::Ended(EndReason::Stolen));
    }
}

/// Force-releases a hold that its holder renews until it is told that it is stolen. Gives when the name is
/// free.
async fn forced(
    operator: &mut Client,
    through: usize,
    (holder, hold): (&mut Client, &mut Held),
) -> u64 {
    let (name, token) = (hold.name, hold.token);
    let renewing = async {
        while !matches!(holder.renew(0, None, hold).await, Answer::Ended(_)) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        std::future::pending().await
    };
    let answer = tokio::select! {
        answer = operator.force_release(through, name, false) => answer,
        never = renewing => never,
    };
    match answer {
        Answer::Forced {
            token: of,
            free_in_ms,
        } if of == token => now() + free_in_ms,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_hold_that_is_force_released_is_stolen_and_the_name_free_when_its_promise_ends() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let (mut holder, mut operator, mut next) = (scene.client(), scene.client(), scene.client());
    let ttl = Duration::from_secs(5);
    let mut ended = Vec::new();
    // Through the gateway that owns the lock, and through the other.
    for (name, through) in [(1, 0), (2, 1)] {
        let mut hold = granted(&mut holder, 0, name, ttl).await;
        let free_at = forced(&mut operator, through, (&mut holder, &mut hold)).await;
        stolen(&mut holder, &hold).await;
        ended.push((hold, free_at));
    }
    for (hold, free_at) in ended {
        // The judge sees to it that no two promises overlap.
        let new = granted(&mut next, 1, hold.name, ttl).await;
        assert!(new.token > hold.token);
        assert!(now() + WALL_CLOCK_MS >= free_at, "{free_at} is not kept");
        stolen(&mut holder, &hold).await;
    }
    scene.verdict();
}

#[tokio::test]
async fn with_immediate_the_name_is_free_at_once_and_the_next_token_higher() {
    let mut scene = Scene::start(2, &[ClusterShape::ONE]).await;
    let (mut holder, mut operator, mut next) = (scene.client(), scene.client(), scene.client());
    for (name, through) in [(1, 0), (2, 1)] {
        let hold = granted(&mut holder, 0, name, LONG).await;
        let answer = operator.force_release(through, name, true).await;
        let is_forced = matches!(answer, Answer::Forced { token, .. } if token == hold.token);
        assert!(is_forced, "{answer:?}");
        assert_eq!(scene.records_of(name).await, 0);
        for through in 0..2 {
            // Only the owner knows how it ended; the other one finds nothing.
            let answer = definite_renewal(&mut holder, through, &hold).await;
            assert!(matches!(answer, Answer::Ended(_)), "{answer:?}");
        }
        let new = granted(&mut next, through, name, LONG).await;
        assert!(new.token > hold.token);
        stolen(&mut holder, &hold).await;
        renewed(&mut next, 1 - through, &new).await;
        released(&mut next, 0, &new).await;
        let answer = operator.force_release(through, name, true).await;
        assert_eq!(answer, Answer::NotHeld);
    }
    scene.until_all_is_free().await;
    scene.verdict();
}
