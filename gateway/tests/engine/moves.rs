//! Shards that move.

use crate::holds::refused;
use crate::pair::{A, B, NAMES, Pair, SHARD, puts, writes};
use holdfast_gateway::engine::{Answer, Input, Table};
use holdfast_gateway::limits::{COPIES_PER_BATCH_MAX, MOVE_REST_TIMES};
use holdfast_gateway::names::Principal;
use holdfast_gateway::service::{AcquireOutcome, Refusal, RenewOutcome};
use holdfast_gateway::time::Millis;
use holdfast_store::Op;
use shard_map::records::{Guard, GuardState, Record, keys};
use shard_map::{Epoch, ShardId};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

#[test]
fn a_held_lock_moves_and_every_renewal_is_answered_from_memory() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.shard_leaves();
    pair.run_with(6_000, |pair| assert!(pair.renews_from_memory(&grant)));
    assert_eq!(pair.records(), [0, 1]);
    assert_eq!(pair.read(A, "/holdfast/groups/").len(), 0);
    let group = String::from_utf8(pair.read(B, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(!group.contains("from"), "{group}");
    let record = String::from_utf8(pair.read(B, "/locks/")[0].value.clone()).unwrap();
    assert!(
        record.contains(&format!("\"token\":{}", grant.token.0)),
        "{record}"
    );
    let again = pair.granted(B, "one");
    assert!(again.already_held);
    assert_eq!((again.lock_id, again.token), (grant.lock_id, grant.token));
}

#[test]
fn what_a_principal_has_is_counted_once_while_it_moves_and_where_it_is_then() {
    let mut pair = Pair::with_table(Arc::new(Table::new(NonZeroU32::new(1))));
    let p = Principal::new("p");
    let ticket = pair.acquire_for(Some(&p), A, "one", "n");
    let grant = pair.grant_of(ticket);
    pair.shard_leaves();
    pair.run_with(6_000, |pair| assert_eq!(pair.table.locks_of(&p), 1));
    assert_eq!(pair.records(), [0, 1]);
    for at in [A, B] {
        let ticket = pair.acquire_for(Some(&p), at, "one", "another");
        pair.run(200);
        match pair.answers.remove(&ticket) {
            Some(Answer::Acquire(Err(error))) => {
                assert_eq!(error.code.as_str(), "quota_exceeded");
            }
            other => panic!("{other:?}"),
        }
        let ticket = pair.acquire_for(Some(&p), at, "one", "n");
        assert_eq!(pair.grant_of(ticket).lock_id, grant.lock_id);
    }
    let ticket = pair.release(B, &grant);
    pair.run(200);
    assert!(pair.is_released(ticket));
    assert_eq!(pair.table.locks_of(&p), 0);
}

#[test]
fn a_name_that_is_held_where_its_shard_comes_from_is_refused_where_it_goes() {
    let mut pair = Pair::ready();
    pair.withheld = |at, op| at == B && puts(op, "arriving");
    let grant = pair.granted(A, "one");
    pair.shard_leaves();
    let ticket = pair.acquire(B, "two");
    pair.run(200);
    let refused = Some(Refusal::Held);
    let found = match pair.answers.get(&ticket) {
        Some(Answer::Acquire(Ok(AcquireOutcome::Refused { reason, .. }))) => Some(*reason),
        _ => None,
    };
    assert_eq!(found, refused);
    assert!(
        pair.granted(B, "one").already_held,
        "re-entry goes to the owner"
    );
    assert!(pair.renews_from_memory(&grant));
}

/// There is no record of it here, as there is none of a name that is free.
#[test]
fn a_wait_in_vain_for_a_name_that_is_held_where_its_shard_comes_from_is_not_told_that_it_is_free() {
    // Those who came before the shard left, and those who came afterwards, with the old map and the new.
    for (at, before) in [(A, true), (A, false), (B, false)] {
        let mut pair = Pair::ready();
        pair.withheld = |at, op| at == B && puts(op, "arriving");
        pair.granted(A, "one");
        if !before {
            pair.shard_leaves();
        }
        let ticket = pair.wait_for_name(at, "two", 2_000);
        if before {
            pair.run(500);
            pair.shard_leaves();
        }
        pair.run(2_300);
        let (reason, free_in) = match pair.answers.remove(&ticket) {
            Some(Answer::Acquire(Ok(outcome))) => refused(outcome),
            other => panic!("{other:?}"),
        };
        assert!(matches!(reason, Refusal::Timeout(_)), "{reason:?}");
        // The hold has a TTL of 30 s, and began less than 4 s ago.
        assert!(free_in >= 26_000, "{}, {before}: {free_in}", NAMES[at]);
        assert_eq!(pair.records(), [1, 0]);
    }
}

#[test]
fn a_request_follows_the_guard_whatever_the_map_says_and_tokens_grow() {
    let mut pair = Pair::ready();
    let first = pair.granted(A, "one");
    let released = pair.release(A, &first);
    pair.shard_leaves();
    pair.run(3_000);
    assert!(pair.is_released(released));
    let second = pair.granted(A, "two");
    assert!(second.token > first.token);
    assert_eq!(pair.records(), [0, 1]);
}

#[test]
fn a_source_is_asked_only_as_long_as_the_guard_names_it() {
    let mut pair = Pair::ready();
    pair.shard_leaves();
    let first = pair.granted(B, "one");
    let guard = pair.read(B, "/holdfast/shards/").remove(0);
    let arriving = Guard::from_value(&guard.key, &guard.value).unwrap();
    let here = Guard {
        from: None,
        ..arriving
    };
    pair.put(B, keys::guard(SHARD), here.to_value());
    // The source may be gone for good from now on.
    pair.withheld = |at, _| at == A;
    let ticket = pair.acquire_name(B, "two", "m");
    assert!(pair.grant_of(ticket).token > first.token);
}

#[test]
fn a_release_in_the_middle_of_a_move_leaves_no_copy_behind() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    // The copies are put, and the switch is not carried out.
    pair.withheld = |at, op| at == A && writes(op, "shards/0") && writes(op, "Delete");
    pair.shard_leaves();
    pair.run(3_000);
    assert_eq!(pair.records(), [1, 1]);
    let ticket = pair.release(A, &grant);
    pair.run(1_000);
    assert!(!pair.is_released(ticket), "a copy is still there");
    assert_eq!(pair.records(), [1, 1]);
}

