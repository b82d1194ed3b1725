//! The world: clients, gateways and clusters, the links between them, and one order of events.

mod calls;
mod chaos;
mod hangs;
mod hints;
mod lines;
mod links;
mod listeners;
mod partitions;
mod phases;
mod processes;
mod requests;
mod rollouts;

pub(crate) use chaos::Chaos;
pub(crate) use links::PeerLink;
pub(crate) use phases::Phase;
pub(crate) use requests::{ArrivalNo, Ask, Request, RequestNo, Told, summary};

use crate::client::Client;
use crate::clock::{PartyClock, Real};
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::figures::Figures;
use crate::gateway::{Common, EngineAt, Gateway, Routes, cluster_name};
use crate::mistake::Mistake;
use crate::network::{LineNo, Network};
use crate::options::Options;
use crate::trace::Trace;
use hangs::Hang;
use holdfast_gateway::engine::{CallId, Input, Ticket};
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::names::LockName;
use holdfast_gateway::peer::CallNo;
use holdfast_judge::{Judge, Terms};
use holdfast_store::{Key, Op, Reply, StoreError};
use shard_map::records::{Guard, Identity, Record, keys};
use shard_map::{DeploymentId, ShardCount, ShardId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// When a world begins, so that no clock is near zero.
const BEGIN: Real = 1_000_000;
const SHARDS: u32 = 4;
/// A client's clock and a gateway's differ by at most 1 %: each runs at most so many millionths
/// beside the world's time.
const DRIFT_PPM: i64 = 4_500;
/// A run that takes more events than this does not end.
const EVENTS_MAX: u64 = 3_000_000;

pub(crate) enum Event {
    CallArrives {
        at: EngineAt,
        call: CallId,
        op: Arc<Op>,
        reply: Option<ReplyPlan>,
    },
    CallReturns {
        at: EngineAt,
        call: CallId,
        result: Result<Reply, StoreError>,
    },
    EngineRuns {
        at: EngineAt,
        plan: u64,
    },
    RequestArrives {
        request: RequestNo,
        gateway: usize,
        read: Option<requests::ReadAt>,
    },
    AnswerArrives {
        request: RequestNo,
        answer: Told,
        answered: Real,
    },
    ClientWakes {
        client: usize,
        plan: u64,
    },
    Chaos(Chaos),
    Peer(links::PeerEvent),
    ClusterLooks(usize),
    Hint(EngineAt),
    Rollout(rollouts::RolloutEvent),
    /// The connection of a client that waits for an answer breaks.
    Disconnect(RequestNo),
    /// A gateway notices that the client of a request has gone,
    Abandoned(Ticket),
    /// or that the answer which tells of a grant has reached nobody.
    Undelivered(EngineAt, Box<LockId>),
    /// A gateway hears that what it watched for this name is gone.
    Freed(EngineAt, LockName, Key),
    /// A gateway's process ends, if it still lives this life.
    ProcessEnds(usize, u64),
}

/// How long the reply takes, and when the caller gives up: it may come after that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyPlan {
    takes: Real,
    give_up: Real,
}

impl ReplyPlan {
    fn is_in_time(&self, arrives: Real) -> bool {
        arrives + self.takes < self.give_up
    }
}

/// Who has asked an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asker {
    Client(ArrivalNo),
    Peer(LineNo, CallNo),
}

/// An input that waits for an answer.
pub(crate) struct Open {
    asker: Asker,
    at: EngineAt,
    arrived: Real,
}

/// See the module.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) now: Real,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) figures: Figures,
    pub(crate) judge: Judge,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) clients: Vec<Client>,
    pub(crate) phase: Phase,
    common: Common,
    events: BTreeMap<(Real, u64), Event>,
    /// Calls that a cluster refused before it did anything.
    refused: BTreeSet<(EngineAt, CallId)>,
    counter: u64,
    handled: u64,
    requests: Vec<Request>,
    arrivals: BTreeMap<ArrivalNo, requests::Arrival>,
    open: BTreeMap<Ticket, Open>,
    network: Network,
    /// What gateways watch, and for which names.
    watches: BTreeMap<(EngineAt, LockName), Key>,
    /// Requests whose clients have gone while they waited.
    gone: BTreeSet<RequestNo>,
    /// What the engines of their gateways may still answer, and which.
    abandoned: BTreeMap<Ticket, EngineAt>,
    /// Until when a client and a gateway do not reach each other.
    cut_off: BTreeMap<(usize, usize), Real>,
    /// Until when a gateway does not reach a cluster, and whether it is refused at once.
    cut: BTreeMap<(usize, usize), (Real, bool)>,
    /// The keepalives of groups that hang, by gateway and cluster.
    hangs: BTreeMap<(usize, usize), Hang>,
    /// How often the guard of a shard was raised.
    guards_raised: BTreeMap<u32, u64>,
    /// The present map.
    routes: Routes,
    drivers: Vec<rollouts::Driver>,
    /// Nothing goes wrong any more.
    healed: bool,
}

