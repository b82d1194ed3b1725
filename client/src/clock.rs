//! The clock that promises are counted on: monotonic, and it goes on while the machine is
//! suspended.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::time::Duration;

/// A point in time: microseconds of a monotonic clock that counts suspend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's zero, before everything.
    pub const ZERO: Self = Self(0);

    /// So many microseconds after the clock's zero.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds after the clock's zero.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long it is from `earlier` until this; zero if this is not later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What [`Clock::sleep_until`] returns.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A clock that can be waited on.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Instant;

    /// Completes when [`Clock::now`] has reached `at`, not before.
    fn sleep_until(&self, at: Instant) -> Sleep<'_>;
}

/// The machine's clock: `CLOCK_BOOTTIME`.
///
/// The runtime's timers do not count suspend, so a sleep looks at the clock every 250 ms; by that
/// much it may end late after the machine was suspended. Sleeping needs a tokio runtime with its
/// time enabled.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

const SLICE: Duration = Duration::from_millis(250);

impl Clock for BootClock {
    fn now(&self) -> Instant {
        let now = clock_gettime(ClockId::Boottime);
        let secs = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Instant(secs * 1_000_000 + nanos / 1_000)
    }

    fn sleep_until(&self, at: Instant) -> Sleep<'_> {
        Box::pin(async move {
            while self.now() < at {
                tokio::time::sleep(at.since(self.now()).min(SLICE)).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_when_its_moment_has_come_and_not_before() {
        let clock = BootClock;
        let at = clock.now() + Duration::from_millis(20);
        clock.sleep_until(at).await;
        assert!(clock.now() >= at);
    }

    #[tokio::test]
    async fn a_sleep_until_a_moment_that_has_passed_ends_at_once() {
        BootClock.sleep_until(Instant::ZERO).await;
        BootClock.sleep_until(Instant::from_micros(1)).await;
    }

    #[test]
    fn time_does_not_go_below_zero_or_past_the_end() {
        let second = Duration::from_secs(1);
        assert_eq!(Instant::ZERO - second, Instant::ZERO);
        assert_eq!(Instant::ZERO.since(Instant::ZERO + second), Duration::ZERO);
        assert_eq!((Instant::ZERO + Duration::MAX).as_micros(), u64::MAX);
    }
}