#[test]
fn a_switch_is_refused_under_another_guard_and_the_move_is_undone() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.withheld = |at, op| at == B && puts(op, "arriving");
    pair.shard_leaves();
    pair.run(3_000);
    let marked = String::from_utf8(pair.read(A, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(marked.contains("\"to\":"), "{marked}");
    let back = Guard {
        epoch: Epoch(3),
        ..Guard::first()
    };
    pair.put(A, keys::guard(SHARD), back.to_value());
    pair.run_with(6_000, |pair| assert!(pair.renews_from_memory(&grant)));
    let group = String::from_utf8(pair.read(A, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(!group.contains("\"to\":"), "{group}");
    assert_eq!(pair.records(), [1, 0]);
}

#[test]
fn a_renewal_that_an_engine_must_look_at_is_answered_after_the_move() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.shard_leaves();
    pair.run(5_000);
    let ticket = pair.ask_for_longer(A, &grant, 60);
    pair.run(500);
    let answer = pair.answers.get(&ticket);
    assert!(matches!(
        answer,
        Some(Answer::Renew(Ok(RenewOutcome::Renewed(_))))
    ));
}

#[test]
fn what_comes_for_a_survey_that_was_given_up_is_not_taken_for_the_list_of_a_move() {
    let mut pair = Pair::ready();
    let first = pair.granted(A, "one");
    // The comparison of the table with etcd lists one lock, and its reply is late.
    pair.held_back = |_, op| matches!(op, Op::LeaseKeys { .. });
    for _ in 0..100 {
        pair.wait(10);
        assert!(pair.renews_from_memory(&first));
    }
    assert_eq!(pair.late.len(), 1, "the comparison waits for its list");
    let ticket = pair.acquire_name(A, "two", "m");
    let second = pair.grant_of(ticket);
    // Meanwhile the group moves with two, and lists them itself; that reply is withheld.
    pair.withheld = |_, op| matches!(op, Op::LeaseKeys { .. });
    pair.shard_leaves();
    pair.run(3_000);
    pair.let_go();
    pair.run(500);
    pair.held_back = |_, _| false;
    pair.withheld = |_, _| false;
    pair.run(20_000);
    assert_eq!(pair.records(), [0, 2]);
    for grant in [&first, &second] {
        assert!(pair.renews_from_memory(grant));
    }
}

#[test]
fn a_move_whose_last_word_is_lost_ends_all_the_same() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.lost_word = "Take";
    pair.shard_leaves();
    for _ in 0..6 {
        pair.wait(10);
        assert!(pair.renews_from_memory(&grant));
    }
    let group = String::from_utf8(pair.read(B, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(!group.contains("from"), "{group}");
    assert_eq!(pair.records(), [0, 1]);
    let released = pair.release(A, &grant);
    pair.run(200);
    assert!(pair.is_released(released));
    assert_eq!(pair.records(), [0, 0]);
}

#[test]
fn a_request_that_went_on_is_answered_within_its_own_time() {
    let mut pair = Pair::ready();
    pair.shard_leaves();
    pair.run(3_000);
    // The look in the source and the guard here are both held up.
    pair.withheld = |at, op| at == B && writes(op, "/locks/") || at == A && writes(op, "/locks/");
    let asked = pair.now;
    let early = pair.acquire(A, "one");
    pair.run(2_000);
    let late = pair.acquire_name(B, "one", "m");
    pair.run(2_500);
    assert!(pair.answers.contains_key(&early), "asked at {asked}");
    assert!(!pair.answers.contains_key(&late));
    pair.run(2_010);
    assert!(pair.answers.contains_key(&late));
}

#[test]
fn an_acquire_does_not_wait_for_a_driver_that_died_between_two_guards() {
    let mut pair = Pair::ready();
    let wanted = pair.shard_begins_to_leave(2);
    let ticket = pair.acquire(A, "one");
    let grant = pair.grant_of(ticket);
    assert_eq!(pair.guard(B), wanted);
    assert!(grant.token.0 > wanted.token_base.get());
    assert_eq!(pair.records(), [0, 1]);
}

#[test]
fn a_shard_that_was_there_before_is_followed_too() {
    let mut pair = Pair::ready();
    let moved = Guard {
        epoch: Epoch(2),
        state: GuardState::Moved,
        to: Some(NAMES[A].parse().unwrap()),
        ..Guard::first()
    };
    pair.put(B, keys::guard(SHARD), moved.to_value());
    let wanted = pair.shard_begins_to_leave(4);
    let ticket = pair.acquire(B, "one");
    pair.grant_of(ticket);
    assert_eq!(pair.guard(B), wanted);
}

#[test]
fn groups_that_wait_to_leave_have_the_guard_written_where_they_go() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    let wanted = pair.shard_begins_to_leave(2);
    pair.run_with(6_000, |pair| assert!(pair.renews_from_memory(&grant)));
    assert_eq!(pair.guard(B), wanted);
    assert_eq!(pair.records(), [0, 1]);
}

#[test]
fn between_two_guards_that_both_refuse_an_acquire_waits_and_is_answered_in_time() {
    let mut pair = Pair::ready();
    let leaving = |to: usize, epoch| Guard {
        epoch: Epoch(epoch),
        state: GuardState::Leaving,
        to: Some(NAMES[to].parse().unwrap()),
        ..Guard::first()
    };
    // As in the middle of a rollback: what comes next is written by the driver alone.
    pair.put(A, keys::guard(SHARD), leaving(B, 2).to_value());
    pair.put(B, keys::guard(SHARD), leaving(A, 2).to_value());
    let ticket = pair.acquire(A, "one");
    pair.run(3_000);
    assert!(!pair.answers.contains_key(&ticket));
    pair.put(
        A,
        keys::guard(SHARD),
        Guard {
            epoch: Epoch(3),
            ..Guard::first()
        }
        .to_value(),
    );
    pair.grant_of(ticket);
}

#[test]
fn holds_end_as_ever_while_the_cluster_that_they_are_to_go_to_does_not_answer() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    let ticket = pair.acquire_name(A, "two", "m");
    let expires = pair.grant_of(ticket);
    pair.shard_leaves();
    pair.withheld = |at, _| at == B;
    pair.run(3_000);
    let released = pair.release(A, &grant);
    pair.run(50);
    assert!(pair.is_released(released));
    assert_eq!(pair.records(), [1, 0]);
    pair.run(expires.told.ttl.as_ms());
    assert_eq!(
        pair.records(),
        [0, 0],
        "it is free when nobody has renewed it"
    );
}

#[test]
fn groups_go_one_at_a_time_and_the_next_waits_several_times_as_long_as_the_last_one_took() {
    const TOOK: u64 = 200;
    let mut pair = Pair::ready();
    pair.groups_of_shards(3);
    // A move is as long as its copies are not confirmed.
    pair.held_back = |at, op| at == B && writes(op, "/locks/");
    for shard in (0..3).map(ShardId) {
        let here = pair.one_begins_to_leave(shard, 2);
        pair.put(B, keys::guard(shard), here.to_value());
    }
    pair.run(2_000);
    for gone in 1..=3 {
        while pair.marked() == 0 {
            pair.run(10);
        }
        pair.run_with(TOOK, |pair| {
            assert_eq!((pair.marked(), pair.records()[B]), (1, gone));
        });
        pair.let_go();
        pair.run_with(MOVE_REST_TIMES * TOOK - 10, |pair| {
            assert_eq!((pair.marked(), pair.records()[B]), (0, gone));
        });
    }
    assert_eq!(pair.records(), [0, 3]);
}

#[test]
fn no_batch_carries_more_copies_than_it_may() {
    let mut pair = Pair::ready();
    const LOCKS: usize = 3 * COPIES_PER_BATCH_MAX;
    for name in 0..LOCKS {
        pair.acquire_name(A, "one", &format!("n{name}"));
    }
    pair.shard_leaves();
    pair.run(3_000);
    assert_eq!(pair.records(), [0, LOCKS]);
    let mut of_batch: HashMap<_, usize> = HashMap::new();
    for copy in pair.read(B, "/locks/") {
        *of_batch.entry(copy.mod_revision).or_default() += 1;
    }
    assert!(
        of_batch
            .values()
            .all(|copies| *copies <= COPIES_PER_BATCH_MAX)
    );
}

#[test]
fn what_operators_are_shown_of_a_shard_that_has_moved_is_true_soon_after() {
    let mut pair = Pair::ready();
    pair.granted(A, "one");
    pair.shard_leaves();
    pair.run(5_000);
    assert_eq!(pair.shown(A), Some("leaving"));
    pair.shard_has_left();
    pair.run(2_100);
    assert_eq!(
        [A, B].map(|at| pair.shown(at)),
        [Some("moved"), Some("active")]
    );
}

#[test]
fn what_operators_are_shown_becomes_true_though_nothing_of_the_shard_is_here() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.release(A, &grant);
    pair.wait(620);
    assert_eq!(pair.read(A, "/holdfast/groups/").len(), 0);
    // Moved by others, from beginning to end.
    pair.shard_leaves();
    pair.shard_has_left();
    assert_eq!(pair.shown(A), Some("active"));
    pair.wait(90);
    assert_eq!(pair.shown(A), Some("moved"));
}

