//! Revisions, and what is done in which order.

use crate::fixture::Fixture;
use crate::ops::{absent, all, delete, get, if_else, put, put_value, read};
use holdfast_store::{Compare, Key, KeyRange, TxnOp, TxnOpReply};

pub(super) async fn a_key_knows_when_it_was_created_and_written_and_how_often(f: Fixture) {
    let key = f.key("a");
    let created = f.put(&key).await;
    let written = f.put(&key).await;
    assert_eq!(written.0, created.0 + 1);
    let kv = f.get(&key).await.unwrap();
    assert_eq!(kv.key, key);
    assert_eq!(
        (kv.create_revision, kv.mod_revision, kv.version),
        (created, written, 2)
    );

    f.txn(all([delete(&key)])).await;
    let again = f.put(&key).await;
    let kv = f.get(&key).await.unwrap();
    assert_eq!(
        (kv.create_revision, kv.mod_revision, kv.version),
        (again, again, 1)
    );
}

pub(super) async fn all_writes_of_a_transaction_share_its_revision(f: Fixture) {
    let [a, b, gone] = ["a", "b", "gone"].map(|name| f.key(name));
    let before = f.put(&gone).await;
    let nested = TxnOp::Txn(all([put(&b)]));
    let reply = f.txn(all([put(&a), nested, delete(&gone)])).await;
    let revision = reply.header.revision;
    assert_eq!(revision.0, before.0 + 1);
    assert_eq!(f.get(&a).await.unwrap().mod_revision, revision);
    assert_eq!(f.get(&b).await.unwrap().mod_revision, revision);
    assert_eq!(f.revision().await, revision);
}

pub(super) async fn a_transaction_that_changes_nothing_leaves_the_revision(f: Fixture) {
    let [a, missing] = ["a", "missing"].map(|name| f.key(name));
    let before = f.put(&a).await;
    for txn in [
        all([get(&a)]),
        all([delete(&missing)]),
        all([TxnOp::Txn(all([delete(&missing)]))]),
        if_else([absent(&a)], [put(&a)], []),
        if_else([absent(&a)], [put(&a)], [get(&a), delete(&missing)]),
        all([TxnOp::Txn(if_else([absent(&a)], [put(&a)], []))]),
        all([]),
    ] {
        let reply = f.txn(txn.clone()).await;
        assert_eq!(reply.header.revision, before, "{txn:?}");
    }
}

pub(super) async fn a_read_sees_what_was_written_before_it_in_the_same_transaction(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    f.put(&b).await;
    let nested = TxnOp::Txn(all([get(&a), get(&b)]));
    let reply = f
        .txn(all([get(&a), put_value(&a, b"x"), delete(&b), nested]))
        .await;
    let revision = reply.header.revision;

    assert_eq!(read(&reply.ops[0]).count, 0);
    assert_eq!(reply.ops[1], TxnOpReply::Put);
    let TxnOpReply::Txn { succeeded, ops } = &reply.ops[3] else {
        panic!("{reply:?}");
    };
    assert!(succeeded);
    let seen = &read(&ops[0]).kvs[0];
    assert_eq!(
        (seen.mod_revision, seen.value.as_slice()),
        (revision, &b"x"[..])
    );
    assert_eq!(read(&ops[1]).count, 0);
}

pub(super) async fn a_nested_compare_sees_the_state_before_the_transaction(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    let nested = TxnOp::Txn(if_else([absent(&a)], [put(&b)], []));
    let reply = f.txn(all([put(&a), nested])).await;
    let TxnOpReply::Txn { succeeded, .. } = reply.ops[1] else {
        panic!("{reply:?}");
    };
    assert!(succeeded);
    assert!(f.exists(&b).await);
}

