//! What a soak says at its end.

use super::levels::Levels;
use crate::court::Counts;
use crate::report::{Found, write_verdict};
use serde::Serialize;
use std::fmt;

/// The verdict, and what was exercised.
#[derive(Debug, Clone, Serialize)]
pub struct SoakReport {
    /// What the run was drawn from.
    pub seed: u64,
    /// How long it went on, in seconds.
    pub duration_s: u64,
    /// What was found; none: the run is as it should be.
    pub finding: Option<Found>,
    /// What clients met after the first round.
    pub counts: Counts,
    /// Restarts of gateways.
    pub restarts: u64,
    /// After the first round.
    pub start: Levels,
    /// At the end.
    pub end: Levels,
    /// Texts that were looked for in the logs: three for each lock id, one for each token.
    pub secrets: usize,
    /// What the gateways logged, in bytes.
    pub log_bytes: usize,
}

impl SoakReport {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.finding.is_none()
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.counts)?;
        writeln!(f, "{:>9}  restarts of gateways", self.restarts)?;
        writeln!(
            f,
            "{:>9}  texts of secrets looked for in the logs",
            self.secrets
        )?;
        writeln!(f, "{:>9}  bytes of logs", self.log_bytes)?;
        writeln!(f, "start: {}", self.start)?;
        writeln!(f, "end:   {}", self.end)?;
        write_verdict(f, self.seed, self.finding.as_ref())
    }
}
