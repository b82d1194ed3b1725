//! Members that are killed, stopped or alone, and who is asked instead.

use crate::scripted::Step::End;
use crate::scripted::serve;
use crate::support::{
    AMPLE, BRIEF, cluster, create, existing, exists, is_ambiguous, is_unreachable, read, store, txn,
};
use holdfast_rig::{EtcdCluster, free_port};
use holdfast_store::etcd::EtcdConfig;
use holdfast_store::{Compare, EtcdStore, KeyRange, Op, StoreError, Txn};
use std::collections::HashSet;
use tokio::sync::watch;

#[tokio::test]
async fn a_store_is_built_without_a_cluster_and_its_calls_fail_definitely() {
    let port = free_port().unwrap();
    let store = store(&[format!("http://127.0.0.1:{port}")], 0);
    for _ in 0..3 {
        let refused = txn(&store, create("key"), AMPLE).await;
        assert!(is_unreachable(&refused), "{refused:?}");
    }
}

#[tokio::test]
async fn a_working_endpoint_is_kept_and_a_killed_one_costs_one_ambiguous_call_at_most() {
    let mut cluster = cluster().await;
    let follower = (cluster.wait_leader().await.unwrap() + 1) % 3;
    let store = store(&cluster.endpoints(), follower);
    let first = txn(&store, create("first"), AMPLE).await.unwrap().header;
    for _ in 0..5 {
        let again = txn(&store, read("first"), AMPLE).await.unwrap().header;
        assert_eq!(again.member_id, first.member_id);
    }

    cluster.member(follower).kill().unwrap();
    // The first call may be sent before the end of the connection has been seen.
    let mut result = txn(&store, read("first"), AMPLE).await;
    if is_ambiguous(&result) {
        result = txn(&store, read("first"), AMPLE).await;
    }
    let other = result.unwrap().header;
    assert_ne!(other.member_id, first.member_id);
    assert_eq!(other.cluster_id, first.cluster_id);

    cluster.member(follower).restart().await.unwrap();
    let kept = txn(&store, read("first"), AMPLE).await.unwrap().header;
    assert_eq!(kept.member_id, other.member_id);
}

#[tokio::test]
async fn a_member_that_hangs_costs_one_ambiguous_call() {
    let mut cluster = cluster().await;
    let follower = (cluster.wait_leader().await.unwrap() + 1) % 3;
    let store = store(&cluster.endpoints(), follower);
    txn(&store, create("first"), AMPLE).await.unwrap();
    cluster.member(follower).stop().await.unwrap();
    let hanging = txn(&store, create("second"), BRIEF).await;
    assert!(is_ambiguous(&hanging), "{hanging:?}");
    txn(&store, create("third"), AMPLE).await.unwrap();
}

#[tokio::test]
async fn a_member_without_a_leader_is_left_before_anything_is_done() {
    let mut cluster = cluster().await;
    let endpoints = cluster.endpoints();
    let minority = store(&endpoints[..1], 0);
    txn(&minority, create("first"), AMPLE).await.unwrap();
    cluster.member(1).kill().unwrap();
    cluster.member(2).kill().unwrap();
    wait_for_refusal(&minority).await;
}

/// Waits until calls are refused definitely. Until the members have noticed that they have no
/// leader, calls hang in them.
async fn wait_for_refusal(store: &EtcdStore) {
    let refused = async {
        loop {
            let result = txn(store, create("refused"), BRIEF).await;
            assert!(result.is_err(), "{result:?}");
            if !is_ambiguous(&result) {
                break result;
            }
        }
    };
    let refused = tokio::time::timeout(AMPLE, refused).await.unwrap();
    assert!(is_unreachable(&refused), "{refused:?}");
}

