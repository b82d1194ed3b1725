//! What an etcd does that is stopped, or gone.

use crate::fixture::LIMIT;
use crate::ops::{all, get, put};
use crate::target::connect;
use holdfast_rig::{Etcd, EtcdVersion};
use holdfast_store::{DefiniteError, Key, LeaseId, Op, Reply, Store, StoreError};
use std::time::Duration;

/// Long enough for a local etcd that answers at all.
const SHORT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_put_that_a_stopped_etcd_did_not_answer_is_ambiguous_and_may_happen_later() {
    let mut member = Etcd::start(EtcdVersion::V3_5).await.unwrap();
    let store = connect(&member);
    let [first, second] = ["first", "second"].map(Key::from);
    store
        .call(Op::Txn(all([put(&first)])), LIMIT)
        .await
        .unwrap();

    member.stop().await.unwrap();
    let error = store.call(Op::Txn(all([put(&second)])), SHORT).await;
    assert!(matches!(error, Err(StoreError::Ambiguous(_))), "{error:?}");
    let lease = LeaseId(1);
    let grant = Op::LeaseGrant { lease, ttl_s: 60 };
    let error = store.call(grant, SHORT).await;
    assert!(matches!(error, Err(StoreError::Ambiguous(_))), "{error:?}");
    let leases = vec![lease];
    let silence = store.call(Op::KeepAlive { leases }, SHORT).await;
    assert!(
        matches!(&silence, Ok(Reply::KeepAlive(answers)) if answers.is_empty())
            || matches!(&silence, Err(StoreError::Ambiguous(_))),
        "{silence:?}"
    );

    member.cont().unwrap();
    let read = store.call(Op::Txn(all([get(&first)])), LIMIT).await;
    assert!(read.is_ok(), "{read:?}");
}

#[tokio::test]
async fn what_could_not_be_sent_is_definite() {
    let mut member = Etcd::start(EtcdVersion::V3_5).await.unwrap();
    let store = connect(&member);
    member.kill().unwrap();
    let error = store.call(Op::Txn(all([put(&"a".into())])), SHORT).await;
    assert!(
        matches!(
            error,
            Err(StoreError::Definite(DefiniteError::Unreachable(_)))
        ),
        "{error:?}"
    );
}
