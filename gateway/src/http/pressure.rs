//! How hard this gateway finds it to keep up, and what clients are told because of it.
//!
//! A fleet that renews after a third of its TTLs may as well renew after half of them, and sends a
//! third less then. So under pressure `renewAfterMs` stretches, up to half the TTL, before anything
//! has to be refused; past that, acquires are refused, because each would bring renewals.
//! Renewals and releases are not: they cost little, and without them clients lose what they hold.

use crate::limits;
use crate::service::{AcquireOutcome, EngineFigures, RenewOutcome, Renewed};
use crate::time::Millis;
use std::sync::atomic::{AtomicU32, Ordering};

/// The present pressure, read by every request.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// In thousandths.
    level: AtomicU32,
    /// So many looks in a row came much too late.
    late_in_a_row: AtomicU32,
}

/// What is seen at one look. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// So much later than planned did the look come: whatever is ready waits about as long.
    pub(super) late: Millis,
    /// The fullest queue of an engine, in thousandths of what makes it refuse acquires.
    pub(super) crowded: u32,
}

const FULL: u32 = 1_000;

impl Pressure {
    /// Takes note of what was seen; the level in thousandths.
    pub(super) fn look(&self, seen: Seen) -> u32 {
        let level = next(self.level.load(Ordering::Relaxed), seen);
        self.level.store(level, Ordering::Relaxed);
        match seen.late >= limits::PRESSURE_LATE_REFUSED {
            true => self.late_in_a_row.fetch_add(1, Ordering::Relaxed),
            false => self.late_in_a_row.swap(0, Ordering::Relaxed),
        };
        level
    }

    /// Whether acquires are refused. One late look is a pause of the whole machine, which is over by
    /// the time that it is seen.
    pub(super) fn refuses_acquires(&self) -> bool {
        self.late_in_a_row.load(Ordering::Relaxed) > 1
    }

    /// What the client is told.
    pub(super) fn stretch(&self, told: Renewed) -> Renewed {
        match self.level.load(Ordering::Relaxed) {
            0 => told,
            level => stretched(told, level),
        }
    }

    /// As [`Pressure::stretch`].
    pub(super) fn stretch_renewal(&self, outcome: RenewOutcome) -> RenewOutcome {
        match outcome {
            RenewOutcome::Renewed(told) => RenewOutcome::Renewed(self.stretch(told)),
            ended => ended,
        }
    }

    /// As [`Pressure::stretch`].
    pub(super) fn stretch_acquire(&self, outcome: AcquireOutcome) -> AcquireOutcome {
        match outcome {
            AcquireOutcome::Granted(mut grant) => {
                grant.told = self.stretch(grant.told);
                AcquireOutcome::Granted(grant)
            }
            refused => refused,
        }
    }
}

/// How full the queues of the engines are, in thousandths of what makes them refuse acquires.
pub(super) fn crowded(engines: &[EngineFigures]) -> u32 {
    let full = |engine: &EngineFigures| {
        let queued = engine.commands_queued * 2 * FULL as usize / limits::COMMANDS_QUEUED_MAX;
        // Whoever stands in line costs little until its turn comes.
        let stats = &engine.stats;
        let open = stats
            .requests_open
            .get()
            .saturating_sub(stats.waiting.get());
        let open = usize::try_from(open).unwrap_or(usize::MAX);
        queued.max(open.saturating_mul(2 * FULL as usize) / limits::OPEN_REQUESTS_MAX)
    };
    let fullest = engines.iter().map(full).max().unwrap_or(0);
    u32::try_from(fullest).unwrap_or(FULL).min(FULL)
}

/// It rises at once, and falls slowly: what came down because clients slowed down is to stay down.
fn next(level: u32, seen: Seen) -> u32 {
    let late_ms = seen.late.as_ms().min(limits::PRESSURE_LATE_FULL.as_ms());
    // The pressure of a late look begins where looks are late on any machine that works.
    let above_ms = late_ms.saturating_sub(limits::PRESSURE_LATE_USUAL.as_ms());
    let range_ms = limits::PRESSURE_LATE_FULL.as_ms() - limits::PRESSURE_LATE_USUAL.as_ms();
    let late = u32::try_from(u64::from(FULL) * above_ms / range_ms).unwrap_or(FULL);
    // Half-full queues are no pressure yet.
    let crowded = seen.crowded.saturating_sub(FULL / 2) * 2;
    let fallen = level - level.div_ceil(limits::PRESSURE_FALL_LOOKS);
    late.max(crowded).max(fallen).min(FULL)
}

/// A third of the TTL with a jitter of ±10 % becomes, at the most, 15/11 of it: half the TTL for those
/// whose jitter is largest. So it goes on spreading a fleet.
fn stretched(told: Renewed, level: u32) -> Renewed {
    let (full, level) = (11 * u64::from(FULL), 4 * u64::from(level));
    let longer_ms = told.renew_after.as_ms().saturating_mul(full + level) / full;
    let half = Millis::from_ms(told.ttl.as_ms() / 2);
    Renewed {
        renew_after: Millis::from_ms(longer_ms).min(half).max(told.renew_after),
        ..told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(late_ms: u64, crowded: u32) -> Seen {
        Seen {
            late: Millis::from_ms(late_ms),
            crowded,
        }
    }

    #[test]
    fn pressure_rises_at_once_and_falls_slowly_to_none() {
        let pressure = Pressure::default();
        assert_eq!(pressure.look(seen(0, 0)), 0);
        assert_eq!(
            pressure.look(seen(limits::PRESSURE_LATE_USUAL.as_ms(), 500)),
            0
        );
        assert_eq!(
            pressure.look(seen(limits::PRESSURE_LATE_FULL.as_ms(), 0)),
            FULL
        );
        let mut levels = vec![FULL];
        while levels.last() != Some(&0) {
            levels.push(pressure.look(seen(0, 0)));
            assert!(levels.len() < 1_000, "it never ends");
        }
        assert!(levels.is_sorted_by(|one, next| one > next));
        assert!(levels.len() > limits::PRESSURE_FALL_LOOKS as usize);
        assert_eq!(pressure.look(seen(0, 750)), FULL / 2);
        assert_eq!(pressure.look(seen(u64::MAX, FULL)), FULL);
    }

    #[test]
    fn acquires_are_refused_while_looks_come_much_too_late_and_not_after_one_pause() {
        let pressure = Pressure::default();
        let late = limits::PRESSURE_LATE_REFUSED.as_ms();
        for (late_ms, refuses) in [
            (late, false),
            (0, false),
            (late, false),
            (late, true),
            (late - 1, false),
        ] {
            pressure.look(seen(late_ms, FULL));
            assert_eq!(pressure.refuses_acquires(), refuses, "{late_ms}");
        }
    }

    proptest! {
        #[test]
        fn a_renewal_is_never_asked_for_earlier_than_without_pressure_nor_after_half_the_ttl(
            ttl_ms in 3u64..2_000_000, jitter in 90u64..=110, level in 0..=FULL,
        ) {
            let usual = Millis::from_ms(ttl_ms / 3).percent(jitter);
            let told = Renewed { ttl: Millis::from_ms(ttl_ms), renew_after: usual };
            let pressed = stretched(told, level);
            prop_assert!(pressed.renew_after >= usual && pressed.ttl == told.ttl);
            prop_assert!(pressed.renew_after.as_ms() <= (ttl_ms / 2).max(usual.as_ms()));
            let full = stretched(told, FULL).renew_after.as_ms();
            prop_assert!(full + 2 >= usual.as_ms() * 15 / 11 || full == ttl_ms / 2);
        }
    }
}
