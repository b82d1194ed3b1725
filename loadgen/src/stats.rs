//! Counts and latencies of one worker.

use crate::outcome::{Op, Outcome, Phase};
use hdrhistogram::Histogram;
use holdfast_client::Instant;
use std::time::Duration;

const OPS: usize = Op::ALL.len();
const PHASES: usize = Phase::ALL.len();

/// Upper bounds of the latencies that are shown while it runs, in microseconds.
pub(crate) const LATENCY_BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000,
];

/// What is shown while it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// By operation, then by outcome, each at its index.
    pub(crate) outcomes: Vec<Vec<u64>>,
    /// Renewals by bound, and at last those above all bounds; not cumulative.
    pub(crate) within: Vec<u64>,
    pub(crate) renewals_us: u64,
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) missed: u64,
    pub(crate) connects: u64,
    pub(crate) connect_failures: u64,
}

impl Figures {
    /// Puts two workers' figures together.
    pub(crate) fn merge(&mut self, other: &Self) {
        let width = Outcome::COUNT;
        self.outcomes.resize(Op::ALL.len(), vec![0; width]);
        for (mine, other) in self.outcomes.iter_mut().zip(&other.outcomes) {
            add(mine, other);
        }
        self.within.resize(LATENCY_BOUNDS_US.len() + 1, 0);
        add(&mut self.within, &other.within);
        self.renewals_us += other.renewals_us;
        self.requests += other.requests;
        self.retries += other.retries;
        self.missed += other.missed;
        self.connects += other.connects;
        self.connect_failures += other.connect_failures;
    }
}

fn add(mine: &mut [u64], other: &[u64]) {
    for (mine, other) in mine.iter_mut().zip(other) {
        *mine += other;
    }
}

