//! What an engine has done, for metrics. Written by the engine, read by whoever asks.

use crate::engine::Engine;
use crate::engine::calls::Purpose;
use crate::time::Millis;
use holdfast_store::StoreError;
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

/// How values are spread: how many were at most each of `N` bounds. Recording is two atomic
/// additions. On cache lines of its own, so that whoever counts here slows nobody down who only
/// reads what lies beside it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Spread<const N: usize> {
    bounds: [u64; N],
    counts: [Stat; N],
    above: Stat,
    sum: Stat,
}

impl<const N: usize> Spread<N> {
    /// Nothing recorded yet. `bounds` ascend.
    pub fn new(bounds: [u64; N]) -> Self {
        Self {
            bounds,
            counts: std::array::from_fn(|_| Stat::default()),
            above: Stat::default(),
            sum: Stat::default(),
        }
    }

    pub(crate) fn record(&self, value: u64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        bucket.map_or(&self.above, |at| &self.counts[at]).add(1);
        self.sum.add(value);
    }

    /// Each bound, and how many values were at most that; `None` is for all values.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let counts = self.counts.iter().chain([&self.above]).map(Stat::get);
        bounds.zip(counts).scan(0, |total, (bound, count)| {
            *total += count;
            Some((bound, *total))
        })
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().chain([&self.above]).map(Stat::get).sum()
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }
}

/// What of a hold's TTL was left when it was renewed from memory, in hundredths. A client that
/// renews after a third of the TTL leaves 66.
pub type RenewalMargins = Spread<9>;

/// The bounds of [`RenewalMargins`].
pub const RENEWAL_MARGIN_BOUNDS: [u64; 9] = [5, 10, 20, 30, 40, 50, 60, 70, 85];

/// The bounds of how long requests waited in line, in milliseconds.
const WAITED_BOUNDS: [u64; 9] = [5, 25, 100, 500, 1_000, 2_500, 5_000, 10_000, 30_000];

/// What a request to etcd was for, as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdCall {
    /// Starting, replacing or giving up this gateway's session.
    Session,
    /// A burst of keepalives.
    Keepalive,
    /// The read of a proof round.
    Round,
    /// Shard guards.
    Guards,
    /// Whether there is space.
    Alarms,
    /// The lease of a new group.
    GroupLease,
    /// A batch of writes.
    Batch,
    /// A fence, or the read that shows what became of a batch.
    Resolve,
    /// A look-up of a lock by name.
    LookUp,
    /// Looking at groups of sessions that are gone.
    Takeover,
    /// Comparing a group's table with etcd.
    Survey,
    /// The revoke of a lease that nothing hangs from.
    Revoke,
}

impl EtcdCall {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 12] = [
        Self::Session,
        Self::Keepalive,
        Self::Round,
        Self::Guards,
        Self::Alarms,
        Self::GroupLease,
        Self::Batch,
        Self::Resolve,
        Self::LookUp,
        Self::Takeover,
        Self::Survey,
        Self::Revoke,
    ];

    /// The value of a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Keepalive => "keepalive",
            Self::Round => "round",
            Self::Guards => "guards",
            Self::Alarms => "alarms",
            Self::GroupLease => "group_lease",
            Self::Batch => "batch",
            Self::Resolve => "resolve",
            Self::LookUp => "look_up",
            Self::Takeover => "takeover",
            Self::Survey => "survey",
            Self::Revoke => "revoke",
        }
    }

    pub(crate) fn of(purpose: &Purpose) -> Self {
        match purpose {
            Purpose::SessionLease
            | Purpose::SessionKey
            | Purpose::SpareLease(_)
            | Purpose::LineLease(_)
            | Purpose::LastRevoke(_) => Self::Session,
            Purpose::Keepalive(_) | Purpose::LateKeepalive => Self::Keepalive,
            Purpose::RoundRead(_) => Self::Round,
            Purpose::Guards(_) | Purpose::Follow(_) => Self::Guards,
            Purpose::Alarms => Self::Alarms,
            Purpose::GroupLease(_) | Purpose::PlaceLease(..) => Self::GroupLease,
            Purpose::Batch(_) => Self::Batch,
            Purpose::Resolve(_) | Purpose::Fence => Self::Resolve,
            Purpose::Cold(_) | Purpose::ToClose(..) | Purpose::Lines(_) => Self::LookUp,
            Purpose::Orphans(_) | Purpose::Heirs | Purpose::IsThere(..) => Self::Takeover,
            Purpose::Survey(..) => Self::Survey,
            Purpose::Revoke | Purpose::RevokeFor(..) => Self::Revoke,
        }
    }
}

