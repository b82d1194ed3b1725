//! A lock belongs to the principal that acquired it.

use crate::world::{World, wish};
use holdfast_gateway::engine::Answer;
use holdfast_gateway::names::Principal;
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, Ended, Grant, Refusal, Release, ReleaseOutcome, Renew, RenewOutcome,
};
use holdfast_gateway::time::Millis;

fn two_gateways() -> World {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    world
}

/// A wish of this principal.
pub fn of(principal: Option<&str>, client: &str, name: &str) -> Acquire {
    Acquire {
        principal: principal.map(Principal::new),
        ..wish(client, name)
    }
}

fn renew(
    world: &mut World,
    gateway: usize,
    grant: &Grant,
    principal: Option<&str>,
    ttl_ms: Option<u64>,
) -> RenewOutcome {
    let renew = Renew {
        lock_id: grant.lock_id.clone(),
        token: grant.token,
        ttl: ttl_ms.map(Millis::from_ms),
        principal: principal.map(Principal::new),
    };
    let ticket = world.begin_renew(gateway, renew);
    match world.answer(ticket) {
        Answer::Renew(outcome) => outcome.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn release(
    world: &mut World,
    gateway: usize,
    grant: &Grant,
    principal: Option<&str>,
) -> ReleaseOutcome {
    let release = Release {
        lock_id: grant.lock_id.clone(),
        token: grant.token,
        principal: principal.map(Principal::new),
    };
    let ticket = world.begin_release_of(gateway, release);
    match world.answer(ticket) {
        Answer::Release(outcome) => outcome.unwrap(),
        other => panic!("{other:?}"),
    }
}

const STOLEN: RenewOutcome = RenewOutcome::Ended(Ended::Stolen);

/// What a stranger is told is what somebody with a wrong token is told.
fn check_strangers(world: &mut World, gateway: usize, grant: &Grant) {
    for ttl_ms in [None, Some(60_000)] {
        assert_eq!(renew(world, gateway, grant, Some("b"), ttl_ms), STOLEN);
    }
    let released = release(world, gateway, grant, Some("b"));
    assert_eq!(released, ReleaseOutcome::TokenMismatch);
}

#[test]
fn anothers_lock_id_is_no_use_whichever_gateway_is_asked() {
    let mut world = two_gateways();
    let grant = world.hold(0, of(Some("a"), "c", "n"));
    for gateway in [0, 1] {
        check_strangers(&mut world, gateway, &grant);
        let own = renew(&mut world, gateway, &grant, Some("a"), None);
        assert!(matches!(own, RenewOutcome::Renewed(_)));
    }
    let released = release(&mut world, 1, &grant, Some("a"));
    assert_eq!(released, ReleaseOutcome::Released);
}

#[test]
fn a_lock_that_was_taken_over_is_still_its_principals() {
    let mut world = two_gateways();
    let grant = world.hold(0, of(Some("a"), "c", "n"));
    world.kill(0);
    world.run(15_000);
    check_strangers(&mut world, 1, &grant);
    let own = renew(&mut world, 1, &grant, Some("a"), None);
    assert!(matches!(own, RenewOutcome::Renewed(_)));
}

#[test]
fn the_same_client_id_of_another_principal_is_another_client() {
    let mut world = World::ready();
    let grant = world.hold(0, of(Some("a"), "c", "n"));
    match world.acquire(0, of(Some("b"), "c", "n")).unwrap() {
        AcquireOutcome::Refused { reason, .. } => assert_eq!(reason, Refusal::Held),
        other => panic!("{other:?}"),
    }
    let again = world.hold(0, of(Some("a"), "c", "n"));
    assert!(again.already_held && again.lock_id == grant.lock_id);
}

#[test]
fn switching_authentication_on_or_off_loses_no_hold() {
    let mut world = two_gateways();
    let before = world.hold(0, of(None, "c", "before"));
    let after = world.hold(0, of(Some("a"), "c", "after"));
    for gateway in [0, 1] {
        for (grant, principal) in [(&before, Some("a")), (&after, None)] {
            let own = renew(&mut world, gateway, grant, principal, None);
            assert!(matches!(own, RenewOutcome::Renewed(_)));
        }
    }
    let released = release(&mut world, 0, &before, Some("b"));
    assert_eq!(released, ReleaseOutcome::Released);
}
