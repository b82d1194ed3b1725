//! The simulator's own tests: runs repeat, a sweep finds nothing, and deliberate mistakes are
//! found. The long sweep and the hunt for every mistake are `make sim-test`.

use holdfast_sim::{Fault, HUNTS, Mistake, Mutation, Plan, run, sweep};
use shard_map::rollout;
use std::collections::BTreeSet;

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    for seed in 0..12 {
        let plan = Plan {
            seed,
            traced: true,
            ..Plan::default()
        };
        let (one, two) = (run(plan), run(plan));
        assert_eq!(one.options, two.options);
        assert_eq!(one.trace, two.trace);
        assert_eq!(one.trace_hash, two.trace_hash);
        let untraced = run(Plan {
            traced: false,
            ..plan
        });
        assert_eq!(untraced.trace_hash, one.trace_hash);
    }
}

#[test]
fn other_seeds_give_other_runs() {
    let hash = |seed| {
        run(Plan {
            seed,
            ..Plan::default()
        })
        .trace_hash
    };
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_short_sweep_finds_nothing() {
    let swept = sweep(0..150, 2, 1, Plan::default());
    assert_eq!(swept.findings, []);
    assert_eq!(swept.seeds, 150);
}

#[test]
fn every_mistake_is_hunted() {
    let hunted: BTreeSet<_> = HUNTS.iter().map(|hunt| hunt.mutation).collect();
    // Its late write is mended here by drivers that always look.
    let mended = Mistake::Guards(rollout::Mutation::RestLeftAsItWas);
    let all = Mistake::all().filter(|mistake| *mistake != mended);
    assert_eq!(hunted, all.collect());
}

#[test]
fn a_mistake_that_was_found_is_found_again_to_the_byte() {
    let hunt = HUNTS
        .iter()
        .find(|hunt| hunt.mutation == Mistake::Engine(Mutation::TtlZeroIgnored))
        .expect("it is hunted");
    let (seed, finding) = hunt.find(0, 2).expect("it is found");
    let plan = Plan {
        traced: true,
        ..hunt.plan(seed)
    };
    let (one, two) = (run(plan), run(plan));
    assert_eq!(one.finding, Some(finding));
    assert_eq!(one.finding, two.finding);
    assert_eq!(one.trace, two.trace);
    assert_eq!(one.trace_hash, two.trace_hash);
}

#[test]
fn mistakes_that_are_easily_found_are_found() {
    for hunt in HUNTS.iter().filter(|hunt| hunt.seeds_max <= 100) {
        assert!(
            hunt.find(0, 2).is_some(),
            "{:?} is not found",
            hunt.mutation
        );
    }
}

/// A late duplicate of a grant left a record that nobody held.
#[test]
fn a_confirmed_grant_that_arrives_again_leaves_no_ghost() {
    let plan = Plan {
        focus: &[Fault::WriteDoubled],
        ..Plan::default()
    };
    assert_eq!(sweep(0..40, 2, 1, plan).findings, []);
}
