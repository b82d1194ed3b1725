//! Structured logs. No lock id, token, name or body is ever in them.

use crate::limits;
use crate::time::Instant;

/// Lets one line of a repeating kind through per [`limits::LOG_EVERY`], and counts the others.
#[derive(Debug, Default)]
pub struct Throttle {
    last: Option<Instant>,
    count: u64,
}

impl Throttle {
    /// It happened at `now`. When a line is due: how often it has happened since the last one.
    pub fn log(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        let due = self
            .last
            .is_none_or(|last| now.since(last) >= limits::LOG_EVERY);
        if !due {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;

    #[test]
    fn a_line_per_interval_says_how_many_it_stands_for() {
        let start = Instant::from_ms(5);
        let mut throttle = Throttle::default();
        assert_eq!(throttle.log(start), Some(1));
        for _ in 0..6 {
            assert_eq!(throttle.log(start + Millis::from_ms(1)), None);
        }
        assert_eq!(throttle.log(start + limits::LOG_EVERY), Some(7));
    }
}
