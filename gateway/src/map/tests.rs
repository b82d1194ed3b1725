//! A gateway's map over a home in memory.

use super::*;
use crate::time::Millis;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use holdfast_store::{
    DefiniteError, KeyRange, Model, ModelStore, ModelTime, Op, Put, Reply, Revision, Store,
    StoreError, Txn, TxnOp, WatchEvent,
};
use shard_map::records::keys;
use shard_map::{Cluster, DeploymentId, MapVersion, ShardCount, ShardMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A map of one cluster.
pub(super) fn map(deployment: u128, shards: u32, version: u64) -> ShardMap {
    let cluster = Cluster::new("a".parse().unwrap(), vec!["http://a:2379".parse().unwrap()]);
    let deployment = DeploymentId::from_random_bits(deployment);
    let shards = ShardCount::try_from(shards).unwrap();
    let first = ShardMap::initial(deployment, shards, vec![cluster]).unwrap();
    let mut document = first.document().clone();
    document.version = MapVersion(version);
    ShardMap::try_from(document).unwrap()
}

/// So long that a test which needed it would never end.
const NEVER: Millis = Millis::from_secs(1_000_000_000);

/// A home that can be cut off, and whose watches can be silent or end at once.
#[derive(Clone)]
struct Home {
    store: ModelStore,
    reachable: Arc<AtomicBool>,
    watches: Watches,
    calls: Arc<AtomicU32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watches {
    Work,
    AreSilent,
    EndAtOnce,
}

impl Home {
    fn new(watches: Watches) -> Self {
        Self {
            store: ModelStore::new(Model::new(1, 1), ModelTime::default),
            reachable: Arc::new(AtomicBool::new(true)),
            watches,
            calls: Arc::default(),
        }
    }

    fn publish(&self, document: &[u8]) {
        let put = Op::Txn(Txn {
            then: vec![TxnOp::Put(Put {
                key: keys::map_current(),
                value: document.into(),
                lease: None,
            })],
            ..Txn::default()
        });
        let applied = self
            .store
            .with_model(|model| model.apply(ModelTime::default(), &put));
        applied.unwrap();
    }

    fn cut_off(&self, cut_off: bool) {
        self.reachable.store(!cut_off, Ordering::Relaxed);
    }

    /// A gateway that starts, with this state directory.
    fn gateway(&self, state_dir: Option<&Path>, reread: Millis) -> Gateway {
        let state_dir = state_dir.map(|path| StateDir::open(path).unwrap());
        let timing = MapTiming {
            reread,
            ..MapTiming::default()
        };
        let (source, driver) = MapSource::open(Arc::new(self.clone()), state_dir, timing);
        Gateway {
            source,
            driver: tokio::spawn(driver.run()),
        }
    }
}

impl Store for Home {
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.reachable.load(Ordering::Relaxed) {
            return self.store.call(op, timeout);
        }
        let unreachable = DefiniteError::Unreachable("cut off".into());
        async { Err(unreachable.into()) }.boxed()
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        match self.watches {
            Watches::Work => self.store.watch(range, from),
            Watches::AreSilent => stream::pending().boxed(),
            Watches::EndAtOnce => stream::iter([WatchEvent::Ended("no leader".into())]).boxed(),
        }
    }
}

struct Gateway {
    source: MapSource,
    driver: tokio::task::JoinHandle<()>,
}

impl Gateway {
    async fn until(&self, condition: impl FnMut(&MapStatus) -> bool) -> MapStatus {
        let mut status = self.source.status();
        status.wait_for(condition).await.unwrap().clone()
    }

    async fn until_version(&self, version: u64) -> MapStatus {
        let running = |status: &MapStatus| status.map.as_ref().map(|map| map.version());
        self.until(|status| running(status) == Some(MapVersion(version)))
            .await
    }

    async fn stop(self) {
        self.driver.abort();
        let _aborted = self.driver.await;
    }
}

/// On the real clock: a paused one would jump to the next look, and hide a watch that says nothing.
#[tokio::test]
async fn a_change_that_the_watch_reports_is_run_without_waiting_for_the_next_look() {
    let home = Home::new(Watches::Work);
    home.publish(&map(7, 256, 1).to_json());
    let gateway = home.gateway(None, NEVER);
    gateway.until_version(1).await;
    for version in 2..6 {
        home.publish(&map(7, 256, version).to_json());
        let limit = Duration::from_secs(60);
        let seen = tokio::time::timeout(limit, gateway.until_version(version)).await;
        assert!(seen.is_ok(), "version {version} was not seen");
    }
}

#[tokio::test(start_paused = true)]
async fn the_map_is_loaded_from_home_followed_and_kept_on_disk() {
    let (home, folder) = (Home::new(Watches::Work), tempfile::tempdir().unwrap());
    home.publish(&map(7, 256, 1).to_json());
    let gateway = home.gateway(Some(folder.path()), NEVER);
    assert_eq!(*gateway.source.first_map().await, map(7, 256, 1));
    let status = gateway.until(|status| status.disk_version.is_some()).await;
    assert!(status.home_seen && gateway.source.home_seen());
    assert_eq!((status.problem, status.disk_problem), (None, None));

    home.publish(&map(7, 256, 2).to_json());
    let on_disk = Some(MapVersion(2));
    gateway.until(|status| status.disk_version == on_disk).await;
    assert_eq!(*gateway.source.map().unwrap(), map(7, 256, 2));
    gateway.stop().await;
    let saved = StateDir::open(folder.path()).unwrap().load();
    assert_eq!(saved, Ok(Some(map(7, 256, 2))));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_found_without_the_watch_by_the_next_look() {
    for watches in [Watches::AreSilent, Watches::EndAtOnce] {
        let home = Home::new(watches);
        home.publish(&map(7, 256, 1).to_json());
        let gateway = home.gateway(None, MapTiming::default().reread);
        gateway.until_version(1).await;
        home.publish(&map(7, 256, 2).to_json());
        gateway.until_version(2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_home_whose_watches_end_at_once_is_not_asked_without_a_pause() {
    let home = Home::new(Watches::EndAtOnce);
    home.publish(&map(7, 256, 1).to_json());
    let gateway = home.gateway(None, NEVER);
    gateway.until_version(1).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(home.calls.load(Ordering::Relaxed) <= 2);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_home_runs_its_disk_copy_and_has_not_seen_home_until_it_answers() {
    let (home, folder) = (Home::new(Watches::Work), tempfile::tempdir().unwrap());
    let state_dir = StateDir::open(folder.path()).unwrap();
    state_dir.save(&map(7, 256, 4)).unwrap();
    drop(state_dir);
    home.cut_off(true);
    home.publish(&map(7, 256, 4).to_json());
    let gateway = home.gateway(Some(folder.path()), NEVER);
    assert_eq!(*gateway.source.map().unwrap(), map(7, 256, 4));
    let status = gateway.until(|status| status.problem.is_some()).await;
    assert!(
        matches!(status.problem, Some(MapProblem::Unreachable(_))),
        "{status:?}"
    );
    assert!(!status.home_seen && !gateway.source.home_seen());

    home.cut_off(false);
    let status = gateway.until(|status| status.home_seen).await;
    assert_eq!(*status.map.unwrap(), map(7, 256, 4));
    assert!(gateway.source.home_seen());
}

/// A copy on disk may name a cluster that was given up since.
#[tokio::test(start_paused = true)]
async fn a_home_whose_map_is_refused_does_not_count_as_seen() {
    let (home, folder) = (Home::new(Watches::Work), tempfile::tempdir().unwrap());
    let state_dir = StateDir::open(folder.path()).unwrap();
    state_dir.save(&map(7, 256, 4)).unwrap();
    drop(state_dir);
    home.publish(&map(7, 256, 3).to_json());
    let gateway = home.gateway(Some(folder.path()), NEVER);
    let status = gateway.until(|status| status.problem.is_some()).await;
    let refused =
        |problem: &MapProblem| matches!(problem, MapProblem::Refused(Refusal::OlderVersion { .. }));
    assert!(status.problem.as_ref().is_some_and(refused), "{status:?}");
    assert!(!status.home_seen && !gateway.source.home_seen());
    assert_eq!(*gateway.source.map().unwrap(), map(7, 256, 4));
}

#[tokio::test(start_paused = true)]
async fn with_neither_home_nor_a_copy_the_gateway_keeps_trying() {
    let home = Home::new(Watches::Work);
    home.cut_off(true);
    let gateway = home.gateway(None, NEVER);
    gateway.until(|status| status.problem.is_some()).await;
    assert_eq!(gateway.source.map(), None);

    home.cut_off(false);
    let missing = Some(MapProblem::Refused(Refusal::Missing));
    let status = gateway.until(|status| status.problem == missing).await;
    assert!(!status.home_seen);

    home.publish(&map(7, 256, 1).to_json());
    assert_eq!(*gateway.source.first_map().await, map(7, 256, 1));
    let status = gateway.until(|status| status.home_seen).await;
    assert!(status.map.is_some());
    gateway.until(|status| status.problem.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_map_changes_nothing_and_is_reported_until_a_good_one_comes() {
    let home = Home::new(Watches::Work);
    home.publish(&map(7, 256, 1).to_json());
    let gateway = home.gateway(None, NEVER);
    gateway.until_version(1).await;
    let longer = br#"{"version":2,"unknown":true}"#;
    for bad in [
        &map(7, 128, 2).to_json()[..],
        &map(8, 256, 2).to_json(),
        longer,
    ] {
        home.publish(bad);
        let status = gateway.until(|status| status.problem.is_some()).await;
        assert!(
            matches!(status.problem, Some(MapProblem::Refused(_))),
            "{status:?}"
        );
        assert_eq!(*status.map.unwrap(), map(7, 256, 1));
        assert!(gateway.source.home_seen());
        home.publish(&map(7, 256, 1).to_json());
        gateway.until(|status| status.problem.is_none()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_on_disk_that_is_no_map_is_reported_and_replaced() {
    let (home, folder) = (Home::new(Watches::Work), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("map.json"), b"{").unwrap();
    home.cut_off(true);
    home.publish(&map(7, 256, 1).to_json());
    let gateway = home.gateway(Some(folder.path()), NEVER);
    assert_eq!(gateway.source.map(), None);
    gateway.until(|status| status.disk_problem.is_some()).await;
    home.cut_off(false);
    gateway.until(|status| status.disk_version.is_some()).await;
    gateway.until(|status| status.disk_problem.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_cannot_be_written_does_not_keep_a_map_from_running() {
    let (home, folder) = (Home::new(Watches::Work), tempfile::tempdir().unwrap());
    home.publish(&map(7, 256, 1).to_json());
    let gateway = home.gateway(Some(folder.path()), NEVER);
    gateway.until(|status| status.disk_version.is_some()).await;
    // In the place of the file that is written first.
    let in_the_way = folder.path().join("map.json.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    home.publish(&map(7, 256, 2).to_json());
    let status = gateway.until(|status| status.disk_problem.is_some()).await;
    assert_eq!(*status.map.unwrap(), map(7, 256, 2));
    assert_eq!(status.disk_version, Some(MapVersion(1)));

    std::fs::remove_dir(&in_the_way).unwrap();
    home.publish(&map(7, 256, 3).to_json());
    let on_disk = Some(MapVersion(3));
    let status = gateway.until(|status| status.disk_version == on_disk).await;
    assert_eq!(status.disk_problem, None);
}