#[tokio::test]
async fn what_a_member_knows_by_itself_is_not_an_answer() {
    let mut cluster = cluster().await;
    let endpoints = cluster.endpoints();
    let mut config = EtcdConfig::new(&endpoints[..1]);
    // Not turned away at the door, as with the default.
    config.require_leader = false;
    let minority = EtcdStore::connect(config).unwrap();
    let only_compares = Op::Txn(Txn {
        compare: vec![Compare::absent(KeyRange::one("key"))],
        ..Txn::default()
    });
    let reply = txn(&minority, only_compares.clone(), AMPLE).await.unwrap();
    assert!(reply.succeeded && reply.ops.is_empty(), "{reply:?}");

    cluster.member(1).kill().unwrap();
    cluster.member(2).kill().unwrap();
    for question in [only_compares, Op::Txn(Txn::default()), read("key")] {
        let result = txn(&minority, question.clone(), BRIEF).await;
        assert!(is_ambiguous(&result), "{question:?}: {result:?}");
    }
}

#[tokio::test]
async fn a_refusal_goes_on_to_the_next_member_and_an_unknown_outcome_does_not() {
    let member = crate::support::member().await;
    let observer = store(&[member.endpoint()], 0);
    let no_leader = serve(&[End(14, "etcdserver: no leader")]).await;
    let refused = store(&[no_leader, member.endpoint()], 0);
    txn(&refused, create("first"), AMPLE).await.unwrap();
    assert!(exists(&observer, "first").await);

    let timed_out = serve(&[End(14, "etcdserver: request timed out")]).await;
    let unknown = store(&[timed_out, member.endpoint()], 0);
    let result = txn(&unknown, create("second"), AMPLE).await;
    assert!(is_ambiguous(&result), "{result:?}");
    assert!(!exists(&observer, "second").await);
    txn(&unknown, create("third"), AMPLE).await.unwrap();
}

/// Puts one key after the other until `enough`, and says how each ended.
async fn put_keys(
    store: EtcdStore,
    writer: usize,
    enough: watch::Receiver<bool>,
) -> Vec<(String, Result<(), StoreError>)> {
    let mut outcomes = Vec::new();
    while !*enough.borrow() {
        let key = format!("/keys/{writer}/{}", outcomes.len());
        let result = txn(&store, create(&key), BRIEF).await;
        outcomes.push((key, result.map(drop)));
    }
    outcomes
}

/// Kills the leader twice, and then the majority.
async fn disturb(cluster: &mut EtcdCluster, observer: &EtcdStore) {
    for _ in 0..2 {
        let leader = cluster.wait_leader().await.unwrap();
        cluster.member(leader).kill().unwrap();
        assert_ne!(cluster.wait_leader().await.unwrap(), leader);
        cluster.member(leader).restart().await.unwrap();
    }
    cluster.member(0).kill().unwrap();
    cluster.member(1).kill().unwrap();
    wait_for_refusal(observer).await;
    cluster.restart().await.unwrap();
    cluster.wait_leader().await.unwrap();
}

#[tokio::test]
async fn while_leaders_are_killed_every_definite_error_is_true() {
    let mut cluster = cluster().await;
    let endpoints = cluster.endpoints();
    let (tell, enough) = watch::channel(false);
    let writers = (0..12).map(|writer| {
        let store = store(&endpoints, writer);
        tokio::spawn(put_keys(store, writer, enough.clone()))
    });
    let writers: Vec<_> = writers.collect();
    let observer = store(&endpoints, 0);
    disturb(&mut cluster, &observer).await;
    tell.send(true).unwrap();

    let mut outcomes = Vec::new();
    for writer in writers {
        outcomes.extend(writer.await.unwrap());
    }
    let there: HashSet<_> = existing(&observer, "/keys/").await.into_iter().collect();
    let (mut done, mut refused) = (0, 0);
    for (key, outcome) in &outcomes {
        let is_there = there.contains(&key.as_str().into());
        match outcome {
            Ok(()) => assert!(is_there, "{key} was confirmed"),
            Err(StoreError::Definite(error)) => assert!(!is_there, "{key}: {error}"),
            Err(StoreError::Ambiguous(_)) => {}
        }
        done += usize::from(outcome.is_ok());
        refused += usize::from(is_unreachable(outcome));
    }
    println!("{done} done, {refused} refused, of {}", outcomes.len());
    assert!(done > 0 && refused > 0);
}
