//! Disturbances that are planned at the beginning of a run.

use super::partitions::{PARTITIONS, Partition};
use super::{BEGIN, Event, SHARDS, World};
use crate::clock::Real;
use crate::faults::Fault;
use holdfast_gateway::engine::Input;
use holdfast_store::Op;
use shard_map::records::{Guard, Record, keys};
use shard_map::{Epoch, ShardId, TokenBase};

/// Between two disturbances of a gentle run: what the first one did is over by then.
const GENTLE_SPACING_MS: u64 = 24_000;

/// One disturbance, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Chaos {
    Kill {
        gateway: usize,
        back_in: u64,
    },
    Stop {
        gateway: usize,
        back_in: u64,
    },
    Start {
        gateway: usize,
    },
    Pause {
        gateway: usize,
        ms: u64,
    },
    PauseTask {
        gateway: usize,
        cluster: usize,
        ms: u64,
    },
    StandStill {
        gateway: usize,
        ms: u64,
    },
    WallJump {
        gateway: usize,
    },
    Down {
        cluster: usize,
        ms: u64,
    },
    Up {
        cluster: usize,
    },
    Cut {
        gateway: usize,
        cluster: usize,
        ms: u64,
        refuses: bool,
    },
    Elect {
        cluster: usize,
        deposed_ms: u64,
        answers: bool,
        revokes: bool,
    },
    DeposedRevokes {
        cluster: usize,
    },
    Hang {
        gateway: usize,
        cluster: usize,
        ms: u64,
    },
    Forget {
        cluster: usize,
        ms: u64,
    },
    NoSpace {
        cluster: usize,
        raised: bool,
    },
    Lag {
        cluster: usize,
        ms: u64,
    },
    HandRevoke {
        cluster: usize,
    },
    GuardGone {
        shard: u32,
        ms: u64,
    },
    GuardBack {
        shard: u32,
    },
    GuardRaised {
        shard: u32,
    },
    Partition(Partition),
}

/// Faults that are disturbances, and not fates of single messages or habits of clients.
const DISTURBANCES: &[Fault] = &[
    Fault::GatewayKilled,
    Fault::GatewayStopped,
    Fault::GatewayPaused,
    Fault::TaskPaused,
    Fault::ClockStopped,
    Fault::WallJump,
    Fault::ClusterDown,
    Fault::LinkDown,
    Fault::KeepaliveHangs,
    Fault::LeaseForgotten,
    Fault::TermChange,
    Fault::NoSpace,
    Fault::ExpiryLag,
    Fault::HandRevoke,
    Fault::GuardGone,
    Fault::GuardRaised,
];

impl World {
    pub(super) fn plan_chaos(&mut self) {
        let kinds: Vec<_> = DISTURBANCES
            .iter()
            .chain(PARTITIONS)
            .copied()
            .filter(|fault| self.options.has(*fault))
            .collect();
        if kinds.is_empty() {
            return;
        }
        let safety = self.options.safety_ms;
        if self.options.gentle {
            let mut time = BEGIN + 12_000;
            while time + GENTLE_SPACING_MS < BEGIN + safety {
                let fault = self.dice.pick(&kinds);
                self.plan(time, fault);
                time += GENTLE_SPACING_MS + self.dice.between(0..=5_000) + self.lasts_ms(fault);
            }
            return;
        }
        for fault in kinds {
            for _ in 0..self.dice.between(1..=4) {
                let last = safety.saturating_sub(1_000 + self.lasts_ms(fault));
                let time = BEGIN + self.dice.between(2_000..=last.max(2_000));
                self.plan(time, fault);
            }
        }
    }

    /// How much longer than others this disturbance may last.
    fn lasts_ms(&self, fault: Fault) -> u64 {
        match fault {
            Fault::RollingRestart => self.gateways.len() as u64 * 9_000,
            Fault::AllDown => self.options.ttl_ms_max * 3 / 2 + 3_000,
            _ => 0,
        }
    }

    /// How long a disturbance lasts.
    fn lasting(&mut self) -> u64 {
        let session = self.options.session_ttl_ms;
        let most = if self.options.gentle {
            6_000
        } else {
            session * 3
        };
        match self.dice.between(0..=3) {
            0 => self.dice.between(50..=1_000),
            1 => self.dice.between(500..=session),
            _ => self.dice.between(500..=most),
        }
    }

