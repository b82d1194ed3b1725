//! Watches: they tell gateways that a session has ended. What they tell is a hint, so it may come
//! late, or never, or without a reason.

use super::{Event, World};
use crate::faults::Fault;
use holdfast_gateway::engine::Input;

/// How often a cluster looks for sessions that have ended.
const LOOK_MS: u64 = 50;
/// A late hint comes at most so much later.
const LATE_MS_MAX: u64 = 30_000;

impl World {
    pub(super) fn cluster_looks(&mut self, cluster: usize) {
        self.at(self.now + LOOK_MS, Event::ClusterLooks(cluster));
        self.tell_freed(cluster);
        let ended = self.clusters[cluster].sessions_ended(self.now);
        for _ in 0..ended {
            for gateway in 0..self.gateways.len() {
                self.hint(gateway, cluster);
            }
        }
    }

    /// Tells those who watch keys of the cluster that are gone.
    fn tell_freed(&mut self, cluster: usize) {
        let watched: Vec<_> = self
            .watches
            .keys()
            .filter(|(at, _)| at.cluster == cluster)
            .cloned()
            .collect();
        for (at, name) in watched {
            let Some(key) = self.watches.get(&(at, name.clone())).cloned() else {
                continue;
            };
            if self.clusters[cluster].has(self.now, &key) {
                continue;
            }
            self.watches.remove(&(at, name.clone()));
            let lost = !self.healed && self.options.has(Fault::WatchLost) && self.dice.coin();
            let mut after = self.latency();
            if lost {
                self.figures.fault(Fault::WatchLost);
                if self.dice.coin() {
                    continue;
                }
                after += self.dice.delay(LATE_MS_MAX);
            }
            self.at(self.now + after, Event::Freed(at, name, key));
        }
    }

    fn hint(&mut self, gateway: usize, cluster: usize) {
        let lost = !self.healed && self.options.has(Fault::HintLost) && self.dice.coin();
        let mut after = self.latency();
        if lost {
            self.figures.fault(Fault::HintLost);
            if self.dice.coin() {
                return;
            }
            after += self.dice.delay(LATE_MS_MAX);
        }
        // A watch that was broken is made again, and looks then.
        let cut = self.cut.get(&(gateway, cluster));
        let from = cut.map_or(self.now, |(until, _)| self.now.max(*until));
        let engines = self.engines_of(gateway);
        if let Some(at) = engines.into_iter().find(|at| at.cluster == cluster) {
            self.figures.event("hints");
            self.at(from + after, Event::Hint(at));
        }
    }

    /// An engine is told that a session has ended.
    pub(super) fn hinted(&mut self, at: crate::gateway::EngineAt) {
        self.give(at, Input::SessionEnded);
    }
}
