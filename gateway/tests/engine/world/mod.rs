//! A world for engines: gateways and one model cluster under virtual time, with links between
//! them that can be told to lose, delay or repeat what crosses them.

mod asking;
mod calls;
mod contents;
mod course;

pub use asking::{patient, shard_of, wish, with_request, with_ttl};
pub use calls::{is_close, is_delete, is_grant, is_join};
pub use contents::put;

use course::{Back, Event};
use holdfast_gateway::engine::{
    Answer, ClusterProof, Course, Engine, Input, Settings, Table, Ticket,
};
use holdfast_gateway::names::LockName;
use holdfast_gateway::service::Grant;
use holdfast_gateway::time::{Instant, Millis};
use holdfast_store::{Key, Model, Op};
use shard_map::records::{Guard, Identity, Record, keys};
use shard_map::{DeploymentId, ShardId};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;

pub const SESSION_TTL: u64 = 9_000;
pub const SHARDS: u32 = 4;

/// What a link does with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Request and reply take these times.
    Pass { request_ms: u64, reply_ms: u64 },
    /// The request is carried out, the reply is lost: the caller gives up at its timeout.
    LoseReply { request_ms: u64 },
    /// The caller gives up at its timeout, and the request arrives this much later.
    Late { request_ms: u64 },
    /// The request never arrives, and the caller cannot know.
    LoseRequest,
    /// The connection is refused.
    Refuse,
}

/// Decides the fate of each call: which gateway, what, at which time.
pub type Link = Box<dyn FnMut(usize, &Op, u64) -> Fate>;

struct Gateway {
    engine: Option<Engine>,
    table: Arc<Table>,
    proof: Arc<ClusterProof>,
    life: u64,
    stopped: bool,
    /// Handles nothing until then (a process that is stopped and continues).
    paused_until: u64,
}

/// See the module.
pub struct World {
    pub now: u64,
    pub model: Model,
    pub link: Link,
    gateways: Vec<Gateway>,
    events: BTreeMap<(u64, u64), Event>,
    answers: HashMap<Ticket, Answer>,
    forwarded: HashMap<Ticket, Back>,
    /// How many requests have gone from one gateway to another.
    pub forwards: u64,
    /// What gateways that stop tell their heirs does not arrive.
    pub heritages_lost: bool,
    /// What is watched: by which gateway, for which name.
    watches: BTreeMap<(usize, LockName), Key>,
    /// Watches tell nothing.
    pub watches_lost: bool,
    counter: u64,
    principal_locks_max: Option<NonZeroU32>,
}

fn deployment() -> DeploymentId {
    DeploymentId::from_random_bits(7)
}

/// The record of who a cluster is.
pub fn identity(cluster: &str) -> Vec<u8> {
    let identity = Identity {
        deployment: deployment(),
        cluster: cluster.parse().unwrap(),
        beacon: None,
    };
    identity.to_value()
}

/// Those of a gateway in a cluster.
pub fn settings(cluster: &str, gateway: usize) -> Settings {
    Settings {
        cluster: cluster.into(),
        deployment: deployment(),
        instance: format!("gateway-{gateway}"),
        peer_url: format!("http://gateway-{gateway}"),
        session_ttl: Millis::from_ms(SESSION_TTL),
        group_ttl: Millis::from_secs(1800),
    }
}

impl World {
    /// So many gateways that have just started, over a cluster with guards for every shard.
    pub fn new(gateways: usize) -> Self {
        Self::with(gateways, None)
    }

    /// As [`World::new`], and a principal may have so many locks at each gateway.
    pub fn with_quota(gateways: usize, locks_max: u32) -> Self {
        Self::with(gateways, NonZeroU32::new(locks_max))
    }

    fn with(gateways: usize, principal_locks_max: Option<NonZeroU32>) -> Self {
        let mut world = Self {
            now: 1_000_000,
            model: Model::new(1, 1),
            link: Box::new(|_, _, _| Fate::Pass {
                request_ms: 1,
                reply_ms: 1,
            }),
            gateways: Vec::new(),
            events: BTreeMap::new(),
            answers: HashMap::new(),
            forwarded: HashMap::new(),
            forwards: 0,
            heritages_lost: false,
            watches: BTreeMap::new(),
            watches_lost: false,
            counter: 0,
            principal_locks_max,
        };
        world.put(keys::identity(), identity("a"));
        for shard in 0..SHARDS {
            world.put(keys::guard(ShardId(shard)), Guard::first().to_value());
        }
        for _ in 0..gateways {
            let gateway = world.gateways.len();
            world.gateways.push(Gateway {
                engine: None,
                table: Arc::default(),
                proof: ClusterProof::new("a".into()),
                life: 0,
                stopped: false,
                paused_until: 0,
            });
            world.start(gateway);
        }
        world
    }

    /// One gateway whose session is proven.
    pub fn ready() -> Self {
        let mut world = Self::new(1);
        world.run_until_proven(0);
        world
    }

    /// Whether a gateway would forward a request about this hold.
    pub fn knows_another_owner(&self, gateway: usize, grant: &Grant) -> bool {
        let entry = &self.gateways[gateway];
        let owners = entry.engine.as_ref().unwrap().owners();
        let course = Course::of_request(&owners, &entry.table, &"a".into(), &grant.lock_id);
        matches!(course, Course::Owner(_))
    }

    /// Starts a gateway anew; what it knew is gone.
    pub fn start(&mut self, gateway: usize) {
        self.counter += 1;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.counter.to_be_bytes());
        let entry = &mut self.gateways[gateway];
        entry.table = Arc::new(Table::new(self.principal_locks_max));
        entry.proof = ClusterProof::new("a".into());
        entry.life += 1;
        entry.stopped = false;
        entry.paused_until = 0;
        let now = Instant::from_ms(self.now);
        let mut engine = Engine::new(
            settings("a", gateway),
            seed,
            now,
            Arc::clone(&entry.table),
            Arc::clone(&entry.proof),
        );
        let mut effects = Vec::new();
        engine.start(now, &mut effects);
        engine.handle(now, [Input::HomeSeen], &mut effects);
        entry.engine = Some(engine);
        self.carry_out(gateway, effects);
    }

    /// kill -9.
    pub fn kill(&mut self, gateway: usize) {
        self.gateways[gateway].engine = None;
        self.gateways[gateway].life += 1;
    }

    /// SIGSTOP for so long.
    pub fn pause(&mut self, gateway: usize, ms: u64) {
        self.gateways[gateway].paused_until = self.now + ms;
    }

    pub fn is_proven(&self, gateway: usize) -> bool {
        let gateway = &self.gateways[gateway];
        gateway.engine.is_some() && gateway.proof.is_proven(Instant::from_ms(self.now))
    }

    pub fn has_stopped(&self, gateway: usize) -> bool {
        self.gateways[gateway].stopped
    }

    pub fn give(&mut self, gateway: usize, input: Input) {
        let now = Instant::from_ms(self.now);
        let entry = &mut self.gateways[gateway];
        let Some(engine) = &mut entry.engine else {
            return;
        };
        let mut effects = Vec::new();
        engine.handle(now, [input], &mut effects);
        self.carry_out(gateway, effects);
    }
}