/// Counters since the start, and gauges.
#[derive(Debug)]
pub struct EngineStats {
    /// Locks granted and told.
    pub granted: Stat,
    /// How long those waited in line who got the lock, in milliseconds.
    pub waited: Spread<9>,
    /// Attempts of those at the heads of lines to get the lock.
    pub wait_attempts: Stat,
    /// Requests that waited in line and got the lock,
    pub waits_granted: Stat,
    /// or did not in time,
    pub waits_timed_out: Stat,
    /// or whose client went away.
    pub waits_abandoned: Stat,
    /// Grants that were undone because nobody waited for them any more.
    pub waits_undone: Stat,
    /// Requests that wait in line,
    pub waiting: Stat,
    /// and for how many names.
    pub lines: Stat,
    /// Holds whose deadline passed.
    pub expired: Stat,
    /// Locks of groups that were lost, or whose session was.
    pub locks_lost: Stat,
    /// Writes per batch sent.
    pub batch_sizes: Spread<10>,
    /// Requests to etcd that were sent, by what for.
    pub etcd_calls: [Stat; EtcdCall::ALL.len()],
    /// Requests that etcd has refused, or never got.
    pub etcd_refused: Stat,
    /// Requests of which it is unknown whether etcd did them.
    pub etcd_ambiguous: Stat,
    /// Milliseconds from a request to its answer, or to where it was given up.
    pub etcd_times: Spread<10>,
    /// Batches whose outcome was unknown at first.
    pub unknown_outcomes: Stat,
    /// Fences sent.
    pub fences: Stat,
    /// Requests that another gateway was asked about without a look-up.
    pub forwarded_at_once: Stat,
    /// Requests that another gateway was asked about after a look-up.
    pub forwarded: Stat,
    /// Requests that went on in the engine of another cluster.
    pub onward: Stat,
    /// Look-ups by name.
    pub cold_lookups: Stat,
    /// Groups taken over.
    pub claims: Stat,
    /// Guards that this gateway had to write itself.
    pub guards_written: Stat,
    /// Moves of groups to other clusters that have begun,
    pub moves: Stat,
    /// that are done,
    pub moved: Stat,
    /// and that were undone.
    pub moves_undone: Stat,
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
    /// Gauge: acquires that wait for a batch.
    pub queued_acquires: Stat,
    /// Gauge: other writes that somebody waits for.
    pub queued_writes: Stat,
    /// Gauge: deletes of holds whose deadline has passed.
    pub queued_expiries: Stat,
    /// Gauge: requests to etcd on their way.
    pub etcd_in_flight: Stat,
    /// Gauge: requests of clients and other gateways that are not answered yet.
    pub requests_open: Stat,
}

impl Default for EngineStats {
    fn default() -> Self {
        Self {
            batch_sizes: Spread::new([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
            etcd_times: Spread::new([2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500]),
            granted: Stat::default(),
            waited: Spread::new(WAITED_BOUNDS),
            wait_attempts: Stat::default(),
            waits_granted: Stat::default(),
            waits_timed_out: Stat::default(),
            waits_abandoned: Stat::default(),
            waits_undone: Stat::default(),
            waiting: Stat::default(),
            lines: Stat::default(),
            expired: Stat::default(),
            locks_lost: Stat::default(),
            etcd_calls: Default::default(),
            etcd_refused: Stat::default(),
            etcd_ambiguous: Stat::default(),
            unknown_outcomes: Stat::default(),
            fences: Stat::default(),
            forwarded_at_once: Stat::default(),
            forwarded: Stat::default(),
            cold_lookups: Stat::default(),
            onward: Stat::default(),
            guards_written: Stat::default(),
            moves: Stat::default(),
            moved: Stat::default(),
            moves_undone: Stat::default(),
            claims: Stat::default(),
            groups_lost: Stat::default(),
            sessions_lost: Stat::default(),
            proofs_voided: Stat::default(),
            survey_findings: Stat::default(),
            groups: Stat::default(),
            locks: Stat::default(),
            queued_acquires: Stat::default(),
            queued_writes: Stat::default(),
            queued_expiries: Stat::default(),
            etcd_in_flight: Stat::default(),
            requests_open: Stat::default(),
        }
    }
}

impl EngineStats {
    /// Requests to etcd of this kind.
    pub fn calls(&self, call: EtcdCall) -> &Stat {
        &self.etcd_calls[call as usize]
    }

    pub(crate) fn replied<T>(&self, took: Millis, result: &Result<T, StoreError>) {
        self.etcd_times.record(took.as_ms());
        match result {
            Ok(_) => {}
            Err(StoreError::Definite(_)) => self.etcd_refused.add(1),
            Err(StoreError::Ambiguous(_)) => self.etcd_ambiguous.add(1),
        }
    }
}

impl Engine {
    pub(crate) fn publish_gauges(&self) {
        self.stats.groups.set(self.groups.len());
        self.stats.locks.set(self.groups.locks());
        let [acquires, writes, expiries] = self.writes.waiting();
        self.stats.queued_acquires.set(acquires);
        self.stats.queued_writes.set(writes);
        self.stats.queued_expiries.set(expiries);
        self.stats.etcd_in_flight.set(self.calls.in_flight());
        self.stats.requests_open.set(self.tickets.open());
        self.stats.waiting.set(self.lines.len());
        self.stats.lines.set(self.lines.names());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_counts_all_that_is_not_above_each_bound() {
        let spread = Spread::new([5, 10]);
        for value in [0, 5, 6, 10, 11] {
            spread.record(value);
        }
        let counted: Vec<_> = spread.cumulative().collect();
        assert_eq!(counted, [(Some(5), 2), (Some(10), 4), (None, 5)]);
        assert_eq!((spread.count(), spread.sum()), (5, 32));
    }

    #[test]
    fn every_kind_of_call_is_at_its_place() {
        for (at, call) in EtcdCall::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, at);
        }
    }
}