    fn plan(&mut self, time: Real, fault: Fault) {
        let gateway = self.dice.index(self.gateways.len());
        let cluster = self.dice.index(self.clusters.len());
        let shard = self.dice.shard(SHARDS);
        let ms = self.lasting();
        let back_in = ms;
        let chaos = match fault {
            Fault::GatewayKilled => Chaos::Kill { gateway, back_in },
            Fault::GatewayStopped => Chaos::Stop { gateway, back_in },
            Fault::GatewayPaused => Chaos::Pause { gateway, ms },
            Fault::TaskPaused => Chaos::PauseTask {
                gateway,
                cluster,
                ms,
            },
            Fault::ClockStopped => Chaos::StandStill { gateway, ms },
            Fault::WallJump => Chaos::WallJump { gateway },
            Fault::ClusterDown => Chaos::Down { cluster, ms },
            Fault::LinkDown => {
                let refuses = self.dice.coin();
                Chaos::Cut {
                    gateway,
                    cluster,
                    ms,
                    refuses,
                }
            }
            Fault::KeepaliveHangs => Chaos::Hang {
                gateway,
                cluster,
                ms: self.lasting_for_groups(),
            },
            Fault::LeaseForgotten => Chaos::Forget {
                cluster,
                ms: self.lasting_for_groups(),
            },
            Fault::NoSpace => {
                let clear = Chaos::NoSpace {
                    cluster,
                    raised: false,
                };
                self.at(time + ms, Event::Chaos(clear));
                Chaos::NoSpace {
                    cluster,
                    raised: true,
                }
            }
            Fault::ExpiryLag => Chaos::Lag {
                cluster,
                ms: self.dice.between(100..=1_500),
            },
            Fault::HandRevoke => Chaos::HandRevoke { cluster },
            Fault::GuardGone => Chaos::GuardGone { shard, ms },
            Fault::GuardRaised => Chaos::GuardRaised { shard },
            fault if PARTITIONS.contains(&fault) => self.draw_partition(fault, ms),
            _ => Chaos::Elect {
                cluster,
                deposed_ms: ms,
                answers: self.dice.coin(),
                revokes: self.options.has(Fault::WrongRevoke) && self.dice.per_mille(800),
            },
        };
        self.at(time, Event::Chaos(chaos));
    }

    pub(super) fn chaos(&mut self, chaos: Chaos) {
        self.trace.note(self.now, None, &chaos);
        match chaos {
            Chaos::Kill { gateway, back_in } => {
                if self.gateways[gateway].is_up() && !self.healed {
                    self.figures.fault(Fault::GatewayKilled);
                    self.end_gateway(gateway);
                }
                self.at(self.now + back_in, Event::Chaos(Chaos::Start { gateway }));
            }
            Chaos::Stop { gateway, back_in } => {
                self.stop_gateway(gateway, Fault::GatewayStopped);
                self.at(self.now + back_in, Event::Chaos(Chaos::Start { gateway }));
            }
            Chaos::Start { gateway } => {
                let down_until = self.gateways[gateway].down_until;
                if !self.healed && down_until > self.now {
                    self.at(down_until, Event::Chaos(chaos));
                } else if !self.gateways[gateway].is_up() {
                    self.start_gateway(gateway);
                } else if self.gateways[gateway].stopping {
                    // It has not ended yet.
                    self.at(self.now + 100, Event::Chaos(chaos));
                }
            }
            Chaos::Pause { gateway, ms } => self.pause_gateway(gateway, ms, Fault::GatewayPaused),
            Chaos::PauseTask {
                gateway,
                cluster,
                ms,
            } => {
                let until = self.now + ms;
                if let Some(task) = self.gateways[gateway].engines.get_mut(cluster) {
                    task.paused_until = task.paused_until.max(until);
                    self.figures.fault(Fault::TaskPaused);
                }
            }
            Chaos::StandStill { gateway, ms } => {
                // The clock must have caught up with what it showed before anybody reads it.
                let end = BEGIN + self.options.safety_ms;
                if self.gateways[gateway].paused_until > self.now || self.now + ms >= end {
                    return;
                }
                self.pause_gateway(gateway, ms, Fault::ClockStopped);
                self.gateways[gateway].clock.stand_still(ms);
            }
            Chaos::WallJump { gateway } => {
                for at in self.engines_of(gateway) {
                    self.figures.fault(Fault::WallJump);
                    self.give(at, Input::ClockJumped);
                }
            }
            Chaos::Cut {
                gateway,
                cluster,
                ms,
                refuses,
            } => {
                self.figures.fault(Fault::LinkDown);
                self.cut
                    .insert((gateway, cluster), (self.now + ms, refuses));
            }
            Chaos::Hang {
                gateway,
                cluster,
                ms,
            } => self.begin_hang(gateway, cluster, ms),
            Chaos::Partition(partition) => self.partition(partition),
            other => self.chaos_in_etcd(other),
        }
    }