#[test]
fn no_move_is_undone_because_the_guard_of_its_goal_has_not_been_read_or_written_there_yet() {
    for step_three in [true, false] {
        let mut pair = Pair::ready();
        pair.granted(A, "one");
        let here = pair.shard_begins_to_leave(2);
        if step_three {
            pair.put(B, keys::guard(SHARD), here.to_value());
        }
        pair.run(2_300);
        assert_eq!(pair.records(), [0, 1], "step three: {step_three}");
        assert_eq!(pair.engines[A].stats().moves_undone.get(), 0);
    }
}

#[test]
fn no_group_comes_to_a_cluster_whose_guard_has_changed_since_it_was_asked_for_a_place() {
    let mut pair = Pair::ready();
    pair.granted(A, "one");
    pair.held_back = |at, op| at == B && matches!(op, Op::LeaseGrant { .. });
    pair.shard_leaves();
    pair.run(3_000);
    // The rollout is taken back, and the driver counts the groups in `b`: there is none.
    let back = Guard {
        epoch: Epoch(3),
        state: GuardState::Leaving,
        from: None,
        to: Some(NAMES[A].parse().unwrap()),
        ..pair.guard(B)
    };
    pair.put(B, keys::guard(SHARD), back.to_value());
    pair.held_back = |_, _| false;
    pair.let_go();
    pair.run(100);
    assert_eq!(pair.records(), [1, 0]);
    assert_eq!(pair.read(B, "/holdfast/groups/").len(), 0);
}

