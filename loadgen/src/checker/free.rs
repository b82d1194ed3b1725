//! When the locks of holders that have stopped became free.

use holdfast_client::Instant;
use serde::{Deserialize, Serialize};

/// When locks became free, relative to the end of their last promise, in milliseconds. A lock was
/// freed between the sending of the last refused try and the receipt of the grant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FreeTimes {
    /// Holders that stopped without a release.
    pub(crate) stopped: u64,
    /// Locks of theirs that a contender got.
    pub(crate) freed: u64,
    /// The earliest grant; below zero would be an overlap.
    pub(crate) earliest_ms: Option<f64>,
    /// The latest grant: all were free by then.
    pub(crate) latest_ms: Option<f64>,
    /// The latest try that was still refused: one was certainly not free before.
    pub(crate) latest_refused_ms: Option<f64>,
}

impl FreeTimes {
    /// A contender got the lock; `until` is the end of the last promise.
    pub(crate) fn freed(&mut self, until: Instant, received: Instant) {
        self.freed += 1;
        let after = relative_ms(until, received);
        self.earliest_ms = Some(self.earliest_ms.map_or(after, |least| least.min(after)));
        self.latest_ms = Some(self.latest_ms.map_or(after, |most| most.max(after)));
    }

    /// A contender was refused.
    pub(crate) fn refused(&mut self, until: Instant, sent: Instant) {
        let after = relative_ms(until, sent);
        self.latest_refused_ms = Some(self.latest_refused_ms.map_or(after, |most| most.max(after)));
    }

    /// Puts two workers' figures together.
    pub(crate) fn merge(&mut self, other: &Self) {
        let pick = |mine: Option<f64>, other: Option<f64>, better: fn(f64, f64) -> f64| match (
            mine, other,
        ) {
            (Some(mine), Some(other)) => Some(better(mine, other)),
            (one, None) | (None, one) => one,
        };
        self.stopped += other.stopped;
        self.freed += other.freed;
        self.earliest_ms = pick(self.earliest_ms, other.earliest_ms, f64::min);
        self.latest_ms = pick(self.latest_ms, other.latest_ms, f64::max);
        self.latest_refused_ms = pick(self.latest_refused_ms, other.latest_refused_ms, f64::max);
    }
}

fn relative_ms(zero: Instant, at: Instant) -> f64 {
    let after = at.since(zero).as_secs_f64();
    let before = zero.since(at).as_secs_f64();
    (after - before) * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_micros(ms * 1000)
    }

    #[test]
    fn the_earliest_and_the_latest_count_from_the_end_of_the_promise() {
        let mut times = FreeTimes::default();
        times.refused(ms(1000), ms(990));
        times.refused(ms(1000), ms(1020));
        times.freed(ms(1000), ms(1050));
        times.freed(ms(2000), ms(2010));
        let mut all = FreeTimes::default();
        all.freed(ms(3000), ms(2990));
        all.merge(&times);
        assert_eq!(all.freed, 3);
        assert_eq!(all.earliest_ms, Some(-10.0));
        assert_eq!(all.latest_ms, Some(50.0));
        assert_eq!(all.latest_refused_ms, Some(20.0));
    }
}
