//! From what was counted to what it means. Pure.

use super::drive::Counted;
use super::{Server, Work};
use crate::limits::BASELINE_BUSY_MIN;
use serde::Serialize;

/// One measurement.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) requests_per_sec: f64,
    pub(super) renewals_per_sec: f64,
    /// Processor time of the server per request, in nanoseconds.
    pub(super) cpu_ns_per_request: f64,
    /// Renewals per second of the server's processor time.
    pub(super) renewals_per_cpu_sec: f64,
    /// The part of the time in which the server ran.
    pub(super) server_busy: f64,
    pub(super) client_busy: f64,
}

/// One kind of work on one server: every run, in order.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) work: Work,
    pub(super) server: Server,
    pub(super) runs: Vec<Figures>,
}

/// The middle and both ends of several values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// What is compared, run by run.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ratios {
    /// Single renewals per second: gateway / bare server.
    pub(super) single_requests_per_sec: Spread,
    /// The same per second of processor time.
    pub(super) single_per_cpu_time: Spread,
    /// Requests of a batch, per second of processor time: gateway / bare server.
    pub(super) batch_per_cpu_time: Spread,
    /// Renewals of the gateway per second of processor time: in batches / single.
    pub(super) batch_over_single: Spread,
}

impl Figures {
    pub(super) fn new(counted: &Counted, renewals_per_request: usize) -> Self {
        let requests = counted.requests as f64;
        let renewals = requests * renewals_per_request as f64;
        let wall = counted.wall.as_secs_f64();
        let cpu = counted.server_cpu.as_secs_f64();
        Self {
            requests_per_sec: requests / wall,
            renewals_per_sec: renewals / wall,
            cpu_ns_per_request: cpu * 1e9 / requests.max(1.0),
            renewals_per_cpu_sec: renewals / cpu.max(f64::MIN_POSITIVE),
            server_busy: cpu / wall,
            client_busy: counted.client_cpu.as_secs_f64() / wall,
        }
    }
}

impl Row {
    pub(super) fn spread(&self, of: impl Fn(&Figures) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(of))
    }

    /// Whether the server was the limit in every run.
    pub(super) fn is_sound(&self) -> bool {
        let busy = |run: &Figures| run.server_busy >= BASELINE_BUSY_MIN;
        self.runs.iter().all(busy)
    }
}

impl Spread {
    /// Of no values at all everything is 0.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |at: usize| values.get(at).copied().unwrap_or_default();
        let last = values.len().saturating_sub(1);
        Self {
            median: f64::midpoint(at(last / 2), at(values.len() / 2)),
            min: at(0),
            max: at(last),
        }
    }
}

impl Ratios {
    /// Compares each run with the one of the same number.
    pub(super) fn new(rows: &[Row]) -> Self {
        let runs = |work, server| {
            let row = rows
                .iter()
                .find(|row| (row.work, row.server) == (work, server));
            row.map(|row| row.runs.as_slice()).unwrap_or_default()
        };
        let ratio = |over: &[Figures], under: &[Figures], of: fn(&Figures) -> f64| {
            Spread::of(
                over.iter()
                    .zip(under)
                    .map(|(over, under)| of(over) / of(under)),
            )
        };
        let single = runs(Work::Single, Server::Gateway);
        let single_bare = runs(Work::Single, Server::Bare);
        let batch = runs(Work::Batch, Server::Gateway);
        let batch_bare = runs(Work::Batch, Server::Bare);
        Self {
            single_requests_per_sec: ratio(single, single_bare, |run| run.requests_per_sec),
            single_per_cpu_time: ratio(single, single_bare, |run| run.renewals_per_cpu_sec),
            batch_per_cpu_time: ratio(batch, batch_bare, |run| run.renewals_per_cpu_sec),
            batch_over_single: ratio(batch, single, |run| run.renewals_per_cpu_sec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn figures(requests: u64, cpu_ms: u64, items: usize) -> Figures {
        let counted = Counted {
            requests,
            wall: Duration::from_secs(2),
            server_cpu: Duration::from_millis(cpu_ms),
            client_cpu: Duration::from_secs(1),
        };
        Figures::new(&counted, items)
    }

    #[test]
    fn a_request_costs_the_time_that_the_server_ran_and_not_the_time_that_passed() {
        let figures = figures(100_000, 1900, 100);
        assert_eq!(figures.requests_per_sec, 50_000.0);
        assert_eq!(figures.renewals_per_sec, 5_000_000.0);
        assert_eq!(figures.cpu_ns_per_request, 19_000.0);
        assert_eq!(figures.server_busy, 0.95);
        assert_eq!(figures.client_busy, 0.5);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        for (values, median) in [
            (vec![], 0.0),
            (vec![3.0], 3.0),
            (vec![4.0, 1.0, 2.0], 2.0),
            (vec![4.0, 1.0, 2.0, 3.0], 2.5),
        ] {
            assert_eq!(Spread::of(values.into_iter()).median, median);
        }
    }

    #[test]
    fn ratios_compare_runs_of_the_same_number() {
        let row = |work, server, runs| Row { work, server, runs };
        let rows = [
            row(
                Work::Single,
                Server::Bare,
                vec![figures(100, 2000, 1), figures(200, 2000, 1)],
            ),
            row(
                Work::Single,
                Server::Gateway,
                vec![figures(90, 2000, 1), figures(160, 2000, 1)],
            ),
            row(Work::Batch, Server::Bare, vec![figures(20, 2000, 100)]),
            row(Work::Batch, Server::Gateway, vec![figures(18, 2000, 100)]),
        ];
        let ratios = Ratios::new(&rows);
        let single = ratios.single_requests_per_sec;
        assert_eq!((single.min, single.max), (0.8, 0.9));
        assert_eq!(ratios.single_per_cpu_time, single);
        assert_eq!(ratios.batch_per_cpu_time.median, 0.9);
        assert_eq!(ratios.batch_over_single.median, 20.0);
    }

    #[test]
    fn a_server_that_waited_in_one_run_makes_its_row_unsound() {
        let mut row = Row {
            work: Work::Single,
            server: Server::Bare,
            runs: vec![figures(1, 1900, 1)],
        };
        assert!(row.is_sound());
        row.runs.push(figures(1, 1890, 1));
        assert!(!row.is_sound());
    }
}
