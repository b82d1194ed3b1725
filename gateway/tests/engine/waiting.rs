//! Waiting in line for a name.

use crate::holds::{is_renewed, refused};
use crate::principals::of;
use crate::world::{Fate, SESSION_TTL, World, is_grant, is_join, patient, wish, with_ttl};
use holdfast_gateway::engine::{Input, Ticket};
use holdfast_gateway::limits::WAITS_PER_CLIENT_MAX;
use holdfast_gateway::service::{Acquire, AcquireOutcome, Grant, Refusal};
use holdfast_gateway::time::Millis;
use holdfast_store::{KeyRange, Op, TxnOp};
use std::cell::Cell;
use std::rc::Rc;

fn two_gateways() -> World {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    world
}

/// Two gateways, and "n" held by "holder" at the first of them.
fn held() -> (World, Grant) {
    let mut world = two_gateways();
    let hold = world.hold(0, wish("holder", "n"));
    (world, hold)
}

fn attempts(world: &World) -> u64 {
    (0..2)
        .map(|gateway| world.stats(gateway).wait_attempts.get())
        .sum()
}

/// The grant to a request that waits, which must come within so long.
fn served(world: &mut World, ticket: Ticket, ms: u64) -> Grant {
    match world.answer_in_line(ticket, ms) {
        Some(Ok(AcquireOutcome::Granted(grant))) => grant,
        other => panic!("{other:?}"),
    }
}

/// Whether the request has got the lock.
fn has_got(world: &mut World, ticket: Ticket) -> bool {
    matches!(
        world.answer_in_line(ticket, 0),
        Some(Ok(AcquireOutcome::Granted(_)))
    )
}

