//! The renewal schedule: every lock has its own moments, one interval apart, and the moments of
//! all locks are spread evenly over the interval.
//!
//! Because the spacing is even, the order of the moments is the order of the locks, round and
//! round; one counter replaces a timer per lock.

use holdfast_client::Instant;
use std::time::Duration;

/// Groups of locks whose moments come round and round. A group is one batch; its locks share
/// their moments.
#[derive(Debug)]
pub(crate) struct Grid {
    origin: Instant,
    every: Duration,
    groups: u32,
    next: u64,
}

impl Grid {
    /// `groups` groups, at least one, each of which has a moment every `every`.
    pub(crate) fn new(origin: Instant, every: Duration, groups: u32) -> Self {
        Self {
            origin,
            every,
            groups: groups.max(1),
            next: 0,
        }
    }

    /// The moment of the next group.
    pub(crate) fn next_at(&self) -> Instant {
        self.moment(self.next)
    }

    /// Takes the next group if its moment has come: the group and its moment.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let moment = self.next_at();
        if now < moment {
            return None;
        }
        let group = self.next % u64::from(self.groups);
        self.next += 1;
        // A remainder of a division by a `u32` is one.
        Some((u32::try_from(group).unwrap_or(0), moment))
    }

    /// Whether the next group is more than a whole round late, so that its locks are due once
    /// more.
    pub(crate) fn is_a_round_late(&self, now: Instant) -> bool {
        now >= self.next_at() + self.every
    }

    fn moment(&self, index: u64) -> Instant {
        let rounds = index / u64::from(self.groups);
        let part = index % u64::from(self.groups);
        let every = self.every.as_nanos();
        let nanos = every * u128::from(rounds) + every * u128::from(part) / u128::from(self.groups);
        self.origin + Duration::from_micros(u64::try_from(nanos / 1000).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    fn grid(groups: u32) -> Grid {
        Grid::new(Instant::from_micros(7), EVERY, groups)
    }

    #[test]
    fn every_group_has_one_moment_per_interval_and_they_are_spread_evenly() {
        let mut grid = grid(3);
        let end = Instant::from_micros(7) + EVERY * 2;
        let taken: Vec<_> = std::iter::from_fn(|| grid.take(end)).collect();
        let groups: Vec<_> = taken.iter().map(|(group, _)| *group).collect();
        assert_eq!(groups, [0, 1, 2, 0, 1, 2, 0]);
        for (before, after) in taken.iter().zip(&taken[1..]) {
            let step = after.1.since(before.1);
            assert!(
                step.abs_diff(EVERY / 3) <= Duration::from_micros(1),
                "{step:?}"
            );
        }
        assert_eq!(taken[3].1.since(taken[0].1), EVERY);
    }

    #[test]
    fn moments_do_not_drift_over_many_rounds() {
        let mut grid = grid(7);
        grid.next = 7 * 1_000_000;
        assert_eq!(grid.next_at(), Instant::from_micros(7) + EVERY * 1_000_000);
    }

    #[test]
    fn nothing_is_taken_before_its_moment() {
        let mut grid = grid(1);
        assert_eq!(grid.take(Instant::from_micros(6)), None);
        assert!(grid.take(Instant::from_micros(7)).is_some());
        assert_eq!(grid.take(Instant::from_micros(7)), None);
    }

    #[test]
    fn a_late_taker_finds_the_moments_where_they_were() {
        let mut grid = grid(2);
        let late = Instant::from_micros(7) + EVERY * 3;
        assert!(grid.is_a_round_late(late));
        assert_eq!(grid.take(late), Some((0, Instant::from_micros(7))));
        assert_eq!(
            grid.take(late),
            Some((1, Instant::from_micros(7) + EVERY / 2))
        );
        assert!(
            !grid.is_a_round_late(Instant::from_micros(7) + EVERY * 2 - Duration::from_micros(1))
        );
        assert!(grid.is_a_round_late(Instant::from_micros(7) + EVERY * 2));
    }
}
