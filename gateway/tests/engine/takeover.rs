//! Sessions that end, and heirs.

use crate::holds::{is_renewed, refused};
use crate::world::{Fate, SESSION_TTL, World, wish, with_ttl};
use holdfast_gateway::engine::Input;
use holdfast_gateway::limits::GROUPS_MAX;
use holdfast_gateway::service::{Ended, ReleaseOutcome, RenewOutcome};
use holdfast_store::{KeyRange, LeaseId, Op, Put, Txn, TxnOp};
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn a_gateway_that_is_killed_and_started_again_takes_its_locks_over() {
    let mut world = World::ready();
    let holds: Vec<_> = (0..2_500)
        .map(|i| world.hold(0, with_ttl(wish("c", &format!("n{i}")), 60_000)))
        .collect();
    world.kill(0);
    world.run(100);
    world.start(0);
    world.run_until_proven(0);
    assert!(
        world.renew(0, &holds[0]).is_err(),
        "unknown is not told as lost"
    );
    let back = world.run_until(SESSION_TTL + 3_000, |world| {
        world.run(50);
        holds
            .iter()
            .all(|hold| world.renew(0, hold).is_ok_and(is_renewed))
    });
    assert!(back, "all of them are renewed");
    assert_eq!(world.locks(), 2_500);
}

#[test]
fn an_heir_ends_no_lock_before_its_ttl_and_the_sessions_have_passed_since_the_claim() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let hold = world.hold(0, wish("c1", "n"));
    world.kill(0);
    let claimed = world.run_until(SESSION_TTL + 4_000, |world| {
        world.read(KeyRange::prefix("/holdfast/sessions/")).len() == 1
            && world.renew(1, &hold).is_err()
            && {
                world.run(20);
                refused(world.acquire(1, wish("c2", "n")).unwrap()).1 < 39_000
            }
    });
    assert!(claimed);
    let claim = world.now;
    world.run(30_000 + SESSION_TTL - 200);
    assert_eq!(world.locks(), 1);
    assert!(
        world.run_until(1_000, |world| world.locks() == 0),
        "and soon after"
    );
    assert!(world.now >= claim + 30_000 + SESSION_TTL - 200);
    world.hold(1, wish("c2", "n"));
}

#[test]
fn a_gateway_that_was_stopped_and_continues_promises_nothing_from_stale_memory() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let hold = world.hold(0, with_ttl(wish("c1", "n"), 60_000));
    world.pause(0, 3 * SESSION_TTL);
    world.run(3 * SESSION_TTL - 1);
    assert!(
        is_renewed(world.renew(1, &hold).unwrap()),
        "the heir renews"
    );
    world.run(2);
    match world.renew(0, &hold) {
        Err(error) => assert_ne!(error.code.as_str(), "internal"),
        Ok(outcome) => panic!("{outcome:?}"),
    }
    world.run_until_proven(0);
    world.run(4_000);
    assert!(is_renewed(world.renew(1, &hold).unwrap()));
    let forwards = world.forwards;
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
    assert_eq!(world.forwards, forwards + 1, "the heir was asked");
}

#[test]
fn a_session_key_deleted_by_hand_costs_no_live_lock() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    world.write(Txn {
        then: vec![TxnOp::Delete(KeyRange::prefix("/holdfast/sessions/"))],
        ..Default::default()
    });
    world.run(10_000);
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
    assert_eq!(world.locks(), 1);
}

#[test]
fn a_gateway_that_stops_gives_up_its_session_and_leaves_its_locks() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let hold = world.hold(0, wish("c1", "n"));
    world.give(0, Input::Stop);
    assert_eq!(world.renew(0, &hold).unwrap_err().code.as_str(), "draining");
    let taken = world.run_until(4_000, |world| {
        world.run(20);
        world.renew(1, &hold).is_ok_and(is_renewed)
    });
    assert!(taken, "claimed long before the session's TTL");
    assert!(
        world.run_until(1_000, |world| world.has_stopped(0)),
        "it has waited for its heir, and no longer"
    );
}

#[test]
fn what_is_gone_is_told_as_gone_by_every_gateway() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let hold = world.hold(0, wish("c1", "n"));
    world.run(4_000);
    world.release(0, &hold).unwrap();
    assert_eq!(world.release(1, &hold).unwrap(), ReleaseOutcome::Released);
    assert_eq!(
        world.renew(1, &hold).unwrap(),
        RenewOutcome::Ended(Ended::Expired)
    );
}

#[test]
fn all_gateways_down_for_longer_than_the_ttl_keep_what_is_still_renewed() {
    let mut world = World::ready();
    let living = world.hold(0, wish("c1", "living"));
    let dead = world.hold(0, wish("c2", "dead"));
    world.kill(0);
    world.run(120_000);
    world.start(0);
    world.run_until_proven(0);
    world.run(5_000);
    assert!(is_renewed(world.renew(0, &living).unwrap()));
    world.run(20_000);
    assert!(is_renewed(world.renew(0, &living).unwrap()));
    world.run(20_000);
    assert!(is_renewed(world.renew(0, &living).unwrap()));
    assert_eq!(
        world.renew(0, &dead).unwrap(),
        RenewOutcome::Ended(Ended::Expired)
    );
}

