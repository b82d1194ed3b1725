//! What a run is made of, drawn from its seed: each run has a part of the faults (a swarm finds
//! what a run with all of them would drown).

use crate::dice::Dice;
use crate::faults::Fault;
use std::collections::BTreeSet;
use std::fmt;

/// The longest that a client waits in line.
pub(crate) const WAIT_MS_MAX: u64 = 15_000;

/// The options of one run. Their text is one line.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) gateways: usize,
    pub(crate) clusters: usize,
    pub(crate) names: usize,
    pub(crate) clients: usize,
    pub(crate) session_ttl_ms: u64,
    pub(crate) group_ttl_ms: u64,
    pub(crate) ttls_ms: Vec<u64>,
    /// The longest TTL that a hold may come to have.
    pub(crate) ttl_ms_max: u64,
    /// A call or a request takes up to so long each way.
    pub(crate) latency_ms: u64,
    /// As long takes what goes between gateways, each way.
    pub(crate) peer_latency_ms: u64,
    /// So many calls in a thousand meet each of the faults of calls.
    pub(crate) call_faults_per_mille: u64,
    pub(crate) request_faults_per_mille: u64,
    /// How long things go wrong.
    pub(crate) safety_ms: u64,
    /// Disturbances are short and come one at a time: no live lock may be lost.
    pub(crate) gentle: bool,
    /// Goes on until empty groups are retired and given-up leases have ended.
    pub(crate) long_tail: bool,
    pub(crate) faults: BTreeSet<Fault>,
}

/// Faults after which ONE-HOLDER is not promised; runs without them are most of the runs.
const RARE: &[Fault] = &[
    Fault::HandRevoke,
    Fault::ClockStopped,
    Fault::GuardGone,
    Fault::WallJump,
    Fault::NoSpace,
];

/// Faults that are drawn apart. Were they drawn with the others, each seed would give another run, and
/// those that are known to find something would be known no more.
const APART: &[Fault] = &[Fault::Waits, Fault::WatchLost, Fault::AnswerToNobody];

/// Faults that a live lock is not sure to survive.
const NOT_GENTLE: &[Fault] = &[
    Fault::CallLost,
    Fault::ReplyLost,
    Fault::CallLate,
    Fault::CallDoubled,
    Fault::CallRefused,
    Fault::SlowLinks,
    Fault::HandRevoke,
    Fault::ClockStopped,
    Fault::ClientPaused,
    Fault::GuardGone,
    Fault::RequestLost,
    Fault::AnswerLost,
    Fault::KeepalivePartial,
    Fault::KeepaliveHangs,
    Fault::LeaseForgotten,
    Fault::ShorterTtl,
    Fault::NoSpace,
    Fault::ForceRelease,
];

impl Options {
    /// Draws the options of the run with this seed.
    ///
    /// With a focus, exactly those faults can happen.
    pub(crate) fn draw(dice: &mut Dice, apart: &mut Dice, focus: &[Fault]) -> Self {
        let gentle = dice.per_mille(250) && focus.is_empty();
        let share = dice.pick(&[100, 300, 300, 500]);
        let mut faults = BTreeSet::new();
        for fault in Fault::ALL {
            let dice = match APART.contains(fault) {
                true => &mut *apart,
                false => &mut *dice,
            };
            let share = if RARE.contains(fault) { 60 } else { share };
            if dice.per_mille(share) && !(gentle && NOT_GENTLE.contains(fault)) {
                faults.insert(*fault);
            }
        }
        if !focus.is_empty() {
            faults = focus.iter().copied().collect();
        }
        // A stale owner answers from memory for up to a session's TTL after a wrong revoke, and
        // cannot know of a release that an heir confirmed in that time.
        if faults.contains(&Fault::WrongRevoke) {
            faults.remove(&Fault::RenewAfterRelease);
            faults.remove(&Fault::ForceRelease);
            faults.insert(Fault::TermChange);
        }
        // A guard that comes and goes by hand is no step of a rollout.
        if faults.contains(&Fault::Rollouts) {
            faults.remove(&Fault::GuardGone);
            faults.remove(&Fault::GuardRaised);
        }
        let session_ttl_ms = if gentle {
            3_000
        } else {
            dice.pick(&[3_000, 4_000, 6_000, 9_000])
        };
        let ttls_ms: Vec<u64> = match gentle {
            true => vec![24_000, 30_000],
            false => {
                let one = dice.pick(&[1_000, 2_000, 3_000, 5_000, 8_000]);
                let other = dice.pick(&[2_000, 4_000, 8_000, 15_000]);
                vec![one, other]
            }
        };
        let longest = ttls_ms.iter().copied().max().unwrap_or(0);
        let ttl_ms_max = match faults.contains(&Fault::LongerTtl) {
            true => longest * 3,
            false => longest,
        };
        // Long as by default, or as short as it may be configured: half as long again as the
        // longest TTL, and longer than a session's.
        let group_ttl_ms = match dice.coin() {
            // A live lock survives an outage of all gateways only if its lease does.
            _ if gentle && faults.contains(&Fault::AllDown) => ttl_ms_max * 6,
            true => (ttl_ms_max * 3).max(session_ttl_ms * 10),
            false => (ttl_ms_max * 3 / 2).max(session_ttl_ms + 1_000),
        };
        let slow = faults.contains(&Fault::SlowLinks);
        Self {
            gateways: dice.pick(&[1, 2, 2, 3, 3]),
            clusters: match faults.contains(&Fault::Rollouts) {
                true => 2,
                false => dice.pick(&[1, 1, 2]),
            },
            names: dice.pick(&[1, 2, 2, 3, 5]),
            clients: dice.pick(&[2, 3, 4, 6, 8]),
            session_ttl_ms,
            group_ttl_ms: group_ttl_ms.next_multiple_of(1000),
            ttls_ms,
            ttl_ms_max,
            latency_ms: if slow {
                2_500
            } else {
                dice.pick(&[1, 5, 60, 60, 300])
            },
            peer_latency_ms: dice.pick(&[1, 5, 60, 300]),
            call_faults_per_mille: dice.pick(&[5, 20, 60]),
            request_faults_per_mille: dice.pick(&[10, 50, 150]),
            safety_ms: dice.pick(&[40_000, 80_000, 120_000]),
            gentle,
            long_tail: dice.per_mille(60),
            faults,
        }
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "gateways={} clusters={} names={} clients={} session_ttl_ms={} group_ttl_ms={} \
             ttls_ms={:?} latency_ms={} peer_latency_ms={} call_faults={}/1000 \
             request_faults={}/1000 safety_ms={} gentle={} long_tail={} faults=",
            self.gateways,
            self.clusters,
            self.names,
            self.clients,
            self.session_ttl_ms,
            self.group_ttl_ms,
            self.ttls_ms,
            self.latency_ms,
            self.peer_latency_ms,
            self.call_faults_per_mille,
            self.request_faults_per_mille,
            self.safety_ms,
            self.gentle,
            self.long_tail,
        )?;
        for (at, fault) in self.faults.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{fault}")?;
        }
        Ok(())
    }
}
