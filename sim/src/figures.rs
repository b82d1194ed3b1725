//! What runs exercised, counted.

use crate::faults::Fault;
use std::collections::BTreeMap;
use std::fmt;

/// What a sweep must have exercised besides faults.
const EXERCISED: &[&str] = &[
    "clocks read before a stop",
    "forwarded re-entries",
    "forwards answered: not known",
    "forwards answered: not mine",
    "forwards answered: releases",
    "forwards answered: renewals",
    "forwards that nobody waits for",
    "groups claimed",
    "groups moved",
    "hints",
    "long tails",
    "moves undone",
    "requests sent on",
];

/// Counts by what is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    faults: BTreeMap<Fault, u64>,
    events: BTreeMap<&'static str, u64>,
}

impl Figures {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn event(&mut self, event: &'static str) {
        self.events_add(event, 1);
    }

    pub(crate) fn events_add(&mut self, event: &'static str, count: u64) {
        *self.events.entry(event).or_default() += count;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (event, count) in &other.events {
            *self.events.entry(event).or_default() += count;
        }
    }

    /// Faults, and other things that a sweep must have exercised, that were never met.
    pub fn never_met(&self) -> Vec<String> {
        let faults = Fault::ALL.iter();
        let faults = faults.filter(|fault| !self.faults.contains_key(fault));
        let events = EXERCISED.iter();
        let events = events.filter(|event| !self.events.contains_key(**event));
        let faults = faults.map(ToString::to_string);
        faults
            .chain(events.map(|event| (*event).to_owned()))
            .collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults met:")?;
        for (fault, count) in &self.faults {
            writeln!(f, "  {count:>12}  {fault}")?;
        }
        writeln!(f, "what happened:")?;
        for (event, count) in &self.events {
            writeln!(f, "  {count:>12}  {event}")?;
        }
        Ok(())
    }
}
