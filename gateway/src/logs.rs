//! Structured logs. No lock id, credential or body is ever in them, and a lock's name only where an
//! operator has ended its hold.

use crate::config::{Log, LogFormat};
use crate::limits;
use crate::time::Instant;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// The target of lines that say who did what, or was refused it; `log.filter` can single them out.
pub const AUDIT: &str = "holdfast_audit";

/// Logs to the standard error from now on, in the form that `log` says.
///
/// # Errors
/// When the filter is none, or logs go somewhere already.
pub fn start(log: &Log) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(&log.filter)?)
        .with_writer(std::io::stderr);
    let text = match log.format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let started = if text {
        lines.try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
    started.map_err(|error| anyhow::anyhow!("logs: {error}"))
}

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
