//! What happened to the keys, for watches.

use super::keyspace::Record;
use super::range::Bounds;
use crate::{Key, KeyRange, Revision, WatchEvent};
use std::collections::VecDeque;

/// How many events are kept unless something else is set. A watch that falls further behind ends,
/// and its reader reads again.
pub(super) const EVENTS_MAX_DEFAULT: usize = 100_000;

/// Events that were asked for are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("compacted: events are kept from revision {} on", kept_from.0)]
pub struct Compacted {
    /// The first revision whose events, and all later ones, are still known.
    pub kept_from: Revision,
}

#[derive(Debug, Clone)]
struct Event {
    revision: Revision,
    key: Key,
    /// `None`: deleted.
    record: Option<Record>,
}

#[derive(Debug, Clone)]
pub(super) struct History {
    /// In the order in which they happened.
    events: VecDeque<Event>,
    kept_from: Revision,
    events_max: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            kept_from: Revision::ABSENT,
            events_max: EVENTS_MAX_DEFAULT,
        }
    }
}

impl History {
    pub(super) fn push(&mut self, revision: Revision, key: Key, record: Option<Record>) {
        self.events.push_back(Event {
            revision,
            key,
            record,
        });
    }

    pub(super) fn events_from<'a>(
        &'a self,
        from: Revision,
        range: &'a KeyRange,
    ) -> Result<impl Iterator<Item = WatchEvent> + 'a, Compacted> {
        if from < self.kept_from {
            return Err(Compacted {
                kept_from: self.kept_from,
            });
        }
        let first = self.events.partition_point(|event| event.revision < from);
        let bounds = Bounds::from(range);
        Ok(self
            .events
            .range(first..)
            .filter(move |event| bounds.contains(&event.key))
            .map(Event::to_watch_event))
    }

    /// Forgets what happened before `revision`.
    pub(super) fn compact(&mut self, revision: Revision) {
        self.kept_from = self.kept_from.max(revision);
        let first = self
            .events
            .partition_point(|event| event.revision < self.kept_from);
        self.events.drain(..first);
    }

    pub(super) fn set_events_max(&mut self, events_max: usize) {
        self.events_max = events_max;
        self.trim();
    }

    /// Forgets whole revisions, oldest first and the latest never, until few enough events are
    /// left.
    pub(super) fn trim(&mut self) {
        let surplus = self.events.len().saturating_sub(self.events_max);
        let (Some(last_to_go), Some(latest)) = (
            surplus.checked_sub(1).and_then(|at| self.events.get(at)),
            self.events.back(),
        ) else {
            return;
        };
        self.compact(Revision(last_to_go.revision.0 + 1).min(latest.revision));
    }

    pub(super) fn check_invariants(&self, latest: Revision) {
        let revisions = || self.events.iter().map(|event| event.revision);
        assert!(revisions().is_sorted(), "events in order");
        assert!(revisions().all(|revision| self.kept_from <= revision && revision <= latest));
    }
}

impl Event {
    fn to_watch_event(&self) -> WatchEvent {
        match &self.record {
            Some(record) => WatchEvent::Put(record.to_key_value(&self.key, false)),
            None => WatchEvent::Delete(self.key.clone(), self.revision),
        }
    }
}
