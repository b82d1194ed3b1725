//! What the main thread and the workers tell each other.

use crate::outcome::Phase;
use crate::stats::Figures;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the workers are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Acquire,
    Hold,
    Release,
    Stop,
}

/// How far a worker is.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) phase: Option<Phase>,
    pub(super) held: u32,
    pub(super) first_grants: u32,
    pub(super) done: u32,
    pub(super) over: bool,
    pub(super) renewals: u64,
    pub(super) recent_p99_ms: f64,
    pub(super) unknown: u64,
    pub(super) lost: u64,
    pub(super) findings: u64,
    pub(super) fatal: Option<String>,
    pub(super) troubles: u64,
    pub(super) last_trouble: Option<String>,
    pub(super) figures: Figures,
}

/// Shared by all threads.
#[derive(Debug)]
pub(super) struct Control {
    order: AtomicU8,
    snapshots: Mutex<Vec<Snapshot>>,
}

impl Control {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            order: AtomicU8::new(Order::Acquire as u8),
            snapshots: Mutex::new(vec![Snapshot::default(); workers]),
        }
    }

    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Relaxed) {
            0 => Order::Acquire,
            1 => Order::Hold,
            2 => Order::Release,
            _ => Order::Stop,
        }
    }

    pub(super) fn give(&self, order: Order) {
        self.order.store(order as u8, Ordering::Relaxed);
    }

    pub(super) fn publish(&self, worker: usize, snapshot: Snapshot) {
        if let Some(place) = self.snapshots.lock().get_mut(worker) {
            *place = snapshot;
        }
    }

    /// All workers together.
    pub(super) fn total(&self) -> Snapshot {
        let snapshots = self.snapshots.lock();
        let mut total = Snapshot {
            over: true,
            ..Snapshot::default()
        };
        for one in snapshots.iter() {
            total.held += one.held;
            total.first_grants += one.first_grants;
            total.done += one.done;
            total.over &= one.over;
            total.renewals += one.renewals;
            total.recent_p99_ms = total.recent_p99_ms.max(one.recent_p99_ms);
            total.unknown += one.unknown;
            total.lost += one.lost;
            total.findings += one.findings;
            total.fatal = total.fatal.or_else(|| one.fatal.clone());
            total.troubles += one.troubles;
            total.figures.merge(&one.figures);
            total.last_trouble = one.last_trouble.clone().or(total.last_trouble);
            // The phase that all have reached.
            total.phase = match (total.phase, one.phase) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        total
    }
}
