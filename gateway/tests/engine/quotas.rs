//! How many locks a principal may have at a gateway, and what gives their places back.

use crate::holds::{is_renewed, refused};
use crate::principals::of;
use crate::world::{Fate, SESSION_TTL, World, is_grant, with_ttl};
use holdfast_gateway::engine::Answer;
use holdfast_gateway::limits::COLD_QUEUE_MAX;
use holdfast_gateway::names::Principal;
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, CloseOutcome, Grant, Refusal, ServiceError,
};
use holdfast_gateway::time::Millis;

const P: Option<&str> = Some("p");

/// Gateways at which each principal may have so many locks.
fn ready(gateways: usize, locks_max: u32) -> World {
    let mut world = World::with_quota(gateways, locks_max);
    (0..gateways).for_each(|gateway| world.run_until_proven(gateway));
    world
}

fn locks_of_p(world: &World, gateway: usize) -> u32 {
    world.table(gateway).locks_of(&Principal::new("p"))
}

/// Takes this name for `p`.
fn take(world: &mut World, gateway: usize, name: &str) -> Result<AcquireOutcome, ServiceError> {
    world.acquire(gateway, of(P, "c", name))
}

fn hold(world: &mut World, gateway: usize, name: &str) -> Grant {
    world.hold(gateway, of(P, "c", name))
}

fn check_full(world: &mut World, gateway: usize) {
    let error = take(world, gateway, "one more").unwrap_err();
    assert_eq!(error.code.as_str(), "quota_exceeded");
    assert!(error.retry_after.as_ms() > 0 && error.cluster.is_none());
}

#[test]
fn beyond_the_quota_nothing_is_granted_and_nothing_is_written() {
    let mut world = ready(1, 2);
    hold(&mut world, 0, "a");
    hold(&mut world, 0, "b");
    world.link = Box::new(|_, op, _| {
        assert!(!is_grant(op), "a grant is tried");
        Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        }
    });
    check_full(&mut world, 0);
    assert_eq!((world.locks(), locks_of_p(&world, 0)), (2, 2));
}

#[test]
fn others_and_those_who_need_not_prove_who_they_are_have_their_own() {
    let mut world = ready(2, 1);
    hold(&mut world, 0, "a");
    check_full(&mut world, 0);
    world.hold(0, of(Some("q"), "c", "b"));
    for name in ["c", "d", "e"] {
        world.hold(0, of(None, "c", name));
    }
    // Each gateway counts for itself.
    hold(&mut world, 1, "f");
    check_full(&mut world, 1);
}

#[test]
fn what_a_client_holds_already_it_gets_again_at_the_quota_too() {
    let mut world = ready(2, 1);
    let first = hold(&mut world, 0, "a");
    for gateway in [0, 1] {
        let again = hold(&mut world, gateway, "a");
        assert!(again.already_held);
        assert_eq!((&again.lock_id, again.token), (&first.lock_id, first.token));
        assert_eq!(
            locks_of_p(&world, gateway),
            1 - u32::try_from(gateway).unwrap()
        );
    }
    world.hold(1, of(Some("q"), "c", "b"));
    let (reason, _) = refused(take(&mut world, 0, "b").unwrap());
    assert_eq!(reason, Refusal::Held, "it is told what is true");
}

#[test]
fn a_release_and_an_expiry_give_the_place_back() {
    let mut world = ready(2, 1);
    for gateway in [0, 1] {
        // Whichever gateway is asked to release it.
        let grant = hold(&mut world, 0, "a");
        world.release(gateway, &grant).unwrap();
        assert_eq!(locks_of_p(&world, 0), 0);
    }
    world.hold(0, with_ttl(of(P, "c", "b"), 2_000));
    world.run(1_900);
    check_full(&mut world, 0);
    world.run(400);
    hold(&mut world, 0, "c");
}

#[test]
fn a_force_release_gives_the_place_back_when_the_name_is_free() {
    let mut world = ready(1, 1);
    hold(&mut world, 0, "a");
    world.force_release(0, "a", true).unwrap();
    hold(&mut world, 0, "b");
    let Ok(CloseOutcome::Closed { free_in, .. }) = world.force_release(0, "b", false) else {
        panic!("not closed");
    };
    check_full(&mut world, 0);
    world.run(free_in.as_ms() + 300);
    hold(&mut world, 0, "c");
}

