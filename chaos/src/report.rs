//! What a run says at its end.

use crate::court::{Counts, Court};
use crate::faults::{Fault, Strike};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The verdict, and what was exercised.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What the run was drawn from.
    pub seed: u64,
    /// How long faults struck, in seconds.
    pub duration_s: u64,
    /// How many gateways.
    pub gateways: usize,
    /// The number of members of each cluster.
    pub clusters: Vec<usize>,
    /// The judge's finding, with what happened to the name before; none: the run is as it should be.
    pub finding: Option<Found>,
    /// What clients met.
    pub counts: Counts,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<String, u64>,
    /// Kinds that never did.
    pub faults_missing: Vec<String>,
    /// How often calls of etcd were tampered with.
    pub tricks: BTreeMap<String, u64>,
    /// What struck when.
    pub schedule: Vec<Strike>,
}

/// A finding.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// The judge's words.
    pub text: String,
    /// What happened to the name before.
    pub events: Vec<String>,
}

impl Found {
    /// What the court has found.
    pub(crate) fn of(court: &Court) -> Option<Self> {
        let (finding, events) = court.finding()?;
        Some(Self {
            text: finding.to_string(),
            events,
        })
    }
}

impl Report {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.finding.is_none()
    }
}

/// How often each kind struck, and those that did not.
pub(crate) fn exercised(struck: &[Strike]) -> (BTreeMap<String, u64>, Vec<String>) {
    let mut faults = BTreeMap::new();
    for strike in struck {
        *faults.entry(strike.fault.to_string()).or_default() += 1;
    }
    let all = Fault::all().into_iter().map(|fault| fault.to_string());
    let missing = all.filter(|fault| !faults.contains_key(fault)).collect();
    (faults, missing)
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self;
        let rows = [
            (counts.grants, "grants"),
            (counts.contended_grants, "of these contended"),
            (counts.waits, "requests that were to wait in line"),
            (counts.grants_in_line, "grants after a wait"),
            (counts.waits_timed_out, "waits that timed out"),
            (counts.waits_cancelled, "waits whose client went away"),
            (counts.held_already, "answered with the hold there was"),
            (counts.refusals, "acquires answered \"held\""),
            (counts.renewals, "renewals"),
            (counts.ended, "renewals answered \"over\""),
            (counts.releases, "releases"),
            (
                counts.unknown,
                "answers not known (503, time-outs, broken connections)",
            ),
            (counts.writes, "fenced writes"),
            (counts.writes_refused, "fenced writes refused"),
            (counts.overslept, "clients that slept past their hold"),
            (counts.hostile, "hostile requests"),
            (counts.doubled, "requests to two gateways at once"),
            (counts.cut_off, "tries for a lock cut off by the client"),
        ];
        for (count, what) in rows {
            writeln!(f, "{count:>9}  {what}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.counts)?;
        writeln!(f, "faults:")?;
        for (fault, count) in &self.faults {
            writeln!(f, "{count:>9}  {fault}")?;
        }
        writeln!(f, "calls of etcd:")?;
        for (trick, count) in &self.tricks {
            writeln!(f, "{count:>9}  {trick}")?;
        }
        if !self.faults_missing.is_empty() {
            writeln!(f, "never struck: {}", self.faults_missing.join(", "))?;
        }
        write_verdict(f, self.seed, self.finding.as_ref())
    }
}

/// What was found, if anything was.
pub(crate) fn write_verdict(
    f: &mut fmt::Formatter<'_>,
    seed: u64,
    finding: Option<&Found>,
) -> fmt::Result {
    let Some(found) = finding else {
        return writeln!(f, "seed {seed}: no finding");
    };
    for event in &found.events {
        writeln!(f, "  {event}")?;
    }
    writeln!(f, "seed {seed}: FOUND {}", found.text)
}
