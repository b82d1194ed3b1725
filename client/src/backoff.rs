//! Pauses between tries.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;

/// Doubling pauses, each shortened at random by up to a half, so that many clients that failed
/// together do not come back together.
#[derive(Debug, Clone)]
pub struct Backoff {
    ceiling: Duration,
    random: Xoshiro256PlusPlus,
}

impl Backoff {
    /// Starts with the shortest pause; the seed decides the jitter.
    pub fn new(seed: u64) -> Self {
        Self {
            ceiling: BACKOFF_MIN,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The pause before the next try; not shorter than `wanted`, which is the gateway's wish.
    pub fn pause(&mut self, wanted: Option<Duration>) -> Duration {
        let pause = self.ceiling.mul_f64(self.random.random_range(0.5..=1.0));
        self.ceiling = (self.ceiling * 2).min(BACKOFF_MAX);
        pause.max(wanted.unwrap_or_default())
    }

    /// A try has succeeded: the next pause is the shortest again.
    pub fn reset(&mut self) {
        self.ceiling = BACKOFF_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::new(1);
        let mut ceiling = BACKOFF_MIN;
        for _ in 0..10 {
            let pause = backoff.pause(None);
            assert!(
                pause >= ceiling / 2 && pause <= ceiling,
                "{pause:?} {ceiling:?}"
            );
            ceiling = (ceiling * 2).min(BACKOFF_MAX);
        }
        assert_eq!(ceiling, BACKOFF_MAX);
        backoff.reset();
        assert!(backoff.pause(None) <= BACKOFF_MIN);
    }

    #[test]
    fn the_gateways_wish_is_a_lower_bound() {
        let wish = Duration::from_secs(3);
        assert_eq!(Backoff::new(1).pause(Some(wish)), wish);
    }

    #[test]
    fn two_seeds_give_different_pauses() {
        assert_ne!(Backoff::new(1).pause(None), Backoff::new(2).pause(None));
    }
}