#[test]
fn what_is_taken_over_counts_beyond_the_quota_and_must_end_before_more_is_granted() {
    let mut world = ready(2, 2);
    let theirs = [hold(&mut world, 0, "a"), hold(&mut world, 0, "b")];
    hold(&mut world, 1, "c");
    world.kill(0);
    world.run(SESSION_TTL + 4_000);
    for grant in &theirs {
        assert!(is_renewed(world.renew(1, grant).unwrap()));
    }
    assert_eq!(locks_of_p(&world, 1), 3);
    check_full(&mut world, 1);
    world.release(1, &theirs[0]).unwrap();
    check_full(&mut world, 1);
    world.release(1, &theirs[1]).unwrap();
    hold(&mut world, 1, "d");
}

#[test]
fn a_gateway_that_has_lost_its_session_counts_what_it_owns_afterwards() {
    let mut world = ready(2, 3);
    hold(&mut world, 0, "a");
    hold(&mut world, 0, "b");
    world.pause(0, 2 * SESSION_TTL);
    world.run(2 * SESSION_TTL + 1_000);
    assert_eq!((locks_of_p(&world, 0), locks_of_p(&world, 1)), (0, 2));
    // Alone it takes its own groups back.
    world.kill(1);
    world.run(SESSION_TTL + 4_000);
    assert_eq!(locks_of_p(&world, 0), 2);
    world.give_groups_away();
    world.run(SESSION_TTL);
    assert_eq!(locks_of_p(&world, 0), 2, "lost, and claimed anew");
    world.run(60_000);
    assert_eq!((world.locks(), locks_of_p(&world, 0)), (0, 0));
}

#[test]
fn a_grant_keeps_its_place_until_it_is_known_whether_it_happened() {
    for is_carried_out in [true, false] {
        let mut world = ready(1, 1);
        let mut lost = false;
        world.link = Box::new(move |_, op, _| match is_grant(op) && !lost {
            true => {
                lost = true;
                match is_carried_out {
                    true => Fate::LoseReply { request_ms: 1 },
                    false => Fate::LoseRequest,
                }
            }
            false => Fate::Pass {
                request_ms: 1,
                reply_ms: 1,
            },
        });
        let ticket = world.begin_acquire(0, with_ttl(of(P, "c", "a"), 6_000));
        world.run(1_000);
        check_full(&mut world, 0);
        world.answer(ticket);
        // Granted, late: it is one lock, and there is none when its time is over.
        world.run(1_000);
        assert_eq!((world.locks(), locks_of_p(&world, 0)), (1, 1));
        world.run(6_000);
        assert_eq!((world.locks(), locks_of_p(&world, 0)), (0, 0));
    }
}

#[test]
fn a_waiter_whose_principal_has_all_it_may_is_told_so_when_its_turn_comes_and_the_next_is_served() {
    let mut world = ready(1, 1);
    hold(&mut world, 0, "a");
    let held = world.hold(0, of(Some("q"), "c", "n"));
    let wait = |world: &mut World, principal, client| {
        let wish = Acquire {
            wait: Millis::from_secs(20),
            ..of(principal, client, "n")
        };
        let ticket = world.begin_acquire(0, wish);
        world.run(100);
        ticket
    };
    let (first, second) = (wait(&mut world, P, "c"), wait(&mut world, None, "d"));
    world.run(1_000);
    assert!(
        !world.has_answered(first),
        "it holds up nobody, and may be served yet"
    );
    world.release(0, &held).unwrap();
    match world.answer_in_line(first, 1_000) {
        Some(Err(error)) => assert_eq!(error.code.as_str(), "quota_exceeded"),
        other => panic!("{other:?}"),
    }
    let next = world.answer_in_line(second, 1_000);
    assert!(
        matches!(next, Some(Ok(AcquireOutcome::Granted(_)))),
        "{next:?}"
    );
    assert_eq!(locks_of_p(&world, 0), 1);
}

/// Each of these asks has the name looked up, in case the client holds it already.
#[test]
fn whoever_asks_in_a_loop_beyond_the_quota_fills_no_queue_that_others_need() {
    let mut world = ready(1, 1);
    let theirs = world.hold(0, of(Some("q"), "c", "n"));
    hold(&mut world, 0, "a");
    world.link = Box::new(|_, _, _| Fate::Pass {
        request_ms: 100,
        reply_ms: 100,
    });
    let asked: Vec<_> = (0..2 * COLD_QUEUE_MAX)
        .map(|n| world.begin_acquire(0, of(P, "c", &format!("m{n}"))))
        .collect();
    // Whose hold it is has to be looked up too.
    let closed = world.force_release(0, theirs.lock_id.name(), false);
    assert!(
        matches!(closed, Ok(CloseOutcome::Closed { .. })),
        "{closed:?}"
    );
    for ticket in asked {
        match world.answer(ticket) {
            Answer::Acquire(Err(error)) => {
                assert!(["quota_exceeded", "overloaded"].contains(&error.code.as_str()));
            }
            other => panic!("{other:?}"),
        }
    }
}
