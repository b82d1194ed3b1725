//! What an engine has done, for metrics. Written by the engine, read by whoever asks.

use crate::engine::Engine;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that others may read.
#[derive(Debug, Default)]
pub struct Stat(AtomicU64);

impl Stat {
    /// Its value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }
}

/// Counters since the start, and gauges.
#[derive(Debug, Default)]
pub struct EngineStats {
    /// Locks granted and told.
    pub granted: Stat,
    /// Holds whose deadline passed.
    pub expired: Stat,
    /// Batches sent.
    pub batches: Stat,
    /// Writes in them.
    pub batched_ops: Stat,
    /// Batches whose outcome was unknown at first.
    pub unknown_outcomes: Stat,
    /// Fences sent.
    pub fences: Stat,
    /// Requests that another gateway was asked about after a look-up.
    pub forwarded: Stat,
    /// Look-ups by name.
    pub cold_lookups: Stat,
    /// Groups taken over.
    pub claims: Stat,
    /// Groups whose key was not as written.
    pub groups_lost: Stat,
    /// Sessions lost.
    pub sessions_lost: Stat,
    /// Times that nothing was promised any more because nothing was proven.
    pub proofs_voided: Stat,
    /// Differences between tables and etcd.
    pub survey_findings: Stat,
    /// Gauge: groups owned.
    pub groups: Stat,
    /// Gauge: slots in use.
    pub locks: Stat,
}

impl Engine {
    pub(crate) fn publish_gauges(&self) {
        self.stats.groups.set(self.groups.len());
        self.stats.locks.set(self.groups.locks());
    }
}
