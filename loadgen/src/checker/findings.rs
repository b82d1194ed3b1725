//! What was found, counted by kind, the first of each kind with their history.

use super::history::HistoryLine;
use super::known::{Known, Violation};
use crate::limits::SAMPLES_PER_KIND_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One violation, with what happened to the lock before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// The kind, for programs.
    pub(crate) kind: String,
    /// The lock.
    pub(crate) name: String,
    /// When it was found, in milliseconds since the run began.
    pub(crate) at_ms: u64,
    /// In words.
    pub(crate) detail: String,
    /// The last requests for the lock, oldest first.
    pub(crate) history: Vec<HistoryLine>,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Findings {
    /// How many of each kind.
    pub(crate) counts: BTreeMap<String, u64>,
    /// The first of each kind.
    pub(crate) samples: Vec<Finding>,
}

impl Findings {
    /// Takes note of a violation.
    pub(crate) fn push(&mut self, violation: &Violation, name: String, at_ms: u64, known: &Known) {
        let kind = violation.kind();
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        if *count <= SAMPLES_PER_KIND_MAX as u64 {
            self.samples.push(Finding {
                kind: kind.to_owned(),
                name,
                at_ms,
                detail: violation.detail(),
                history: known.history.lines(),
            });
        }
    }

    /// Locks that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.counts
            .get(Violation::Lost.kind())
            .copied()
            .unwrap_or(0)
    }

    /// Everything else that was found.
    pub(crate) fn other_than_lost(&self) -> u64 {
        self.counts.values().sum::<u64>() - self.lost()
    }

    /// Puts two workers' findings together.
    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, count) in other.counts {
            *self.counts.entry(kind).or_default() += count;
        }
        self.samples.extend(other.samples);
        self.samples.sort_by_key(|finding| finding.at_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_findings_are_counted_and_the_first_of_a_kind_are_kept() {
        let known = Known::default();
        let mut findings = Findings::default();
        let many = SAMPLES_PER_KIND_MAX as u64 + 10;
        for at_ms in 0..many {
            findings.push(&Violation::Lost, "a".into(), at_ms, &known);
        }
        findings.push(&Violation::ReleaseRefused, "b".into(), 1, &known);
        let mut all = findings.clone();
        all.merge(findings);
        assert_eq!(all.lost(), 2 * many);
        assert_eq!(all.other_than_lost(), 2);
        assert_eq!(all.samples.len(), 2 * (SAMPLES_PER_KIND_MAX + 1));
        assert!(all.samples.is_sorted_by_key(|finding| finding.at_ms));
    }
}
