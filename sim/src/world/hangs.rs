//! Keepalives of groups that hang, while those of the session go on: the lease of a group then ends
//! under a session that lives.

use super::World;
use crate::clock::Real;
use crate::faults::Fault;
use crate::gateway::EngineAt;
use holdfast_store::Op;

/// The answer to the one after which they hang comes at most so late.
const ANSWER_LATE_MS_MAX: u64 = 6_000;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hang {
    /// With the next keepalive, for so long.
    Begins { ms: u64 },
    /// None arrives before then.
    Until(Real),
}

/// What becomes of a keepalive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hanging {
    No,
    /// It is carried out, and its answer takes so much longer.
    Late(Real),
    /// It does not arrive.
    Gone,
}

impl World {
    /// About so long as a group's lease lives without keepalives.
    pub(super) fn lasting_for_groups(&mut self) -> u64 {
        let group = self.options.group_ttl_ms;
        self.dice.between(group / 2..=group * 2)
    }

    pub(super) fn begin_hang(&mut self, gateway: usize, cluster: usize, ms: u64) {
        self.hangs
            .entry((gateway, cluster))
            .or_insert(Hang::Begins { ms });
    }

    pub(super) fn hanging(&mut self, at: EngineAt, op: &Op) -> Hanging {
        let Op::KeepAlive { leases } = op else {
            return Hanging::No;
        };
        let between = (at.gateway, at.cluster);
        let Some(hang) = self.hangs.get(&between).copied() else {
            return Hanging::No;
        };
        if !self.clusters[at.cluster].are_groups(leases) {
            return Hanging::No;
        }
        match hang {
            Hang::Begins { ms } => {
                self.hangs.insert(between, Hang::Until(self.now + ms));
                self.figures.fault(Fault::KeepaliveHangs);
                Hanging::Late(self.dice.between(0..=ANSWER_LATE_MS_MAX))
            }
            Hang::Until(until) if self.now < until => Hanging::Gone,
            Hang::Until(_) => {
                self.hangs.remove(&between);
                Hanging::No
            }
        }
    }
}
