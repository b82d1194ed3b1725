//! Whole rollouts over models of etcd, with drivers that are killed and calls that are lost.

use super::*;
use crate::init::initialise;
use crate::plan::{Plan, Wish};
use crate::records::{Guard, GuardState, Record, keys};
use crate::{
    Cluster, ClusterName, DeploymentId, MapVersion, ShardCount, ShardId, ShardMap, limits,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use holdfast_store::{
    DefiniteError, Key, KeyRange, Model, ModelStore, ModelTime, Op, Put, Reply, Revision, Store,
    StoreError, Txn, TxnOp, TxnReply, WatchEvent,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];
const SHARDS: u32 = 8;
/// More turns than any rollout here takes.
const TURNS_MAX: usize = 200;

fn name(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn cluster(cluster: &str) -> Cluster {
    Cluster::new(
        name(cluster),
        vec![format!("http://{cluster}:2379").parse().unwrap()],
    )
}

/// Home, and the clusters a, b and c; 8 shards on a and b, each with a group.
#[derive(Clone)]
struct World {
    home: ModelStore,
    clusters: [ModelStore; 3],
}

impl World {
    async fn new() -> Self {
        let model = |id| ModelStore::new(Model::new(id, id), ModelTime::default);
        let world = Self {
            home: model(9),
            clusters: [model(10), model(11), model(12)],
        };
        let clusters = [0, 1].map(|at| (cluster(NAMES[at]), &world.clusters[at] as &dyn Store));
        let shards = ShardCount::try_from(SHARDS).unwrap();
        let id = DeploymentId::from_random_bits(7);
        let map = initialise(&world.home, &clusters, shards, id)
            .await
            .unwrap()
            .map;
        for shard in map.shards().shards() {
            let at = map.cluster_of(shard).unwrap().name.clone();
            world.put(
                &at,
                &group_key(shard),
                format!(r#"{{"shard":{shard}}}"#).as_bytes(),
            );
        }
        world
    }

    fn at(&self, cluster: &ClusterName) -> &ModelStore {
        let at = NAMES.iter().position(|name| *name == cluster.as_str());
        &self.clusters[at.unwrap()]
    }

    fn txn(store: &ModelStore, txn: Txn) -> TxnReply {
        let done = store.with_model(|model| model.apply(ModelTime::default(), &Op::Txn(txn)));
        match done {
            Ok(Reply::Txn(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn put(&self, cluster: &ClusterName, key: &Key, value: &[u8]) {
        Self::put_in(self.at(cluster), key, value);
    }

    fn put_in(store: &ModelStore, key: &Key, value: &[u8]) {
        let put = Put {
            key: key.clone(),
            value: value.to_vec(),
            lease: None,
        };
        let then = vec![TxnOp::Put(put)];
        Self::txn(
            store,
            Txn {
                then,
                ..Txn::default()
            },
        );
    }

    fn home(&self) -> Home {
        Home::from_reply(Self::txn(&self.home, read_home())).unwrap()
    }

    fn elect(&self, instance: &str) {
        let driver = DriverRecord {
            instance: instance.into(),
        };
        Self::put_in(&self.home, &keys::map_driver(), &driver.to_value());
    }

    /// The operator drains a into a new cluster c.
    fn begin(&self, canary: Option<&str>) -> Plan {
        let home = self.home();
        let wish = Wish {
            add: vec![cluster("c")],
            remove: vec![name("a")],
            ..Wish::default()
        };
        let plan = Plan::new(&home.map, &wish).unwrap();
        let rollout = Rollout {
            max_moving: 3,
            canary: canary.map(|shards| shards.parse().unwrap()),
            began_unix_ms: 1_000,
            ..Rollout::of(&plan)
        };
        assert!(Self::txn(&self.home, home.begin(&plan, &rollout).unwrap()).succeeded);
        self.elect("g1");
        plan
    }

    fn roll_back(&self) {
        let home = self.home();
        let Some(rollout) = &home.rollout else { return };
        let before = Self::txn(&self.home, read_version(rollout.before));
        let before = match &before.ops[0] {
            holdfast_store::TxnOpReply::Get(get) => ShardMap::from_json(&get.kvs[0].value).unwrap(),
            other => panic!("{other:?}"),
        };
        let back = home.turn_back(&before, rollout).unwrap();
        assert!(Self::txn(&self.home, back).succeeded);
    }

    async fn turn(
        &self,
        driver: &mut Option<Driver>,
        faults: &Arc<Faults>,
    ) -> Result<Turn, TurnError> {
        self.turn_at(5_000, driver, faults).await
    }

    async fn turn_at(
        &self,
        now_unix_ms: u64,
        driver: &mut Option<Driver>,
        faults: &Arc<Faults>,
    ) -> Result<Turn, TurnError> {
        let faulty = |store: &ModelStore| Faulty {
            store: store.clone(),
            faults: Arc::clone(faults),
        };
        let store_of =
            |cluster: &ClusterName| Some(Arc::new(faulty(self.at(cluster))) as Arc<dyn Store>);
        take_turn(driver, "g1", &faulty(&self.home), &store_of, now_unix_ms).await
    }

    /// What gateways do in between: groups of shards that leave go where their guards say.
    fn move_groups(&self) {
        for shard in (0..SHARDS).map(ShardId) {
            for from in NAMES.map(name) {
                let Some(guard) = self.guard(&from, shard) else {
                    continue;
                };
                let goes = guard.to.filter(|_| guard.state == GuardState::Leaving);
                let taken = goes.filter(|to| {
                    self.guard(to, shard)
                        .is_some_and(|it| it.state == GuardState::Active)
                });
                let Some(to) = taken else { continue };
                let key = group_key(shard);
                if let Some(group) = self.at(&from).with_model(|model| model.get(&key)) {
                    self.put(&to, &key, &group.value);
                    let delete = TxnOp::Delete(KeyRange::one(key));
                    Self::txn(
                        self.at(&from),
                        Txn {
                            then: vec![delete],
                            ..Txn::default()
                        },
                    );
                }
            }
        }
    }

    fn guard(&self, cluster: &ClusterName, shard: ShardId) -> Option<Guard> {
        let key = keys::guard(shard);
        let record = self.at(cluster).with_model(|model| model.get(&key))?;
        Some(Guard::from_value(&key, &record.value).unwrap())
    }

    /// Takes turns until the rollout has ended or does not go on.
    async fn run(&self) {
        let (mut driver, faults) = (None, Arc::default());
        for _ in 0..TURNS_MAX {
            match self.turn(&mut driver, &faults).await.unwrap() {
                Turn::Ended | Turn::Idle => return,
                Turn::Waits | Turn::Blind | Turn::Wrote => self.move_groups(),
            }
        }
        panic!("does not end: {:?}", self.home());
    }

    /// Every shard, with its group, is where this map has it, and nowhere else.
    fn check_settled(&self, map: &ShardMap) {
        let home = self.home();
        assert_eq!(home.rollout, None);
        assert_eq!(home.map.document().table, map.document().table);
        assert_eq!(home.map.clusters(), map.clusters());
        assert_eq!(home.map.moving().count(), 0);
        for shard in map.shards().shards() {
            for cluster in NAMES.map(name) {
                let here = map.cluster_of(shard).unwrap().name == cluster;
                let guard = self.guard(&cluster, shard);
                let active = guard
                    .as_ref()
                    .is_some_and(|it| it.state == GuardState::Active);
                assert_eq!(active, here, "{shard} in {cluster}: {guard:?}");
                assert!(guard.is_none_or(|it| it.from.is_none()));
                let group = self
                    .at(&cluster)
                    .with_model(|model| model.get(&group_key(shard)));
                assert_eq!(group.is_some(), here, "{shard} in {cluster}");
            }
        }
    }
}

fn group_key(shard: ShardId) -> Key {
    format!("/holdfast/groups/s/{shard}").into()
}

/// Which call goes wrong.
#[derive(Default)]
struct Faults {
    calls: AtomicUsize,
    /// From this call on, nothing is answered: the process was killed.
    killed_at: Option<usize>,
    /// The call at which it was killed was carried out.
    carried_out: bool,
    late: Mutex<Vec<(ModelStore, Op)>>,
}

struct Faulty {
    store: ModelStore,
    faults: Arc<Faults>,
}

impl Store for Faulty {
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        let call = self.faults.calls.fetch_add(1, Ordering::Relaxed);
        let killed = self.faults.killed_at.is_some_and(|at| call >= at);
        if killed && self.faults.killed_at == Some(call) && !self.faults.carried_out {
            let mut late = self.faults.late.lock().unwrap();
            late.push((self.store.clone(), op.clone()));
        }
        let done = (!killed || (self.faults.carried_out && self.faults.killed_at == Some(call)))
            .then(|| self.store.call(op, timeout));
        async move {
            match done {
                Some(done) if !killed => done.await,
                Some(done) => {
                    done.await?;
                    Err(StoreError::Ambiguous("killed".into()))
                }
                None => Err(DefiniteError::Unreachable("killed".into()).into()),
            }
        }
        .boxed()
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        self.store.watch(range, from)
    }
}

#[tokio::test]
async fn a_rollout_moves_every_shard_and_leaves_the_map_of_the_plan() {
    let world = World::new().await;
    let plan = world.begin(None);
    world.run().await;
    world.check_settled(plan.after());
    assert_eq!(world.home().map.version(), MapVersion(3));
    let log = keys::map_log(MapVersion(3));
    let log = world.home.with_model(|model| model.get(&log)).unwrap();
    let log = LogEntry::from_value(&log.key, &log.value).unwrap();
    assert_eq!((log.shards, log.direction), (4, Direction::Forward));
    assert_eq!((log.began_unix_ms, log.ended_unix_ms), (1_000, 5_000));
}

#[tokio::test]
async fn no_more_shards_move_at_one_time_than_allowed() {
    let world = World::new().await;
    world.begin(None);
    let (mut driver, faults) = (None, Arc::default());
    for _ in 0..20 {
        world.turn(&mut driver, &faults).await.unwrap();
        let leaving = (0..SHARDS).map(ShardId).filter(|&shard| {
            world
                .guard(&name("a"), shard)
                .is_some_and(|it| it.state == GuardState::Leaving)
        });
        // Their groups do not move: no gateway is there.
        assert!(leaving.count() <= 3);
    }
}

#[tokio::test]
async fn the_canary_goes_first_and_then_the_rollout_pauses_until_it_is_resumed() {
    let world = World::new().await;
    let plan = world.begin(Some("2"));
    world.run().await;
    let home = world.home();
    let rollout = home.rollout.clone().unwrap();
    assert_eq!((rollout.state, &rollout.canary), (RunState::Paused, &None));
    let on_c = |shard| world.guard(&name("c"), ShardId(shard)).is_some();
    assert_eq!([0, 1, 2, 3].map(on_c), [false, false, true, false]);

    let resumed = Rollout {
        state: RunState::Running,
        ..rollout
    };
    assert!(World::txn(&world.home, home.set(&resumed)).succeeded);
    world.run().await;
    world.check_settled(plan.after());
}

#[tokio::test]
async fn no_shard_begins_to_go_where_a_live_gateway_is_not_yet_unless_it_does_not_come() {
    for comes in [true, false] {
        let world = World::new().await;
        let plan = world.begin(None);
        let report = r#"{"instance":"g2","peerUrl":"http://g2","version":"1","map":1}"#;
        World::put_in(&world.home, &keys::map_gateway("g2"), report.as_bytes());
        let (mut driver, faults) = (None, Arc::default());
        let begun = || {
            let leaves =
                |shard| world.guard(&name("a"), shard).unwrap().state == GuardState::Leaving;
            (0..SHARDS / 2).map(ShardId).any(leaves)
        };
        for now in [0, limits::GATEWAY_WAIT_MS - 1] {
            let turn = world.turn_at(now, &mut driver, &faults).await;
            assert_eq!(turn, Ok(Turn::Waits));
            assert!(!begun());
        }
        let now = match comes {
            true => {
                let session = r#"{"instance":"g2","peerUrl":"http://g2"}"#;
                world.put(
                    &name("c"),
                    &"/holdfast/sessions/1".into(),
                    session.as_bytes(),
                );
                limits::GATEWAY_WAIT_MS - 1
            }
            false => limits::GATEWAY_WAIT_MS,
        };
        let turn = world.turn_at(now, &mut driver, &faults).await;
        assert_eq!(turn, Ok(Turn::Wrote));
        assert!(begun());
        world.roll_back();
        world.elect("g1");
        world.run().await;
        world.check_settled(plan.before());
    }
}

#[tokio::test]
async fn the_session_of_a_gateway_that_cannot_come_after_its_groups_is_ended_if_another_can() {
    for another in [false, true] {
        let world = World::new().await;
        world.begin(None);
        let session =
            |instance: &str| format!(r#"{{"instance":"{instance}","peerUrl":"http://g"}}"#);
        let (own, others) = (keys::session("s"), keys::session("t"));
        world.put(&name("a"), &own, session("g2").as_bytes());
        if another {
            world.put(&name("a"), &others, session("g3").as_bytes());
            world.put(&name("c"), &keys::session("u"), session("g3").as_bytes());
        }
        let alive = |key: &Key| {
            world
                .at(&name("a"))
                .with_model(|model| model.get(key).is_some())
        };
        let (mut driver, faults) = (None, Arc::default());
        // The second turn writes the goal's guards, the third sees groups that do not move.
        for now in [0, 1, 2, 2 + limits::GATEWAY_STRANDED_MS - 3] {
            world.turn_at(now, &mut driver, &faults).await.unwrap();
            assert!(alive(&own));
        }
        let late = 2 + limits::GATEWAY_STRANDED_MS;
        world.turn_at(late, &mut driver, &faults).await.unwrap();
        assert_eq!((alive(&own), alive(&others)), (!another, another));
    }
}

#[tokio::test]
async fn a_gateway_that_is_not_elected_does_nothing() {
    let world = World::new().await;
    world.begin(None);
    world.elect("g2");
    let turn = world.turn(&mut None, &Arc::default()).await;
    assert_eq!(turn, Ok(Turn::Idle));
    assert_eq!(world.guard(&name("c"), ShardId(0)), None);
}

#[tokio::test]
async fn a_driver_killed_at_any_call_leaves_what_another_finishes_to_the_same_end() {
    let (mut killed_at, mut ended) = (0, false);
    while !ended {
        for carried_out in [false, true] {
            let world = World::new().await;
            let plan = world.begin(None);
            let faults = Arc::new(Faults {
                killed_at: Some(killed_at),
                carried_out,
                ..Faults::default()
            });
            let mut driver = None;
            for _ in 0..TURNS_MAX {
                // What a killed driver is told no longer matters.
                let turn = world.turn(&mut driver, &faults).await;
                world.move_groups();
                if faults.calls.load(Ordering::Relaxed) > killed_at || turn == Ok(Turn::Ended) {
                    break;
                }
            }
            ended = faults.calls.load(Ordering::Relaxed) <= killed_at;
            world.run().await;
            // What it had sent arrives when everything is over, and changes nothing.
            for (store, op) in faults.late.lock().unwrap().drain(..) {
                let _refused_or_not =
                    store.with_model(|model| model.apply(ModelTime::default(), &op));
            }
            world.check_settled(plan.after());
        }
        killed_at += 1;
    }
    assert!(killed_at > 20, "{killed_at}");
}

#[tokio::test]
async fn a_rollback_after_any_turn_leaves_everything_where_it_began() {
    for turns in 0..14 {
        let world = World::new().await;
        let plan = world.begin(None);
        let (mut driver, faults) = (None, Arc::default());
        for turn in 0..turns {
            world.turn(&mut driver, &faults).await.unwrap();
            if turn % 2 == 1 {
                world.move_groups();
            }
        }
        let over = world.home().rollout.is_none();
        world.roll_back();
        world.run().await;
        world.check_settled(if over { plan.after() } else { plan.before() });
    }
}

#[tokio::test]
async fn guards_that_contradict_each_other_fail_the_rollout_and_say_so() {
    let world = World::new().await;
    world.begin(None);
    world.put(
        &name("c"),
        &keys::guard(ShardId(1)),
        &Guard::first().to_value(),
    );
    world.run().await;
    let rollout = world.home().rollout.unwrap();
    assert_eq!(rollout.state, RunState::Failed);
    let problem = rollout.problem.unwrap();
    assert!(
        problem.contains("shard 1 between clusters a and c"),
        "{problem}"
    );
}

/// Lets something happen before its first call.
struct Interrupted {
    store: ModelStore,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Store for Interrupted {
    fn call(&self, op: Op, timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        if let Some(happens) = self.happens.lock().unwrap().take() {
            happens();
        }
        self.store.call(op, timeout)
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        self.store.watch(range, from)
    }
}

#[tokio::test]
async fn guards_that_another_writes_between_the_two_looks_of_a_driver_do_not_fail_the_rollout() {
    let world = World::new().await;
    let plan = world.begin(None);
    let meanwhile = world.clone();
    let others_turns = move || {
        let (mut other, faults) = (None, Arc::default());
        for _ in 0..2 {
            let turn = meanwhile.turn(&mut other, &faults).now_or_never();
            assert_eq!(turn.unwrap().unwrap(), Turn::Wrote);
        }
    };
    let goal = Arc::new(Interrupted {
        store: world.at(&name("c")).clone(),
        happens: Mutex::new(Some(Box::new(others_turns))),
    });
    let store_of = |cluster: &ClusterName| match cluster == &name("c") {
        true => Some(Arc::clone(&goal) as Arc<dyn Store>),
        false => Some(Arc::new(world.at(cluster).clone()) as Arc<dyn Store>),
    };
    let turn = take_turn(&mut None, "g1", &world.home, &store_of, 5_000).await;
    // In what was read first the shard is still active where it leaves, and in the rest where it goes.
    assert_eq!(turn.unwrap(), Turn::Wrote);
    assert_eq!(world.home().rollout.unwrap().state, RunState::Running);
    world.run().await;
    world.check_settled(plan.after());
}

#[tokio::test]
async fn an_operator_who_has_seen_an_older_state_changes_nothing() {
    let world = World::new().await;
    let stale = world.home();
    let plan = world.begin(None);
    let rollout = world.home().rollout.unwrap();
    let again = stale.begin(&plan, &rollout).unwrap();
    assert!(!World::txn(&world.home, again).succeeded);
    let paused = Rollout {
        state: RunState::Paused,
        ..rollout
    };
    assert!(!World::txn(&world.home, stale.set(&paused)).succeeded);
}
