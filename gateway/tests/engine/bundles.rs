//! Writes that share compares: what one of them meets is nothing to the others.

use crate::holds::refused;
use crate::world::{Fate, World, is_grant, shard_of, wish};
use holdfast_gateway::engine::{Answer, Ticket};
use holdfast_gateway::service::{AcquireOutcome, Grant, Refusal, ReleaseOutcome};
use holdfast_store::{KeyRange, Op, Txn, TxnOp};
use shard_map::ShardId;
use shard_map::records::{Guard, Record, keys};
use std::cell::RefCell;
use std::rc::Rc;

/// So many names of this shard.
fn names(shard: u32, count: usize) -> Vec<String> {
    let all = (0..).map(|n| format!("name-{n}"));
    let of_shard = all.filter(|name| shard_of(name) == ShardId(shard));
    of_shard.take(count).collect()
}

/// A gateway with a group in each shard and nothing to do.
fn ready() -> World {
    let mut world = World::ready();
    for shard in 0..4 {
        let grant = world.hold(0, wish("c", &names(shard, 1)[0]));
        assert_eq!(world.release(0, &grant).unwrap(), ReleaseOutcome::Released);
    }
    world
}

/// Asks for all of them while small batches are on their way, so that they leave together.
fn begin_all(world: &mut World, names: &[String]) -> Vec<Ticket> {
    // In shard 0, so that nothing is learnt about the others meanwhile.
    let first = (0..).map(|n| format!("first-{n}-{}", world.now));
    let first = first.filter(|name| shard_of(name) == ShardId(0)).take(2);
    for name in first.collect::<Vec<_>>() {
        world.begin_acquire(0, wish("first", &name));
    }
    let asked = names.iter();
    asked
        .map(|name| world.begin_acquire(0, wish("c", name)))
        .collect()
}

fn outcome(world: &mut World, ticket: Ticket) -> AcquireOutcome {
    match world.answer(ticket) {
        Answer::Acquire(Ok(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

fn granted(world: &mut World, ticket: Ticket) -> Grant {
    match outcome(world, ticket) {
        AcquireOutcome::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

/// How many writes each bundle has that a transaction consists of.
fn bundles(op: &Op) -> Vec<usize> {
    let Op::Txn(txn) = op else { return Vec::new() };
    let inner = txn.then.iter().filter_map(|op| match op {
        TxnOp::Txn(inner) => Some(inner.then.len()),
        _ => None,
    });
    inner.skip(1).collect()
}

#[test]
fn grants_of_one_shard_share_a_bundle_and_a_revision() {
    let mut world = ready();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&seen);
    world.link = Box::new(move |_, op, _| {
        if is_grant(op) {
            told.borrow_mut().push(bundles(op));
        }
        Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        }
    });
    let wanted = [names(1, 10), names(2, 5)].concat();
    let tickets = begin_all(&mut world, &wanted);
    let grants: Vec<_> = tickets
        .iter()
        .map(|ticket| granted(&mut world, *ticket))
        .collect();
    assert!(grants.iter().all(|grant| grant.token == grants[0].token));
    assert_eq!(seen.borrow().last(), Some(&vec![10, 5]));
}

#[test]
fn a_held_name_refuses_its_own_grant_only() {
    let mut world = ready();
    let wanted = names(1, 9);
    world.hold(0, wish("holder", &wanted[4]));
    for _ in 0..2 {
        let tickets = begin_all(&mut world, &wanted);
        let mut held = Vec::new();
        for (at, ticket) in tickets.into_iter().enumerate() {
            match outcome(&mut world, ticket) {
                AcquireOutcome::Granted(grant) => held.push(grant),
                other => {
                    assert_eq!((at, refused(other).0), (4, Refusal::Held));
                }
            }
        }
        assert_eq!(held.len(), 8);
        for grant in held {
            world.release(0, &grant).unwrap();
        }
    }
}

#[test]
fn a_guard_that_flips_refuses_the_grants_of_its_shard_only() {
    let mut world = ready();
    let wanted = [names(1, 3), names(2, 3), names(3, 3)].concat();
    world.put(keys::guard(ShardId(2)), Guard::first().to_value());
    let tickets = begin_all(&mut world, &wanted);
    let tokens: Vec<_> = tickets
        .into_iter()
        .map(|ticket| granted(&mut world, ticket).token)
        .collect();
    let first = tokens[0];
    assert!(tokens[..3].iter().all(|token| *token == first));
    assert!(
        tokens[3..6].iter().all(|token| *token > first),
        "after the guard was read again"
    );
    assert!(tokens[6..].iter().all(|token| *token == first));
}

#[test]
fn a_record_that_is_gone_does_not_keep_the_others_of_its_bundle() {
    let mut world = ready();
    let grants: Vec<_> = names(1, 6)
        .iter()
        .map(|name| world.hold(0, wish("c", name)))
        .collect();
    world.write(Txn {
        then: vec![TxnOp::Delete(KeyRange::one(
            format!("/locks/{}", grants[3].lock_id.name()).as_str(),
        ))],
        ..Txn::default()
    });
    let began = world.now;
    let tickets: Vec<_> = grants
        .iter()
        .map(|grant| world.begin_release(0, grant))
        .collect();
    for ticket in tickets {
        let answer = world.answer(ticket);
        assert!(
            matches!(answer, Answer::Release(Ok(ReleaseOutcome::Released))),
            "{answer:?}"
        );
    }
    assert_eq!(world.locks(), 0);
    assert!(world.now - began < 100, "{} ms", world.now - began);
}

#[test]
fn a_large_batch_whose_reply_is_lost_is_read_in_parts_and_told() {
    let mut world = ready();
    let mut lost = false;
    world.link = Box::new(move |_, op, _| {
        let large = is_grant(op) && bundles(op).iter().sum::<usize>() > 300;
        if large && !std::mem::replace(&mut lost, true) {
            return Fate::LoseReply { request_ms: 1 };
        }
        Fate::Pass {
            request_ms: 1,
            reply_ms: 1,
        }
    });
    let wanted: Vec<_> = (0..4).flat_map(|shard| names(shard, 100)).collect();
    let began = world.now;
    let tickets = begin_all(&mut world, &wanted);
    for ticket in tickets {
        granted(&mut world, ticket);
    }
    assert!(world.now - began > 4_000, "a reply was lost");
    assert_eq!(world.locks(), 400 + 2);
}

#[test]
fn holds_that_end_in_the_same_moment_are_gone_a_quarter_of_a_second_later() {
    let mut world = ready();
    let wanted: Vec<_> = (0..4).flat_map(|shard| names(shard, 500)).collect();
    let began = world.now;
    let tickets = begin_all(&mut world, &wanted);
    for ticket in tickets {
        granted(&mut world, ticket);
    }
    world.run(began + 30_000 - world.now);
    assert_eq!(world.locks(), 2_002);
    world.run(250);
    assert_eq!(world.locks(), 0);
}
