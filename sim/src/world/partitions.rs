//! Disturbances between gateways, and those of many gateways.

use super::chaos::Chaos;
use super::{BEGIN, Event, World};
use crate::clock::Real;
use crate::faults::Fault;

/// Between two looks whether a gateway is back.
const ROLL_MS: u64 = 200;
/// A rolling restart does not wait longer for one gateway.
const ROLL_MS_MAX: u64 = 20_000;

/// One disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Partition {
    /// Nothing gets from one gateway to another, and perhaps nothing back.
    Cut {
        from: usize,
        to: usize,
        ms: u64,
        both: bool,
    },
    /// A gateway reaches no other, and perhaps no cluster either.
    Isolate {
        gateway: usize,
        ms: u64,
        clusters: bool,
    },
    /// The connection from one gateway to another breaks.
    Reset { from: usize, to: usize },
    /// Everything between two gateways takes longer.
    Slow {
        from: usize,
        to: usize,
        ms: u64,
        by_ms: u64,
    },
    /// A client and a gateway do not reach each other.
    Client {
        client: usize,
        gateway: usize,
        ms: u64,
    },
    /// A gateway is stopped and started, and then the next.
    Roll { gateway: usize, back_in: u64 },
    /// The next one, when this one is back.
    RollOn {
        gateway: usize,
        back_in: u64,
        waited: u64,
    },
    /// All gateways are killed, and come back one by one.
    AllDown { ms: u64 },
    /// A gateway is told that a session has ended, and none has.
    HintFalse { gateway: usize, cluster: usize },
}

/// Faults that are disturbances of this kind.
pub(super) const PARTITIONS: &[Fault] = &[
    Fault::PeerCut,
    Fault::PeerReset,
    Fault::PeerSlow,
    Fault::ClientCut,
    Fault::RollingRestart,
    Fault::AllDown,
    Fault::HintFalse,
];

impl World {
    /// A disturbance of this kind that lasts so long.
    pub(super) fn draw_partition(&mut self, fault: Fault, ms: u64) -> Chaos {
        let count = self.gateways.len();
        let from = self.dice.index(count);
        let to = (from + 1 + self.dice.index((count - 1).max(1))) % count;
        Chaos::Partition(match fault {
            Fault::PeerCut if self.dice.per_mille(400) => Partition::Isolate {
                gateway: from,
                ms,
                clusters: self.dice.per_mille(300) && !self.options.gentle,
            },
            Fault::PeerCut => Partition::Cut {
                from,
                to,
                ms,
                both: self.dice.coin(),
            },
            Fault::PeerReset => Partition::Reset { from, to },
            Fault::PeerSlow => Partition::Slow {
                from,
                to,
                ms,
                by_ms: self.dice.pick(&[50, 300, 900, 2_500]),
            },
            Fault::ClientCut => Partition::Client {
                client: self.dice.index(self.clients.len()),
                gateway: from,
                ms,
            },
            Fault::RollingRestart => Partition::Roll {
                gateway: 0,
                back_in: self.dice.between(100..=2_000),
            },
            Fault::AllDown => Partition::AllDown {
                ms: self.outage_ms(),
            },
            _ => Partition::HintFalse {
                gateway: from,
                cluster: self.dice.index(self.clusters.len()),
            },
        })
    }

    /// All gateways are down for longer than any lock lives without a renewal.
    pub(super) fn outage_ms(&mut self) -> u64 {
        let longest = self.options.ttl_ms_max;
        longest + self.dice.between(100..=longest / 2)
    }

    pub(super) fn partition(&mut self, partition: Partition) {
        let now = self.now;
        match partition {
            Partition::Cut { from, to, ms, both } => {
                self.cut_peers(from, to, now + ms);
                if both {
                    self.cut_peers(to, from, now + ms);
                }
            }
            Partition::Isolate {
                gateway,
                ms,
                clusters,
            } => {
                for other in 0..self.gateways.len() {
                    self.cut_peers(gateway, other, now + ms);
                    self.cut_peers(other, gateway, now + ms);
                }
                for cluster in 0..self.clusters.len() {
                    if clusters {
                        self.cut.insert((gateway, cluster), (now + ms, false));
                    }
                }
            }
            Partition::Reset { from, to } => self.reset_link(from, to),
            Partition::Slow {
                from,
                to,
                ms,
                by_ms,
            } => {
                if from != to {
                    self.figures.fault(Fault::PeerSlow);
                    self.network.slow_down(from, to, now + ms, by_ms);
                    self.network.slow_down(to, from, now + ms, by_ms);
                }
            }
            Partition::Client {
                client,
                gateway,
                ms,
            } => {
                self.figures.fault(Fault::ClientCut);
                self.cut_off.insert((client, gateway), now + ms);
            }
            Partition::HintFalse { gateway, cluster } => {
                let engines = self.engines_of(gateway);
                if let Some(at) = engines.into_iter().find(|at| at.cluster == cluster) {
                    self.figures.fault(Fault::HintFalse);
                    self.hinted(at);
                }
            }
            other => self.many_gateways(other),
        }
    }

    fn cut_peers(&mut self, from: usize, to: usize, until: Real) {
        if from != to {
            self.figures.fault(Fault::PeerCut);
            self.network.cut(from, to, until);
        }
    }

    fn many_gateways(&mut self, partition: Partition) {
        let plan = |world: &mut Self, after: u64, partition| {
            let event = Event::Chaos(Chaos::Partition(partition));
            world.at(world.now + after, event);
        };
        match partition {
            Partition::Roll { gateway, back_in } => {
                self.stop_gateway(gateway, Fault::RollingRestart);
                let start = Event::Chaos(Chaos::Start { gateway });
                self.at(self.now + back_in, start);
                let on = Partition::RollOn {
                    gateway,
                    back_in,
                    waited: 0,
                };
                plan(self, ROLL_MS, on);
            }
            Partition::RollOn {
                gateway,
                back_in,
                waited,
            } => {
                if self.healed || gateway + 1 == self.gateways.len() {
                    return;
                }
                if self.is_back(gateway) || waited > ROLL_MS_MAX {
                    let gateway = gateway + 1;
                    return plan(self, 0, Partition::Roll { gateway, back_in });
                }
                let waited = waited + ROLL_MS;
                let on = Partition::RollOn {
                    gateway,
                    back_in,
                    waited,
                };
                plan(self, ROLL_MS, on);
            }
            Partition::AllDown { ms } => {
                if self.healed || self.now + ms >= BEGIN + self.options.safety_ms {
                    return;
                }
                self.figures.fault(Fault::AllDown);
                for gateway in 0..self.gateways.len() {
                    if self.gateways[gateway].is_up() {
                        self.end_gateway(gateway);
                    }
                    let back_in = ms + self.dice.delay(3_000);
                    self.gateways[gateway].down_until = self.now + ms;
                    let start = Event::Chaos(Chaos::Start { gateway });
                    self.at(self.now + back_in, start);
                }
            }
            _ => {}
        }
    }

    /// Whether a client and a gateway do not reach each other now.
    pub(super) fn is_cut_off(&self, client: usize, gateway: usize) -> bool {
        let until = self.cut_off.get(&(client, gateway));
        !self.healed && until.is_some_and(|until| *until > self.now)
    }
}
