//! How far it is, on the terminal or in plain lines.

use super::control::Snapshot;
use crate::limits::LINE_EVERY;
use crate::outcome::Phase;
use holdfast_client::Instant;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Shows how far the run is, on standard error.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    next_line: Instant,
    last: Option<(Instant, u64)>,
    troubles_shown: u64,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(
                ProgressStyle::with_template("{spinner} {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar
        });
        Self {
            bar,
            next_line: Instant::ZERO,
            last: None,
            troubles_shown: 0,
        }
    }

    /// Shows the figures, if it is time.
    pub(super) fn show(&mut self, now: Instant, began: Instant, total: &Snapshot) {
        let due = now >= self.next_line;
        if self.bar.is_none() && !due {
            return;
        }
        let rate = self.rate(now, total.renewals);
        let mut line = line(now.since(began), total, rate);
        if let Some(trouble) = &total.last_trouble
            && total.troubles > self.troubles_shown
        {
            line.push_str("  last trouble: ");
            line.push_str(trouble);
        }
        if due {
            self.troubles_shown = total.troubles;
            self.last = Some((now, total.renewals));
            self.next_line = now + LINE_EVERY;
        }
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => say(&line),
        }
    }

    /// The last line goes away.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn rate(&self, now: Instant, renewals: u64) -> f64 {
        let Some((then, before)) = self.last else {
            return 0.0;
        };
        let secs = now.since(then).as_secs_f64();
        if secs > 0.0 {
            // Exact below 2^53.
            (renewals - before) as f64 / secs
        } else {
            0.0
        }
    }
}

fn line(passed: Duration, total: &Snapshot, rate: f64) -> String {
    let phase = total.phase.map_or("start", Phase::name);
    format!(
        "{phase} {}s  held {}  renewals {} ({rate:.0}/s, p99 {:.1} ms)  unknown {}  lost {}  findings {}",
        passed.as_secs(),
        total.held,
        total.renewals,
        total.recent_p99_ms,
        total.unknown,
        total.lost,
        total.findings,
    )
}

/// A line on standard error.
pub(super) fn say(line: &str) {
    // Nobody reads it any more: then nobody misses it.
    let _ = writeln!(std::io::stderr(), "{line}");
}
