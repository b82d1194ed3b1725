//! Lost and late answers: what is not known is found out, and nobody is told a guess.

use crate::holds::{is_renewed, refused};
use crate::world::{Fate, World, is_delete, is_grant, wish, with_ttl};
use holdfast_gateway::service::{Ended, Grant, ReleaseOutcome, Renew, RenewOutcome};
use holdfast_gateway::time::Millis;
use holdfast_store::{KeyRange, Op, TxnOp};

const PASS: Fate = Fate::Pass {
    request_ms: 1,
    reply_ms: 1,
};

/// A link that treats the first call of a kind in another way.
fn first(kind: impl Fn(&Op) -> bool + 'static, fate: Fate) -> crate::world::Link {
    let mut done = false;
    Box::new(move |_, op, _| {
        if !done && kind(op) {
            done = true;
            return fate;
        }
        PASS
    })
}

/// The grant is applied, and then nothing gets through for six seconds.
fn cut_off_after_the_grant(began: u64) -> crate::world::Link {
    Box::new(move |_, op, now| match now - began {
        0..6_000 if is_grant(op) => Fate::LoseReply { request_ms: 1 },
        0..6_000 => Fate::LoseRequest,
        _ => PASS,
    })
}

fn renewal_of(hold: &Grant) -> Renew {
    Renew {
        lock_id: hold.lock_id.clone(),
        token: hold.token,
        ttl: None,
        principal: None,
    }
}

/// Has the guard of the shard read and a group made, so that the next call is the grant.
fn warm_up(world: &mut World) {
    let hold = world.hold(0, wish("c0", "n"));
    world.release(0, &hold).unwrap();
}

#[test]
fn a_grant_whose_reply_is_lost_is_found_by_fence_and_read() {
    let mut world = World::ready();
    world.link = first(is_grant, Fate::LoseReply { request_ms: 1 });
    let hold = world.hold(0, wish("c1", "n"));
    assert_eq!(world.locks(), 1);
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
}

#[test]
fn a_grant_that_etcd_applies_after_the_gateway_gave_up_is_refused_there() {
    let mut world = World::ready();
    warm_up(&mut world);
    world.link = first(is_grant, Fate::Late { request_ms: 2_000 });
    let hold = world.hold(0, wish("c1", "n"));
    world.release(0, &hold).unwrap();
    // The name is free when the first grant arrives: only the fence can refuse it.
    world.run(10_000);
    assert_eq!(world.locks(), 0, "no ghost");
}

#[test]
fn a_grant_that_never_arrived_is_tried_again() {
    let mut world = World::ready();
    world.link = first(is_grant, Fate::LoseRequest);
    world.hold(0, wish("c1", "n"));
    assert_eq!(world.locks(), 1);
}

#[test]
fn a_grant_that_nobody_was_told_about_is_free_when_its_ttl_has_passed() {
    let mut world = World::ready();
    warm_up(&mut world);
    world.link = cut_off_after_the_grant(world.now);
    let ticket = world.begin_acquire(0, wish("c1", "n"));
    assert!(format!("{:?}", world.answer(ticket)).contains("Unknown"));
    assert_eq!(world.locks(), 1);
    world.run(24_000);
    let free = world.run_until(2_500, |world| world.locks() == 0);
    assert!(free, "free within its TTL and a second");
    world.run_until_proven(0);
    world.hold(0, wish("c2", "n"));
}

#[test]
fn a_client_that_comes_back_gets_the_grant_it_was_not_told_about() {
    let mut world = World::ready();
    warm_up(&mut world);
    world.link = cut_off_after_the_grant(world.now);
    let ticket = world.begin_acquire(0, wish("c1", "n"));
    world.answer(ticket);
    world.run(7_000);
    world.run_until_proven(0);
    let hold = world.hold(0, wish("c1", "n"));
    assert!(hold.already_held);
    world.run(28_000);
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
}

#[test]
fn a_release_whose_reply_is_lost_is_answered_when_it_is_known() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    world.link = first(is_delete, Fate::LoseReply { request_ms: 1 });
    assert_eq!(world.release(0, &hold).unwrap(), ReleaseOutcome::Released);
    assert_eq!(world.locks(), 0);
}

#[test]
fn a_release_that_arrives_late_again_does_not_end_the_next_hold() {
    let mut world = World::ready();
    let first_hold = world.hold(0, wish("c1", "n"));
    world.link = first(is_delete, Fate::Late { request_ms: 5_000 });
    assert_eq!(
        world.release(0, &first_hold).unwrap(),
        ReleaseOutcome::Released
    );
    let second = world.hold(0, wish("c1", "n"));
    world.run(12_000);
    assert_eq!(world.locks(), 1);
    assert!(is_renewed(world.renew(0, &second).unwrap()));
    assert_eq!(
        world.release(0, &first_hold).unwrap(),
        ReleaseOutcome::Released
    );
    assert_eq!(world.locks(), 1);
}

#[test]
fn renewals_are_answered_from_proof_and_with_nothing_after_it_until_the_cluster_is_back() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    world.run(5_000);
    let cut = world.now;
    world.link = Box::new(move |_, _, now| match now - cut {
        0..12_000 => Fate::Refuse,
        _ => PASS,
    });
    world.run(3_000);
    assert!(
        is_renewed(world.renew(0, &hold).unwrap()),
        "the proof still counts"
    );
    world.run(6_500);
    assert_eq!(
        world.renew(0, &hold).unwrap_err().code.as_str(),
        "cluster_unavailable"
    );
    world.run(4_000);
    world.run_until_proven(0);
    // The session has gone in the meantime; its groups are claimed and loaded again.
    let renewed = world.run_until(10_000, |world| {
        let ticket = world.renew(0, &hold);
        ticket.is_ok()
    });
    assert!(renewed);
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
}

