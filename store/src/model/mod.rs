//! An etcd cluster in memory, as a pure state machine: no I/O, no clock, no randomness.
//!
//! Whoever drives a [`Model`] passes the time in: [`Model::apply`] first ends the leases whose
//! time is over, then carries out one operation. The same calls with the same times give the same
//! answers, to the byte. A fault-injecting simulator drives it directly; [`ModelStore`] puts a
//! clock and a lock around it and is a [`Store`](crate::Store).
//!
//! What it answers is what etcd answers: the contract suite and a random differential test run
//! against etcd 3.4, etcd 3.5 and this. What it leaves out is what needs more than one member (a
//! simulator adds lost, late and doubled messages around it), users, and the Corrupt alarm.
//!
//! Calling order: [`Model::new`], then [`Model::apply`] with times that do not go back (an earlier
//! time counts as the latest one seen). [`Model::next_expiry`] tells when something happens
//! without a call; [`Model::advance`] lets it happen.

mod check;
mod history;
mod keyspace;
mod leases;
mod range;
mod store;
mod time;
mod txn;

pub use history::Compacted;
pub use store::ModelStore;
pub use time::ModelTime;

use crate::{
    Alarm, DefiniteError, Header, KeepAliveAnswer, Key, KeyRange, KeyValue, LeaseId, Op, Reply,
    Revision, StoreError, WatchEvent,
};
use keyspace::KeySpace;
use leases::LeaseTable;

/// A new leader adds this to every lease's full TTL: etcd's election timeout at default settings.
pub const PROMOTION_EXTRA_MS: u64 = 1_000;

/// An etcd cluster of one member, in memory. See the [module](self).
#[derive(Debug, Clone)]
pub struct Model {
    cluster_id: u64,
    member_id: u64,
    raft_term: u64,
    now: ModelTime,
    no_space: bool,
    expiry_lag_ms: u64,
    keys: KeySpace,
    leases: LeaseTable,
}

impl Model {
    /// An empty cluster at time zero.
    pub fn new(cluster_id: u64, member_id: u64) -> Self {
        Self {
            cluster_id,
            member_id,
            // A member that elects itself is in its second term.
            raft_term: 2,
            now: ModelTime::default(),
            no_space: false,
            expiry_lag_ms: 0,
            keys: KeySpace::default(),
            leases: LeaseTable::default(),
        }
    }

    /// Carries out `op` at `now`, after ending the leases whose time is over by then.
    ///
    /// # Errors
    /// Nothing has changed then, except by the passing of time. All are definite but the lack of
    /// space: etcd's own answer to that is ambiguous, because the write that uses the space up is
    /// applied and answered with the same error.
    pub fn apply(&mut self, now: ModelTime, op: &Op) -> Result<Reply, StoreError> {
        self.advance(now);
        Ok(match op {
            Op::Txn(txn) => Reply::Txn(txn::apply(self, txn)?),
            Op::LeaseGrant { lease, ttl_s } => self.grant(*lease, *ttl_s)?,
            Op::LeaseRevoke { lease } => self.revoke(*lease)?,
            Op::LeaseKeys { lease } => self.lease_keys(*lease),
            Op::KeepAlive { leases } => Reply::KeepAlive(self.keep_alive(leases)),
            Op::Alarms => Reply::Alarms {
                alarms: self
                    .no_space
                    .then_some(Alarm::NoSpace)
                    .into_iter()
                    .collect(),
            },
        })
    }

    /// Lets the time pass: ends the leases whose time is over by `now`, each in a revision of its
    /// own (none if no key hangs from it), in the order of their times, then of their ids.
    pub fn advance(&mut self, now: ModelTime) {
        self.now = self.now.max(now);
        while let Some(lease) = self.leases.first_over(self.now, self.expiry_lag_ms) {
            self.end_lease(lease);
        }
    }

    /// When the next lease ends if nothing renews it; in the past if [`Model::advance`] was not
    /// called since.
    pub fn next_expiry(&self) -> Option<ModelTime> {
        self.leases.next_expiry(self.expiry_lag_ms)
    }

    /// What every reply carries.
    pub fn header(&self) -> Header {
        Header {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision: self.keys.revision(),
            raft_term: self.raft_term,
        }
    }

