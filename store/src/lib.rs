//! The slice of etcd that Holdfast uses, as values.
//!
//! Everything that is asked of a cluster is an [`Op`], everything that comes back a [`Reply`] or a
//! [`StoreError`], so that the code which decides what to ask and what an answer means needs no
//! socket, and the same code runs against etcd ([`EtcdStore`]) and against the in-memory
//! [`Model`].
//!
//! An error says whether the operation *may have happened*: [`StoreError::Definite`] means that it
//! did not and never will, [`StoreError::Ambiguous`] that nobody knows. There is no third reading.

mod error;
pub mod etcd;
mod keys;
pub mod model;
mod op;
mod txn;

pub use error::{DefiniteError, StoreError};
pub use etcd::EtcdStore;
pub use keys::{Key, KeyRange, LeaseId, Revision};
pub use model::{Model, ModelStore, ModelTime};
pub use op::{Alarm, Header, KeepAliveAnswer, Op, Reply};
pub use txn::{
    Compare, Condition, Get, GetReply, KeyValue, Put, Relation, Txn, TxnOp, TxnOpReply, TxnReply,
};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::time::Duration;

/// One cluster, as seen by one gateway.
pub trait Store: Send + Sync + 'static {
    /// Carries out one operation, and gives up after `timeout`.
    ///
    /// Giving up does not cancel: an operation whose outcome is [`StoreError::Ambiguous`] may
    /// take effect at any later time. Dropping the future is giving up.
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>>;

    /// Follows changes of the keys in `range` from `from` (inclusive; `None`: from now on).
    ///
    /// A watch is a hint, never the truth: it may end at any time ([`WatchEvent::Ended`] is its
    /// last item), and a reader that misses events must read again.
    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent>;

    /// Waits until the key is deleted at revision `from` or later; that it was so already is told, too.
    ///
    /// A hint, as a watch is: it also ends when nothing can be told any more. Begins when it is first
    /// polled.
    fn gone(&self, key: Key, from: Revision) -> BoxFuture<'static, ()> {
        let events = self.watch(KeyRange::one(key), Some(from));
        Box::pin(until_deleted(events, from))
    }
}

/// Follows a key until it is deleted at `from` or later, or nothing is told any more.
async fn until_deleted(mut events: BoxStream<'static, WatchEvent>, from: Revision) {
    while let Some(event) = events.next().await {
        match event {
            WatchEvent::Delete(_, at) if at >= from => return,
            WatchEvent::Ended(_) => return,
            WatchEvent::Delete(..) | WatchEvent::Put(_) => {}
        }
    }
}

/// What a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The key has a new value.
    Put(KeyValue),
    /// The key was deleted, by hand or with its lease, at this revision.
    Delete(Key, Revision),
    /// The watch is over (compacted, cut off, leader lost); nothing follows.
    Ended(String),
}