#[test]
fn a_lease_that_an_earlier_try_had_asked_for_and_that_comes_late_takes_no_place() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.held_back = |at, op| at == B && matches!(op, Op::LeaseGrant { .. });
    pair.shard_leaves();
    pair.run(3_000);
    // Under another guard the move begins anew, and asks for a lease of its own.
    pair.shard_begins_to_leave(3);
    pair.run(3_000);
    assert_eq!(pair.late.len(), 2, "both are on their way");
    let latest = pair.late.pop();
    pair.held_back = |at, op| at == A && writes(op, "shards/0") && writes(op, "Delete");
    pair.let_go();
    pair.run(1_000);
    assert_eq!(
        pair.late.len(),
        1,
        "the switch has happened and nobody knows"
    );
    pair.held_back = |_, _| false;
    pair.inbox.extend(latest);
    pair.drain();
    pair.let_go();
    pair.run_with(10_000, |pair| assert!(pair.renews_from_memory(&grant)));
    assert_eq!(pair.records(), [0, 1]);
    let released = pair.release(B, &grant);
    pair.run(200);
    assert!(pair.is_released(released));
}

#[test]
fn a_gateway_that_stops_before_a_place_has_its_key_leaves_no_lease_there() {
    let mut pair = Pair::ready();
    pair.granted(A, "one");
    let before: Vec<_> = pair.models[B].leases().collect();
    pair.held_back = |at, op| at == B && matches!(op, Op::LeaseGrant { .. });
    pair.shard_leaves();
    pair.run(3_000);
    assert_eq!(pair.models[B].leases().count(), before.len() + 1);
    for at in [A, B] {
        pair.inbox.push_back((at, Input::Stop));
    }
    pair.run(200);
    let left: Vec<_> = pair.models[B]
        .leases()
        .filter(|lease| !before.contains(lease))
        .collect();
    assert_eq!(left, []);
}

