//! The leases, the keys that hang from them, and when they end.

use super::ModelTime;
use crate::{DefiniteError, Key, LeaseId};
use std::collections::{BTreeMap, BTreeSet};

/// A shorter lease is lengthened to this. etcd takes one and a half times its election timeout, in
/// whole seconds; this is that at default settings.
const TTL_S_MIN: u32 = 2;

#[derive(Debug, Clone)]
pub(super) struct Lease {
    ttl_s: u32,
    ends: ModelTime,
    keys: BTreeSet<Key>,
}

impl Lease {
    /// Whole seconds until its time is over, rounded down.
    pub(super) fn remaining_s(&self, now: ModelTime) -> i64 {
        let seconds = self.ends.ms_since(now) / 1000;
        seconds.try_into().unwrap_or(i64::MAX)
    }

    /// Whether its time is over. It lives on until it is removed.
    pub(super) fn is_over(&self, now: ModelTime) -> bool {
        self.ends <= now
    }

    /// In key order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct LeaseTable {
    leases: BTreeMap<LeaseId, Lease>,
    /// Every lease, by when it ends.
    by_end: BTreeSet<(ModelTime, LeaseId)>,
}

impl LeaseTable {
    pub(super) fn get(&self, lease: LeaseId) -> Option<&Lease> {
        self.leases.get(&lease)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = LeaseId> {
        self.leases.keys().copied()
    }

    /// Returns the TTL that was granted, in seconds.
    pub(super) fn grant(
        &mut self,
        now: ModelTime,
        id: LeaseId,
        ttl_s: u32,
    ) -> Result<i64, DefiniteError> {
        if id.0 == 0 {
            return Err(DefiniteError::Invalid("lease id 0 means no lease".into()));
        }
        if self.leases.contains_key(&id) {
            return Err(DefiniteError::LeaseExists);
        }
        let lease = Lease {
            ttl_s: ttl_s.max(TTL_S_MIN),
            ends: now,
            keys: BTreeSet::new(),
        };
        self.by_end.insert((lease.ends, id));
        self.leases.insert(id, lease);
        self.renew(now, id).ok_or(DefiniteError::LeaseNotFound)
    }

    /// Starts the lease's TTL again; returns it in seconds, `None` if there is no such lease.
    pub(super) fn renew(&mut self, now: ModelTime, id: LeaseId) -> Option<i64> {
        let lease = self.leases.get_mut(&id)?;
        let ends = now.plus_ms(u64::from(lease.ttl_s) * 1000);
        self.by_end.remove(&(lease.ends, id));
        self.by_end.insert((ends, id));
        lease.ends = ends;
        Some(lease.ttl_s.into())
    }

    /// Starts every lease's TTL again, with so much more.
    pub(super) fn renew_all(&mut self, now: ModelTime, extra_ms: u64) {
        self.by_end.clear();
        for (&id, lease) in &mut self.leases {
            lease.ends = now.plus_ms(u64::from(lease.ttl_s) * 1000 + extra_ms);
            self.by_end.insert((lease.ends, id));
        }
    }

    /// Returns the keys that hung from the lease, in key order; `None` if there is no such lease.
    pub(super) fn remove(&mut self, id: LeaseId) -> Option<BTreeSet<Key>> {
        let lease = self.leases.remove(&id)?;
        self.by_end.remove(&(lease.ends, id));
        Some(lease.keys)
    }

    /// Hangs a key from a lease that exists.
    pub(super) fn attach(&mut self, id: LeaseId, key: Key) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    pub(super) fn detach(&mut self, id: LeaseId, key: &Key) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// The first lease whose time was over so long ago.
    pub(super) fn first_over(&self, now: ModelTime, lag_ms: u64) -> Option<LeaseId> {
        let &(ends, id) = self.by_end.first()?;
        (ends.plus_ms(lag_ms) <= now).then_some(id)
    }

    pub(super) fn next_expiry(&self, lag_ms: u64) -> Option<ModelTime> {
        let (ends, _) = self.by_end.first()?;
        Some(ends.plus_ms(lag_ms))
    }

    /// Returns which keys hang from which leases.
    pub(super) fn check_invariants(&self) -> BTreeSet<(LeaseId, Key)> {
        let by_end: BTreeSet<_> = self.leases.iter().map(|(&id, l)| (l.ends, id)).collect();
        assert_eq!(by_end, self.by_end, "leases by their end");
        let keys_of = |(&id, lease): (&LeaseId, &Lease)| -> Vec<_> {
            lease.keys().map(|key| (id, key.clone())).collect()
        };
        self.leases.iter().flat_map(keys_of).collect()
    }
}
