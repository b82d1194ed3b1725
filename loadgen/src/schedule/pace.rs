//! Things that happen at a steady rate.

use holdfast_client::Instant;
use std::time::Duration;

/// Moments at a steady rate; without a rate, always now.
#[derive(Debug)]
pub(crate) struct Pace {
    origin: Instant,
    per_second: Option<f64>,
    taken: u64,
}

impl Pace {
    /// `None`: as fast as anyone asks. A rate must be above zero.
    pub(crate) fn new(origin: Instant, per_second: Option<f64>) -> Self {
        Self {
            origin,
            per_second,
            taken: 0,
        }
    }

    /// The next moment; without a rate, `now`.
    pub(crate) fn next_at(&self, now: Instant) -> Instant {
        match self.per_second {
            Some(rate) => self.origin + Duration::from_secs_f64(self.taken_as_f64() / rate),
            None => now,
        }
    }

    /// Takes the next moment if it has come.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Instant> {
        let at = self.next_at(now);
        if now < at {
            return None;
        }
        self.taken += 1;
        Some(at)
    }

    fn taken_as_f64(&self) -> f64 {
        // Exact below 2^53, which no run reaches.
        self.taken as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_gives_moments_that_a_late_taker_still_finds() {
        let mut pace = Pace::new(Instant::ZERO, Some(100.0));
        let now = Instant::from_micros(35_000);
        let taken: Vec<_> = std::iter::from_fn(|| pace.take(now)).collect();
        assert_eq!(taken, [0, 10_000, 20_000, 30_000].map(Instant::from_micros));
        assert_eq!(pace.next_at(now), Instant::from_micros(40_000));
    }

    #[test]
    fn without_a_rate_it_is_always_time() {
        let mut pace = Pace::new(Instant::ZERO, None);
        let now = Instant::from_micros(35_000);
        assert_eq!(pace.take(now), Some(now));
        assert_eq!(pace.take(now), Some(now));
    }
}
