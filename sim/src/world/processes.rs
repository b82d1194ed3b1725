//! Gateways' processes: how they start, stop and end.

use super::{Ask, Asker, Event, World};
use crate::clock::Shows as _;
use crate::faults::Fault;
use crate::gateway::EngineAt;
use crate::network::{Parcel, Way};
use holdfast_gateway::engine::{Input, Ticket};

/// A gateway that has given its sessions up still serves for at most so long.
const FINISH_MS_MAX: u64 = 5_000;

impl World {
    pub(crate) fn start_gateway(&mut self, gateway: usize) {
        let mut seeds = Vec::new();
        for _ in 0..self.clusters.len() {
            let mut seed = [0; 32];
            for part in seed.chunks_mut(8) {
                part.copy_from_slice(&self.dice.bits().to_be_bytes());
            }
            seeds.push(seed);
        }
        let now = self.now;
        self.gateways[gateway].routes = self.routes.clone();
        self.gateways[gateway].start(gateway, now, &seeds, &self.common);
        for at in self.engines_of(gateway) {
            let shown = self.gateways[gateway].clock.instant(now);
            let mut effects = Vec::new();
            self.gateways[gateway].engines[at.cluster]
                .engine
                .start(shown, &mut effects);
            self.carry_out(at, effects);
            self.give(at, Input::HomeSeen);
        }
    }

    /// The engines of a gateway in its present life.
    pub(super) fn engines_of(&self, gateway: usize) -> Vec<EngineAt> {
        let life = self.gateways[gateway].life;
        let at = |cluster| EngineAt {
            gateway,
            cluster,
            life,
        };
        (0..self.gateways[gateway].engines.len()).map(at).collect()
    }

    /// SIGTERM, after the load balancer has been told.
    pub(super) fn stop_gateway(&mut self, gateway: usize, fault: Fault) {
        let process = &mut self.gateways[gateway];
        if !process.is_up() || process.stopping || self.healed {
            return;
        }
        process.stopping = true;
        self.figures.fault(fault);
        for at in self.engines_of(gateway) {
            self.give(at, Input::Stop);
        }
    }

    /// An engine has given its session up. When all have, the process ends, after a while in which
    /// it forwards what still comes.
    pub(super) fn engine_stopped(&mut self, at: EngineAt) {
        let gateway = &mut self.gateways[at.gateway];
        gateway.engines[at.cluster].stopped = true;
        if gateway.engines.iter().all(|task| task.stopped) {
            let life = gateway.life;
            let after = self.dice.delay(FINISH_MS_MAX);
            let event = Event::ProcessEnds(at.gateway, life);
            self.at(self.now + after, event);
            self.trace.note(self.now, None, &("stopped", at.gateway));
        }
    }

    pub(super) fn process_ends(&mut self, gateway: usize, life: u64) {
        if self.gateways[gateway].life == life && self.gateways[gateway].is_up() {
            self.end_gateway(gateway);
        }
    }

    /// The process is gone, and with it its connections. What it had sent still arrives.
    pub(super) fn end_gateway(&mut self, gateway: usize) {
        self.collect_stats_of(gateway);
        self.trace.note(self.now, None, &("ended", gateway));
        let life = self.gateways[gateway].life;
        for no in self.network.of(gateway) {
            let Some(line) = self.network.get(no) else {
                continue;
            };
            if line.from == gateway {
                self.abandon(no);
            } else if line.to_life == Some(life) {
                self.push(no, Way::Back, Parcel::End);
            }
        }
        self.gateways[gateway].end();
    }

    /// Whether a gateway that was told to stop has ended and is back, with proven sessions.
    pub(super) fn is_back(&self, gateway: usize) -> bool {
        let process = &self.gateways[gateway];
        let shown = process.clock.instant(self.now);
        process.is_up()
            && !process.stopping
            && process
                .engines
                .iter()
                .all(|task| task.proof.is_proven(shown))
    }

    /// Counts re-entries that go to the owner.
    pub(super) fn note_entry(&mut self, ticket: Ticket) {
        let open = self.open.get(&ticket);
        if let Some(Asker::Client(arrival)) = open.map(|open| open.asker)
            && matches!(self.ask_of(arrival), Some(Ask::Acquire(_)))
        {
            self.figures.event("forwarded re-entries");
        }
    }
}
