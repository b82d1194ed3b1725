//! `init` against clusters in memory: undisturbed, killed anywhere, and in company.

use super::test_world::{Fault, Faults, Request, World};
use super::*;
use crate::records::keys;
use crate::{Epoch, MapVersion, ShardId};
use holdfast_store::{KeyRange, Op, Put, Txn, TxnOp};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

fn put(key: impl Into<holdfast_store::Key>, value: &[u8]) -> Op {
    Op::Txn(Txn {
        then: vec![TxnOp::Put(Put {
            key: key.into(),
            value: value.into(),
            lease: None,
        })],
        ..Txn::default()
    })
}

fn delete(key: holdfast_store::Key) -> Op {
    Op::Txn(Txn {
        then: vec![TxnOp::Delete(KeyRange::one(key))],
        ..Txn::default()
    })
}

#[track_caller]
fn refused(result: Result<Initialised, InitError>, expected: &str) {
    match result {
        Err(InitError::Refused(refusal)) => {
            let text = refusal.to_string();
            assert!(text.contains(expected), "{text}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn init_writes_guards_and_identities_and_publishes_the_map() {
    let (world, request) = (World::new(), Request::default());
    let done = world.init(&request).await.unwrap();
    assert_eq!(done.outcome, Outcome::Done);
    assert_eq!(done.map, world.check_initialised(&request));
    assert_eq!(done.map.deployment(), DeploymentId::from_random_bits(1));
}

#[tokio::test(start_paused = true)]
async fn home_may_be_one_of_the_clusters() {
    let request = Request {
        home: 1,
        ..Request::default()
    };
    let world = World::new();
    world.init(&request).await.unwrap();
    world.check_initialised(&request);
}

#[tokio::test(start_paused = true)]
async fn the_largest_map_is_written_in_transactions_that_etcd_takes() {
    let request = Request {
        shards: 65_536,
        ..Request::default()
    };
    let world = World::new();
    world.init(&request).await.unwrap();
    world.check_initialised(&request);
}

#[tokio::test(start_paused = true)]
async fn the_same_init_again_writes_nothing_and_keeps_the_deployment() {
    let (world, request) = (World::new(), Request::default());
    let first = world.init(&request).await.unwrap();
    let again = Request {
        deployment: 2,
        clusters: vec![("b", 2), ("a", 1)],
        ..Request::default()
    };
    let second = world.init(&again).await.unwrap();
    assert_eq!(second.outcome, Outcome::Already);
    assert_eq!(second.map, first.map);
    world.check_initialised(&request);
}

/// A guard that is missing after the map was published was lost; one with token base 0 in its
/// place would repeat tokens.
#[tokio::test(start_paused = true)]
async fn init_again_does_not_replace_a_guard_that_was_lost() {
    let (world, request) = (World::new(), Request::default());
    world.init(&request).await.unwrap();
    let key = keys::guard(ShardId(3));
    world.apply(1, &delete(key.clone())).unwrap();
    world.init(&request).await.unwrap();
    assert_eq!(world.get(1, &key), None);
}

#[tokio::test(start_paused = true)]
async fn init_again_after_later_maps_reports_the_present_one() {
    let (world, request) = (World::new(), Request::default());
    let first = world.init(&request).await.unwrap().map;
    let mut document = first.document().clone();
    document.version = MapVersion(5);
    let later = ShardMap::try_from(document).unwrap();
    world
        .apply(0, &put(keys::map_current(), &later.to_json()))
        .unwrap();
    let again = world.init(&request).await.unwrap();
    assert_eq!((again.outcome, again.map), (Outcome::Already, later));
}

#[tokio::test(start_paused = true)]
async fn another_request_for_an_initialised_home_is_refused_and_says_how_it_differs() {
    let world = World::new();
    world.init(&Request::default()).await.unwrap();
    for (request, expected) in [
        (
            Request {
                shards: 128,
                ..Request::default()
            },
            "it has 256 shards, not 128",
        ),
        (
            Request {
                clusters: vec![("a", 1)],
                ..Request::default()
            },
            "it has a cluster b",
        ),
        (
            Request {
                clusters: vec![("a", 1), ("b", 2), ("c", 0)],
                ..Request::default()
            },
            "it has no cluster c",
        ),
    ] {
        refused(world.init(&request).await, expected);
    }
    world.check_initialised(&Request::default());
}

#[tokio::test(start_paused = true)]
async fn two_names_for_one_etcd_cluster_are_refused_by_name() {
    let request = Request {
        clusters: vec![("a", 1), ("b", 2), ("c", 1)],
        ..Request::default()
    };
    let world = World::new();
    refused(
        world.init(&request).await,
        "clusters a and c are one etcd cluster",
    );
    assert_eq!(world.get(0, &keys::map_init()), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_another_deployment_is_refused_and_nothing_is_written() {
    let world = World::new();
    let theirs = Request {
        clusters: vec![("x", 1)],
        ..Request::default()
    };
    world.init(&theirs).await.unwrap();
    let ours = Request {
        home: 2,
        deployment: 2,
        clusters: vec![("a", 1), ("b", 2)],
        ..Request::default()
    };
    refused(
        world.init(&ours).await,
        "cluster a is cluster x of deployment 00000000000000000000000000000001",
    );
    assert_eq!(world.get(2, &keys::map_init()), None);
    assert_eq!(world.get(2, &keys::identity()), None);
    world.check_initialised(&theirs);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_records_but_no_identity_is_refused() {
    for key in [
        "/locks/a",
        "/holdfast/shards/7",
        "/holdfast/groups/1/2",
        "/holdfast/sessions/1",
    ] {
        let world = World::new();
        world.apply(2, &put(key, b"{}")).unwrap();
        refused(world.init(&Request::default()).await, key);
        assert_eq!(world.get(0, &keys::map_init()), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_home_that_lost_its_map_is_refused() {
    let (world, request) = (World::new(), Request::default());
    world.init(&request).await.unwrap();
    world.apply(0, &delete(keys::map_current())).unwrap();
    refused(world.init(&request).await, "history of a map");
}

#[tokio::test(start_paused = true)]
async fn a_home_with_something_else_in_the_place_of_the_map_is_refused() {
    for key in [keys::map_current(), keys::map_init()] {
        let world = World::new();
        world.apply(0, &put(key.as_bytes(), b"{}")).unwrap();
        refused(
            world.init(&Request::default()).await,
            "home has something else at",
        );
    }
}

/// Kills or disturbs `init` at each of its calls in each way; then whoever repeats it finishes it,
/// and what arrives late changes nothing.
#[tokio::test(start_paused = true)]
async fn an_init_that_is_disturbed_at_any_call_is_finished_by_the_next() {
    let counted: Arc<Mutex<Faults>> = Arc::default();
    World::new()
        .run(&Request::default(), &counted)
        .await
        .unwrap();
    let calls = counted.lock().unwrap().calls;
    assert!(calls > 10, "{calls}");
    for fault in Fault::ALL {
        for at in 1..=calls {
            let (world, request) = (World::new(), Request::default());
            let faults: Arc<Mutex<Faults>> = Arc::default();
            faults.lock().unwrap().plan = Some((at, fault));
            let disturbed = world.run(&request, &faults).await;
            let killed = matches!(fault, Fault::KilledBefore | Fault::KilledAfter);
            assert_eq!(
                disturbed.is_err(),
                killed,
                "{fault:?} at {at}: {disturbed:?}"
            );
            let second = Request {
                deployment: 2,
                ..Request::default()
            };
            let finished = world.init(&second).await.unwrap();
            assert_eq!(world.check_initialised(&request), finished.map);
            world.deliver_late(&faults);
            assert_eq!(world.check_initialised(&request), finished.map);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_init_killed_part_way_says_so_and_another_request_is_refused_until_it_is_finished() {
    let world = World::new();
    let faults: Arc<Mutex<Faults>> = Arc::default();
    // Two reads of home, two surveys, the intention, an identity.
    faults.lock().unwrap().plan = Some((6, Fault::KilledAfter));
    let killed = world.run(&Request::default(), &faults).await.unwrap_err();
    assert!(matches!(killed, InitError::PartWay { .. }), "{killed:?}");
    let other = Request {
        shards: 128,
        deployment: 2,
        ..Request::default()
    };
    refused(
        world.init(&other).await,
        "Repeat that request to go on with it",
    );
    let resumed = world.init(&Request::default()).await.unwrap();
    assert_eq!(resumed.outcome, Outcome::Resumed);
}

#[tokio::test(start_paused = true)]
async fn an_init_never_overwrites_a_guard() {
    let world = World::new();
    let faults: Arc<Mutex<Faults>> = Arc::default();
    faults.lock().unwrap().plan = Some((7, Fault::KilledAfter));
    world.run(&Request::default(), &faults).await.unwrap_err();
    let raised = crate::records::Guard {
        epoch: Epoch(9),
        ..crate::records::Guard::first()
    };
    let value = crate::records::Record::to_value(&raised);
    let key = keys::guard(ShardId(0));
    world.apply(1, &put(key.as_bytes(), &value)).unwrap();
    let error = world.init(&Request::default()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("another guard at /holdfast/shards/0"),
        "{error}"
    );
    assert_eq!(world.get(1, &key).unwrap().value, value);
    assert_eq!(world.get(0, &keys::map_current()), None);
}

/// Two operators, each with its own faults, at once.
async fn together(
    world: &World,
    requests: [&Request; 2],
    yields: [Vec<u8>; 2],
) -> [Result<Initialised, InitError>; 2] {
    let [one, two] = yields.map(|yields| {
        Arc::new(Mutex::new(Faults {
            yields,
            ..Faults::default()
        }))
    });
    let (one, two) = tokio::join!(world.run(requests[0], &one), world.run(requests[1], &two));
    [one, two]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn yields() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0u8..6, 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn two_operators_with_one_request_make_one_deployment(one in yields(), two in yields()) {
        let (a, b) = (Request::default(), Request { deployment: 2, ..Request::default() });
        let world = World::new();
        let results = block_on(together(&world, [&a, &b], [one, two]));
        let map = world.check_initialised(&a);
        for result in results {
            prop_assert_eq!(result.unwrap().map, map.clone());
        }
    }

    #[test]
    fn of_two_operators_with_different_requests_one_succeeds(one in yields(), two in yields()) {
        let a = Request::default();
        let b = Request { deployment: 2, shards: 128, ..Request::default() };
        let world = World::new();
        let [first, second] = block_on(together(&world, [&a, &b], [one, two]));
        let (won, lost) = match (first, second) {
            (Ok(_), Err(lost)) => (&a, lost),
            (Err(lost), Ok(_)) => (&b, lost),
            other => panic!("{other:?}"),
        };
        world.check_initialised(won);
        prop_assert!(matches!(lost, InitError::Refused(_)), "{lost:?}");
    }

    #[test]
    fn of_two_homes_that_want_the_same_clusters_one_succeeds(one in yields(), two in yields()) {
        let a = Request { home: 1, clusters: vec![("a", 1), ("b", 2)], ..Request::default() };
        let b = Request { home: 2, deployment: 2, ..Request::default() };
        let world = World::new();
        let [first, second] = block_on(together(&world, [&a, &b], [one, two]));
        let (won, lost) = match (first, second) {
            (Ok(_), Err(lost)) => (&a, lost),
            (Err(lost), Ok(_)) => (&b, lost),
            other => panic!("{other:?}"),
        };
        world.check_initialised(won);
        prop_assert!(matches!(lost, InitError::Refused(_)), "{lost:?}");
    }
}
