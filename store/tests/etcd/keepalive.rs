//! Bursts of keepalives.

use crate::scripted::Step::{Answer, Cut, End, Silence};
use crate::scripted::{Step, serve};
use crate::support::{AMPLE, BRIEF, is_ambiguous, member, store};
use holdfast_store::{EtcdStore, KeepAliveAnswer, LeaseId, Op, Reply, Store, StoreError};

async fn keep_alive(store: &EtcdStore, leases: &[LeaseId]) -> Vec<KeepAliveAnswer> {
    let leases = leases.to_vec();
    match store.call(Op::KeepAlive { leases }, AMPLE).await {
        Ok(Reply::KeepAlive(answers)) => answers,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_unknown_lease_is_answered_with_0_and_does_not_disturb_the_others() {
    let member = member().await;
    let store = store(&[member.endpoint()], 0);
    let leases: Vec<_> = (1..=500).map(LeaseId).collect();
    let granted = |lease: &LeaseId| lease.0 % 2 == 0;
    for &lease in leases.iter().filter(|lease| granted(lease)) {
        let grant = Op::LeaseGrant { lease, ttl_s: 600 };
        store.call(grant, AMPLE).await.unwrap();
    }
    let answers = keep_alive(&store, &leases).await;
    let answered: Vec<_> = answers.iter().map(|a| (a.lease, a.ttl_s)).collect();
    let expected = leases
        .iter()
        .map(|lease| (*lease, if granted(lease) { 600 } else { 0 }));
    assert_eq!(answered, expected.collect::<Vec<_>>());
    let header = answers[0].header;
    assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term != 0);
    assert!(answers.iter().all(|answer| answer.header == header));
}

#[tokio::test]
async fn no_leases_need_no_cluster() {
    let nowhere = store(&["http://127.0.0.1:1".to_owned()], 0);
    assert_eq!(keep_alive(&nowhere, &[]).await, []);
}

/// What comes of a burst for the leases 1, 2 and 3 at a server that plays `script`.
async fn burst(script: &'static [Step]) -> Result<Vec<(i64, i64)>, StoreError> {
    let store = store(&[serve(script).await], 0);
    let leases = [1, 2, 3].map(LeaseId).to_vec();
    match store.call(Op::KeepAlive { leases }, BRIEF).await? {
        Reply::KeepAlive(answers) => Ok(answers.iter().map(|a| (a.lease.0, a.ttl_s)).collect()),
        other => panic!("{other:?}"),
    }
}

const FIRST: Step = Answer {
    lease: 1,
    ttl_s: 60,
};
const SECOND: Step = Answer { lease: 2, ttl_s: 0 };

#[tokio::test]
async fn answers_that_came_before_the_time_limit_count() {
    let answers = burst(&[FIRST, SECOND, Silence]).await;
    assert_eq!(answers, Ok(vec![(1, 60), (2, 0)]));
    assert_eq!(burst(&[Silence]).await, Ok(vec![]));
}

#[tokio::test]
async fn answers_that_came_before_the_stream_broke_count() {
    for script in [
        &[FIRST, End(14, "etcdserver: no leader")][..],
        &[FIRST, End(2, "anything")],
        &[FIRST, End(0, "")],
    ] {
        assert_eq!(burst(script).await, Ok(vec![(1, 60)]), "{script:?}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_the_first_answer_is_ambiguous() {
    for script in [&[Cut][..], &[End(2, "anything")], &[End(0, "")]] {
        let result = burst(script).await;
        assert!(is_ambiguous(&result), "{script:?}: {result:?}");
    }
}

#[tokio::test]
async fn an_answer_counts_once_and_only_if_it_was_asked_for() {
    const STRANGE: Step = Answer { lease: 9, ttl_s: 9 };
    const AGAIN: Step = Answer { lease: 1, ttl_s: 9 };
    let answers = burst(&[STRANGE, FIRST, AGAIN, SECOND, Silence]).await;
    assert_eq!(answers, Ok(vec![(1, 60), (2, 0)]));
}

#[tokio::test]
async fn a_member_that_refuses_a_burst_is_left_for_one_that_does_not() {
    let member = member().await;
    for refusal in [
        &[End(14, "etcdserver: no leader")],
        &[End(2, "not a primary lessor")],
    ] {
        let store = store(&[serve(refusal).await, member.endpoint()], 0);
        assert_eq!(keep_alive(&store, &[LeaseId(1)]).await.len(), 1);
    }
}
