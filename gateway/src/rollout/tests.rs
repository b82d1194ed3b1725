//! Gateways that report, elect one of them, and drive a rollout, over models of etcd.

use super::*;
use crate::lifecycle::{Lifecycle, Phase};
use crate::limits;
use crate::map::{MapSource, MapTiming};
use crate::time::{Clock, Instant};
use holdfast_store::{Model, ModelStore, ModelTime, Op, Reply, Store, Txn};
use shard_map::init::initialise;
use shard_map::plan::{Plan, Wish};
use shard_map::rollout::{Home, Rollout, read_home};
use shard_map::{Cluster, ClusterName, DeploymentId, MapVersion, ShardCount};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Tokio's clock, which stands still while something can run.
struct TestClock(tokio::time::Instant);

impl Clock for TestClock {
    fn now(&self) -> Instant {
        let ms = self.0.elapsed().as_millis();
        Instant::from_ms(1_000 + u64::try_from(ms).unwrap())
    }

    fn unix_ms(&self) -> u64 {
        self.now().as_ms()
    }
}

struct World {
    clock: Arc<TestClock>,
    home: ModelStore,
    clusters: [(ClusterName, ModelStore); 2],
    random: Arc<AtomicU64>,
}

fn cluster(name: &str) -> Cluster {
    Cluster::new(
        name.parse().unwrap(),
        vec![format!("http://{name}:2379").parse().unwrap()],
    )
}

