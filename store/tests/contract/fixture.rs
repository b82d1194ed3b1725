//! What each check gets: a store, keys and lease ids that nobody else uses, and the operations
//! with their usual answers taken apart.

use crate::ops::{all, get, put, put_on, read};
use crate::target::Target;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use holdfast_store::{
    DefiniteError, Header, Key, KeyRange, KeyValue, LeaseId, Op, Reply, Revision, StoreError, Txn,
    TxnReply, WatchEvent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// No check comes near this; it only ends a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A lease that no check outlives, in seconds.
pub(crate) const LONG_TTL_S: u32 = 3600;

pub(crate) struct Fixture {
    pub(crate) target: Arc<Target>,
    prefix: String,
    next_lease: AtomicI64,
}

impl Fixture {
    /// `number` is this fixture's own among those of the target.
    pub(crate) fn new(target: Arc<Target>, number: usize) -> Self {
        let number = i64::try_from(number).unwrap();
        Self {
            target,
            prefix: format!("/contract/{number}/"),
            next_lease: AtomicI64::new((number + 1) << 32),
        }
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        format!("{}{name}", self.prefix).into()
    }

    /// So many keys, in key order.
    pub(crate) fn keys(&self, count: usize) -> Vec<Key> {
        (0..count).map(|n| self.key(&format!("{n:04}"))).collect()
    }

    /// Every key of this fixture.
    pub(crate) fn everything(&self) -> KeyRange {
        KeyRange::prefix(self.prefix.as_str())
    }

    /// The id of a lease that does not exist.
    pub(crate) fn unused_lease(&self) -> LeaseId {
        LeaseId(self.next_lease.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn call(&self, op: Op) -> Result<Reply, StoreError> {
        self.target.store().call(op, LIMIT).await
    }

    pub(crate) async fn txn(&self, txn: Txn) -> TxnReply {
        match self.call(Op::Txn(txn)).await {
            Ok(Reply::Txn(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// The definite error that `op` fails with.
    pub(crate) async fn refused(&self, op: Op) -> DefiniteError {
        match self.call(op).await {
            Err(StoreError::Definite(error)) => error,
            other => panic!("expected a definite error, got {other:?}"),
        }
    }

    /// Checks that `txn` is refused as invalid and changes nothing.
    pub(crate) async fn assert_invalid(&self, what: &str, txn: Txn) {
        let before = self.revision().await;
        let error = self.refused(Op::Txn(txn)).await;
        assert!(
            matches!(error, DefiniteError::Invalid(_)),
            "{what}: {error:?}"
        );
        assert_eq!(self.revision().await, before, "{what}");
    }

    pub(crate) async fn header(&self) -> Header {
        self.txn(all([get(&self.key(""))])).await.header
    }

    pub(crate) async fn revision(&self) -> Revision {
        self.header().await.revision
    }

    /// Puts a key that hangs from nothing; returns the revision.
    pub(crate) async fn put(&self, key: &Key) -> Revision {
        self.txn(all([put(key)])).await.header.revision
    }

    pub(crate) async fn put_on(&self, key: &Key, lease: LeaseId) -> Revision {
        self.txn(all([put_on(key, lease)])).await.header.revision
    }

    pub(crate) async fn get(&self, key: &Key) -> Option<KeyValue> {
        let reply = self.txn(all([get(key)])).await;
        read(&reply.ops[0]).kvs.first().cloned()
    }

    pub(crate) async fn exists(&self, key: &Key) -> bool {
        self.get(key).await.is_some()
    }

    /// Grants a lease with an id of its own; returns what was granted, in seconds.
    pub(crate) async fn grant(&self, ttl_s: u32) -> (LeaseId, i64) {
        let lease = self.unused_lease();
        match self.call(Op::LeaseGrant { lease, ttl_s }).await {
            Ok(Reply::LeaseGranted { ttl_s, .. }) => (lease, ttl_s),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn long_lease(&self) -> LeaseId {
        self.grant(LONG_TTL_S).await.0
    }

    /// Returns the header.
    pub(crate) async fn revoke(&self, lease: LeaseId) -> Header {
        match self.call(Op::LeaseRevoke { lease }).await {
            Ok(Reply::LeaseRevoked { header }) => header,
            other => panic!("{other:?}"),
        }
    }

    /// What is left of the lease in seconds, and its keys in order.
    pub(crate) async fn lease_keys(&self, lease: LeaseId) -> (i64, Vec<Key>) {
        match self.call(Op::LeaseKeys { lease }).await {
            Ok(Reply::LeaseKeys {
                ttl_s, mut keys, ..
            }) => {
                keys.sort();
                (ttl_s, keys)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Which leases were answered, with what.
    pub(crate) async fn keep_alive(&self, leases: &[LeaseId]) -> Vec<(LeaseId, i64)> {
        let leases = leases.to_vec();
        match self.call(Op::KeepAlive { leases }).await {
            Ok(Reply::KeepAlive(answers)) => answers.iter().map(|a| (a.lease, a.ttl_s)).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Follows this fixture's keys.
    pub(crate) fn watch(&self, from: Option<Revision>) -> Watch {
        self.watch_range(self.everything(), from)
    }

    pub(crate) fn watch_range(&self, range: KeyRange, from: Option<Revision>) -> Watch {
        Watch(self.target.store().watch(range, from))
    }

    /// Waits until the key is deleted at `from` or later.
    pub(crate) fn gone(&self, key: &Key, from: Revision) -> BoxFuture<'static, ()> {
        let gone = self.target.store().gone(key.clone(), from);
        async move {
            let told = tokio::time::timeout(LIMIT, gone).await;
            told.expect("nothing is said of the end of the key");
        }
        .boxed()
    }
}

/// A watch that fails rather than waits for ever.
pub(crate) struct Watch(BoxStream<'static, WatchEvent>);

impl Watch {
    pub(crate) async fn next(&mut self) -> Option<WatchEvent> {
        tokio::time::timeout(LIMIT, self.0.next())
            .await
            .expect("the watch says nothing")
    }

    /// The next events, each as its key and the revision at which it happened; `true` is a put.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<(bool, Key, Revision)> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(match self.next().await {
                Some(WatchEvent::Put(kv)) => (true, kv.key, kv.mod_revision),
                Some(WatchEvent::Delete(key, revision)) => (false, key, revision),
                other => panic!("after {events:?}: {other:?}"),
            });
        }
        events
    }
}
