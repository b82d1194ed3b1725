//! The keys, their revisions and their history.

use super::history::{Compacted, History};
use super::range::Bounds;
use crate::{Get, GetReply, Key, KeyRange, KeyValue, LeaseId, Revision, WatchEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of a key that exists. A clone shares the value.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) value: Arc<[u8]>,
    pub(super) created: Revision,
    pub(super) modified: Revision,
    pub(super) version: i64,
    pub(super) lease: Option<LeaseId>,
}

impl Record {
    pub(super) fn to_key_value(&self, key: &Key, without_value: bool) -> KeyValue {
        KeyValue {
            key: key.clone(),
            value: if without_value {
                Vec::new()
            } else {
                self.value.to_vec()
            },
            create_revision: self.created,
            mod_revision: self.modified,
            version: self.version,
            lease: self.lease,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct KeySpace {
    revision: Revision,
    records: BTreeMap<Key, Record>,
    history: History,
}

impl Default for KeySpace {
    fn default() -> Self {
        Self {
            // An empty etcd is at revision 1.
            revision: Revision(1),
            records: BTreeMap::new(),
            history: History::default(),
        }
    }
}

impl KeySpace {
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Record> {
        self.records.get(key)
    }

    /// In key order.
    pub(super) fn in_range(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Record)> {
        Bounds::from(range).of(&self.records)
    }

    /// Walks through the whole range whatever the limit, because the reply counts its keys.
    pub(super) fn read(&self, get: &Get) -> GetReply {
        let limit = usize::try_from(get.limit).ok().filter(|&limit| limit > 0);
        let mut found = self.in_range(&get.range);
        let kvs: Vec<KeyValue> = found
            .by_ref()
            .take(limit.unwrap_or(usize::MAX))
            .map(|(key, record)| record.to_key_value(key, get.keys_only))
            .collect();
        let count = kvs.len() + found.count();
        GetReply {
            kvs,
            count: count.try_into().unwrap_or(i64::MAX),
        }
    }

    /// Begins to write the next revision.
    pub(super) fn write(&mut self) -> Write<'_> {
        Write {
            revision: Revision(self.revision.0 + 1),
            keys: self,
            changed: false,
        }
    }

    pub(super) fn events_from<'a>(
        &'a self,
        from: Revision,
        range: &'a KeyRange,
    ) -> Result<impl Iterator<Item = WatchEvent> + 'a, Compacted> {
        self.history.events_from(from, range)
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        if revision <= self.revision {
            self.history.compact(revision);
        }
    }

    pub(super) fn set_history_events_max(&mut self, events_max: usize) {
        self.history.set_events_max(events_max);
    }

    /// Returns which keys hang from which leases.
    pub(super) fn check_invariants(&self) -> BTreeSet<(LeaseId, Key)> {
        self.history.check_invariants(self.revision);
        for (key, record) in &self.records {
            let written = record.modified.0 - record.created.0 + 1;
            assert!(record.created.0 > 1, "{key:?} created");
            assert!(record.modified <= self.revision, "{key:?} modified");
            assert!((1..=written).contains(&record.version), "{key:?} version");
        }
        let leased = |(key, record): (&Key, &Record)| Some((record.lease?, key.clone()));
        self.records.iter().filter_map(leased).collect()
    }
}

/// The writes of one revision.
pub(super) struct Write<'a> {
    keys: &'a mut KeySpace,
    revision: Revision,
    changed: bool,
}

impl Write<'_> {
    /// The keys with what was written so far.
    pub(super) fn keys(&self) -> &KeySpace {
        self.keys
    }

    /// Returns the lease from which the key hung before.
    pub(super) fn put(
        &mut self,
        key: &Key,
        value: &[u8],
        lease: Option<LeaseId>,
    ) -> Option<LeaseId> {
        let old = self.keys.records.get(key);
        let record = Record {
            value: value.into(),
            created: old.map_or(self.revision, |old| old.created),
            modified: self.revision,
            version: old.map_or(1, |old| old.version + 1),
            lease,
        };
        let old_lease = old.and_then(|old| old.lease);
        self.keys.records.insert(key.clone(), record.clone());
        self.changed(key.clone(), Some(record));
        old_lease
    }

    /// Returns what was deleted.
    pub(super) fn delete(&mut self, key: &Key) -> Option<Record> {
        let (key, record) = self.keys.records.remove_entry(key)?;
        self.changed(key, None);
        Some(record)
    }

    /// Ends the revision, which counts only if something was written; returns the revision of the
    /// keys from then on.
    pub(super) fn finish(self) -> Revision {
        if self.changed {
            self.keys.revision = self.revision;
            self.keys.history.trim();
        }
        self.keys.revision
    }

    fn changed(&mut self, key: Key, record: Option<Record>) {
        self.changed = true;
        self.keys.history.push(self.revision, key, record);
    }
}