fn stand(world: &mut World, gateway: usize, client: &str) -> Ticket {
    let ticket = world.begin_acquire(gateway, patient(client, "n", 25_000));
    world.run(20);
    ticket
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released_with_its_full_ttl_and_one_attempt() {
    for gateway in 0..2 {
        let (mut world, hold) = held();
        let waiter = stand(&mut world, gateway, "c2");
        world.run(5_000);
        assert!(!world.has_answered(waiter));
        let before = attempts(&world);
        world.release(0, &hold).unwrap();
        let grant = served(&mut world, waiter, 50);
        assert!(grant.token > hold.token && !grant.already_held);
        let waited = grant.waited.unwrap().as_ms();
        // A hundredth less, for the drift of clocks.
        assert!((4_950..5_050).contains(&waited), "{waited}");
        assert!(grant.told.ttl > Millis::from_ms(29_500), "{:?}", grant.told);
        assert_eq!(attempts(&world) - before, 1);
        assert_eq!(world.waiters(), 0);
        assert!(is_renewed(world.renew(gateway, &grant).unwrap()));
    }
}

/// The release is one write and the grant another, and the grant has read who is next.
#[test]
fn at_the_holders_gateway_a_lock_changes_hands_in_two_writes_without_a_watch_or_a_look() {
    let (mut world, mut hold) = held();
    world.watches_lost = true;
    let clients = ["c1", "c2", "c3", "c4"];
    let waiters = clients.map(|client| stand(&mut world, 0, client));
    let looks = count_looks(&mut world, 0, 1);
    for waiter in waiters {
        let (before, began) = (attempts(&world), world.now);
        world.release(0, &hold).unwrap();
        hold = served(&mut world, waiter, 100);
        assert_eq!(world.now - began, 4, "each write takes 2 ms there and back");
        assert_eq!(attempts(&world) - before, 1);
    }
    assert_eq!(looks.get(), 0);
}

#[test]
fn at_another_gateway_a_watch_tells_of_the_release_and_nobody_looks() {
    let (mut world, hold) = held();
    let waiter = stand(&mut world, 1, "c1");
    let looks = count_looks(&mut world, 1, 1);
    world.release(0, &hold).unwrap();
    served(&mut world, waiter, 10);
    assert_eq!(looks.get(), 0);
}

#[test]
fn a_name_that_is_free_is_granted_at_once_to_one_that_would_wait() {
    let mut world = two_gateways();
    let grant = match world.acquire(0, patient("c", "n", 10_000)) {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    };
    assert_eq!(grant.waited, None);
    assert_eq!(world.waiters(), 0);
}

#[test]
fn waiters_are_served_in_their_order_across_gateways_with_one_attempt_for_each_release() {
    let (mut world, mut hold) = held();
    let clients: Vec<String> = (0..12).map(|at| format!("c{at}")).collect();
    // By turns, and some of one gateway in a row.
    let gateways = [0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1];
    let waiters: Vec<Ticket> = (0..12)
        .map(|at| stand(&mut world, gateways[at], &clients[at]))
        .collect();
    world.run(1_000);
    let before = attempts(&world);
    for (at, waiter) in waiters.iter().enumerate() {
        world.release(0, &hold).unwrap();
        hold = served(&mut world, *waiter, 100);
        assert!(
            waiters[at + 1..]
                .iter()
                .all(|later| !world.has_answered(*later))
        );
        world.run(100);
    }
    assert_eq!(attempts(&world) - before, 12);
    assert_eq!(world.waiters(), 0);
}

#[test]
fn a_newcomer_does_not_overtake() {
    let (mut world, hold) = held();
    let waiter = stand(&mut world, 1, "c2");
    world.watches_lost = true;
    world.release(0, &hold).unwrap();
    for gateway in 0..2 {
        let (reason, _) = refused(world.acquire(gateway, wish("new", "n")).unwrap());
        assert_eq!(reason, Refusal::Held);
    }
    let late = world.begin_acquire(0, patient("later", "n", 20_000));
    served(&mut world, waiter, 1_000);
    assert!(!world.has_answered(late));
}

#[test]
fn a_hint_that_is_lost_costs_less_than_a_second() {
    let (mut world, hold) = held();
    let waiter = stand(&mut world, 1, "c2");
    let behind = stand(&mut world, 0, "c3");
    world.run(3_000);
    world.watches_lost = true;
    world.release(0, &hold).unwrap();
    let grant = served(&mut world, waiter, 1_000);
    world.run(2_000);
    world.release(1, &grant).unwrap();
    served(&mut world, behind, 1_000);
}

#[test]
fn a_wait_in_vain_ends_in_time_and_tells_when_the_hold_may_end() {
    let mut world = two_gateways();
    world.hold(0, with_ttl(wish("c1", "n"), 60_000));
    for (gateway, at_most) in [(0, 60_000), (1, 60_000 + 3 * SESSION_TTL)] {
        let began = world.now;
        let waiter = world.begin_acquire(gateway, patient("c2", "n", 2_000));
        let outcome = world.answer_in_line(waiter, 2_200).unwrap().unwrap();
        let (reason, free_in_ms) = refused(outcome);
        assert!(
            matches!(reason, Refusal::Timeout(waited) if waited >= Millis::from_ms(2_000)),
            "{reason:?}"
        );
        assert!(world.now >= began + 2_000);
        assert!((50_000..=at_most).contains(&free_in_ms), "{free_in_ms}");
        world.run(50);
        assert_eq!(world.waiters(), 0);
    }
}

#[test]
fn whoever_goes_away_leaves_the_line_at_once() {
    let (mut world, hold) = held();
    let first = stand(&mut world, 0, "c2");
    let second = stand(&mut world, 1, "c3");
    let third = stand(&mut world, 0, "c4");
    world.give(0, Input::Abandoned(first));
    world.give(0, Input::Abandoned(third));
    world.run(20);
    assert_eq!(world.waiters(), 1);
    world.release(0, &hold).unwrap();
    served(&mut world, second, 100);
    world.run(1_000);
    assert!(!has_got(&mut world, first) && !has_got(&mut world, third));
}

#[test]
fn a_grant_that_races_a_disconnect_is_undone() {
    let (mut world, hold) = held();
    let gone = stand(&mut world, 1, "c2");
    let next = stand(&mut world, 0, "c3");
    world.run(1_000);
    // The grant is on its way when the client goes.
    world.link = Box::new(|gateway, op, _| Fate::Pass {
        request_ms: 1,
        reply_ms: if gateway == 1 && is_grant(op) { 300 } else { 1 },
    });
    world.release(0, &hold).unwrap();
    world.run(50);
    world.give(1, Input::Abandoned(gone));
    let grant = served(&mut world, next, 1_000);
    assert!(!has_got(&mut world, gone));
    assert!(is_renewed(world.renew(0, &grant).unwrap()));
    assert_eq!(world.locks(), 1);
}

#[test]
fn a_grant_that_reaches_nobody_is_undone() {
    let (mut world, hold) = held();
    let first = stand(&mut world, 1, "c2");
    let next = stand(&mut world, 0, "c3");
    world.release(0, &hold).unwrap();
    let lost = served(&mut world, first, 100);
    world.give(1, Input::Undelivered(lost.lock_id));
    served(&mut world, next, 1_000);
}

#[test]
fn a_hold_that_its_client_has_entered_again_is_not_taken_back() {
    let (mut world, hold) = held();
    let first = stand(&mut world, 1, "c2");
    world.release(0, &hold).unwrap();
    let lost = served(&mut world, first, 100);
    // Its answer reached nobody, and before the gateway has noticed the client asks another one.
    let shorter = with_ttl(wish("c2", "n"), 2_000);
    let again = match world.acquire(0, shorter) {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    };
    assert!(again.already_held && again.token == lost.token);
    world.give(1, Input::Undelivered(lost.lock_id));
    world.run(1_000);
    assert!(is_renewed(world.renew(0, &again).unwrap()));
}

#[test]
fn whoever_goes_away_before_it_stands_in_line_is_not_put_there() {
    let (mut world, hold) = held();
    let gone = world.begin_acquire(1, patient("c2", "n", 25_000));
    world.give(1, Input::Abandoned(gone));
    world.run(2_000);
    assert_eq!(world.waiters(), 0);
    // Nor is it granted what is free.
    world.release(0, &hold).unwrap();
    let gone = world.begin_acquire(1, patient("c2", "n", 25_000));
    world.give(1, Input::Abandoned(gone));
    world.run(2_000);
    assert_eq!(world.locks(), 0);
}

#[test]
fn the_waiters_of_a_gateway_that_dies_hold_up_nobody_for_longer_than_its_session() {
    let (mut world, hold) = held();
    stand(&mut world, 1, "c2");
    let behind = stand(&mut world, 0, "c3");
    world.kill(1);
    world.release(0, &hold).unwrap();
    served(&mut world, behind, SESSION_TTL + 1_000);
}

#[test]
fn the_waiters_of_a_gateway_that_stops_are_told_and_hold_up_nobody() {
    let (mut world, hold) = held();
    let stopped = stand(&mut world, 1, "c2");
    let behind = stand(&mut world, 0, "c3");
    world.give(1, Input::Stop);
    let error = world.answer_in_line(stopped, 100).unwrap().unwrap_err();
    assert_eq!(error.code.as_str(), "draining");
    world.release(0, &hold).unwrap();
    served(&mut world, behind, 1_000);
}

#[test]
fn a_join_whose_outcome_is_unknown_takes_one_place() {
    for fate in [
        Fate::LoseReply { request_ms: 1 },
        Fate::LoseRequest,
        Fate::Late { request_ms: 50 },
    ] {
        let (mut world, hold) = held();
        let mut met = false;
        world.link = Box::new(
            move |gateway, op, _| match gateway == 1 && is_join(op) && !met {
                true => {
                    met = true;
                    fate
                }
                false => Fate::Pass {
                    request_ms: 1,
                    reply_ms: 1,
                },
            },
        );
        let waiter = world.begin_acquire(1, patient("c2", "n", 25_000));
        world.run(5_000);
        assert_eq!(world.waiters(), 1);
        world.release(0, &hold).unwrap();
        served(&mut world, waiter, 1_000);
        assert_eq!(world.waiters(), 0);
    }
}

#[test]
fn places_that_are_taken_away_by_hand_are_taken_anew() {
    let (mut world, hold) = held();
    let first = stand(&mut world, 1, "c2");
    let second = stand(&mut world, 1, "c3");
    let waiters = KeyRange::prefix("/holdfast/waiters/");
    world.write(holdfast_store::Txn {
        then: vec![TxnOp::Delete(waiters)],
        ..Default::default()
    });
    world.run(1_500);
    assert_eq!(world.waiters(), 2);
    world.release(0, &hold).unwrap();
    let grant = served(&mut world, first, 1_000);
    world.release(1, &grant).unwrap();
    served(&mut world, second, 1_000);
}

#[test]
fn the_same_client_gets_its_hold_back_without_waiting() {
    let (mut world, hold) = held();
    stand(&mut world, 1, "c2");
    match world.acquire(1, patient("holder", "n", 10_000)) {
        Ok(AcquireOutcome::Granted(grant)) => {
            assert!(grant.already_held && grant.token == hold.token);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_may_not_wait_everywhere_at_once() {
    let (mut world, _) = held();
    for _ in 0..256 {
        world.begin_acquire(0, patient("greedy", "n", 20_000));
    }
    world.run(500);
    let error = world
        .acquire(0, patient("greedy", "n", 20_000))
        .unwrap_err();
    assert_eq!(error.code.as_str(), "quota_exceeded");
    let modest = world.begin_acquire(0, patient("modest", "n", 20_000));
    world.run(100);
    assert!(!world.has_answered(modest));
}

#[test]
fn an_attempt_that_waits_for_a_group_holds_up_nobody_when_its_client_has_gone() {
    let (mut world, hold) = held();
    let first = stand(&mut world, 1, "c2");
    let behind = stand(&mut world, 0, "c3");
    // Its gateway loses its group of the shard, and gets no lease for another.
    let of_lock = world.read(KeyRange::prefix("/locks/"))[0].lease;
    let groups = world.read(KeyRange::prefix("/holdfast/groups/"));
    for lease in groups.iter().filter_map(|kv| kv.lease) {
        if Some(lease) != of_lock {
            world.by_hand(&Op::LeaseRevoke { lease });
        }
    }
    world.link = Box::new(|gateway, op, _| match op {
        Op::LeaseGrant { .. } if gateway == 1 => Fate::Refuse,
        _ => Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        },
    });
    world.run(SESSION_TTL);
    world.release(0, &hold).unwrap();
    world.run(1_000);
    assert!(!world.has_answered(first) && !world.has_answered(behind));
    world.give(1, Input::Abandoned(first));
    served(&mut world, behind, 1_000);
}

/// Each look put off the next, and with it that somebody sees an attempt not come back.
#[test]
fn a_line_is_looked_at_in_moderation_while_an_attempt_is_on_its_way() {
    let (mut world, hold) = held();
    let waiter = stand(&mut world, 1, "c2");
    let looks = count_looks(&mut world, 1, 3_000);
    world.release(0, &hold).unwrap();
    served(&mut world, waiter, 4_000);
    assert!((1..=10).contains(&looks.get()), "{} looks", looks.get());
}

/// How often this gateway looks at lines from now on. Its grants are answered after so long.
fn count_looks(world: &mut World, of: usize, grant_ms: u64) -> Rc<Cell<u32>> {
    let looks = Rc::new(Cell::new(0));
    let count = Rc::clone(&looks);
    world.link = Box::new(move |gateway, op, _| {
        count.set(count.get() + u32::from(gateway == of && is_look(op)));
        let is_grant = gateway == of && is_grant(op);
        Fate::Pass {
            request_ms: 1,
            reply_ms: if is_grant { grant_ms } else { 1 },
        }
    });
    looks
}

/// Whether this reads who is first in line.
fn is_look(op: &Op) -> bool {
    let reads_line = |op: &TxnOp| match op {
        TxnOp::Get(get) => get
            .range
            .start
            .as_bytes()
            .starts_with(b"/holdfast/waiters/"),
        _ => false,
    };
    matches!(op, Op::Txn(txn) if txn.then.iter().any(reads_line))
}

#[test]
fn those_for_whom_there_is_no_lease_are_answered_in_time_and_ask_for_one_in_moderation() {
    let (mut world, _) = held();
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    world.link = Box::new(move |gateway, op, _| match op {
        // A session's, or one beside it; groups get theirs.
        Op::LeaseGrant { ttl_s, .. }
            if gateway == 1 && u64::from(*ttl_s) * 1_000 == SESSION_TTL =>
        {
            count.set(count.get() + 1);
            Fate::Refuse
        }
        _ => Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        },
    });
    // The session's lease is for a thousand.
    let waiters: Vec<Ticket> = (0..=1_000)
        .map(|at| world.begin_acquire(1, patient(&format!("c{at}"), "n", 3_000)))
        .collect();
    world.run(2_500);
    assert_eq!(world.waiters(), 1_000);
    assert!((1..=20).contains(&asked.get()), "{}", asked.get());
    for waiter in waiters {
        let (reason, _) = refused(world.answer_in_line(waiter, 700).unwrap().unwrap());
        assert!(matches!(reason, Refusal::Timeout(_)));
    }
    world.run(200);
    assert_eq!(world.waiters(), 0);
}

#[test]
fn ten_thousand_wait_for_one_name_and_are_served_in_order() {
    let (mut world, mut hold) = held();
    let waiters: Vec<Ticket> = (0..10_000)
        .map(|at| {
            let acquire = Acquire {
                wait: Millis::from_secs(600),
                ..wish(&format!("c{at}"), "n")
            };
            world.begin_acquire(at % 2, acquire)
        })
        .collect();
    assert!(world.run_until(60_000, |world| world.waiters() == 10_000));
    world.run(1_000);
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
    let before = attempts(&world);
    let mut served_by = [Vec::new(), Vec::new()];
    for _ in 0..40 {
        world.release(0, &hold).unwrap();
        let next = world.run_until(1_000, |world| {
            waiters.iter().any(|it| world.has_answered(*it))
        });
        assert!(next);
        let at = waiters
            .iter()
            .position(|it| world.has_answered(*it))
            .unwrap();
        hold = served(&mut world, waiters[at], 0);
        served_by[at % 2].push(at);
    }
    assert_eq!(
        attempts(&world) - before,
        40,
        "one attempt for each release"
    );
    for of_gateway in &served_by {
        assert!(
            of_gateway.is_sorted(),
            "in the order in which they came: {of_gateway:?}"
        );
    }
    // All of them go: nothing is left in etcd, and the leases beside the sessions' are given up.
    for (at, waiter) in waiters.iter().enumerate() {
        world.give(at % 2, Input::Abandoned(*waiter));
    }
    assert!(world.run_until(60_000, |world| world.waiters() == 0));
}

#[test]
fn a_client_id_waits_in_so_many_lines_and_another_principal_with_the_same_id_has_its_own() {
    let mut world = World::ready();
    let names: Vec<_> = (0..=WAITS_PER_CLIENT_MAX)
        .map(|n| format!("n{n}"))
        .collect();
    for name in &names {
        world.hold(0, wish("holder", name));
    }
    let mut stand = |principal, name: &String| {
        let wish = Acquire {
            wait: Millis::from_secs(20),
            ..of(Some(principal), "worker-1", name)
        };
        let ticket = world.begin_acquire(0, wish);
        let refused = world.answer_in_line(ticket, 20);
        refused.map(|answer| answer.unwrap_err().code.as_str())
    };
    let (one_more, up_to_that) = names.split_last().unwrap();
    for name in up_to_that {
        assert_eq!(stand("a", name), None);
    }
    assert_eq!(stand("a", one_more), Some("quota_exceeded"));
    assert_eq!(stand("b", one_more), None);
}
