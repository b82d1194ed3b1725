//! Clusters in memory, with faults, for the tests of `init`.

use super::{InitError, Initialised, initialise};
use crate::records::{Guard, Identity, Record, keys};
use crate::{Cluster, DeploymentId, MapVersion, ShardCount, ShardMap};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use holdfast_store::{
    DefiniteError, Key, KeyRange, KeyValue, Model, ModelStore, ModelTime, Op, Reply, Revision,
    Store, StoreError, WatchEvent,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Killed before the call is made.
    KilledBefore,
    /// Killed before the reply is read.
    KilledAfter,
    /// The call is never made, and nobody knows.
    Vanished,
    /// The reply is lost.
    ReplyLost,
    /// The call takes effect when everything is over.
    Late,
}

impl Fault {
    pub(super) const ALL: [Self; 5] = [
        Self::KilledBefore,
        Self::KilledAfter,
        Self::Vanished,
        Self::ReplyLost,
        Self::Late,
    ];
}

/// Counts the calls of one operator over all stores, and spoils one of them.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) calls: usize,
    pub(super) plan: Option<(usize, Fault)>,
    pub(super) late: Vec<(usize, Op)>,
    /// Other tasks get so many turns before a call, in turn; for interleavings.
    pub(super) yields: Vec<u8>,
}

/// Three etcd clusters: home, which carries no shards, and two that do.
pub(super) struct World {
    pub(super) stores: [ModelStore; 3],
}

/// The request of most tests: 256 shards over the clusters a and b.
pub(super) struct Request {
    pub(super) shards: u32,
    /// Which store each cluster is.
    pub(super) clusters: Vec<(&'static str, usize)>,
    pub(super) home: usize,
    pub(super) deployment: u128,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            shards: 256,
            clusters: vec![("a", 1), ("b", 2)],
            home: 0,
            deployment: 1,
        }
    }
}

impl Request {
    pub(super) fn spec(name: &str) -> Cluster {
        Cluster::new(
            name.parse().unwrap(),
            vec![format!("http://{name}:2379").parse().unwrap()],
        )
    }
}

impl World {
    pub(super) fn new() -> Self {
        let model = |id| ModelStore::new(Model::new(id, id), ModelTime::default);
        Self {
            stores: [model(10), model(11), model(12)],
        }
    }

    /// Runs `init` as one operator, with faults.
    pub(super) async fn run(
        &self,
        request: &Request,
        faults: &Arc<Mutex<Faults>>,
    ) -> Result<Initialised, InitError> {
        let store = |place: usize| FaultyStore {
            place,
            store: self.stores[place].clone(),
            faults: faults.clone(),
        };
        let home = store(request.home);
        let stores: Vec<_> = request
            .clusters
            .iter()
            .map(|&(_, place)| store(place))
            .collect();
        let specs = request.clusters.iter().map(|(name, _)| Request::spec(name));
        let clusters: Vec<(Cluster, &dyn Store)> = specs
            .zip(&stores)
            .map(|(spec, store)| (spec, store as &dyn Store))
            .collect();
        let deployment = DeploymentId::from_random_bits(request.deployment);
        let shards = ShardCount::try_from(request.shards).unwrap();
        initialise(&home, &clusters, shards, deployment).await
    }

    /// Runs `init` without faults.
    pub(super) async fn init(&self, request: &Request) -> Result<Initialised, InitError> {
        self.run(request, &Arc::default()).await
    }

    pub(super) fn get(&self, place: usize, key: &Key) -> Option<KeyValue> {
        self.stores[place].with_model(|model| model.get(key))
    }

    pub(super) fn apply(&self, place: usize, op: &Op) -> Result<Reply, StoreError> {
        self.stores[place].with_model(|model| model.apply(ModelTime::default(), op))
    }

    /// Lets what was still on its way arrive.
    pub(super) fn deliver_late(&self, faults: &Arc<Mutex<Faults>>) {
        for (place, op) in std::mem::take(&mut faults.lock().unwrap().late) {
            let _refused_or_not = self.apply(place, &op);
        }
    }

    /// Everything is as one undisturbed run of this request leaves it, written once.
    #[track_caller]
    pub(super) fn check_initialised(&self, request: &Request) -> ShardMap {
        let current = self.get(request.home, &keys::map_current()).unwrap();
        let history = keys::map_history(MapVersion::FIRST);
        let history = self.get(request.home, &history).unwrap();
        assert_eq!(current.value, history.value);
        assert_eq!((current.version, history.version), (1, 1));
        assert_eq!(self.get(request.home, &keys::map_init()), None);
        let map = ShardMap::from_json(&current.value).unwrap();
        assert_eq!(map.shards().get(), request.shards);
        for &(name, place) in &request.clusters {
            let identity = self.get(place, &keys::identity()).unwrap();
            let read = Identity::from_value(&identity.key, &identity.value).unwrap();
            assert_eq!(read.deployment, map.deployment());
            assert_eq!((read.cluster.as_str(), identity.version), (name, 1));
            for shard in map.shards().shards() {
                let here = map.cluster_of(shard).unwrap().name.as_str() == name;
                let guard = self.get(place, &keys::guard(shard));
                let expected = here.then(|| (Guard::first().to_value(), 1));
                assert_eq!(guard.map(|guard| (guard.value, guard.version)), expected);
            }
        }
        map
    }
}

struct FaultyStore {
    place: usize,
    store: ModelStore,
    faults: Arc<Mutex<Faults>>,
}

impl FaultyStore {
    /// Counts a call; the fault it suffers.
    fn fault(&self) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        faults.calls += 1;
        let (at, fault) = faults.plan?;
        let dead = matches!(fault, Fault::KilledBefore | Fault::KilledAfter);
        match faults.calls {
            call if call == at => Some(fault),
            call if call > at && dead => Some(Fault::KilledBefore),
            _ => None,
        }
    }

    fn yields(&self) -> u8 {
        let mut faults = self.faults.lock().unwrap();
        let turns = faults.yields.len().max(1);
        let turn = faults.calls % turns;
        faults.yields.get_mut(turn).map_or(0, |yields| *yields)
    }
}

impl Store for FaultyStore {
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        let unknown = || Err(StoreError::Ambiguous("no reply".into()));
        let (fault, yields) = (self.fault(), self.yields());
        let (place, store, faults) = (self.place, self.store.clone(), self.faults.clone());
        async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            match fault {
                None => store.call(op, timeout).await,
                Some(Fault::KilledBefore) => {
                    Err(DefiniteError::Unreachable("killed".into()).into())
                }
                Some(Fault::Vanished) => unknown(),
                Some(Fault::KilledAfter | Fault::ReplyLost) => {
                    store.call(op, timeout).await?;
                    unknown()
                }
                Some(Fault::Late) => {
                    faults.lock().unwrap().late.push((place, op));
                    unknown()
                }
            }
        }
        .boxed()
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        self.store.watch(range, from)
    }
}
