//! What the tests share.

use holdfast_rig::{Etcd, EtcdCluster, EtcdOptions, EtcdVersion, Link};
use holdfast_store::etcd::EtcdConfig;
use holdfast_store::{
    DefiniteError, EtcdStore, Get, Key, KeyRange, Op, Put, Reply, Store, StoreError, Txn, TxnOp,
    TxnOpReply, TxnReply,
};
use std::time::Duration;

/// Far more than anything takes, so that only what hangs for ever reaches it.
pub(crate) const AMPLE: Duration = Duration::from_secs(30);
/// A time limit that is meant to pass.
pub(crate) const BRIEF: Duration = Duration::from_millis(300);

fn fast(options: EtcdOptions) -> EtcdOptions {
    EtcdOptions {
        unsafe_no_fsync: true,
        ..options
    }
}

/// A cluster of one.
pub(crate) async fn member() -> Etcd {
    member_with(EtcdOptions::default()).await
}

/// A cluster of one, with settings.
pub(crate) async fn member_with(options: EtcdOptions) -> Etcd {
    member_of(EtcdVersion::V3_5, options).await
}

/// A cluster of one, of this version, with settings.
pub(crate) async fn member_of(version: EtcdVersion, options: EtcdOptions) -> Etcd {
    Etcd::start_with(version, fast(options)).await.unwrap()
}

/// A cluster of three.
pub(crate) async fn cluster() -> EtcdCluster {
    let options = fast(EtcdOptions::default());
    let cluster = EtcdCluster::start_with(EtcdVersion::V3_5, 3, options).await;
    cluster.unwrap()
}

/// The URL of a link.
pub(crate) fn url(link: &Link) -> String {
    format!("http://127.0.0.1:{}", link.port())
}

/// A store for these endpoints with default settings, which begins with the one at `first`.
pub(crate) fn store(endpoints: &[String], first: usize) -> EtcdStore {
    let mut config = EtcdConfig::new(endpoints);
    config.first_endpoint = first;
    EtcdStore::connect(config).unwrap()
}

/// Writes one key, unless it exists.
pub(crate) fn create(key: &str) -> Op {
    Op::Txn(Txn {
        compare: vec![holdfast_store::Compare::absent(KeyRange::one(key))],
        then: vec![TxnOp::Put(Put {
            key: key.into(),
            value: b"value".to_vec(),
            lease: None,
        })],
        or_else: Vec::new(),
    })
}

/// Reads one key.
pub(crate) fn read(key: &str) -> Op {
    Op::Txn(Txn::read([Get::all(KeyRange::one(key))]))
}

/// Carries out a transaction.
pub(crate) async fn txn(
    store: &EtcdStore,
    op: Op,
    timeout: Duration,
) -> Result<TxnReply, StoreError> {
    match store.call(op, timeout).await? {
        Reply::Txn(reply) => Ok(reply),
        other => panic!("not a transaction's reply: {other:?}"),
    }
}

/// Whether the key exists, read linearizably.
pub(crate) async fn exists(store: &EtcdStore, key: &str) -> bool {
    let reply = txn(store, read(key), AMPLE).await.unwrap();
    match &reply.ops[..] {
        [TxnOpReply::Get(get)] => !get.kvs.is_empty(),
        other => panic!("not a read's reply: {other:?}"),
    }
}

/// Which of these keys exist, read linearizably.
pub(crate) async fn existing(store: &EtcdStore, prefix: &str) -> Vec<Key> {
    let all = Op::Txn(Txn::read([Get::keys(KeyRange::prefix(prefix))]));
    let mut reply = txn(store, all, AMPLE).await.unwrap();
    match reply.ops.pop() {
        Some(TxnOpReply::Get(get)) => get.kvs.into_iter().map(|kv| kv.key).collect(),
        other => panic!("not a read's reply: {other:?}"),
    }
}

pub(crate) fn is_unreachable<T>(result: &Result<T, StoreError>) -> bool {
    let unreachable =
        |error: &StoreError| matches!(error, StoreError::Definite(DefiniteError::Unreachable(_)));
    result.as_ref().is_err_and(unreachable)
}

pub(crate) fn is_ambiguous<T>(result: &Result<T, StoreError>) -> bool {
    result.as_ref().is_err_and(StoreError::is_ambiguous)
}
