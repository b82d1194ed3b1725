//! The store over a real etcd cluster.
//!
//! Each endpoint has connections of its own, and the store decides which endpoint a call uses: the
//! one that worked last, and another when that one cannot be reached or refuses before doing
//! anything. A call whose outcome is unknown is never repeated here. Which errors are definite is
//! decided in one place (`failure.rs`), which endpoint is next in another (`endpoints.rs`); both
//! are plain functions of what was seen.

mod attempts;
mod auth;
mod call;
mod config;
mod endpoints;
mod failure;
mod flight;
mod keepalive;
mod link;
mod pool;
mod reply;
mod request;
mod target;
mod version;
mod watch;

pub use config::{ConfigError, Credentials, EtcdConfig, EtcdTls, TlsIdentity};
pub use version::EtcdVersion;

use crate::{Key, KeyRange, Op, Reply, Revision, Store, StoreError, WatchEvent};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use pool::Pool;
use std::sync::Arc;
use std::time::Duration;

/// An etcd cluster. Clones share their connections.
///
/// Calls and watches need a Tokio runtime with time and network enabled. A watch begins when it is
/// first polled.
///
/// A lack of space is reported as [`StoreError::Ambiguous`]: etcd answers the write that uses the
/// space up with that error *and applies it*, and nothing tells it from a refused one.
#[derive(Debug, Clone)]
pub struct EtcdStore {
    pool: Arc<Pool>,
}

impl EtcdStore {
    /// A store for this cluster. Connects to nothing: connections are made when they are first
    /// needed, and anew when they broke.
    ///
    /// # Errors
    /// When the configuration cannot be used, whatever the state of the cluster.
    pub fn connect(config: EtcdConfig) -> Result<Self, ConfigError> {
        let pool = Arc::new(Pool::new(config)?);
        Ok(Self { pool })
    }

    /// The version of the member that calls go to at the moment.
    ///
    /// # Errors
    /// When no member answers within `timeout`; it can be asked again at any time.
    pub async fn version(&self, timeout: Duration) -> Result<EtcdVersion, StoreError> {
        call::version(&self.pool, timeout).await
    }
}

impl Store for EtcdStore {
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        let pool = Arc::clone(&self.pool);
        Box::pin(async move { call::call(&pool, &op, timeout).await })
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        watch::watch(Arc::clone(&self.pool), range, from)
    }

    fn gone(&self, key: Key, from: Revision) -> BoxFuture<'static, ()> {
        Box::pin(watch::gone(Arc::clone(&self.pool), key, from))
    }
}
