//! The stores of the map's clusters, which can be exchanged while their engines run.
//!
//! When a map gives a cluster other endpoints, TLS files or credentials, its engine goes on with its
//! session and groups, and asks through the new store from then on. That the new endpoints are the
//! same etcd cluster the engine checks itself, in each round.

use crate::service::StoreOf;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use holdfast_store::{Key, KeyRange, Op, Reply, Revision, Store, StoreError, WatchEvent};
use shard_map::{Cluster, ClusterName, ShardMap};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// See the module.
pub(super) struct Clusters {
    make: Box<StoreOf>,
    known: Mutex<BTreeMap<ClusterName, (Cluster, Arc<Exchangeable>)>>,
}

impl Clusters {
    pub(super) fn new(make: Box<StoreOf>) -> Self {
        Self {
            make,
            known: Mutex::default(),
        }
    }

    /// Makes the stores that this map wants: of clusters that are new, or reached otherwise than
    /// before. None changes unless all can be made.
    ///
    /// # Errors
    /// When one cannot: a file cannot be read, say.
    pub(super) fn take_up(&self, map: &ShardMap) -> anyhow::Result<()> {
        let mut known = self.lock();
        let mut made = Vec::new();
        for cluster in map.clusters() {
            let same = known.get(&cluster.name).is_some_and(|(known, _)| {
                // A weight is nothing to a store.
                let known = Cluster {
                    weight: cluster.weight,
                    ..known.clone()
                };
                known == *cluster
            });
            if !same {
                made.push((cluster, (self.make)(cluster)?));
            }
        }
        for (cluster, store) in made {
            match known.get_mut(&cluster.name) {
                Some((spec, exchangeable)) => {
                    tracing::info!(cluster = %cluster.name, "reached by a new map's settings from now on");
                    *spec = cluster.clone();
                    exchangeable.0.store(Arc::new(store));
                }
                None => {
                    let store = Arc::new(Exchangeable(ArcSwap::from_pointee(store)));
                    known.insert(cluster.name.clone(), (cluster.clone(), store));
                }
            }
        }
        Ok(())
    }

    /// Forgets the stores of clusters that this map does not have. Whoever uses one keeps it.
    pub(super) fn forget_others(&self, map: &ShardMap) {
        self.lock().retain(|name, _| map.cluster(name).is_some());
    }

    /// The store of a cluster of a map that was taken up.
    pub(super) fn get(&self, name: &ClusterName) -> Option<Arc<dyn Store>> {
        let known = self.lock();
        let (_, store) = known.get(name)?;
        Some(Arc::clone(store) as Arc<dyn Store>)
    }

    fn lock(
        &self,
    ) -> std::sync::MutexGuard<'_, BTreeMap<ClusterName, (Cluster, Arc<Exchangeable>)>> {
        // Every change is a single insertion or removal: there is no half of one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store that becomes another one; calls and watches that have begun go on with the old one.
struct Exchangeable(ArcSwap<Arc<dyn Store>>);

impl Store for Exchangeable {
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        self.0.load().call(op, timeout)
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        self.0.load().watch(range, from)
    }

    fn gone(&self, key: Key, from: Revision) -> BoxFuture<'static, ()> {
        self.0.load().gone(key, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_store::{Model, ModelStore, ModelTime, Txn};
    use shard_map::{DeploymentId, ShardCount, Weight};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn map(endpoint: &str, weight: u32) -> ShardMap {
        named("a", endpoint, weight)
    }

    fn named(name: &str, endpoint: &str, weight: u32) -> ShardMap {
        let cluster = Cluster {
            weight: Weight::try_from(weight).unwrap(),
            ..Cluster::new(name.parse().unwrap(), vec![endpoint.parse().unwrap()])
        };
        let shards = ShardCount::try_from(4).unwrap();
        ShardMap::initial(DeploymentId::from_random_bits(1), shards, vec![cluster]).unwrap()
    }

    async fn etcd_id(store: &dyn Store) -> u64 {
        match store
            .call(Op::Txn(Txn::default()), Duration::from_secs(1))
            .await
        {
            Ok(Reply::Txn(reply)) => reply.header.cluster_id,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn other_endpoints_reach_an_engine_that_runs_and_a_weight_changes_nothing() {
        let made = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&made);
        let clusters = Clusters::new(Box::new(move |cluster| {
            anyhow::ensure!(!cluster.endpoints[0].as_str().contains("bad"), "bad");
            let id = count.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Arc::new(ModelStore::new(
                Model::new(id, id),
                ModelTime::default,
            )))
        }));
        let name = "a".parse().unwrap();
        clusters.take_up(&map("http://one:1", 1)).unwrap();
        let store = clusters.get(&name).unwrap();
        assert_eq!(etcd_id(&*store).await, 1);
        clusters.take_up(&map("http://one:1", 5)).unwrap();
        assert_eq!(etcd_id(&*store).await, 1);
        clusters.take_up(&map("http://bad:1", 1)).unwrap_err();
        assert_eq!(etcd_id(&*store).await, 1);
        clusters.take_up(&map("http://two:1", 1)).unwrap();
        assert_eq!(etcd_id(&*store).await, 2);
        let without = named("b", "http://two:1", 1);
        clusters.take_up(&without).unwrap();
        assert!(clusters.get(&name).is_some());
        clusters.forget_others(&without);
        assert!(clusters.get(&name).is_none());
    }
}