    fn grant(&mut self, lease: LeaseId, ttl_s: u32) -> Result<Reply, StoreError> {
        if self.no_space {
            return Err(space_exceeded());
        }
        let ttl_s = self.leases.grant(self.now, lease, ttl_s)?;
        Ok(Reply::LeaseGranted {
            header: self.header(),
            ttl_s,
        })
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<Reply, DefiniteError> {
        if !self.end_lease(lease) {
            return Err(DefiniteError::LeaseNotFound);
        }
        Ok(Reply::LeaseRevoked {
            header: self.header(),
        })
    }

    fn end_lease(&mut self, lease: LeaseId) -> bool {
        let Some(keys) = self.leases.remove(lease) else {
            return false;
        };
        let mut write = self.keys.write();
        for key in keys {
            write.delete(&key);
        }
        write.finish();
        true
    }

    fn lease_keys(&self, lease: LeaseId) -> Reply {
        let found = self.leases.get(lease);
        Reply::LeaseKeys {
            header: self.header(),
            ttl_s: found.map_or(-1, |lease| lease.remaining_s(self.now)),
            keys: found.map_or_else(Vec::new, |lease| lease.keys().cloned().collect()),
        }
    }

    /// A lease whose time is over but which is not revoked yet stalls etcd's stream: neither it
    /// nor any lease behind it in the burst is answered.
    fn keep_alive(&mut self, leases: &[LeaseId]) -> Vec<KeepAliveAnswer> {
        let header = self.header();
        let mut answers = Vec::with_capacity(leases.len());
        for &lease in leases {
            if self.leases.get(lease).is_some_and(|l| l.is_over(self.now)) {
                break;
            }
            answers.push(KeepAliveAnswer {
                header,
                lease,
                ttl_s: self.leases.renew(self.now, lease).unwrap_or(0),
            });
        }
        answers
    }
}

/// What a simulator, a test or a developer does to the cluster from outside.
impl Model {
    /// Elects a leader, at `now`: the Raft term grows, and every lease that lives gets its full TTL
    /// and [`PROMOTION_EXTRA_MS`] again, as a promoted etcd leader gives them.
    pub fn elect_leader(&mut self, now: ModelTime) {
        self.advance(now);
        self.raft_term += 1;
        self.leases.renew_all(self.now, PROMOTION_EXTRA_MS);
    }

    /// Raises the NoSpace alarm, or clears it. While it is raised, lease grants are refused, and so
    /// are transactions with a put directly in one of their two branches, taken or not; puts in
    /// nested transactions pass, as they pass etcd's quota check.
    pub fn set_no_space(&mut self, raised: bool) {
        self.no_space = raised;
    }

    /// Ends leases so much after their time, as etcd's leader does, which looks for expired leases
    /// now and then and has to commit the revocation. In between the keys are still there and
    /// a keepalive is not answered. Zero at first.
    pub fn set_expiry_lag_ms(&mut self, lag_ms: u64) {
        self.expiry_lag_ms = lag_ms;
    }

    /// Forgets the events before `revision`. Without effect when they are forgotten already, or
    /// when `revision` lies in the future.
    pub fn compact(&mut self, revision: Revision) {
        self.keys.compact(revision);
    }

    /// Keeps at most so many events; the oldest revisions are forgotten when there are more.
    /// The latest revision is always kept whole.
    pub fn set_history_events_max(&mut self, events_max: usize) {
        self.keys.set_history_events_max(events_max);
    }
}

/// What can be looked at without an operation. The time does not pass.
impl Model {
    /// The latest time seen.
    pub fn now(&self) -> ModelTime {
        self.now
    }

    /// One key.
    pub fn get(&self, key: &Key) -> Option<KeyValue> {
        self.keys
            .get(key)
            .map(|record| record.to_key_value(key, false))
    }

    /// The leases there are, in the order of their ids.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.leases.ids()
    }

    /// The changes of keys in `range` at `from` and later, oldest first.
    ///
    /// # Errors
    /// When some of them are forgotten.
    pub fn events_from<'a>(
        &'a self,
        from: Revision,
        range: &'a KeyRange,
    ) -> Result<impl Iterator<Item = WatchEvent> + 'a, Compacted> {
        self.keys.events_from(from, range)
    }

    /// Checks that keys, leases and history agree with each other. Walks through everything.
    ///
    /// # Panics
    /// When they do not.
    pub fn check_invariants(&self) {
        let leases = self.leases.check_invariants();
        let keys = self.keys.check_invariants();
        assert_eq!(
            leases, keys,
            "keys on leases, by the leases and by the keys"
        );
    }
}

/// In etcd's words.
fn space_exceeded() -> StoreError {
    StoreError::Ambiguous("etcdserver: mvcc: database space exceeded".to_owned())
}

#[cfg(test)]
mod tests;