    fn pause_gateway(&mut self, gateway: usize, ms: u64, fault: Fault) {
        self.gateways[gateway].pause(self.now, ms);
        self.figures.fault(fault);
    }

    fn chaos_in_etcd(&mut self, chaos: Chaos) {
        let now = self.now;
        match chaos {
            Chaos::Down { cluster, ms } => {
                self.figures.fault(Fault::ClusterDown);
                self.clusters[cluster].go_down(now, now + ms);
                self.at(now + ms, Event::Chaos(Chaos::Up { cluster }));
            }
            Chaos::Up { cluster } => self.clusters[cluster].come_back(now),
            Chaos::Elect {
                cluster,
                deposed_ms,
                answers,
                revokes,
            } => {
                if self.clusters[cluster].down_until > now {
                    return;
                }
                self.figures.fault(Fault::TermChange);
                self.clusters[cluster].elect(now, now + deposed_ms, answers);
                if revokes {
                    let event = Event::Chaos(Chaos::DeposedRevokes { cluster });
                    self.at(now + deposed_ms, event);
                }
            }
            Chaos::DeposedRevokes { cluster } => {
                self.deposed_revokes(cluster);
            }
            Chaos::Forget { cluster, ms } => self.clusters[cluster].forget_groups(now + ms),
            Chaos::NoSpace { cluster, raised } => {
                if raised {
                    self.figures.fault(Fault::NoSpace);
                }
                self.clusters[cluster].set_no_space(raised && !self.healed);
            }
            Chaos::Lag { cluster, ms } => {
                self.lag(cluster, ms);
            }
            Chaos::HandRevoke { cluster } => {
                self.figures.fault(Fault::HandRevoke);
                for lease in self.clusters[cluster].leases(now) {
                    // What has ended in between needs no revoke.
                    let _ = self.clusters[cluster].apply(now, &Op::LeaseRevoke { lease });
                }
            }
            Chaos::GuardGone { shard, ms } => {
                self.figures.fault(Fault::GuardGone);
                let cluster = self.cluster_of(shard);
                self.clusters[cluster].delete(now, keys::guard(ShardId(shard)));
                self.judge.guard_goes(shard, now, now + ms);
                self.at(now + ms, Event::Chaos(Chaos::GuardBack { shard }));
            }
            Chaos::GuardBack { shard } => self.put_guard(shard),
            Chaos::GuardRaised { shard } => {
                self.figures.fault(Fault::GuardRaised);
                *self.guards_raised.entry(shard).or_default() += 1;
                self.put_guard(shard);
            }
            _ => {}
        }
    }

    fn deposed_revokes(&mut self, cluster: usize) {
        if !self.healed && self.clusters[cluster].deposed_revokes(self.now) > 0 {
            self.figures.fault(Fault::WrongRevoke);
        }
    }

    fn lag(&mut self, cluster: usize, ms: u64) {
        if self.clusters[cluster].down_until <= self.now {
            self.figures.fault(Fault::ExpiryLag);
            self.clusters[cluster].set_lag(ms);
        }
    }

    fn put_guard(&mut self, shard: u32) {
        let raised = self.guards_raised.get(&shard).copied().unwrap_or(0);
        let guard = Guard {
            epoch: Epoch(1 + raised),
            token_base: TokenBase::try_from(raised * 100_000).unwrap_or(TokenBase::ZERO),
            ..Guard::first()
        };
        let cluster = self.cluster_of(shard);
        self.clusters[cluster].put(self.now, keys::guard(ShardId(shard)), guard.to_value());
        self.judge.guard_is_back(shard);
    }

    /// Everything works from here on, and everybody is there.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.spread_map();
        self.cut.clear();
        self.hangs.clear();
        let now = self.now;
        for (line, way) in self.network.heal() {
            self.plan_move(line, way, now);
        }
        for cluster in &mut self.clusters {
            let was_down = cluster.down_until > now;
            cluster.down_until = 0;
            cluster.set_lag(0);
            cluster.set_no_space(false);
            if was_down {
                cluster.come_back(now);
            }
        }
        for gateway in 0..self.gateways.len() {
            if self.gateways[gateway].stopping && self.gateways[gateway].is_up() {
                self.end_gateway(gateway);
            }
            self.gateways[gateway].paused_until = now;
            if !self.gateways[gateway].is_up() {
                self.start_gateway(gateway);
            }
            for at in self.engines_of(gateway) {
                let task = &mut self.gateways[gateway].engines[at.cluster];
                task.paused_until = now;
                // A run that was planned for the end of the pause comes at once.
                self.plan_run(at, now);
            }
        }
        for client in &mut self.clients {
            client.paused_until = now;
        }
    }
}
