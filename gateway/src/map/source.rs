//! Following home.

use super::judge::{Verdict, judge};
use super::{MapProblem, MapStatus, StateDir};
use crate::time::Millis;
use arc_swap::ArcSwapOption;
use futures::StreamExt;
use futures::stream::BoxStream;
use holdfast_store::{
    Get, KeyRange, Op, Reply, Revision, Store, Txn, TxnOpReply, TxnReply, WatchEvent,
};
use shard_map::records::keys;
use shard_map::{MapVersion, ShardMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// When home is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapTiming {
    /// A look without any sign of a change: what a lost watch event costs at most.
    pub reread: Millis,
    /// The pause after a first failure; it doubles with each further one.
    pub retry_first: Millis,
    /// The longest pause after a failure.
    pub retry_max: Millis,
    /// How long home may take to answer: longer than an election.
    pub answer: Millis,
}

impl Default for MapTiming {
    fn default() -> Self {
        Self {
            reread: Millis::from_secs(30),
            retry_first: Millis::from_ms(250),
            retry_max: Millis::from_secs(5),
            answer: Millis::from_secs(5),
        }
    }
}

/// The map, as it is now. Clones share it.
#[derive(Debug, Clone)]
pub struct MapSource {
    map: Arc<ArcSwapOption<ShardMap>>,
    home_seen: Arc<AtomicBool>,
    status: Arc<watch::Sender<MapStatus>>,
}

impl MapSource {
    /// A source that runs the copy on disk, if there is one, until its driver has seen home.
    /// Without a directory nothing is kept. Reads the copy: blocks on the disk.
    pub fn open(
        home: Arc<dyn Store>,
        state_dir: Option<StateDir>,
        timing: MapTiming,
    ) -> (Self, MapDriver) {
        let source = Self {
            map: Arc::default(),
            home_seen: Arc::default(),
            status: Arc::new(watch::Sender::new(MapStatus::default())),
        };
        match state_dir.as_ref().map(StateDir::load) {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(map))) => {
                tracing::info!(
                    version = map.version().0,
                    "running the map of the disk copy"
                );
                source.update(|status| status.disk_version = Some(map.version()));
                source.run_map(Arc::new(map));
            }
            Some(Err(problem)) => {
                tracing::warn!(problem, "the map's disk copy is not used");
                source.update(|status| status.disk_problem = Some(problem));
            }
        }
        let driver = MapDriver {
            source: source.clone(),
            home,
            state_dir: state_dir.map(Arc::new),
            saved: source.map(),
            timing,
        };
        (source, driver)
    }

    /// The map that runs. `None`: there was none yet.
    pub fn map(&self) -> Option<Arc<ShardMap>> {
        self.map.load_full()
    }

    /// Whether home has answered once with a map that was accepted; until then nothing may be
    /// granted. Who sees `true` also sees that map, or a later one.
    pub fn home_seen(&self) -> bool {
        self.home_seen.load(Ordering::Acquire)
    }

    /// What runs and what is wrong, now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<MapStatus> {
        self.status.subscribe()
    }

    /// Waits until there is a map. Cancelling it loses nothing.
    pub async fn first_map(&self) -> Arc<ShardMap> {
        let mut status = self.status();
        loop {
            if let Some(map) = self.map() {
                return map;
            }
            // The sender lives in `self`, so it cannot be gone.
            let _changed = status.changed().await;
        }
    }

    /// Takes note of whether the lock service has taken up a map of this version.
    pub fn applied(&self, version: MapVersion, outcome: Result<(), String>) {
        self.update(|status| {
            if outcome.is_ok() {
                status.applied = Some(version);
            }
            status.apply_problem = outcome.err();
        });
    }

    fn run_map(&self, map: Arc<ShardMap>) {
        self.map.store(Some(map.clone()));
        self.update(|status| status.map = Some(map));
    }

    fn update(&self, change: impl FnOnce(&mut MapStatus)) {
        self.status.send_if_modified(|status| {
            let before = status.clone();
            change(status);
            *status != before
        });
    }
}

/// Follows home. Spawn [`MapDriver::run`] once; ending that task at any moment is safe.
pub struct MapDriver {
    source: MapSource,
    home: Arc<dyn Store>,
    state_dir: Option<Arc<StateDir>>,
    /// What the copy on disk has, as far as it is known.
    saved: Option<Arc<ShardMap>>,
    timing: MapTiming,
}

