//! A gateway's process: a table, and one engine for each cluster.

use crate::clock::{PartyClock, Real, Shows as _};
use crate::mistake::Mistake;
use crate::world::PeerLink;
use holdfast_gateway::engine::{ClusterProof, Engine, EngineStats, Input, Owners, Settings, Table};
use holdfast_gateway::time::Millis;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which engine, and in which life of its gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EngineAt {
    pub(crate) gateway: usize,
    pub(crate) cluster: usize,
    pub(crate) life: u64,
}

/// An engine and what waits for it.
pub(crate) struct EngineTask {
    pub(crate) engine: Engine,
    pub(crate) proof: Arc<ClusterProof>,
    pub(crate) stats: Arc<EngineStats>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) cluster: Arc<str>,
    pub(crate) inbox: Vec<Input>,
    pub(crate) paused_until: Real,
    /// When it runs next; runs that were planned before are void.
    pub(crate) run_at: Real,
    pub(crate) plan: u64,
    pub(crate) stopped: bool,
}

/// See the module.
pub(crate) struct Gateway {
    pub(crate) clock: PartyClock,
    pub(crate) life: u64,
    /// Empty while the process does not run.
    pub(crate) engines: Vec<EngineTask>,
    pub(crate) table: Arc<Table>,
    /// As the map says that it runs.
    pub(crate) routes: Routes,
    /// To the gateways that it asks.
    pub(crate) links: BTreeMap<usize, PeerLink>,
    pub(crate) paused_from: Real,
    pub(crate) paused_until: Real,
    pub(crate) stopping: bool,
    /// It is not started before.
    pub(crate) down_until: Real,
}

/// Which cluster has which shard by the map, and which had it before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    pub(crate) by_shard: Vec<usize>,
    pub(crate) before: Vec<usize>,
    /// How often the map has changed for the shard, from the first map on.
    pub(crate) version: Vec<u64>,
}

/// What all engines of a run are told.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) deployment: shard_map::DeploymentId,
    pub(crate) session_ttl_ms: u64,
    pub(crate) group_ttl_ms: u64,
    pub(crate) survey_interval_ms: Option<u64>,
    pub(crate) mutation: Option<Mistake>,
}

pub(crate) fn cluster_name(cluster: usize) -> String {
    format!("c{cluster}")
}

impl Gateway {
    pub(crate) fn new(clock: PartyClock) -> Self {
        Self {
            clock,
            life: 0,
            engines: Vec::new(),
            table: Arc::default(),
            routes: Routes::default(),
            links: BTreeMap::new(),
            paused_from: 0,
            paused_until: 0,
            stopping: false,
            down_until: 0,
        }
    }

    /// The process does nothing for a while.
    pub(crate) fn pause(&mut self, now: Real, ms: u64) {
        if self.paused_until <= now {
            self.paused_from = now;
        }
        self.paused_until = self.paused_until.max(now + ms);
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.engines.is_empty()
    }

    /// A new process; nothing of the old one is left.
    pub(crate) fn start(&mut self, number: usize, now: Real, seeds: &[[u8; 32]], common: &Common) {
        self.life += 1;
        self.table = Arc::default();
        self.stopping = false;
        let engines = seeds.iter().enumerate().map(|(cluster, seed)| {
            let name: Arc<str> = cluster_name(cluster).into();
            let proof = ClusterProof::new(Arc::clone(&name));
            if let Some(mutation) = common.mutation.and_then(Mistake::in_engine) {
                proof.mutate(mutation);
            }
            let settings = Settings {
                cluster: Arc::clone(&name),
                deployment: common.deployment,
                instance: format!("gateway-{number}-{}", self.life),
                peer_url: format!("http://gateway-{number}"),
                session_ttl: Millis::from_ms(common.session_ttl_ms),
                group_ttl: Millis::from_ms(common.group_ttl_ms),
            };
            let table = Arc::clone(&self.table);
            let at = self.clock.instant(now);
            let mut engine = Engine::new(settings, *seed, at, table, Arc::clone(&proof));
            if let Some(interval) = common.survey_interval_ms {
                engine.set_survey_interval(Millis::from_ms(interval));
            }
            EngineTask {
                stats: engine.stats(),
                owners: engine.owners(),
                cluster: name,
                engine,
                proof,
                inbox: Vec::new(),
                paused_until: 0,
                run_at: Real::MAX,
                plan: 0,
                stopped: false,
            }
        });
        self.engines = engines.collect();
    }

    /// The process is gone.
    pub(crate) fn end(&mut self) {
        self.life += 1;
        self.engines.clear();
        self.links.clear();
        self.paused_until = 0;
    }
}