impl World {
    pub(crate) fn new(
        options: Options,
        mut dice: Dice,
        trace: Trace,
        mutation: Option<Mistake>,
    ) -> Self {
        let common = Common {
            deployment: DeploymentId::from_random_bits(7),
            session_ttl_ms: options.session_ttl_ms,
            group_ttl_ms: options.group_ttl_ms,
            survey_interval_ms: options.has(Fault::Surveys).then_some(1_500),
            mutation,
        };
        let drift = options.has(Fault::Drift);
        let mut figures = Figures::default();
        let mut clock = |dice: &mut Dice| {
            let ppm = match drift {
                true => dice.pick(&[-DRIFT_PPM, DRIFT_PPM, 0, -DRIFT_PPM / 2, DRIFT_PPM / 2]),
                false => 0,
            };
            if ppm != 0 {
                figures.fault(Fault::Drift);
            }
            PartyClock::new(ppm, dice.between(0..=100_000))
        };
        let clusters = (1..=options.clusters as u64)
            .map(|id| Cluster::new(id, clock(&mut dice), options.session_ttl_ms))
            .collect();
        let gateways = (0..options.gateways)
            .map(|_| Gateway::new(clock(&mut dice)))
            .collect();
        let clients = (0..options.clients)
            .map(|_| Client::new(clock(&mut dice)))
            .collect();
        if options.has(Fault::Surveys) {
            figures.fault(Fault::Surveys);
        }
        let terms = Terms {
            one_holder: !options.has(Fault::HandRevoke) && !options.has(Fault::ClockStopped),
            no_loss: options.gentle,
            may_lapse: options.has(Fault::AllDown),
        };
        let mut world = Self {
            now: BEGIN,
            dice,
            trace,
            figures,
            judge: Judge::new(terms),
            clusters,
            refused: BTreeSet::new(),
            gateways,
            clients,
            phase: Phase::Safety,
            common,
            events: BTreeMap::new(),
            counter: 0,
            handled: 0,
            requests: Vec::new(),
            arrivals: BTreeMap::new(),
            open: BTreeMap::new(),
            network: Network::default(),
            watches: BTreeMap::new(),
            gone: BTreeSet::new(),
            abandoned: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            cut: BTreeMap::new(),
            hangs: BTreeMap::new(),
            guards_raised: BTreeMap::new(),
            routes: Routes::new(SHARDS, options.clusters),
            drivers: Vec::new(),
            healed: false,
            options,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for cluster in 0..self.clusters.len() {
            let identity = Identity {
                deployment: self.common.deployment,
                cluster: cluster_name(cluster)
                    .parse()
                    .unwrap_or_else(|_| unreachable!("a letter and a digit are a cluster's name")),
                beacon: None,
            };
            self.clusters[cluster].put(self.now, keys::identity(), identity.to_value());
            for shard in 0..SHARDS {
                if self.cluster_of(shard) != cluster {
                    continue;
                }
                let guard = Guard::first().to_value();
                self.clusters[cluster].put(self.now, keys::guard(ShardId(shard)), guard);
            }
        }
        for gateway in 0..self.gateways.len() {
            self.start_gateway(gateway);
        }
        for cluster in 0..self.clusters.len() {
            self.cluster_looks(cluster);
        }
        for client in 0..self.clients.len() {
            let after = self.dice.between(0..=5_000);
            self.wake_client(client, after);
        }
        self.plan_chaos();
        self.plan_rollouts();
    }

    /// The cluster that has the shard by the present map.
    pub(crate) fn cluster_of(&self, shard: u32) -> usize {
        self.routes.by_shard[shard as usize]
    }

    pub(crate) fn guard_mistake(&self) -> shard_map::rollout::Mistake {
        let mistake = self.common.mutation;
        mistake.map_or(shard_map::rollout::Mistake::NONE, Mistake::in_guards)
    }

    pub(crate) fn shard_of(name: usize) -> ShardId {
        Self::shard_of_name(&Self::name(name))
    }

    fn shard_of_name(name: &str) -> ShardId {
        match ShardCount::try_from(SHARDS) {
            Ok(shards) => shard_map::shard_of(name, shards),
            Err(_) => ShardId(0),
        }
    }

    pub(crate) fn name(name: usize) -> String {
        format!("n{name}")
    }

    pub(crate) fn at(&mut self, time: Real, event: Event) {
        self.counter += 1;
        self.events
            .insert((time.max(self.now), self.counter), event);
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Lets time pass until then, unless something is found before.
    pub(crate) fn run_until(&mut self, end: Real) {
        self.run_while(end, |_| true);
    }

    /// As [`World::run_until`], but no longer than something is so.
    pub(crate) fn run_while(&mut self, end: Real, is_so: impl Fn(&Self) -> bool) {
        while is_so(self) && !self.judge.has_finding() {
            match self.events.first_entry() {
                Some(entry) if entry.key().0 <= end => {
                    let ((time, _), event) = entry.remove_entry();
                    self.now = time;
                    self.handled += 1;
                    assert!(self.handled < EVENTS_MAX, "the run does not end");
                    self.happen(event);
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::CallArrives {
                at,
                call,
                op,
                reply,
            } => self.call_arrives(at, call, &op, reply),
            Event::CallReturns { at, call, result } => {
                self.give(at, Input::Reply(call, result));
            }
            Event::EngineRuns { at, plan } => self.engine_runs(at, plan),
            Event::RequestArrives {
                request,
                gateway,
                read,
            } => self.request_arrives(request, gateway, read),
            Event::AnswerArrives {
                request,
                answer,
                answered,
            } => self.answer_arrives(request, answer, answered),
            Event::ClientWakes { client, plan } => self.client_wakes(client, plan),
            Event::Chaos(chaos) => self.chaos(chaos),
            Event::Peer(event) => self.peer_event(event),
            Event::ClusterLooks(cluster) => self.cluster_looks(cluster),
            Event::Hint(at) => self.hinted(at),
            Event::Freed(at, name, key) => self.give(at, Input::Freed(name, key)),
            Event::Disconnect(request) => self.disconnected(request),
            Event::Abandoned(ticket) => self.abandoned(ticket),
            Event::Undelivered(at, lock_id) => self.give(at, Input::Undelivered(*lock_id)),
            Event::Rollout(event) => self.rollout(event),
            Event::ProcessEnds(gateway, life) => self.process_ends(gateway, life),
        }
    }

    /// Whether such a call or request meets a fault of this kind.
    pub(crate) fn meets(&mut self, fault: Fault, per_mille: u64) -> bool {
        let meets = !self.healed && self.options.has(fault) && self.dice.per_mille(per_mille);
        if meets {
            self.figures.fault(fault);
        }
        meets
    }

    pub(crate) fn faults_now(&self) -> BTreeSet<Fault> {
        match self.healed {
            true => BTreeSet::new(),
            false => self.options.faults.clone(),
        }
    }

    /// What the engines counted.
    pub(crate) fn collect_stats(&mut self) {
        for gateway in 0..self.gateways.len() {
            self.collect_stats_of(gateway);
        }
    }

    pub(crate) fn collect_stats_of(&mut self, gateway: usize) {
        for task in &self.gateways[gateway].engines {
            let stats = &task.stats;
            for (what, count) in [
                ("sessions lost", stats.sessions_lost.get()),
                ("groups lost", stats.groups_lost.get()),
                ("groups claimed", stats.claims.get()),
                ("moves of groups", stats.moves.get()),
                ("groups moved", stats.moved.get()),
                ("moves undone", stats.moves_undone.get()),
                ("requests sent on", stats.onward.get()),
                ("holds expired", stats.expired.get()),
                ("fences", stats.fences.get()),
                ("batches of unknown outcome", stats.unknown_outcomes.get()),
                ("batches", stats.batch_sizes.count()),
                ("proofs voided", stats.proofs_voided.get()),
                ("look-ups by name", stats.cold_lookups.get()),
                ("findings of surveys", stats.survey_findings.get()),
            ] {
                self.figures.events_add(what, count);
            }
        }
    }
}
