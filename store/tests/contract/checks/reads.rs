//! Ranges and what a read tells.

use crate::fixture::Fixture;
use crate::ops::{all, get, put, put_on, put_value, read};
use holdfast_store::{Get, GetReply, Key, KeyRange, Revision, Txn, TxnOp};
use std::slice::from_ref;

async fn read_one(f: &Fixture, get: Get) -> GetReply {
    read(&f.txn(Txn::read([get])).await.ops[0]).clone()
}

async fn names(f: &Fixture, range: KeyRange) -> Vec<Key> {
    let found = read_one(f, Get::keys(range)).await;
    found.kvs.into_iter().map(|kv| kv.key).collect()
}

pub(super) async fn keys_only_leaves_out_the_value_and_nothing_else(f: Fixture) {
    let key = f.key("a");
    let lease = f.long_lease().await;
    f.put(&key).await;
    f.put_on(&key, lease).await;
    let whole = read_one(&f, Get::all(f.everything())).await;
    let keys = read_one(&f, Get::keys(f.everything())).await;
    assert_eq!(whole.kvs[0].value, b"value");
    assert_eq!(whole.kvs[0].lease, Some(lease));
    let mut expected = whole;
    expected.kvs[0].value.clear();
    assert_eq!(keys, expected);
}

pub(super) async fn a_limit_cuts_the_keys_and_not_the_count(f: Fixture) {
    let keys = f.keys(5);
    f.txn(all(keys.iter().map(put).collect::<Vec<_>>())).await;
    for (limit, expected) in [(0, 5), (1, 1), (4, 4), (5, 5), (9, 5)] {
        let found = read_one(
            &f,
            Get {
                limit,
                ..Get::all(f.everything())
            },
        )
        .await;
        let found_keys: Vec<_> = found.kvs.iter().map(|kv| kv.key.clone()).collect();
        assert_eq!(found_keys, keys[..expected], "limit {limit}");
        assert_eq!(found.count, 5, "limit {limit}");
    }
}

pub(super) async fn a_range_is_read_in_key_order_up_to_but_without_its_end(f: Fixture) {
    let keys = f.keys(4);
    for key in keys.iter().rev() {
        f.put(key).await;
    }
    let middle = KeyRange::between(keys[1].clone(), keys[3].clone());
    assert_eq!(names(&f, middle).await, keys[1..3]);
    assert_eq!(names(&f, f.everything()).await, keys);
    assert_eq!(names(&f, KeyRange::one(keys[2].clone())).await, keys[2..3]);
}

pub(super) async fn a_range_that_ends_where_it_starts_or_before_is_empty(f: Fixture) {
    let keys = f.keys(2);
    f.txn(all([put(&keys[0]), put(&keys[1])])).await;
    let between = |a: &Key, b: &Key| KeyRange::between(a.clone(), b.clone());
    assert_eq!(names(&f, between(&keys[0], &keys[0])).await, []);
    assert_eq!(names(&f, between(&keys[1], &keys[0])).await, []);
    let delete = TxnOp::Delete(between(&keys[1], &keys[0]));
    f.txn(all([delete])).await;
    assert_eq!(names(&f, f.everything()).await, keys);
}

/// Each revision writes both keys, so a read that saw two revisions would show it.
pub(super) async fn several_ranges_are_read_at_one_revision(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    f.txn(all([put(&a), put(&b)])).await;
    let writes = async {
        for _ in 0..50 {
            f.txn(all([put(&a), put(&b)])).await;
        }
    };
    let reads = async {
        for _ in 0..50 {
            let reply = f.txn(all([get(&a), get(&b)])).await;
            let revision = |at: usize| read(&reply.ops[at]).kvs[0].mod_revision;
            assert_eq!(revision(0), revision(1));
            assert!(reply.header.revision >= revision(0));
        }
    };
    futures::join!(writes, reads);
}

pub(super) async fn values_of_any_bytes_read_back_as_they_were_written(f: Fixture) {
    let mut name = f.key("").as_bytes().to_vec();
    name.extend([0, 0xff, b'/', 0]);
    let key = Key::from(name);
    let lease = f.long_lease().await;
    f.txn(all([put_on(&key, lease)])).await;
    assert_eq!(f.lease_keys(lease).await.1, from_ref(&key));
    for value in [&b""[..], &[0], &[0xff; 300]] {
        f.txn(all([put_value(&key, value)])).await;
        let kv = f.get(&key).await.unwrap();
        assert_eq!((kv.key, kv.value), (key.clone(), value.to_vec()));
        assert!(kv.create_revision > Revision::ABSENT);
    }
}