#[test]
fn who_asks_for_longer_while_the_group_moves_is_promised_no_more_than_asked_for() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    let told = |pair: &Pair, ticket| match pair.answers.get(ticket) {
        Some(Answer::Renew(Ok(RenewOutcome::Renewed(told)))) => Some(told.ttl),
        _ => None,
    };
    // The record is read for one, and is rewritten for another meanwhile.
    pair.held_back = |at, op| at == A && writes(op, "/locks/");
    let asks_for_40 = pair.ask_for_longer(A, &grant, 40);
    pair.held_back = |_, _| false;
    let asks_for_60 = pair.ask_for_longer(A, &grant, 60);
    assert!(told(&pair, &asks_for_60) > Some(Millis::from_secs(59)));
    // From the mark on none is.
    pair.withheld = |at, op| at == B && puts(op, "arriving");
    pair.shard_leaves();
    pair.run(3_000);
    assert_eq!(pair.marked(), 1);
    pair.let_go();
    let of_40 = told(&pair, &asks_for_40);
    assert!(
        of_40.is_some() && of_40 <= Some(Millis::from_secs(40)),
        "{of_40:?}"
    );
}

#[test]
fn as_long_as_a_record_is_left_in_the_source_nobody_is_told_too_early_an_end() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.withheld = |at, op| at == A && matches!(op, Op::LeaseRevoke { .. });
    pair.shard_leaves();
    pair.run(3_000);
    assert_eq!(pair.read(A, "/holdfast/groups/").len(), 0);
    assert_eq!(pair.records(), [1, 1]);
    let renewal = pair.ask_for_longer(B, &grant, 60);
    pair.run(50);
    let held_for = match pair.answers.get(&renewal) {
        Some(Answer::Renew(Ok(RenewOutcome::Renewed(told)))) => told.ttl.as_ms() - 50,
        other => panic!("{other:?}"),
    };
    let ticket = pair.acquire(B, "two");
    pair.run(50);
    match pair.answers.remove(&ticket) {
        Some(Answer::Acquire(Ok(outcome))) => assert!(refused(outcome).1 >= held_for),
        other => panic!("{other:?}"),
    }
}
