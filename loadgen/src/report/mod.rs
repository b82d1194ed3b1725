//! The result of a run: as JSON for programs, in words for people.

mod summary;
#[cfg(test)]
mod tests;

use crate::checker::{Findings, FreeTimes};
use crate::cli::RunArgs;
use crate::fleet::Fleet;
use crate::outcome::{Op, Outcome, Phase};
use crate::plan::Plan;
use crate::stats::Stats;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What came of a run. Rates are per second, latencies in milliseconds from the *intended* moment
/// of sending to the answer that said something about the lock; repetitions in between included.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// The arguments.
    pub(crate) config: serde_json::Value,
    /// The seed that was used.
    pub(crate) seed: u32,
    /// Ended early by the user.
    pub(crate) interrupted: bool,
    /// By the phase's name.
    pub(crate) phases: BTreeMap<String, PhaseReport>,
    /// From the intended moment to the sending of scheduled renewals: what the generator itself,
    /// or a lack of free connections, added to the latencies.
    pub(crate) lateness_ms: Quantiles,
    /// The most renewals that were due and not sent at one time.
    pub(crate) backlog_max: u64,
    /// Scheduled renewals that had no request of their own, because the lock's one before was
    /// sent a whole interval late. Their latency counts until the lock's next answer.
    pub(crate) missed: u64,
    /// Repeated tries.
    pub(crate) retries: u64,
    /// Answers, or missing answers, that say nothing about the lock.
    pub(crate) unknown: u64,
    /// Connections opened, and tries that failed.
    pub(crate) connects: u64,
    /// Failed tries to open a connection.
    pub(crate) connect_failures: u64,
    /// Locks that were never held.
    pub(crate) not_acquired: u64,
    /// Locks whose release was not answered, when they were to be released.
    pub(crate) not_released: u64,
    /// Promises that ended without a renewal.
    pub(crate) lost: u64,
    /// Everything found, lost locks included.
    pub(crate) findings: Findings,
    /// The locks of holders that stopped, when there were any.
    pub(crate) stopped: Option<FreeTimes>,
    /// The generator itself.
    pub(crate) client: ClientReport,
}

/// One phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhaseReport {
    /// How long it took.
    pub(crate) secs: f64,
    /// HTTP requests that were answered, or were not.
    pub(crate) requests: u64,
    /// The same per second.
    pub(crate) requests_per_sec: f64,
    /// Processor cores that the generator used.
    pub(crate) client_cores: f64,
    /// By what was asked.
    pub(crate) ops: BTreeMap<String, OpReport>,
}

/// One kind of request in one phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpReport {
    /// How often each outcome came.
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// Answers that granted, renewed or released, per second.
    pub(crate) per_sec: f64,
    /// From the intended moment.
    pub(crate) latency_ms: Quantiles,
}

/// A distribution, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Quantiles {
    /// How many values.
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// The generator itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientReport {
    /// Threads with load.
    pub(crate) threads: usize,
    /// Processor time.
    pub(crate) cpu_secs: f64,
    /// The most memory it had, in KiB, where the system says so.
    pub(crate) memory_max_kib: Option<u64>,
}

/// How long each phase took, and the processor time it used.
#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseTimes([(f64, f64); Phase::ALL.len()]);

impl PhaseTimes {
    pub(crate) fn set(&mut self, phase: Phase, secs: f64, cpu_secs: f64) {
        self.0[phase as usize] = (secs, cpu_secs);
    }
}

/// What a run comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was found.
    Clean,
    /// Locks were lost, or the checker found something.
    Findings,
}

impl Verdict {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
        }
    }
}

impl Report {
    /// Puts the workers' figures together.
    pub(crate) fn new(
        args: &RunArgs,
        plan: &Plan,
        fleets: Vec<Fleet>,
        times: PhaseTimes,
        interrupted: bool,
    ) -> Self {
        let mut stats = Stats::new();
        let mut findings = Findings::default();
        let mut free = FreeTimes::default();
        let mut never = u64::from(plan.locks);
        let mut not_released = 0;
        for fleet in fleets {
            never -= u64::from(fleet.first_grants());
            not_released += u64::from(fleet.unreleased());
            stats.merge(&fleet.stats);
            findings.merge(fleet.findings);
            free.merge(&fleet.free);
        }
        Self {
            config: serde_json::to_value(args).unwrap_or_default(),
            seed: plan.seed,
            interrupted,
            phases: phases(&stats, &times),
            lateness_ms: Quantiles::of(&stats.lateness),
            backlog_max: stats.backlog_max,
            missed: stats.missed,
            retries: stats.retries,
            unknown: stats.unknown,
            connects: stats.connects,
            connect_failures: stats.connect_failures,
            not_acquired: never,
            not_released: if plan.keep { 0 } else { not_released },
            lost: findings.lost(),
            findings,
            stopped: (plan.stop_renewing > 0.0).then_some(free),
            client: ClientReport {
                threads: plan.threads,
                cpu_secs: times.0.iter().map(|(_, cpu_secs)| cpu_secs).sum(),
                memory_max_kib: memory_max_kib(),
            },
        }
    }

    /// What it comes to.
    pub(crate) fn verdict(&self) -> Verdict {
        if self.findings.counts.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Findings
        }
    }
}

fn phases(stats: &Stats, times: &PhaseTimes) -> BTreeMap<String, PhaseReport> {
    let ran = Phase::ALL.into_iter().zip(times.0);
    let ran = ran.filter(|(_, (secs, _))| *secs > 0.0);
    let report = |(phase, (secs, cpu_secs)): (Phase, (f64, f64))| {
        let of_op = |op: Op| {
            let latencies = stats.latencies(phase, op);
            let outcomes: BTreeMap<_, _> = stats
                .outcomes(phase, op)
                .map(|(name, count)| (name.to_owned(), count))
                .collect();
            let good: u64 = Outcome::GOOD
                .iter()
                .filter_map(|good| outcomes.get(good.name()))
                .sum();
            let report = OpReport {
                per_sec: good as f64 / secs,
                latency_ms: Quantiles::of(latencies),
                outcomes,
            };
            (!report.outcomes.is_empty()).then(|| (op.name().to_owned(), report))
        };
        let requests = stats.requests(phase);
        let report = PhaseReport {
            secs,
            requests,
            requests_per_sec: requests as f64 / secs,
            client_cores: cpu_secs / secs,
            ops: Op::ALL.into_iter().filter_map(of_op).collect(),
        };
        (phase.name().to_owned(), report)
    };
    ran.map(report).collect()
}

impl Quantiles {
    fn of(micros: &Histogram<u64>) -> Self {
        let at = |quantile: f64| micros.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            count: micros.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: micros.max() as f64 / 1000.0,
        }
    }
}

fn memory_max_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
