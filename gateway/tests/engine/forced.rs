//! Force-release: somebody else's hold is ended, and stays so.

use crate::holds::{is_renewed, refused};
use crate::world::{Fate, SESSION_TTL, World, is_close, wish, with_ttl};
use holdfast_gateway::engine::Input;
use holdfast_gateway::service::{
    AcquireOutcome, CloseOutcome, Ended, Grant, Refusal, ReleaseOutcome, RenewOutcome,
};
use holdfast_gateway::time::Millis;

const STOLEN: RenewOutcome = RenewOutcome::Ended(Ended::Stolen);

fn two_gateways() -> World {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    world
}

/// Force-releases the hold and tells after how long the name is free.
fn closed(world: &mut World, gateway: usize, hold: &Grant, immediate: bool) -> Millis {
    let name = hold.lock_id.name().to_owned();
    match world.force_release(gateway, &name, immediate) {
        Ok(CloseOutcome::Closed { token, free_in }) => {
            assert_eq!(token, hold.token);
            free_in
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hold_that_is_force_released_is_renewed_no_more_and_free_when_its_promise_ends() {
    for gateway in 0..2 {
        let mut world = two_gateways();
        let hold = world.hold(0, wish("c1", "n"));
        world.run(10_000);
        assert!(is_renewed(world.renew(0, &hold).unwrap()));
        let renewed_at = world.now;
        world.run(5_000);
        let asked_at = world.now;
        let free_in = closed(&mut world, gateway, &hold, false);
        let free_at = asked_at + free_in.as_ms();
        assert!(free_at <= renewed_at + 30_000 && free_at > renewed_at + 29_000);
        for asked in 0..2 {
            assert_eq!(world.renew(asked, &hold).unwrap(), STOLEN);
        }
        world.run(free_at - world.now - 50);
        let (reason, _) = refused(world.acquire(1, wish("c2", "n")).unwrap());
        assert_eq!(reason, Refusal::Held, "not before the promise has ended");
        world.run(300);
        let next = world.hold(1, wish("c2", "n"));
        assert!(next.token > hold.token);
        assert_eq!(world.renew(0, &hold).unwrap(), STOLEN);
    }
}

#[test]
fn with_immediate_the_name_is_free_at_once_and_the_old_holder_is_told() {
    for gateway in 0..2 {
        let mut world = two_gateways();
        let hold = world.hold(0, wish("c1", "n"));
        assert_eq!(closed(&mut world, gateway, &hold, true), Millis::ZERO);
        assert_eq!(world.locks(), 0);
        assert_eq!(world.renew(0, &hold).unwrap(), STOLEN);
        let next = world.hold(1, wish("c2", "n"));
        assert!(next.token > hold.token);
        assert_eq!(world.renew(1, &hold).unwrap(), STOLEN);
        assert!(is_renewed(world.renew(1, &next).unwrap()));
    }
}

#[test]
fn an_heir_does_not_revive_it() {
    let mut world = two_gateways();
    let hold = world.hold(0, with_ttl(wish("c1", "n"), 60_000));
    let other = world.hold(0, with_ttl(wish("c1", "other"), 60_000));
    closed(&mut world, 0, &hold, false);
    world.kill(0);
    let claimed = world.run_until(SESSION_TTL + 4_000, |world| {
        world.run(20);
        world.renew(1, &other).is_ok_and(is_renewed)
    });
    assert!(claimed);
    assert_eq!(world.renew(1, &hold).unwrap(), STOLEN);
    refused(world.acquire(1, wish("c1", "n")).unwrap());
    world.run(60_000 + SESSION_TTL + 1_000);
    world.hold(1, wish("c2", "n"));
}

#[test]
fn the_same_client_does_not_enter_again() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c1", "n"));
    closed(&mut world, 1, &hold, false);
    for gateway in 0..2 {
        let (reason, free_in_ms) = refused(world.acquire(gateway, wish("c1", "n")).unwrap());
        assert_eq!(reason, Refusal::Held);
        assert!(free_in_ms > 0);
    }
}

#[test]
fn its_holder_may_still_give_it_back() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c1", "n"));
    closed(&mut world, 1, &hold, false);
    assert_eq!(world.release(1, &hold).unwrap(), ReleaseOutcome::Released);
    world.hold(1, wish("c2", "n"));
}

#[test]
fn twice_is_as_good_as_once_and_immediate_comes_through_later() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c1", "n"));
    let first = closed(&mut world, 0, &hold, false);
    world.run(1_000);
    let second = closed(&mut world, 1, &hold, false);
    assert!(second < first);
    assert_eq!(closed(&mut world, 1, &hold, true), Millis::ZERO);
    world.hold(1, wish("c2", "n"));
}

#[test]
fn a_name_that_nobody_holds_is_said_to_be_so() {
    let mut world = two_gateways();
    for (gateway, immediate) in [(0, false), (1, true)] {
        let outcome = world.force_release(gateway, "n", immediate);
        assert_eq!(outcome, Ok(CloseOutcome::NotHeld));
    }
    let hold = world.hold(0, wish("c1", "n"));
    world.release(0, &hold).unwrap();
    assert_eq!(
        world.force_release(1, "n", false),
        Ok(CloseOutcome::NotHeld)
    );
}

#[test]
fn until_it_is_in_the_record_nothing_is_known_of_the_hold() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c1", "n"));
    // The first attempt is never carried out, and nobody can know.
    let mut lost = false;
    world.link = Box::new(move |_, op, _| match is_close(op) && !lost {
        true => {
            lost = true;
            Fate::LoseRequest
        }
        false => Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        },
    });
    let ticket = world.begin_force_release(0, "n", false);
    world.run(100);
    for gateway in 0..2 {
        assert!(world.renew(gateway, &hold).is_err(), "not known");
    }
    let confirmed = world.run_until(6_000, |world| {
        world.run(10);
        world.renew(0, &hold) == Ok(STOLEN)
    });
    assert!(confirmed, "it is repeated until it is certain");
    world.answer(ticket);
}

#[test]
fn an_owner_that_does_not_answer_is_not_passed_over() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c1", "n"));
    world.pause(0, 2_000);
    for immediate in [false, true] {
        let error = world.force_release(1, "n", immediate).unwrap_err();
        assert_eq!(error.code.as_str(), "owner_unreachable");
    }
    world.run(2_500);
    assert!(
        is_renewed(world.renew(0, &hold).unwrap()),
        "nothing has happened"
    );
}

#[test]
fn a_gateway_that_stops_hands_the_closed_hold_over_as_closed() {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("c1", "n"));
    let free_in = closed(&mut world, 0, &hold, false).as_ms();
    let free_at = world.now + free_in;
    world.give(0, Input::Stop);
    let taken_over = world.run_until(5_000, |world| {
        world.run(20);
        world.renew(1, &hold) == Ok(STOLEN)
    });
    assert!(taken_over);
    world.run(free_at - world.now + 1_000);
    let outcome = world.acquire(1, wish("c2", "n")).unwrap();
    assert!(
        matches!(outcome, AcquireOutcome::Granted(_)),
        "by the time that was left"
    );
}