/// A fence around one guarded grant per lock.
pub(super) async fn one_failing_nested_transaction_does_not_fail_the_batch(f: Fixture) {
    let [fence, free, held] = ["fence", "free", "held"].map(|name| f.key(name));
    let fenced = f.put(&fence).await;
    let holder = f.put(&held).await;
    let grant = |key| TxnOp::Txn(if_else([absent(key)], [put(key)], [get(key)]));
    let fence_holds = Compare::mod_revision(fence.clone(), fenced);
    let reply = f
        .txn(if_else([fence_holds], [grant(&held), grant(&free)], []))
        .await;

    assert!(reply.succeeded);
    let TxnOpReply::Txn { succeeded, ops } = &reply.ops[0] else {
        panic!("{reply:?}");
    };
    assert!(!succeeded);
    assert_eq!(read(&ops[0]).kvs[0].mod_revision, holder);
    let granted = TxnOpReply::Txn {
        succeeded: true,
        ops: vec![TxnOpReply::Put],
    };
    assert_eq!(reply.ops[1], granted);
    assert_eq!(f.get(&held).await.unwrap().mod_revision, holder);
    assert_eq!(
        f.get(&free).await.unwrap().mod_revision,
        reply.header.revision
    );
}

/// The shape of a batch of a gateway: a fence around bundles, of which each compares a guard of its
/// own around grants that stand alone.
pub(super) async fn a_bundle_that_is_refused_fails_its_own_grants_only(f: Fixture) {
    let [fence, good, bad] = ["fence", "good", "bad"].map(|name| f.key(name));
    let [free, held, other] = ["free", "held", "other"].map(|name| f.key(name));
    let fenced = f.put(&fence).await;
    let guarded = f.put(&good).await;
    let flipped = f.put(&bad).await;
    let holder = f.put(&held).await;
    let grant = |key| TxnOp::Txn(if_else([absent(key)], [put(key)], [get(key)]));
    let bundle = |guard: &Key, revision, grants: Vec<TxnOp>| {
        let compare = [Compare::mod_revision(guard.clone(), revision)];
        TxnOp::Txn(if_else(compare, grants, [get(guard)]))
    };
    let under_good = bundle(&good, guarded, vec![grant(&held), grant(&free)]);
    let under_bad = bundle(&bad, guarded, vec![grant(&other)]);
    let reply = f
        .txn(if_else(
            [Compare::mod_revision(fence, fenced)],
            [under_bad, under_good],
            [],
        ))
        .await;

    assert!(reply.succeeded);
    let [
        TxnOpReply::Txn {
            succeeded: false,
            ops: refused,
        },
        TxnOpReply::Txn {
            succeeded: true,
            ops: done,
        },
    ] = reply.ops.as_slice()
    else {
        panic!("{reply:?}");
    };
    assert_eq!(read(&refused[0]).kvs[0].mod_revision, flipped);
    let [
        TxnOpReply::Txn {
            succeeded: false,
            ops: found,
        },
        TxnOpReply::Txn {
            succeeded: true, ..
        },
    ] = done.as_slice()
    else {
        panic!("{reply:?}");
    };
    assert_eq!(read(&found[0]).kvs[0].mod_revision, holder);
    assert_eq!(f.get(&held).await.unwrap().mod_revision, holder);
    let granted = f.get(&free).await.unwrap();
    assert_eq!(granted.mod_revision, reply.header.revision);
    assert!(!f.exists(&other).await);
}

pub(super) async fn an_outer_compare_that_fails_stops_everything_inside(f: Fixture) {
    let [fence, free] = ["fence", "free"].map(|name| f.key(name));
    f.put(&fence).await;
    let grant = TxnOp::Txn(if_else([absent(&free)], [put(&free)], []));
    let reply = f
        .txn(if_else([absent(&fence)], [grant], [get(&fence)]))
        .await;
    assert!(!reply.succeeded);
    assert_eq!(read(&reply.ops[0]).count, 1);
    assert!(!f.exists(&free).await);
}

pub(super) async fn a_delete_says_how_many_keys_there_were(f: Fixture) {
    let keys = f.keys(4);
    f.txn(all(keys.iter().map(put).collect::<Vec<_>>())).await;
    let middle = KeyRange::between(keys[1].clone(), keys[3].clone());
    let reply = f
        .txn(all([
            TxnOp::Delete(middle),
            delete(&keys[3]),
            delete(&keys[3]),
        ]))
        .await;
    let counts = [2, 1, 0].map(TxnOpReply::Delete);
    assert_eq!(reply.ops, counts);
    assert!(f.exists(&keys[0]).await);
    assert!(!f.exists(&keys[1]).await);
}
