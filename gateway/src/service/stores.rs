//! Where the locks are kept: etcd clusters, or models of them in this process.

use crate::time::Clock;
use anyhow::Context;
use holdfast_store::{EtcdStore, Model, ModelStore, ModelTime, Store};
use shard_map::init::initialise;
use shard_map::{Cluster, ClusterName, DeploymentId, Endpoint, ShardCount, ShardMap};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for a member's version before asking again.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// The store of a cluster of the map, over etcd. Connects to nothing yet; warns of a version that
/// cannot be relied upon as soon as it is known. Wants a Tokio runtime.
///
/// # Errors
/// When a file that the map refers to cannot be read, or the settings contradict each other.
pub fn etcd_store(cluster: &Cluster) -> anyhow::Result<Arc<dyn Store>> {
    let config = cluster
        .etcd_config()
        .with_context(|| format!("cluster {}", cluster.name))?;
    let store = EtcdStore::connect(config).with_context(|| format!("cluster {}", cluster.name))?;
    tokio::spawn(warn_of_version(cluster.name.clone(), store.clone()));
    Ok(Arc::new(store))
}

async fn warn_of_version(cluster: ClusterName, store: EtcdStore) {
    let version = loop {
        match store.version(VERSION_TIMEOUT).await {
            Ok(version) => break version,
            Err(_) => tokio::time::sleep(VERSION_TIMEOUT).await,
        }
    };
    if version.is_supported() {
        tracing::info!(%cluster, etcd = %version, "etcd version");
    } else {
        tracing::warn!(
            %cluster, etcd = %version,
            "this etcd version cannot be relied upon: use 3.5 from 3.5.14 on, or 3.6"
        );
    }
}

/// Clusters that live in this process: nothing to install, and gone with the process.
pub struct Embedded {
    /// The map over them.
    pub map: ShardMap,
    /// Home, which is the first of them.
    pub home: Arc<dyn Store>,
    stores: BTreeMap<ClusterName, Arc<dyn Store>>,
}

impl Embedded {
    /// Makes `clusters` of them and initialises a deployment over them.
    ///
    /// # Errors
    /// When there are more than a map can have.
    pub async fn start<C: Clock>(
        clusters: u8,
        shards: ShardCount,
        deployment: DeploymentId,
        clock: &Arc<C>,
    ) -> anyhow::Result<Self> {
        let mut named: Vec<(Cluster, Arc<dyn Store>)> = Vec::new();
        for number in 1..=clusters {
            let store: Arc<dyn Store> = Arc::new(embedded_store(number, clock));
            named.push((embedded_cluster(number)?, store));
        }
        let (_, home) = named.first().context("at least one cluster is needed")?;
        let home = Arc::clone(home);
        let borrowed: Vec<(Cluster, &dyn Store)> = named
            .iter()
            .map(|(cluster, store)| (cluster.clone(), &**store))
            .collect();
        let map = initialise(&*home, &borrowed, shards, deployment).await?.map;
        let stores = named
            .into_iter()
            .map(|(cluster, store)| (cluster.name, store))
            .collect();
        Ok(Self { map, home, stores })
    }

    /// The store of a cluster of the map.
    ///
    /// # Errors
    /// When the map has a cluster that was not made here.
    pub fn store(&self, cluster: &Cluster) -> anyhow::Result<Arc<dyn Store>> {
        let store = self.stores.get(&cluster.name);
        store
            .cloned()
            .with_context(|| format!("cluster {} is not embedded here", cluster.name))
    }
}

fn embedded_store<C: Clock>(number: u8, clock: &Arc<C>) -> ModelStore {
    let clock = Arc::clone(clock);
    let model = Model::new(u64::from(number), 1);
    ModelStore::new(model, move || ModelTime::from_ms(clock.now().as_ms()))
}

/// Nothing listens at its endpoint; the map wants one.
fn embedded_cluster(number: u8) -> anyhow::Result<Cluster> {
    let endpoint: Endpoint = format!("http://embedded-{number}:2379").parse()?;
    Ok(Cluster::new(
        format!("embedded-{number}").parse()?,
        vec![endpoint],
    ))
}