#[test]
fn a_hold_that_ended_during_an_outage_is_truthfully_expired() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    world.run(28_000);
    let cut = world.now;
    world.link = Box::new(move |_, _, now| match now - cut {
        0..5_000 => Fate::Refuse,
        _ => PASS,
    });
    world.run(3_000);
    assert_eq!(world.locks(), 1, "its end cannot be confirmed yet");
    let early = world.begin_renew(0, renewal_of(&hold));
    world.run(4_000);
    assert!(!format!("{:?}", world.answer(early)).contains("Renewed"));
    assert_eq!(
        world.renew(0, &hold).unwrap(),
        RenewOutcome::Ended(Ended::Expired)
    );
    world.hold(0, wish("c2", "n"));
}

#[test]
fn two_renewals_for_longer_at_once_never_leave_a_record_that_says_less_than_was_promised() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    let longest = Renew {
        ttl: Some(Millis::from_secs(600)),
        ..renewal_of(&hold)
    };
    let longer = Renew {
        ttl: Some(Millis::from_secs(60)),
        ..renewal_of(&hold)
    };
    for _ in 0..3 {
        let first = world.begin_renew(0, longest.clone());
        let second = world.begin_renew(0, longer.clone());
        world.run(3);
        let third = world.begin_renew(0, longer.clone());
        for ticket in [first, second, third] {
            world.answer(ticket);
        }
    }
    assert!(is_renewed(
        world.renew_for(0, &hold, Some(600_000)).unwrap()
    ));
    let record = world.read(KeyRange::one("/locks/n")).remove(0);
    assert!(
        String::from_utf8(record.value)
            .unwrap()
            .contains("\"ttlMs\":600000")
    );
}

#[test]
fn a_herd_on_one_name_is_answered_from_few_transactions_and_holds_up_nobody() {
    let mut world = World::ready();
    warm_up(&mut world);
    world.link = Box::new(|_, _, _| Fate::Pass {
        request_ms: 5,
        reply_ms: 5,
    });
    let herd: Vec<_> = (0..5_000)
        .map(|i| world.begin_acquire(0, wish(&format!("c{i}"), "n")))
        .collect();
    let other = world.begin_acquire(0, wish("c", "other"));
    let began = world.now;
    assert!(format!("{:?}", world.answer(other)).contains("Granted"));
    assert!(world.now < began + 500);
    let granted = herd
        .into_iter()
        .filter(|ticket| format!("{:?}", world.answer(*ticket)).contains("Granted"))
        .count();
    assert_eq!(granted, 1);
    assert!(world.now < began + 1_000);
}

#[test]
fn a_lock_key_deleted_by_hand_is_told_as_expired_after_the_next_survey() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    world.write(holdfast_store::Txn {
        then: vec![TxnOp::Delete(KeyRange::one("/locks/n"))],
        ..Default::default()
    });
    let ended = world.run_until(1_000_000, |world| {
        world.run(5_000);
        !is_renewed(world.renew(0, &hold).unwrap())
    });
    assert!(ended);
    assert_eq!(
        world.renew(0, &hold).unwrap(),
        RenewOutcome::Ended(Ended::Expired)
    );
}

#[test]
fn leases_revoked_by_hand_are_told_and_acquires_go_on() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    let leases: Vec<_> = world.model.leases().collect();
    for lease in leases {
        world.by_hand(&Op::LeaseRevoke { lease });
    }
    let told = world.run_until(5_000, |world| {
        world.run(100);
        world.renew(0, &hold) == Ok(RenewOutcome::Ended(Ended::Expired))
    });
    assert!(told, "lost is told truthfully");
    let again = world.run_until(5_000, |world| {
        world.run(100);
        world.acquire(0, wish("c2", "n")).is_ok()
    });
    assert!(again);
    let (_, _) = refused(world.acquire(0, wish("c3", "n")).unwrap());
}

/// Whether records of locks are read, outside batches.
fn reads_locks(op: &Op) -> bool {
    let Op::Txn(txn) = op else { return false };
    txn.then.iter().any(|op| match op {
        TxnOp::Get(get) => get.range.start.as_bytes().starts_with(b"/locks/"),
        _ => false,
    })
}

#[test]
fn a_grant_that_is_resolved_after_its_group_was_claimed_anew_leaves_the_new_table_alone() {
    for meddled_after in (0..6_000).step_by(500) {
        let mut world = World::ready();
        let kept = world.hold(0, with_ttl(wish("c0", "n"), 120_000));
        let began = world.now;
        world.link = Box::new(move |_, op, now| match now - began {
            0..6_000 if is_grant(op) => Fate::LoseRequest,
            // What became of it is not seen for as long as a claim of its group takes.
            0..14_000 if reads_locks(op) => Fate::Refuse,
            _ => PASS,
        });
        let ticket = world.begin_acquire(0, wish("c1", "n-of-the-same-shard"));
        world.run(meddled_after);
        world.give_groups_away();
        world.run(20_000);
        world.answer(ticket);
        assert!(
            is_renewed(world.renew(0, &kept).unwrap()),
            "{meddled_after}"
        );
    }
}
