//! Requests about locks of other gateways.

use crate::holds::{is_renewed, refused};
use crate::world::{SESSION_TTL, World, wish, with_ttl};
use holdfast_api::ErrorCode;
use holdfast_gateway::engine::Input;
use holdfast_gateway::service::{AcquireOutcome, Ended, Grant, ReleaseOutcome, RenewOutcome};

fn two_gateways() -> World {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    world
}

/// The first of two gateways stops while it owns a lock, and the second is given a hint of it.
fn hand_over(world: &mut World) -> Grant {
    let hold = world.hold(0, wish("c", "n"));
    world.run(4_000);
    world.give(0, Input::Stop);
    world.run(10);
    world.give(1, Input::SessionEnded);
    hold
}

#[test]
fn a_lock_is_renewed_and_released_through_any_gateway() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c", "n"));
    assert!(is_renewed(world.renew(1, &hold).unwrap()));
    assert_eq!(world.release(1, &hold), Ok(ReleaseOutcome::Released));
    assert_eq!(world.locks(), 0);
    assert!(world.forwards >= 2, "the owner was asked");
}

#[test]
fn a_lock_of_a_group_that_was_just_made_is_found_by_a_look_at_etcd() {
    let mut world = two_gateways();
    world.run(1_500);
    let hold = world.hold(0, wish("c", "n"));
    let asked = world.now;
    assert!(is_renewed(world.renew(1, &hold).unwrap()));
    assert!(
        world.now - asked < 300,
        "without waiting for the next round"
    );
}

#[test]
fn the_same_client_enters_again_through_another_gateway() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c", "n"));
    match world.acquire(1, wish("c", "n")).unwrap() {
        AcquireOutcome::Granted(again) => {
            assert!(again.already_held);
            assert!(again.lock_id == hold.lock_id && again.token == hold.token);
        }
        other => panic!("{other:?}"),
    }
    refused(world.acquire(1, wish("other", "n")).unwrap());
}

#[test]
fn a_renewal_for_longer_through_another_gateway_is_promised_that_long() {
    let mut world = two_gateways();
    let hold = world.hold(0, with_ttl(wish("c", "n"), 20_000));
    match world.renew_for(1, &hold, Some(60_000)) {
        Ok(RenewOutcome::Renewed(told)) => assert!(told.ttl.as_ms() > 59_000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_over_is_told_by_the_owner() {
    let mut world = two_gateways();
    let hold = world.hold(0, with_ttl(wish("c", "n"), 5_000));
    world.run(4_000);
    assert!(is_renewed(world.renew(1, &hold).unwrap()));
    world.run(5_400);
    assert_eq!(
        world.renew(1, &hold),
        Ok(RenewOutcome::Ended(Ended::Expired))
    );
    assert_eq!(world.release(1, &hold), Ok(ReleaseOutcome::Released));
}

#[test]
fn an_owner_that_does_not_answer_and_lives_is_answered_for_by_nobody() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c", "n"));
    world.run(4_000);
    world.pause(0, 2_000);
    for _ in 0..3 {
        let error = world.renew(1, &hold).unwrap_err();
        assert_eq!(error.code, ErrorCode::OwnerUnreachable);
    }
    assert!(world.release(1, &hold).is_err());
    assert_eq!(world.locks(), 1);
    world.run(2_001);
    assert!(is_renewed(world.renew(1, &hold).unwrap()));
}

#[test]
fn a_gateway_without_a_session_in_the_cluster_does_not_claim_to_know() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c", "n"));
    world.run(4_000);
    world.give(1, Input::ClockJumped);
    assert!(
        world.renew(1, &hold).is_err(),
        "its engine cannot answer; only a service that knows the owner can pass it on"
    );
}

#[test]
fn the_groups_of_a_dead_gateway_are_shared_among_the_survivors() {
    let mut world = World::new(3);
    (0..3).for_each(|gateway| world.run_until_proven(gateway));
    // Groups of many shards and several per shard are many enough that none gets all.
    let holds: Vec<_> = (0..6_000)
        .map(|i| world.hold(0, with_ttl(wish("c", &format!("n{i}")), 60_000)))
        .collect();
    world.kill(0);
    world.run(SESSION_TTL + 4_000);
    let groups = world.groups_by_session();
    assert_eq!(groups.len(), 2, "both survivors have some: {groups:?}");
    for gateway in [1, 2] {
        for hold in holds.iter().step_by(97) {
            assert!(is_renewed(world.renew(gateway, hold).unwrap()));
        }
    }
}

#[test]
fn a_session_that_ends_is_seen_at_once_when_somebody_hints_at_it() {
    let mut world = two_gateways();
    let hold = hand_over(&mut world);
    world.run(140);
    assert!(is_renewed(world.renew(1, &hold).unwrap()));
}

#[test]
fn a_gateway_that_has_stopped_knows_its_heir() {
    let mut world = two_gateways();
    let hold = hand_over(&mut world);
    world.run(600);
    assert!(world.knows_another_owner(0, &hold));
}

/// How long a lock stays whose holder is gone, after its gateway was told to stop.
fn freed_after_a_stop(world: &mut World) -> u64 {
    world.hold(0, wish("c", "n"));
    world.run(4_000);
    world.give(0, Input::Stop);
    let stopped = world.now;
    world.run(20);
    world.give(1, Input::SessionEnded);
    assert!(world.run_until(60_000, |world| world.locks() == 0));
    world.now - stopped
}

#[test]
fn an_heir_that_was_told_how_long_a_hold_lasts_keeps_it_no_longer() {
    let mut world = two_gateways();
    let freed = freed_after_a_stop(&mut world);
    assert!((26_000..27_000).contains(&freed), "{freed}");
}

#[test]
fn an_heir_that_was_told_nothing_waits_the_ttl_and_the_sessions() {
    let mut world = two_gateways();
    world.heritages_lost = true;
    let freed = freed_after_a_stop(&mut world);
    assert!(freed >= 30_000 + SESSION_TTL, "{freed}");
}

#[test]
fn what_a_gateway_left_does_not_shorten_what_another_promised_after_it() {
    let mut world = World::new(3);
    (0..3).for_each(|gateway| world.run_until_proven(gateway));
    let hold = world.hold(0, wish("c", "n"));
    world.run(4_000);
    // Each in turn stops; whoever claims renews before it stops too.
    world.give(0, Input::Stop);
    let mut promised = 0;
    for gateway in [1, 2] {
        world.run(20);
        world.give(1, Input::SessionEnded);
        world.give(2, Input::SessionEnded);
        world.run(3_000);
        if let Ok(RenewOutcome::Renewed(told)) = world.renew(gateway, &hold) {
            promised = world.now + told.ttl.as_ms();
        }
        if gateway == 1 {
            world.give(1, Input::Stop);
        }
    }
    assert!(promised > 0);
    assert!(world.run_until(90_000, |world| world.locks() == 0));
    assert!(world.now >= promised, "{} < {promised}", world.now);
}
