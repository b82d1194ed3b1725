//! Pauses between tries.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;

/// The pause after the `failures`-th failure in a row, counted from 0: doubling up to
/// [`BACKOFF_MAX`]. `random`, from 0 to 1, shortens it by up to a half, so that many clients that
/// failed together do not come back together.
pub fn pause_after(failures: u32, random: f64) -> Duration {
    let pause = BACKOFF_MIN.saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX));
    pause.min(BACKOFF_MAX).mul_f64(1.0 - random / 2.0)
}

/// Pauses that grow with the failures in a row.
#[derive(Debug, Clone)]
pub struct Backoff {
    failures: u32,
    random: Xoshiro256PlusPlus,
}

impl Backoff {
    /// Starts with the shortest pause; the seed decides the jitter.
    pub fn new(seed: u64) -> Self {
        Self {
            failures: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The pause before the next try; not shorter than `wanted`, which is the gateway's wish.
    pub fn pause(&mut self, wanted: Option<Duration>) -> Duration {
        let pause = pause_after(self.failures, self.random.random());
        self.failures = self.failures.saturating_add(1);
        pause.max(wanted.unwrap_or_default())
    }

    /// A try has succeeded: the next pause is the shortest again.
    pub fn reset(&mut self) {
        self.failures = 0;
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
    fn any_number_of_failures_has_a_pause() {
        for failures in [0, 1, 31, 32, 63, u32::MAX] {
            for random in [0.0, 1.0] {
                let pause = pause_after(failures, random);
                assert!(
                    pause >= BACKOFF_MIN / 2 && pause <= BACKOFF_MAX,
                    "{failures}"
                );
            }
        }
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
