//! Time, as whoever drives the model counts it.

/// A point in time: milliseconds since a zero that the driver chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModelTime(u64);

impl ModelTime {
    /// So many milliseconds after zero.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds after zero.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// So many milliseconds later.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How many milliseconds it is from `earlier` until this; zero if this is not later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