impl World {
    /// All shards are on a.
    async fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "tokio's paused clock, in a test")]
        let clock = Arc::new(TestClock(tokio::time::Instant::now()));
        let store = |id| {
            let clock = Arc::clone(&clock);
            ModelStore::new(Model::new(id, id), move || {
                ModelTime::from_ms(clock.now().as_ms())
            })
        };
        let (home, a, b) = (store(1), store(2), store(3));
        let clusters = [(cluster("a"), &a as &dyn Store)];
        let shards = ShardCount::try_from(4).unwrap();
        let id = DeploymentId::from_random_bits(7);
        initialise(&home, &clusters, shards, id).await.unwrap();
        Self {
            clusters: [(cluster("a").name, a), (cluster("b").name, b)],
            clock,
            home,
            random: Arc::default(),
        }
    }

    /// A gateway that takes up each map at once.
    fn gateway(&self, instance: &str) -> (tokio::task::JoinHandle<()>, Lifecycle) {
        self.gateway_that_reaches(instance, &["a", "b"])
    }

    /// And reaches only these clusters.
    fn gateway_that_reaches(
        &self,
        instance: &str,
        names: &'static [&str],
    ) -> (tokio::task::JoinHandle<()>, Lifecycle) {
        let home: Arc<dyn Store> = Arc::new(self.home.clone());
        let (source, driver) = MapSource::open(Arc::clone(&home), None, MapTiming::default());
        tokio::spawn(driver.run());
        let takes_up = source.clone();
        tokio::spawn(async move {
            let mut status = takes_up.status();
            loop {
                let map = status.borrow_and_update().map.clone();
                if let Some(map) = map {
                    takes_up.applied(map.version(), Ok(()));
                }
                if status.changed().await.is_err() {
                    return;
                }
            }
        });
        let clusters = self.clusters.clone();
        let stores = move |name: &ClusterName| {
            let found = clusters.iter().find(|(known, _)| known == name);
            let found = found.filter(|_| names.contains(&name.as_str()));
            found.map(|(_, store)| Arc::new(store.clone()) as Arc<dyn Store>)
        };
        let random = Arc::clone(&self.random);
        let task = RolloutTask::new(
            (instance.into(), format!("http://{instance}:7070")),
            home,
            source,
            Box::new(stores),
            Arc::clone(&self.clock),
            Box::new(move || random.fetch_add(1_000_003, Ordering::Relaxed) + 7),
        );
        let lifecycle = Lifecycle::default();
        (tokio::spawn(task.run(lifecycle.clone())), lifecycle)
    }

    async fn call(&self, txn: Txn) -> holdfast_store::TxnReply {
        match self.home.call(Op::Txn(txn), Duration::from_secs(1)).await {
            Ok(Reply::Txn(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    async fn home(&self) -> Home {
        Home::from_reply(self.call(read_home()).await).unwrap()
    }

    /// Waits until home is so, for a minute at most of the test's time.
    async fn until(&self, what: impl Fn(&Home) -> bool) -> Home {
        for _ in 0..600 {
            let home = self.home().await;
            if what(&home) {
                return home;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not seen: {:?}", self.home().await);
    }

    async fn begin(&self) -> Plan {
        let home = self.home().await;
        let wish = Wish {
            add: vec![cluster("b")],
            ..Wish::default()
        };
        let plan = Plan::new(&home.map, &wish).unwrap();
        let rollout = Rollout {
            max_moving: 2,
            ..Rollout::of(&plan)
        };
        assert!(
            self.call(home.begin(&plan, &rollout).unwrap())
                .await
                .succeeded
        );
        plan
    }
}

#[tokio::test(start_paused = true)]
async fn every_gateway_says_which_map_it_runs_and_one_is_elected() {
    let world = World::new().await;
    let _one = world.gateway("g1");
    let _two = world.gateway("g2");
    let both = |home: &Home| {
        home.gateways.len() == 2 && home.gateways.iter().all(|it| it.map == Some(MapVersion(1)))
    };
    let home = world.until(both).await;
    assert!(home.gateways.iter().all(|it| it.refused.is_none()));
    let elected = home.driver.unwrap();
    // Well past the lease: it is kept alive.
    tokio::time::sleep(limits::REPORT_TTL.to_std() * 3).await;
    let later = world.home().await;
    assert!(both(&later));
    assert_eq!(later.driver, Some(elected));
}

#[tokio::test(start_paused = true)]
async fn the_elected_gateway_drives_a_rollout_to_its_end() {
    let world = World::new().await;
    let _one = world.gateway("g1");
    let _two = world.gateway("g2");
    world.until(|home| home.driver.is_some()).await;
    let plan = world.begin().await;
    let home = world.until(|home| home.rollout.is_none()).await;
    assert_eq!(home.map.document().table, plan.after().document().table);
    world
        .until(|home| home.gateways.iter().all(|it| it.map == Some(MapVersion(3))))
        .await;
}

#[tokio::test(start_paused = true)]
async fn when_the_driver_dies_another_gateway_goes_on() {
    let world = World::new().await;
    let (one, _) = world.gateway("g1");
    world
        .until(|home| home.driver.as_deref() == Some("g1"))
        .await;
    let _two = world.gateway("g2");
    world.until(|home| home.gateways.len() == 2).await;
    one.abort();
    let plan = world.begin().await;
    let home = world.until(|home| home.rollout.is_none()).await;
    assert_eq!(home.map.document().table, plan.after().document().table);
    assert_eq!(home.driver.as_deref(), Some("g2"));
    assert_eq!(home.gateways.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_reach_a_cluster_lets_another_gateway_drive() {
    let world = World::new().await;
    let (_one, _) = world.gateway_that_reaches("g1", &["a"]);
    world
        .until(|home| home.driver.as_deref() == Some("g1"))
        .await;
    let _two = world.gateway("g2");
    world.until(|home| home.gateways.len() == 2).await;
    let plan = world.begin().await;
    let home = world.until(|home| home.rollout.is_none()).await;
    assert_eq!(home.map.document().table, plan.after().document().table);
    assert_eq!(home.driver.as_deref(), Some("g2"));
    // It goes on saying which map it runs.
    world.until(|home| home.gateways.len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_drains_leaves_home_at_once() {
    let world = World::new().await;
    let (task, lifecycle) = world.gateway("g1");
    world.until(|home| home.driver.is_some()).await;
    lifecycle.advance(Phase::Draining);
    task.await.unwrap();
    let home = world.home().await;
    assert_eq!((home.driver, home.gateways), (None, Vec::new()));
}
