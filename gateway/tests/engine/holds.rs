//! The life of a hold in quiet weather.

use crate::world::{World, wish, with_request, with_ttl};
use holdfast_gateway::names::Token;
use holdfast_gateway::service::{
    AcquireOutcome, Ended, Grant, Refusal, ReleaseOutcome, RenewOutcome,
};

pub fn refused(outcome: AcquireOutcome) -> (Refusal, u64) {
    match outcome {
        AcquireOutcome::Refused { reason, free_in } => (reason, free_in.as_ms()),
        AcquireOutcome::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

pub fn is_renewed(outcome: RenewOutcome) -> bool {
    matches!(outcome, RenewOutcome::Renewed(_))
}

#[test]
fn a_lock_is_granted_renewed_released_and_granted_again_with_a_higher_token() {
    let mut world = World::ready();
    let first = world.hold(0, wish("c1", "n"));
    assert_eq!(first.told.ttl.as_ms(), 29_700);
    assert_eq!(world.locks(), 1);
    world.run(10_000);
    assert!(is_renewed(world.renew(0, &first).unwrap()));
    assert_eq!(world.release(0, &first).unwrap(), ReleaseOutcome::Released);
    assert_eq!(world.locks(), 0);
    let second = world.hold(0, wish("c2", "n"));
    assert!(second.token > first.token);
    assert_eq!(
        world.renew(0, &first).unwrap(),
        RenewOutcome::Ended(Ended::Stolen)
    );
    assert_eq!(world.release(0, &first).unwrap(), ReleaseOutcome::Released);
    assert!(is_renewed(world.renew(0, &second).unwrap()));
}

#[test]
fn a_held_lock_is_refused_until_its_deadline_and_free_soon_after() {
    let mut world = World::ready();
    world.hold(0, wish("c1", "n"));
    world.run(10_000);
    let (reason, free_in) = refused(world.acquire(0, wish("c2", "n")).unwrap());
    assert_eq!(reason, Refusal::Held);
    assert!((19_900..=20_000).contains(&free_in), "{free_in}");
    world.run(19_800);
    refused(world.acquire(0, wish("c2", "n")).unwrap());
    world.run(450);
    world.hold(0, wish("c2", "n"));
}

#[test]
fn the_same_client_gets_its_hold_back_and_another_request_does_not() {
    let mut world = World::ready();
    let first = world.hold(0, wish("c1", "n"));
    world.run(20_000);
    let again = world.hold(0, wish("c1", "n"));
    assert!(again.already_held && again.lock_id == first.lock_id && again.token == first.token);
    world.run(20_000);
    assert!(
        is_renewed(world.renew(0, &first).unwrap()),
        "re-entry renews"
    );
    let (reason, _) = refused(
        world
            .acquire(0, with_request(wish("c1", "n"), "r"))
            .unwrap(),
    );
    assert_eq!(reason, Refusal::HeldByYou);
    let held = world.hold(0, with_request(wish("c1", "m"), "r1"));
    let retried = world.hold(0, with_request(wish("c1", "m"), "r1"));
    assert_eq!(held.token, retried.token);
    let (reason, _) = refused(
        world
            .acquire(0, with_request(wish("c1", "m"), "r2"))
            .unwrap(),
    );
    assert_eq!(reason, Refusal::HeldByYou);
    let (reason, _) = refused(world.acquire(0, wish("c1", "m")).unwrap());
    assert_eq!(reason, Refusal::HeldByYou);
}

#[test]
fn re_entry_while_the_hold_is_ending_waits_for_the_end_and_acquires_anew() {
    let mut world = World::ready();
    let first = world.hold(0, wish("c1", "n"));
    world.begin_release(0, &first);
    let second = world.hold(0, wish("c1", "n"));
    assert!(!second.already_held && second.token > first.token);
    assert_eq!(world.locks(), 1);
}

#[test]
fn a_renewal_for_longer_rewrites_the_record_and_keeps_the_token() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    let RenewOutcome::Renewed(told) = world.renew_for(0, &hold, Some(120_000)).unwrap() else {
        panic!("not renewed")
    };
    assert_eq!(told.ttl.as_ms(), 118_800);
    world.run(100_000);
    assert!(
        is_renewed(world.renew(0, &hold).unwrap()),
        "its own TTL is the longer one"
    );
    assert_eq!(world.release(0, &hold).unwrap(), ReleaseOutcome::Released);
    assert_eq!(world.locks(), 0);
    let longer = world.hold(0, wish("c1", "m"));
    let again = world.hold(0, with_ttl(wish("c1", "m"), 300_000));
    assert!(again.already_held && again.token == longer.token);
    assert_eq!(again.told.ttl.as_ms(), 297_000);
}

#[test]
fn a_renewal_for_less_answers_that_and_leaves_the_longer_deadline() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    let RenewOutcome::Renewed(told) = world.renew_for(0, &hold, Some(2_000)).unwrap() else {
        panic!("not renewed")
    };
    assert_eq!(told.ttl.as_ms(), 1_980);
    world.run(25_000);
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
}

