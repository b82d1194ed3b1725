//! Leases, their keys and their ends.

use crate::fixture::{Fixture, LIMIT, LONG_TTL_S};
use crate::ops::{absent, all, delete, if_else, put, put_on};
use holdfast_store::{DefiniteError, LeaseId, Op, TxnOp};
use std::slice::from_ref;

pub(super) async fn a_lease_is_granted_with_the_chosen_id_once(f: Fixture) {
    let (lease, ttl_s) = f.grant(LONG_TTL_S).await;
    assert_eq!(ttl_s, i64::from(LONG_TTL_S));
    let again = Op::LeaseGrant { lease, ttl_s: 60 };
    assert_eq!(f.refused(again.clone()).await, DefiniteError::LeaseExists);
    let (left, keys) = f.lease_keys(lease).await;
    assert!(left > 60, "the refused grant changed nothing: {left}");
    assert_eq!(keys, []);

    f.revoke(lease).await;
    assert!(
        f.call(again).await.is_ok(),
        "etcd itself lets an id live twice"
    );
}

pub(super) async fn a_short_lease_is_lengthened_to_2_seconds(f: Fixture) {
    for ttl_s in [0, 1, 2] {
        assert_eq!(f.grant(ttl_s).await.1, 2, "asked for {ttl_s}");
    }
    assert_eq!(f.grant(3).await.1, 3);
}

pub(super) async fn revoking_a_lease_deletes_its_keys_in_one_revision(f: Fixture) {
    let lease = f.long_lease().await;
    let [a, b, other] = ["a", "b", "other"].map(|name| f.key(name));
    f.put(&other).await;
    f.put_on(&a, lease).await;
    let before = f.put_on(&b, lease).await;

    assert_eq!(f.revoke(lease).await.revision.0, before.0 + 1);
    assert_eq!(f.revision().await.0, before.0 + 1);
    assert!(!f.exists(&a).await && !f.exists(&b).await);
    assert!(f.exists(&other).await);

    let empty = f.long_lease().await;
    assert_eq!(f.revoke(empty).await.revision.0, before.0 + 1);
}

pub(super) async fn revoking_a_missing_lease_is_definite(f: Fixture) {
    let lease = f.unused_lease();
    let revoke = Op::LeaseRevoke { lease };
    assert_eq!(f.refused(revoke).await, DefiniteError::LeaseNotFound);
}

pub(super) async fn a_put_on_a_missing_lease_fails_the_whole_transaction(f: Fixture) {
    let missing = f.unused_lease();
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    let before = f.revision().await;
    let nested = |op| TxnOp::Txn(all([op]));
    for txn in [
        all([put_on(&a, missing)]),
        all([put(&b), put_on(&a, missing)]),
        all([nested(put(&b)), nested(put_on(&a, missing))]),
        if_else([absent(&a)], [nested(nested(put_on(&a, missing)))], []),
    ] {
        let error = f.refused(Op::Txn(txn.clone())).await;
        assert_eq!(error, DefiniteError::LeaseNotFound, "{txn:?}");
    }
    assert_eq!(f.revision().await, before);
    assert!(!f.exists(&b).await);
}

pub(super) async fn a_put_on_a_missing_lease_in_a_branch_not_taken_does_not_matter(f: Fixture) {
    let missing = f.unused_lease();
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    f.put(&a).await;
    let nested = TxnOp::Txn(if_else([absent(&a)], [put_on(&b, missing)], [put(&b)]));
    let reply = f
        .txn(if_else([absent(&a)], [put_on(&a, missing)], [nested]))
        .await;
    assert!(!reply.succeeded);
    assert_eq!(f.get(&b).await.unwrap().mod_revision, reply.header.revision);
}

