//! Rollouts: an operator who sends shards back and forth, and drivers who take the steps.
//!
//! The drivers decide with the function that gateways decide with ([`next_step`]), each on what it has
//! read, however long ago; there are two of them and they do not know of each other. What they send
//! arrives late, or twice.

use super::{Event, SHARDS, World};
use crate::clock::Real;
use crate::faults::Fault;
use crate::gateway::{Routes, cluster_name};
use holdfast_judge::Rule;
use holdfast_store::{Op, Reply, TxnOpReply};
use shard_map::records::{Guard, Record, keys};
use shard_map::rollout::{Groups, GuardRead, GuardWrite, Next, Side, next_step};
use shard_map::{ClusterName, MapVersion, ShardId};

const DRIVERS: usize = 2;
/// A write of a guard that is late arrives at most so much later.
const LATE_MS_MAX: u64 = 30_000;
/// A gateway takes a new map over within this.
const MAP_MS_MAX: u64 = 8_000;

/// What happens in rollouts.
#[derive(Debug, Clone)]
pub(crate) enum RolloutEvent {
    /// The operator sends a shard to the other cluster.
    Turn(u32),
    /// A driver does the next thing.
    Drive(usize),
    /// A write of a guard arrives.
    Write(usize, Box<GuardWrite>),
    /// A gateway takes the map over, in this life.
    Map(usize, u64),
}

/// A driver: which shard it is about, what the map says of it, and what it has read of the cluster that
/// is left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Driver {
    shard: u32,
    map: u64,
    goal: usize,
    other: Option<(GuardRead, Groups)>,
}

impl World {
    pub(super) fn plan_rollouts(&mut self) {
        self.drivers = vec![Driver::default(); DRIVERS];
        if !self.options.has(Fault::Rollouts) {
            return;
        }
        let end = self.now + self.options.safety_ms;
        let mut time = self.now + self.dice.between(3_000..=12_000);
        while time < end {
            let shard = self.dice.shard(SHARDS);
            self.at(time, Event::Rollout(RolloutEvent::Turn(shard)));
            time += self.dice.between(500..=20_000);
        }
        for driver in 0..DRIVERS {
            self.drive_in(driver, 1_000);
        }
    }

    fn drive_in(&mut self, driver: usize, most: u64) {
        let after = self.dice.between(1..=most);
        let event = Event::Rollout(RolloutEvent::Drive(driver));
        self.at(self.now + after, event);
    }

    pub(super) fn rollout(&mut self, event: RolloutEvent) {
        match event {
            RolloutEvent::Turn(shard) => self.turn(shard),
            RolloutEvent::Drive(driver) => self.drive(driver),
            RolloutEvent::Write(cluster, write) => self.guard_arrives(cluster, &write),
            RolloutEvent::Map(gateway, life) => {
                if self.gateways[gateway].life == life {
                    self.gateways[gateway].routes = self.routes.clone();
                }
            }
        }
    }

    fn turn(&mut self, shard: u32) {
        if self.healed {
            return;
        }
        self.figures.fault(Fault::Rollouts);
        let at = shard as usize;
        let was = self.routes.by_shard[at];
        self.routes.before[at] = was;
        self.routes.by_shard[at] = 1 - was;
        self.routes.version[at] += 1;
        self.trace.note(self.now, None, &("turn", shard, 1 - was));
        self.spread_map();
    }

    /// Each gateway takes the map over in its time.
    pub(super) fn spread_map(&mut self) {
        for gateway in 0..self.gateways.len() {
            let after = match self.healed {
                true => 0,
                false => self.dice.delay(MAP_MS_MAX),
            };
            let event = RolloutEvent::Map(gateway, self.gateways[gateway].life);
            self.at(self.now + after, Event::Rollout(event));
        }
    }

    /// A driver reads the cluster that is left, then the goal, and decides.
    fn drive(&mut self, driver: usize) {
        let hurry = match self.healed {
            true => 20,
            false if self.dice.per_mille(60) => 6_000,
            false => 300,
        };
        self.drive_in(driver, hurry);
        let Driver {
            shard,
            map,
            goal,
            other,
        } = self.drivers[driver].clone();
        let Some(other) = other else {
            let shard = self.dice.shard(SHARDS);
            let (map, goal) = self.map_of(shard);
            let other = self.read_side(shard, 1 - goal);
            self.drivers[driver] = Driver {
                shard,
                map,
                goal,
                other,
            };
            return;
        };
        self.drivers[driver].other = None;
        let Some(here) = self.read_side(shard, goal) else {
            return;
        };
        match self.next_of(shard, (map, goal), &here, &other) {
            Next::Write(write) => self.send_guard(goal, write),
            Next::Done | Next::Groups { .. } | Next::Count => {}
            // Reads of different moments may contradict each other.
            Next::Stale | Next::Elsewhere { .. } | Next::Broken(_) => {
                self.figures.event("stale drivers");
            }
        }
    }

    /// The version of the map as far as it is about this shard, and the cluster that has it by the map.
    fn map_of(&self, shard: u32) -> (u64, usize) {
        let at = shard as usize;
        (self.routes.version[at], self.routes.by_shard[at])
    }