impl MapDriver {
    /// Looks at home at once, whenever it reports a change, and now and then; for ever.
    pub async fn run(mut self) {
        let MapTiming {
            reread,
            retry_first,
            retry_max,
            ..
        } = self.timing;
        let mut retry = retry_first;
        let mut changes: Option<BoxStream<'static, WatchEvent>> = None;
        loop {
            let pause = match self.look().await {
                Some(revision) => {
                    retry = retry_first;
                    // From the revision after the one that was read: nothing falls between.
                    let from = Some(Revision(revision.0 + 1));
                    let range = KeyRange::one(keys::map_current());
                    changes.get_or_insert_with(|| self.home.watch(range, from));
                    reread
                }
                None => {
                    let pause = retry;
                    retry = (retry + retry).min(retry_max);
                    pause
                }
            };
            let watching = async {
                match &mut changes {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            match tokio::time::timeout(pause.to_std(), watching).await {
                Err(_) | Ok(Some(WatchEvent::Put(_) | WatchEvent::Delete(..))) => {}
                Ok(Some(WatchEvent::Ended(_)) | None) => {
                    changes = None;
                    // A home whose watches end at once must not be asked without a pause.
                    tokio::time::sleep(retry_first.to_std()).await;
                }
            }
        }
    }

    /// Reads home and acts on it. The revision that was read; `None` if home did not answer.
    async fn look(&mut self) -> Option<Revision> {
        let read = Txn::read([Get::all(KeyRange::one(keys::map_current()))]);
        let reply = self.home.call(Op::Txn(read), self.timing.answer.to_std());
        let (revision, problem) = match reply.await {
            Ok(Reply::Txn(reply)) => (Some(reply.header.revision), self.act_on(&reply)),
            Ok(other) => (
                None,
                unreachable(&format!("an answer to something else: {other:?}")),
            ),
            Err(error) => (None, unreachable(&error.to_string())),
        };
        self.report(problem);
        self.save().await;
        revision
    }

    /// Why home's map is not the one that runs, if it is not.
    fn act_on(&self, reply: &TxnReply) -> Option<MapProblem> {
        let document = match reply.ops.as_slice() {
            [TxnOpReply::Get(get)] => get.kvs.first().map(|record| record.value.as_slice()),
            _ => None,
        };
        match judge(self.source.map().as_deref(), document) {
            Verdict::Refuse(refusal) => return Some(MapProblem::Refused(refusal)),
            Verdict::Same => {}
            Verdict::Adopt(map) => {
                tracing::info!(version = map.version().0, "running a map from home");
                self.source.run_map(Arc::from(map));
            }
        }
        // After the map: who sees the flag must not see an older map.
        self.source.home_seen.store(true, Ordering::Release);
        self.source.update(|status| status.home_seen = true);
        None
    }

    fn report(&self, problem: Option<MapProblem>) {
        self.source.update(|status| {
            if let Some(problem) = problem.as_ref().filter(|_| status.problem != problem) {
                tracing::warn!(%problem, "home brought no map");
            }
            status.problem = problem;
        });
    }

    /// Brings the copy on disk up to the map that runs; what fails is tried again after the next
    /// look. A gateway whose disk is full goes on with the map it has.
    async fn save(&mut self) {
        let (Some(state_dir), Some(map)) = (self.state_dir.clone(), self.source.map()) else {
            return;
        };
        if self.saved.as_ref() == Some(&map) {
            return;
        }
        let saving = map.clone();
        let saved = tokio::task::spawn_blocking(move || state_dir.save(&saving)).await;
        let problem = match saved {
            Ok(Ok(())) => {
                self.saved = Some(map);
                None
            }
            Ok(Err(problem)) => Some(problem),
            Err(ended) => Some(ended.to_string()),
        };
        let on_disk = self.saved.as_ref().map(|map| map.version());
        self.source.update(|status| {
            if let Some(problem) = problem.as_ref().filter(|_| status.disk_problem != problem) {
                tracing::warn!(problem, "the map's disk copy is not up to date");
            }
            status.disk_version = on_disk;
            status.disk_problem = problem;
        });
    }
}

fn unreachable(problem: &str) -> Option<MapProblem> {
    Some(MapProblem::Unreachable(problem.to_owned()))
}