pub(super) async fn a_put_moves_a_key_to_another_lease(f: Fixture) {
    let (first, second) = (f.long_lease().await, f.long_lease().await);
    let a = f.key("a");
    f.put_on(&a, first).await;
    f.put_on(&a, first).await;
    assert_eq!(f.lease_keys(first).await.1, from_ref(&a));
    f.put_on(&a, second).await;
    assert_eq!(f.lease_keys(first).await.1, []);
    assert_eq!(f.lease_keys(second).await.1, from_ref(&a));

    f.revoke(first).await;
    assert_eq!(f.get(&a).await.unwrap().lease, Some(second));
    f.revoke(second).await;
    assert!(!f.exists(&a).await);
}

pub(super) async fn a_put_without_a_lease_and_a_delete_take_a_key_off_its_lease(f: Fixture) {
    let lease = f.long_lease().await;
    let [put_again, deleted, stays] = ["again", "deleted", "stays"].map(|name| f.key(name));
    for key in [&put_again, &deleted, &stays] {
        f.put_on(key, lease).await;
    }
    f.txn(all([put(&put_again), delete(&deleted)])).await;
    assert_eq!(f.lease_keys(lease).await.1, from_ref(&stays));
    assert_eq!(f.get(&put_again).await.unwrap().lease, None);
    f.put(&deleted).await;

    f.revoke(lease).await;
    assert!(f.exists(&put_again).await && f.exists(&deleted).await);
    assert!(!f.exists(&stays).await);
}

pub(super) async fn a_missing_lease_has_no_keys_and_minus_1_seconds(f: Fixture) {
    assert_eq!(f.lease_keys(f.unused_lease()).await, (-1, vec![]));
    let revoked = f.long_lease().await;
    f.put_on(&f.key("a"), revoked).await;
    f.revoke(revoked).await;
    assert_eq!(f.lease_keys(revoked).await, (-1, vec![]));
}

pub(super) async fn a_lease_that_nobody_renews_ends_and_deletes_its_keys(f: Fixture) {
    let [short_key, long_key] = ["short", "long"].map(|name| f.key(name));
    let (short, _) = f.grant(2).await;
    let long = f.long_lease().await;
    f.put_on(&long_key, long).await;
    let put = f.put_on(&short_key, short).await;
    let mut watch = f.watch(Some(put));
    watch.take(1).await;

    let (is_put, key, revision) = watch.take(1).await.remove(0);
    assert_eq!((is_put, key), (false, short_key.clone()));
    assert_eq!(revision.0, put.0 + 1);
    assert!(!f.exists(&short_key).await && f.exists(&long_key).await);
    assert_eq!(f.lease_keys(short).await.0, -1);
    assert_eq!(f.keep_alive(&[short]).await, [(short, 0)]);
    let op = Op::Txn(all([put_on(&short_key, short)]));
    assert_eq!(f.refused(op).await, DefiniteError::LeaseNotFound);
}

pub(super) async fn a_keepalive_starts_the_time_again(f: Fixture) {
    let long = f.long_lease().await;
    let (clock, _) = f.grant(2).await;
    let put = f.put_on(&f.key("clock"), clock).await;
    f.watch(Some(put)).take(2).await;

    // Two seconds are over.
    let (before, _) = f.lease_keys(long).await;
    assert!(before < i64::from(LONG_TTL_S) - 1, "{before}");
    let renewed = async {
        loop {
            assert_eq!(f.keep_alive(&[long]).await, [(long, LONG_TTL_S.into())]);
            if f.lease_keys(long).await.0 > before {
                break;
            }
        }
    };
    // The second look fails only if it takes seconds, hence once more.
    tokio::time::timeout(LIMIT, renewed).await.unwrap();
}

pub(super) async fn a_burst_of_keepalives_answers_every_lease_with_0_for_missing_ones(f: Fixture) {
    let mut expected: Vec<(LeaseId, i64)> = Vec::new();
    for ttl_s in 100..140 {
        expected.push(f.grant(ttl_s).await);
        expected.push((f.unused_lease(), 0));
    }
    let leases: Vec<LeaseId> = expected.iter().map(|(lease, _)| *lease).collect();
    let mut answers = f.keep_alive(&leases).await;
    answers.sort();
    assert_eq!(answers, expected);
    assert_eq!(f.keep_alive(&[]).await, []);
}
