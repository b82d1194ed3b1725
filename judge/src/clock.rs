//! A party's own clock: it runs a little faster or slower than the world's time, and is set
//! differently.

/// World time in milliseconds. In the simulator nobody in the world can read it.
pub type Real = u64;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct PartyClock {
    /// So many millionths fast.
    ppm: i64,
    offset: i64,
}

impl PartyClock {
    /// A clock that runs so many millionths fast and is set so much ahead, in milliseconds.
    pub const fn new(ppm: i64, offset: u64) -> Self {
        Self {
            ppm,
            offset: offset.cast_signed(),
        }
    }

    /// What it shows at `real`.
    pub fn read(&self, real: Real) -> u64 {
        let real = real.cast_signed();
        (self.offset + real + real * self.ppm / 1_000_000)
            .max(0)
            .cast_unsigned()
    }

    /// The first moment at which it shows at least `shown`.
    pub fn when(&self, shown: u64) -> Real {
        let passed = i128::from(shown.cast_signed() - self.offset);
        let guess = passed * 1_000_000 / i128::from(1_000_000 + self.ppm);
        let mut real = u64::try_from(guess.max(2) - 2).unwrap_or(u64::MAX / 4);
        while self.read(real) < shown {
            real += 1;
        }
        real
    }

    /// It stands still for so long, as the clocks of a guest whose hypervisor stops it.
    pub fn stand_still(&mut self, ms: u64) {
        self.offset -= ms.cast_signed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_at_which_a_clock_shows_a_time_is_the_first_one() {
        for ppm in [-8_000, -3, 0, 5, 4_000] {
            let clock = PartyClock::new(ppm, 12_345);
            for shown in [1_000_000u64, 1_000_001, 7_654_321] {
                let real = clock.when(shown);
                assert!(clock.read(real) >= shown && clock.read(real - 1) < shown);
            }
        }
    }
}
