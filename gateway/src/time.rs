//! Points in time and lengths of time, in milliseconds of the one clock.

use std::ops::{Add, Sub};

/// A point in time: milliseconds of a monotonic clock that counts suspend. Zero is before
/// everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

impl Instant {
    /// Before everything: what is proven until then is not proven.
    pub const NEVER: Self = Self(0);

    /// So many milliseconds after the clock's zero.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds after the clock's zero.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// How long it is from `earlier` until this; zero if this is not later.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }

    /// In milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// In whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// As the standard library's type.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }

    /// So many times as long.
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// So many hundredths of it, rounded down.
    pub const fn percent(self, percent: u64) -> Self {
        Self(self.0 * percent / 100)
    }
}

impl Add<Millis> for Instant {
    type Output = Self;
    fn add(self, by: Millis) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub<Millis> for Instant {
    type Output = Self;
    fn sub(self, by: Millis) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Add for Millis {
    type Output = Self;
    fn add(self, by: Self) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub for Millis {
    type Output = Self;
    fn sub(self, by: Self) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

/// The one clock of a program. Shells read it and pass the time on; nothing else does.
pub trait Clock: Send + Sync + 'static {
    /// Now, on a monotonic clock that counts suspend.
    fn now(&self) -> Instant;

    /// Now, as milliseconds since the Unix epoch. Only for what is printed.
    fn unix_ms(&self) -> u64;
}

/// The machine's clock: `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Instant {
        Instant(read_ms(rustix::time::ClockId::Boottime))
    }

    fn unix_ms(&self) -> u64 {
        read_ms(rustix::time::ClockId::Realtime)
    }
}

fn read_ms(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    secs * 1000 + nanos / 1_000_000
}