#[test]
fn two_gateways_started_alike_share_nothing() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let one = world.hold(0, wish("c1", "n1"));
    let two = world.hold(1, wish("c1", "n2"));
    assert_ne!(one.lock_id.group(), two.lock_id.group());
    assert_eq!(world.read(KeyRange::prefix("/holdfast/sessions/")).len(), 2);
    world.run(60_000);
    assert_eq!(world.read(KeyRange::prefix("/holdfast/sessions/")).len(), 2);
}

#[test]
fn a_group_that_was_claimed_is_retired_when_its_last_lock_is_gone() {
    let mut world = World::ready();
    world.hold(0, wish("c1", "n"));
    world.kill(0);
    world.start(0);
    world.run_until_proven(0);
    world.run(150_000);
    assert_eq!(world.locks(), 0);
    let groups = KeyRange::prefix("/holdfast/groups/");
    assert_eq!(world.read(groups).len(), 0, "nothing holds it");
    assert!(world.model.leases().count() <= 2);
}

#[test]
fn a_session_whose_revoke_is_lost_is_revoked_again_before_the_gateway_has_stopped() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let hold = world.hold(0, wish("c1", "n"));
    let mut lost = 0;
    world.link = Box::new(move |gateway, op, _| match op {
        Op::LeaseRevoke { .. } if gateway == 0 && lost < 4 => {
            lost += 1;
            Fate::Refuse
        }
        _ => Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        },
    });
    world.give(0, Input::Stop);
    assert!(world.run_until(4_000, |world| world.has_stopped(0)));
    let taken = world.run_until(3_500, |world| {
        world.run(20);
        world.renew(1, &hold).is_ok_and(is_renewed)
    });
    assert!(taken, "claimed long before the session's TTL");
}

/// No key names it, so nobody else would ever give it up.
#[test]
fn the_lease_of_a_group_that_is_being_made_ends_with_the_session() {
    for is_stopped in [false, true] {
        let mut world = World::ready();
        let before: Vec<_> = world.model.leases().collect();
        world.link = Box::new(|_, op, _| Fate::Pass {
            request_ms: 1,
            reply_ms: match op {
                Op::LeaseGrant { .. } => 5_000,
                _ => 1,
            },
        });
        world.begin_acquire(0, wish("c1", "n"));
        world.run(10);
        let is_new = |lease: &LeaseId| !before.contains(lease);
        let made: Vec<_> = world.model.leases().filter(is_new).collect();
        assert_eq!(made.len(), 1);
        match is_stopped {
            true => world.give(0, Input::Stop),
            false => world.write(Txn {
                then: vec![TxnOp::Delete(KeyRange::prefix("/holdfast/sessions/"))],
                ..Txn::default()
            }),
        }
        world.run(4_000);
        assert!(world.model.leases().all(|lease| lease != made[0]));
    }
}

#[test]
fn no_more_groups_are_claimed_than_may_be_had_however_long_the_first_claims_take() {
    let mut world = World::ready();
    let lease = LeaseId(77);
    world.by_hand(&Op::LeaseGrant {
        lease,
        ttl_s: 1_800,
    });
    for group in 0..GROUPS_MAX + 500 {
        let put = Put {
            key: format!("/holdfast/groups/{:016x}/{group:016x}", 7).into(),
            value: format!(r#"{{"shard":0,"lease":"{lease}"}}"#).into(),
            lease: Some(lease),
        };
        world.write(Txn {
            then: vec![TxnOp::Put(put)],
            ..Txn::default()
        });
    }
    let begun = Rc::new(Cell::new(0));
    let count = Rc::clone(&begun);
    world.link = Box::new(move |_, op, _| {
        let ops = match op {
            Op::Txn(txn) => &txn.then[..],
            _ => &[],
        };
        let is_claim = |op: &&TxnOp| match op {
            TxnOp::Get(get) => get
                .range
                .start
                .as_bytes()
                .starts_with(b"/holdfast/groups/0"),
            _ => false,
        };
        count.set(count.get() + ops.iter().filter(is_claim).count());
        let is_write = ops.iter().any(|op| matches!(op, TxnOp::Txn(_)));
        Fate::Pass {
            request_ms: if is_write { 2_000 } else { 1 },
            reply_ms: 1,
        }
    });
    assert!(world.run_until(4_000, |_| begun.get() >= GROUPS_MAX));
    // The next rounds show all of them again.
    world.run(500);
    assert_eq!(begun.get(), GROUPS_MAX);
}
