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
    next: u64,
    /// For each group, one more than the round in which it had its last turn; 0: none yet.
    rounds: Vec<u32>,
}

/// A group's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Whose turn it is.
    pub(crate) group: u32,
    /// The moment that it is for.
    pub(crate) moment: Instant,
    /// How many earlier moments of the group, one interval apart, had no turn of their own.
    pub(crate) missed: u32,
}

impl Grid {
    /// `groups` groups, at least one, each of which has a moment every `every`.
    pub(crate) fn new(origin: Instant, every: Duration, groups: u32) -> Self {
        let groups = usize::try_from(groups.max(1)).unwrap_or(usize::MAX);
        Self {
            origin,
            every,
            next: 0,
            rounds: vec![0; groups],
        }
    }

    /// The moment of the next turn.
    pub(crate) fn next_at(&self) -> Instant {
        self.moment(self.next)
    }

    /// Takes the next turn if its moment has come.
    ///
    /// Whoever is a whole round late has one turn for two moments, as all after it: the order
    /// stays the same, so that every group waits equally long.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Turn> {
        if now < self.next_at() {
            return None;
        }
        while now >= self.next_at() + self.every {
            self.next += self.groups();
        }
        let moment = self.next_at();
        let group = self.next % self.groups();
        let round = u32::try_from(self.next / self.groups()).unwrap_or(u32::MAX);
        self.next += 1;
        let last = &mut self.rounds[usize::try_from(group).unwrap_or(0)];
        let missed = match *last {
            0 => 0,
            last => round.saturating_sub(last),
        };
        *last = round.saturating_add(1);
        Some(Turn {
            group: u32::try_from(group).unwrap_or(0),
            moment,
            missed,
        })
    }

    fn groups(&self) -> u64 {
        self.rounds.len() as u64
    }

    fn moment(&self, index: u64) -> Instant {
        let rounds = index / self.groups();
        let part = index % self.groups();
        let every = self.every.as_nanos();
        let nanos =
            every * u128::from(rounds) + every * u128::from(part) / u128::from(self.groups());
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

    fn groups(turns: &[Turn]) -> Vec<u32> {
        turns.iter().map(|turn| turn.group).collect()
    }

    #[test]
    fn every_group_has_one_moment_per_interval_and_they_are_spread_evenly() {
        let mut grid = grid(3);
        let mut turns = Vec::new();
        for now in 0..=20_000_007 {
            turns.extend(grid.take(Instant::from_micros(now)));
        }
        assert_eq!(groups(&turns), [0, 1, 2, 0, 1, 2, 0]);
        for (before, after) in turns.iter().zip(&turns[1..]) {
            let step = after.moment.since(before.moment);
            assert!(
                step.abs_diff(EVERY / 3) <= Duration::from_micros(1),
                "{step:?}"
            );
            assert_eq!(after.missed, 0);
        }
        assert_eq!(turns[3].moment.since(turns[0].moment), EVERY);
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
        let mut grid = grid(4);
        let late = Instant::from_micros(7) + EVERY - Duration::from_micros(1);
        let turns: Vec<_> = std::iter::from_fn(|| grid.take(late)).collect();
        assert_eq!(groups(&turns), [0, 1, 2, 3]);
        assert_eq!(turns[1].moment, Instant::from_micros(7) + EVERY / 4);
    }

    #[test]
    fn a_taker_that_is_too_slow_serves_all_groups_in_turn_and_learns_what_they_missed() {
        let mut grid = grid(10);
        // Half as fast as the moments come.
        let step = EVERY / 5;
        let turns = (0..100u32).map(|n| grid.take(Instant::from_micros(7) + step * n).unwrap());
        let turns: Vec<_> = turns.collect();
        let expected: Vec<_> = (0..100u32).map(|n| n % 10).collect();
        assert_eq!(groups(&turns), expected);
        let missed: u32 = turns.iter().map(|turn| turn.missed).sum();
        assert!((85..=100).contains(&missed), "{missed}");
        for (n, turn) in (0..100u32).zip(&turns) {
            let late = (Instant::from_micros(7) + step * n).since(turn.moment);
            assert!(late < EVERY, "{late:?}");
        }
    }
}
