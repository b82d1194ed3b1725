//! The one source of randomness of a run.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::RangeInclusive;

/// A seeded generator; the same seed gives the same draws.
#[derive(Debug)]
pub(crate) struct Dice(StdRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    /// An index below `count`, which must not be zero.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// A shard's number below `count`, which must not be zero.
    pub(crate) fn shard(&mut self, count: u32) -> u32 {
        self.0.random_range(0..count)
    }

    /// True so many times in a thousand.
    pub(crate) fn per_mille(&mut self, times: u64) -> bool {
        self.0.random_range(0..1000) < times
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.0.random()
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.random()
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Mostly small, now and then up to `max`: the shape that delays have.
    pub(crate) fn delay(&mut self, max: u64) -> u64 {
        let top = match self.between(0..=9) {
            0..=6 => max / 10,
            7..=8 => max / 3,
            _ => max,
        };
        self.between(0..=top)
    }
}
