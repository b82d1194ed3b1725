//! The model alone: without etcd, and with time that passes.

use crate::sequences::{Names, runner, sequences};
use crate::target::Target;
use holdfast_store::{Key, KeyValue, Model, ModelTime, Revision, WatchEvent};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Sequences; one takes about a millisecond.
const SEQUENCES: u32 = 500;

// The clock stands still unless everything waits, so that a lease of two seconds ends at once.
#[tokio::test(start_paused = true)]
async fn the_model_keeps_the_contract() {
    crate::run_all_checks(Target::model()).await;
}

#[test]
fn the_events_of_random_sequences_tell_the_state_that_they_leave() {
    // The leases last 1000 and 2000 seconds.
    let passing_ms = vec(0..400_000_u64, 25);
    let elections = vec(prop::bool::weighted(0.05), 25);
    let input = (sequences(), passing_ms, elections);
    let (mut runner, seed) = runner(SEQUENCES);
    let outcome = runner.run(&input, |(steps, passing_ms, elections)| {
        let mut model = Model::new(1, 1);
        let mut now = ModelTime::default();
        let moments = passing_ms.into_iter().zip(elections);
        for (step, (ms, election)) in steps.iter().zip(moments) {
            now = now.plus_ms(ms);
            if election {
                model.elect_leader(now);
            }
            // What is refused must leave everything consistent, too.
            let _ = model.apply(now, &step.to_op(&names()));
            model.check_invariants();
            prop_assert!(model.next_expiry().is_none_or(|next| next > now));
        }
        prop_assert_eq!(state_by_events(&model), state(&model));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}\nrun it again with PROPTEST_RNG_SEED={seed}");
    }
}

fn names() -> Names {
    Names {
        prefix: "/sequence/".to_owned(),
        first_lease: 100,
        base: Revision(1),
    }
}

/// What someone knows who has read the events and nothing else.
fn state_by_events(model: &Model) -> BTreeMap<Key, KeyValue> {
    let range = names().everything();
    let mut state = BTreeMap::new();
    for event in model.events_from(Revision(1), &range).unwrap() {
        match event {
            WatchEvent::Put(kv) => drop(state.insert(kv.key.clone(), kv)),
            WatchEvent::Delete(key, _) => drop(state.remove(&key)),
            WatchEvent::Ended(why) => panic!("{why}"),
        }
    }
    state
}

fn state(model: &Model) -> BTreeMap<Key, KeyValue> {
    let keys = names().keys().into_iter();
    keys.filter_map(|key| Some((key.clone(), model.get(&key)?)))
        .collect()
}
