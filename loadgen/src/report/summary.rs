//! The report in words.

use super::{Quantiles, Report, Verdict};
use crate::checker::FreeTimes;
use crate::limits::LATENESS_WARN;
use crate::outcome::Phase;
use std::fmt::Write as _;
use std::io::Write as _;

/// Findings that are shown with their history.
const SHOWN_MAX: usize = 5;

impl Report {
    /// Prints the report in words on standard output.
    ///
    /// # Errors
    /// When standard output cannot be written to.
    pub(crate) fn print_summary(&self) -> std::io::Result<()> {
        std::io::stdout().write_all(self.summary().as_bytes())
    }

    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_phases(&mut text);
        let _ = self.write_generator(&mut text);
        let _ = self.write_checks(&mut text);
        text
    }

    fn write_phases(&self, text: &mut String) -> std::fmt::Result {
        for phase in Phase::ALL {
            let Some(report) = self.phases.get(phase.name()) else {
                continue;
            };
            writeln!(
                text,
                "{}: {:.1} s, {:.0} requests/s, generator {:.2} cores",
                phase.name(),
                report.secs,
                report.requests_per_sec,
                report.client_cores
            )?;
            for (op, report) in &report.ops {
                let outcomes: Vec<_> = report
                    .outcomes
                    .iter()
                    .map(|(outcome, count)| format!("{outcome} {count}"))
                    .collect();
                writeln!(
                    text,
                    "  {op:<8} {:>9.0}/s  {}  ({})",
                    report.per_sec,
                    quantiles(&report.latency_ms),
                    outcomes.join(", ")
                )?;
            }
        }
        Ok(())
    }

    fn write_generator(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "lateness of renewals: {}",
            quantiles(&self.lateness_ms)
        )?;
        writeln!(
            text,
            "retries {}, unknown {}, missed {}, backlog at most {}, connections opened {} (failed {})",
            self.retries,
            self.unknown,
            self.missed,
            self.backlog_max,
            self.connects,
            self.connect_failures
        )?;
        if let Some(kib) = self.client.memory_max_kib {
            writeln!(text, "memory of the generator: at most {} MiB", kib / 1024)?;
        }
        if self.lateness_ms.p99 > LATENESS_WARN.as_secs_f64() * 1000.0 {
            writeln!(
                text,
                "WARNING: renewals were sent late: too few --connections or --threads, or the gateway is slower than the load"
            )?;
        }
        Ok(())
    }

    fn write_checks(&self, text: &mut String) -> std::fmt::Result {
        if self.interrupted {
            writeln!(text, "ended early")?;
        }
        if let Some(stopped) = &self.stopped {
            write_stopped(text, stopped)?;
        }
        if self.not_acquired + self.not_released > 0 {
            writeln!(
                text,
                "never held: {} locks; release not answered: {}",
                self.not_acquired, self.not_released
            )?;
        }
        for finding in self.findings.samples.iter().take(SHOWN_MAX) {
            writeln!(
                text,
                "{} at {} ms: {}: {}",
                finding.kind, finding.at_ms, finding.name, finding.detail
            )?;
            for line in &finding.history {
                writeln!(
                    text,
                    "    sent at {} ms, {} ms: {} {}",
                    line.sent_ms, line.took_ms, line.op, line.outcome
                )?;
            }
        }
        match self.verdict() {
            Verdict::Clean => writeln!(
                text,
                "clean: no lock lost, nothing found (seed {})",
                self.seed
            ),
            Verdict::Findings => {
                let counts = self.findings.counts.iter();
                let counts: Vec<_> = counts
                    .map(|(kind, count)| format!("{kind} {count}"))
                    .collect();
                writeln!(text, "FOUND: {} (seed {})", counts.join(", "), self.seed)
            }
        }
    }
}

fn quantiles(of: &Quantiles) -> String {
    format!(
        "p50 {:.2}  p90 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2} ms",
        of.p50, of.p90, of.p99, of.p999, of.max
    )
}

fn write_stopped(text: &mut String, stopped: &FreeTimes) -> std::fmt::Result {
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
    writeln!(
        text,
        "stopped holders: {}, their locks free: {}; after the last promise's end: earliest {}, latest {}, latest refusal {}",
        stopped.stopped,
        stopped.freed,
        ms(stopped.earliest_ms),
        ms(stopped.latest_ms),
        ms(stopped.latest_refused_ms)
    )
}