#[test]
fn a_wrong_token_changes_nothing() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    let wrong = Grant {
        token: Token(hold.token.0 + 1),
        ..hold.clone()
    };
    assert_eq!(
        world.renew(0, &wrong).unwrap(),
        RenewOutcome::Ended(Ended::Stolen)
    );
    assert_eq!(
        world.release(0, &wrong).unwrap(),
        ReleaseOutcome::TokenMismatch
    );
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
}

#[test]
fn a_lock_id_that_no_table_knows_is_looked_up_by_name() {
    let mut world = World::new(2);
    world.run_until_proven(0);
    world.run_until_proven(1);
    let hold = world.hold(0, wish("c1", "n"));
    world.release(0, &hold).unwrap();
    assert_eq!(
        world.renew(1, &hold).unwrap(),
        RenewOutcome::Ended(Ended::Expired)
    );
    world.hold(0, wish("c2", "n"));
    assert_eq!(
        world.renew(1, &hold).unwrap(),
        RenewOutcome::Ended(Ended::Stolen)
    );
    assert_eq!(world.release(1, &hold).unwrap(), ReleaseOutcome::Released);
    assert_eq!(world.locks(), 1);
}

#[test]
fn many_locks_fill_many_groups_and_empty_groups_are_retired() {
    let mut world = World::ready();
    let tickets: Vec<_> = (0..9_000)
        .map(|i| world.begin_acquire(0, wish("c", &format!("n{i}"))))
        .collect();
    let mut granted = 0;
    for ticket in tickets {
        let answer = world.answer(ticket);
        granted += usize::from(format!("{answer:?}").contains("Granted"));
    }
    assert_eq!(granted, 9_000);
    assert_eq!(world.locks(), 9_000);
    let groups = world
        .read(holdfast_store::KeyRange::prefix("/holdfast/groups/"))
        .len();
    assert!((9..=17).contains(&groups), "{groups}");
    world.run(32_000);
    assert_eq!(world.locks(), 0, "all of them expired");
    world.run(700_000);
    assert_eq!(
        world
            .read(holdfast_store::KeyRange::prefix("/holdfast/groups/"))
            .len(),
        0
    );
    assert!(
        world.model.leases().count() <= 2,
        "the session's and the spare one"
    );
}

#[test]
fn nothing_is_granted_without_a_guard() {
    let mut world = World::ready();
    let shard = crate::world::shard_of("n");
    let guard = shard_map::records::keys::guard(shard);
    world.write(holdfast_store::Txn {
        then: vec![holdfast_store::TxnOp::Delete(
            holdfast_store::KeyRange::one(guard.clone()),
        )],
        ..Default::default()
    });
    assert_eq!(
        world.acquire(0, wish("c1", "n")).unwrap_err().code.as_str(),
        "shard_moving"
    );
    world.put(
        guard,
        shard_map::records::Record::to_value(&shard_map::records::Guard::first()),
    );
    world.run(50);
    world.hold(0, wish("c1", "n"));
}

#[test]
fn a_guard_that_changes_under_a_cached_one_refuses_the_grant() {
    let mut world = World::ready();
    let first = world.hold(0, wish("c1", "n"));
    world.release(0, &first).unwrap();
    let shard = crate::world::shard_of("n");
    let mut guard = shard_map::records::Guard::first();
    guard.state = shard_map::records::GuardState::Leaving;
    world.put(
        shard_map::records::keys::guard(shard),
        shard_map::records::Record::to_value(&guard),
    );
    assert_eq!(
        world.acquire(0, wish("c1", "n")).unwrap_err().code.as_str(),
        "shard_moving"
    );
    assert_eq!(world.locks(), 0);
}

#[test]
fn an_etcd_without_space_refuses_acquires_and_serves_the_rest() {
    let mut world = World::ready();
    let hold = world.hold(0, wish("c1", "n"));
    world.model.set_no_space(true);
    world.run(3_000);
    // The first one after a while may still meet what was read before.
    let _ = world.acquire(0, wish("c1", "m"));
    let error = world.acquire(0, wish("c1", "o")).unwrap_err();
    assert_eq!(error.code.as_str(), "cluster_unavailable");
    assert!(is_renewed(world.renew(0, &hold).unwrap()));
    assert_eq!(world.release(0, &hold).unwrap(), ReleaseOutcome::Released);
    world.model.set_no_space(false);
    world.run(3_000);
    world.hold(0, wish("c1", "q"));
}