/// Counts of answers, and latencies in microseconds from the *intended* moment.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    counts: Box<[[[u64; Outcome::COUNT]; OPS]; PHASES]>,
    requests: [u64; PHASES],
    latencies: Vec<Histogram<u64>>,
    /// From the intended moment to the sending, of first tries of scheduled renewals.
    pub(crate) lateness: Histogram<u64>,
    /// Renewals by the first of [`LATENCY_BOUNDS_US`] that they did not exceed.
    within: [u64; LATENCY_BOUNDS_US.len() + 1],
    renewals_us: u64,
    /// Latencies of renewals since the figures were last shown.
    recent: Histogram<u64>,
    /// Repeated tries.
    pub(crate) retries: u64,
    /// Answers, and missing answers, that say nothing about the lock.
    pub(crate) unknown: u64,
    /// Scheduled renewals that had no request of their own, because the lock's one before was
    /// sent a whole interval late.
    pub(crate) missed: u64,
    /// Connections opened.
    pub(crate) connects: u64,
    /// Failed tries to open one.
    pub(crate) connect_failures: u64,
    /// The most renewals that were due at one time and not sent.
    pub(crate) backlog_max: u64,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            counts: Box::new([[[0; Outcome::COUNT]; OPS]; PHASES]),
            requests: [0; PHASES],
            latencies: vec![histogram(); OPS * PHASES],
            lateness: histogram(),
            within: Default::default(),
            renewals_us: 0,
            recent: histogram(),
            retries: 0,
            unknown: 0,
            missed: 0,
            connects: 0,
            connect_failures: 0,
            backlog_max: 0,
        }
    }

    /// One HTTP request was answered, or was not.
    pub(crate) fn request(&mut self, phase: Phase) {
        self.requests[phase as usize] += 1;
    }

    /// One item was answered, or was not.
    pub(crate) fn outcome(&mut self, phase: Phase, op: Op, outcome: Outcome) {
        self.counts[phase as usize][op as usize][outcome.index()] += 1;
    }

    /// What was wanted has an answer. With `every`, the things that should have been sent every
    /// so often meanwhile, and were not because of it, are counted as if they had been.
    pub(crate) fn latency(
        &mut self,
        phase: Phase,
        op: Op,
        intended: Instant,
        received: Instant,
        every: Option<Duration>,
    ) {
        let mut intended = intended;
        loop {
            let took = micros(received.since(intended));
            // Cannot fail: the histograms grow with their values.
            let _ = self.latencies[phase as usize * OPS + op as usize].record(took);
            if op == Op::Renew {
                let _ = self.recent.record(took);
                let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < took);
                self.within[bucket] += 1;
                self.renewals_us += took;
            }
            match every {
                Some(every) if intended + every < received => intended = intended + every,
                _ => return,
            }
        }
    }

    /// A scheduled renewal is sent.
    pub(crate) fn sent(&mut self, intended: Instant, sent: Instant) {
        let _ = self.lateness.record(micros(sent.since(intended)));
    }

    /// The latencies of renewals since this was last called.
    pub(crate) fn take_recent(&mut self) -> Histogram<u64> {
        std::mem::replace(&mut self.recent, histogram())
    }

    pub(crate) fn latencies(&self, phase: Phase, op: Op) -> &Histogram<u64> {
        &self.latencies[phase as usize * OPS + op as usize]
    }

    pub(crate) fn requests(&self, phase: Phase) -> u64 {
        self.requests[phase as usize]
    }

    /// The outcomes that occurred.
    pub(crate) fn outcomes(
        &self,
        phase: Phase,
        op: Op,
    ) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.counts[phase as usize][op as usize];
        Outcome::names().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// How often this came of it, in any phase.
    pub(crate) fn total(&self, op: Op, outcome: Outcome) -> u64 {
        let of_phase = |phase: &[[u64; Outcome::COUNT]; OPS]| phase[op as usize][outcome.index()];
        self.counts.iter().map(of_phase).sum()
    }

    /// What is shown while it runs.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            outcomes: Op::ALL
                .into_iter()
                .map(|op| {
                    let of_phase =
                        |at: usize| self.counts.iter().map(|phase| phase[op as usize][at]).sum();
                    (0..Outcome::COUNT).map(of_phase).collect()
                })
                .collect(),
            within: self.within.to_vec(),
            renewals_us: self.renewals_us,
            requests: self.requests.iter().sum(),
            retries: self.retries,
            missed: self.missed,
            connects: self.connects,
            connect_failures: self.connect_failures,
        }
    }

    /// Puts two workers' figures together.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mine = self.counts.iter_mut().flatten().flatten();
        for (mine, other) in mine.zip(other.counts.iter().flatten().flatten()) {
            *mine += other;
        }
        for (mine, other) in self.requests.iter_mut().zip(other.requests) {
            *mine += other;
        }
        for (mine, other) in self.latencies.iter_mut().zip(&other.latencies) {
            let _ = mine.add(other);
        }
        let _ = self.lateness.add(&other.lateness);
        self.retries += other.retries;
        self.unknown += other.unknown;
        self.missed += other.missed;
        self.connects += other.connects;
        self.connect_failures += other.connect_failures;
        self.backlog_max += other.backlog_max;
    }
}

/// Three digits are kept; it grows with its values.
pub(crate) fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 2_000_000, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are constant and valid"));
    histogram.auto(true);
    histogram
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_micros(ms * 1000)
    }

    #[test]
    fn latency_counts_from_the_intended_moment_and_what_was_omitted_is_counted_too() {
        let mut stats = Stats::new();
        let every = Some(Duration::from_secs(10));
        stats.latency(Phase::Hold, Op::Renew, ms(0), ms(25_000), every);
        let latencies = stats.latencies(Phase::Hold, Op::Renew);
        assert_eq!(latencies.len(), 3);
        for expected in [5_000_000, 15_000_000, 25_000_000] {
            assert_eq!(latencies.count_at(expected), 1, "{expected}");
        }
    }

    #[test]
    fn two_workers_figures_add_up() {
        let mut one = Stats::new();
        one.outcome(Phase::Hold, Op::Renew, Outcome::RENEWED);
        one.latency(Phase::Hold, Op::Renew, ms(0), ms(1), None);
        one.request(Phase::Hold);
        let mut both = one.clone();
        both.merge(&one);
        assert_eq!(both.total(Op::Renew, Outcome::RENEWED), 2);
        assert_eq!(both.latencies(Phase::Hold, Op::Renew).len(), 2);
        assert_eq!(both.requests(Phase::Hold), 2);
        let outcomes: Vec<_> = both.outcomes(Phase::Hold, Op::Renew).collect();
        assert_eq!(outcomes, [("renewed", 2)]);
    }
}
