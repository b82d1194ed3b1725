//! What etcd refuses before it looks at anything.

use crate::fixture::Fixture;
use crate::ops::{absent, all, delete, delete_between, get, if_else, put, put_value};
use holdfast_store::{Compare, Key, KeyRange, Txn, TxnOp};

const OPS_MAX: usize = 128;

/// etcd's largest request is 1.5 MiB at default settings.
const TOO_LARGE_BYTES: usize = 1_600_000;

fn nested(txn: Txn) -> TxnOp {
    TxnOp::Txn(txn)
}

fn puts(keys: &[Key]) -> Vec<TxnOp> {
    keys.iter().map(put).collect()
}

fn compares(keys: &[Key]) -> Vec<Compare> {
    keys.iter().map(absent).collect()
}

pub(super) async fn the_longest_list_of_a_transaction_has_at_most_128_entries(f: Fixture) {
    let keys = f.keys(OPS_MAX + 1);
    let fits = &keys[..OPS_MAX];
    let reply = f.txn(if_else(compares(fits), puts(fits), puts(fits))).await;
    assert_eq!(reply.ops.len(), OPS_MAX);

    f.assert_invalid("compares", if_else(compares(&keys), [], []))
        .await;
    f.assert_invalid("then", if_else([], puts(&keys), [])).await;
    f.assert_invalid("or_else", if_else([], [], puts(&keys)))
        .await;
}

pub(super) async fn nested_transactions_share_the_limit_with_those_around_them(f: Fixture) {
    let keys = f.keys(OPS_MAX + 1);
    // A list of `outer` gets, the last of which is a transaction around `inner`.
    let around = |outer: usize, inner: Txn| {
        let mut ops = vec![get(&keys[0]); outer - 1];
        ops.push(nested(inner));
        all(ops)
    };
    f.txn(around(28, all(puts(&keys[..100])))).await;
    f.txn(around(28, all(vec![nested(all(puts(&keys[..99])))])))
        .await;
    f.assert_invalid("one level", around(28, all(puts(&keys[..101]))))
        .await;
    f.assert_invalid(
        "two levels",
        around(28, all(vec![nested(all(puts(&keys[..100])))])),
    )
    .await;
    let in_the_other_branch = if_else([], [], [nested(all(puts(&keys[..OPS_MAX])))]);
    f.assert_invalid("in the branch that is not taken", in_the_other_branch)
        .await;

    // Transactions side by side do not share: many times the limit in one.
    let side_by_side: Vec<_> = keys[..64]
        .iter()
        .map(|key| {
            nested(if_else(
                [absent(key); 1],
                vec![get(key); 64],
                vec![get(key); 64],
            ))
        })
        .collect();
    assert_eq!(f.txn(all(side_by_side)).await.ops.len(), 64);
}

pub(super) async fn no_key_is_put_twice(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    f.assert_invalid("side by side", all([put(&a), put(&b), put(&a)]))
        .await;
    f.assert_invalid("around", all([nested(all([put(&a)])), put(&a)]))
        .await;
    let only_if = |compare| nested(if_else([compare], [put(&a)], []));
    let not_absent = Compare {
        condition: holdfast_store::Condition::Version(holdfast_store::Relation::Greater, 0),
        ..absent(&a)
    };
    f.assert_invalid(
        "in nested transactions that exclude each other",
        all([only_if(absent(&a)), only_if(not_absent)]),
    )
    .await;
    f.assert_invalid("in a branch not taken", if_else([], [], [put(&a), put(&a)]))
        .await;
    assert!(!f.exists(&a).await);
}

pub(super) async fn branches_of_one_nested_transaction_may_put_the_same_key(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    let either = |key| {
        nested(if_else(
            [absent(key)],
            [put_value(key, b"1")],
            [put_value(key, b"2")],
        ))
    };
    f.txn(if_else([absent(&b)], [either(&a)], [put(&a)])).await;
    assert_eq!(f.get(&a).await.unwrap().value, b"1");
    f.txn(all([either(&a)])).await;
    assert_eq!(f.get(&a).await.unwrap().value, b"2");
}

pub(super) async fn no_key_is_put_and_deleted(f: Fixture) {
    let [a, b, c] = ["a", "b", "c"].map(|name| f.key(name));
    f.assert_invalid("one key", all([put(&a), delete(&a)]))
        .await;
    f.assert_invalid("a range", all([put(&b), delete_between(&a, &c)]))
        .await;
    f.assert_invalid("inside", all([delete(&a), nested(all([put(&a)]))]))
        .await;
    f.assert_invalid("around", all([nested(all([delete(&a)])), put(&a)]))
        .await;
    f.assert_invalid(
        "deleted before",
        all([nested(all([delete(&a)])), nested(all([put(&a)]))]),
    )
    .await;
    f.txn(all([put(&c), delete_between(&a, &c)])).await;
    f.txn(all([nested(if_else(
        [absent(&a)],
        [put(&a)],
        [delete(&a)],
    ))]))
    .await;
    assert!(f.exists(&a).await && f.exists(&c).await);
}

/// etcd checks puts against earlier deletes only; this is what a delete after a put then does.
pub(super) async fn a_later_nested_transaction_may_delete_what_an_earlier_one_puts(f: Fixture) {
    let a = f.key("a");
    let reply = f
        .txn(all([nested(all([put(&a)])), nested(all([delete(&a)]))]))
        .await;
    assert!(!f.exists(&a).await);
    assert_eq!(f.revision().await, reply.header.revision);
}

pub(super) async fn an_empty_key_is_refused(f: Fixture) {
    let [empty, a] = [Key::from(""), f.key("a")];
    f.assert_invalid("put", all([put(&empty)])).await;
    f.assert_invalid("get", all([get(&empty)])).await;
    f.assert_invalid("delete", all([delete(&empty)])).await;
    f.assert_invalid("compare", if_else([absent(&empty)], [], []))
        .await;
    f.assert_invalid("nested", all([nested(all([put(&empty)]))]))
        .await;
    let range = KeyRange::between("", a);
    f.assert_invalid("range", all([TxnOp::Delete(range)])).await;
}

pub(super) async fn a_transaction_that_is_too_large_is_refused(f: Fixture) {
    let a = f.key("a");
    let value = vec![b'x'; TOO_LARGE_BYTES];
    f.assert_invalid("value", all([put_value(&a, &value)]))
        .await;
    f.txn(all([put_value(&a, &value[..TOO_LARGE_BYTES / 2])]))
        .await;
    assert_eq!(f.get(&a).await.unwrap().value.len(), TOO_LARGE_BYTES / 2);
}
