//! How long requests take: fixed buckets of atomics, and the watch that fills them.

use super::exposition::Exposition;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds in nanoseconds. A renewal takes tens of microseconds, an acquire milliseconds,
/// and an answer at most five seconds.
const BOUNDS_NS: [u64; 16] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// One per bound, and one for what is longer.
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Latency {
    pub(super) fn record(&self, nanos: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < nanos);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Writes the samples of one series.
    pub(super) fn render(&self, out: &mut Exposition, family: &str, label: (&str, &str)) {
        let bucket_name = format!("{family}_bucket");
        let mut count = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS_NS.get(at).map(|ns| (*ns as f64 / 1e9).to_string());
            let bound = bound.as_deref().unwrap_or("+Inf");
            out.sample(&bucket_name, &[label, ("le", bound)], count as f64);
        }
        let sum = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        out.sample(&format!("{family}_sum"), &[label], sum);
        out.sample(&format!("{family}_count"), &[label], count as f64);
    }
}

/// Measures how long something takes, for metrics only: no decision depends on it, so it reads
/// the clock itself, with the resolution that decisions do not need.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started_ns: u64,
}

impl Stopwatch {
    /// Starts it.
    pub fn start() -> Self {
        Self {
            started_ns: monotonic_ns(),
        }
    }

    /// Nanoseconds since the start.
    pub(super) fn nanos(self) -> u64 {
        monotonic_ns().saturating_sub(self.started_ns)
    }
}

fn monotonic_ns() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let secs = u64::try_from(at.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(at.tv_nsec).unwrap_or(0);
    secs * 1_000_000_000 + nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_all_that_is_not_longer_than_their_bound() {
        let latency = Latency::default();
        for nanos in [1, 50_000, 50_001, 6_000_000_000] {
            latency.record(nanos);
        }
        let mut out = Exposition::after(String::new());
        latency.render(&mut out, "d", ("o", "x"));
        let text = out.into_text();
        for line in [
            r#"d_bucket{o="x",le="0.00005"} 2"#,
            r#"d_bucket{o="x",le="0.0001"} 3"#,
            r#"d_bucket{o="x",le="5"} 3"#,
            r#"d_bucket{o="x",le="+Inf"} 4"#,
            r#"d_sum{o="x"} 6.000100002"#,
            r#"d_count{o="x"} 4"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