    fn next_of(
        &self,
        shard: u32,
        (map, goal): (u64, usize),
        here: &(GuardRead, Groups),
        other: &(GuardRead, Groups),
    ) -> Next {
        let (goal, left) = (name_of(goal), name_of(1 - goal));
        let goal = Side::counted(&goal, &here.0, here.1);
        let other = Side::counted(&left, &other.0, other.1);
        let mistake = self.guard_mistake();
        next_step(MapVersion(map), ShardId(shard), goal, other, mistake)
    }

    /// The guard and the groups of a shard in one cluster; `None`: it does not answer.
    fn read_side(&mut self, shard: u32, cluster: usize) -> Option<(GuardRead, Groups)> {
        if self.clusters[cluster].down_until > self.now {
            return None;
        }
        let now = self.now;
        let key = keys::guard(ShardId(shard));
        let guards = self.clusters[cluster].read(now, "/holdfast/shards/");
        let guard = guards.iter().find(|kv| kv.key == key);
        let guard = match guard.map(|kv| (Guard::from_value(&kv.key, &kv.value), kv.mod_revision)) {
            Some((Ok(guard), revision)) => GuardRead::Present(guard, revision),
            Some((Err(_), _)) => GuardRead::Unreadable,
            None => GuardRead::Absent,
        };
        let of_shard = format!("{{\"shard\":{shard},");
        let mut groups = Groups::default();
        for kv in self.clusters[cluster].read(now, "/holdfast/groups/") {
            let text = String::from_utf8_lossy(&kv.value);
            if text.starts_with(&of_shard) {
                groups.all += 1;
                groups.arriving += u64::from(text.contains("\"from\":"));
            }
        }
        Some((guard, groups))
    }

    fn send_guard(&mut self, goal: usize, write: GuardWrite) {
        let cluster = match write.cluster == name_of(goal) {
            true => goal,
            false => 1 - goal,
        };
        let mut after = self.latency();
        if !self.healed && self.dice.per_mille(50) {
            after += self.dice.delay(LATE_MS_MAX);
        }
        if !self.healed && self.dice.per_mille(50) {
            let again = self.now + after + self.dice.delay(LATE_MS_MAX);
            let event = RolloutEvent::Write(cluster, Box::new(write.clone()));
            self.at(again, Event::Rollout(event));
        }
        let event = RolloutEvent::Write(cluster, Box::new(write));
        self.at(self.now + after, Event::Rollout(event));
    }

    fn guard_arrives(&mut self, cluster: usize, write: &GuardWrite) {
        if self.clusters[cluster].down_until > self.now {
            return;
        }
        let done = self.clusters[cluster].apply(self.now, &Op::Txn(nested(write)));
        let Ok(Reply::Txn(reply)) = done else {
            return;
        };
        let written = matches!(
            reply.ops.first(),
            Some(TxnOpReply::Txn {
                succeeded: true,
                ..
            })
        );
        if written {
            self.figures.event("guards written");
            let note = ("guard", cluster, write.shard, format!("{:?}", write.guard));
            self.trace.note(self.now, None, &note);
        }
    }

    /// Every shard is where the map says, and nothing of it is elsewhere.
    pub(super) fn check_rollouts(&mut self) {
        if !self.options.has(Fault::Rollouts) || self.judge.has_finding() {
            return;
        }
        for shard in 0..SHARDS {
            let (map, goal) = self.map_of(shard);
            let (Some(other), Some(here)) =
                (self.read_side(shard, 1 - goal), self.read_side(shard, goal))
            else {
                continue;
            };
            let next = self.next_of(shard, (map, goal), &here, &other);
            if next != Next::Done || other.1.all > 0 {
                let text = format!("shard {shard} is not where it should be: {next:?}");
                return self.judge.find(Rule::LiveLock, self.now, None, text);
            }
        }
    }

    /// When the last of what rollouts want is expected, after everything works: a word that was lost
    /// just before is missed half a minute later.
    pub(super) fn rollouts_take(&self) -> Real {
        match self.options.has(Fault::Rollouts) {
            true => 60_000,
            false => 0,
        }
    }
}

/// Inside, so that a lack of space does not refuse it.
fn nested(write: &GuardWrite) -> holdfast_store::Txn {
    holdfast_store::Txn {
        then: vec![holdfast_store::TxnOp::Txn(write.txn())],
        ..Default::default()
    }
}

fn name_of(cluster: usize) -> ClusterName {
    cluster_name(cluster)
        .parse()
        .unwrap_or_else(|_| unreachable!("a letter and a digit are a cluster's name"))
}

impl Routes {
    /// As a deployment begins.
    pub(crate) fn new(shards: u32, clusters: usize) -> Self {
        let by_shard: Vec<usize> = (0..shards as usize).map(|it| it % clusters).collect();
        Self {
            before: by_shard.clone(),
            version: vec![MapVersion::FIRST.0; by_shard.len()],
            by_shard,
        }
    }
}
