//! Looking at the lines of names: what a linearizable read of the record and the first key shows, and what
//! is watched so that somebody looks in time.

use crate::engine::acquire::{Job, free_in_at_most};
use crate::engine::calls::as_txn;
use crate::engine::line::{Busy, Head, Place};
use crate::engine::records::{self, LockRecord};
use crate::engine::renew::Whereabouts;
use crate::engine::shards::{GuardSeen, admits, read_guard};
use crate::engine::slot::SlotState;
use crate::engine::table::Slot;
use crate::engine::waiting::head_of;
use crate::engine::{Effect, Engine};
use crate::limits;
use crate::names::LockName;
use crate::service::Refusal;
use crate::time::Millis;
use holdfast_store::{
    Get, Key, KeyRange, KeyValue, Op, Reply, Revision, StoreError, Txn, TxnOpReply,
};
use shard_map::records::keys;

/// What a read has shown of a name, at one revision.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) revision: Revision,
    pub(crate) record: Option<KeyValue>,
    pub(crate) head: Option<KeyValue>,
}

impl Engine {
    /// Something that was watched for the line has ended.
    pub(crate) fn on_freed(&mut self, name: &LockName, key: &Key) {
        let watched = self.lines.get(name).and_then(|line| line.watched.as_ref());
        if watched == Some(key) {
            self.lines.watch(name, None);
            self.name_freed(name);
        }
    }

    /// The name may be free, or its line shorter.
    pub(crate) fn name_freed(&mut self, name: &LockName) {
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        match line.head {
            Head::Mine => line.try_now = true,
            Head::Other(_) | Head::Unknown => line.look_now = true,
        }
        self.lines.touch(name);
    }

    /// Reads who holds each name, who is at the head of its line, and whether its shard is still here.
    pub(crate) fn ask_lines(&self, names: &[LockName]) -> Op {
        let shard_of = |name| self.lines.get(name).map(|line| line.shard);
        let gets = names.iter().flat_map(|name| {
            let record = KeyRange::one(records::lock_key(name.as_str()));
            let guard = keys::guard(shard_of(name).unwrap_or_default());
            let guard = Get::all(KeyRange::one(guard));
            [Get::all(record), head_of(name.as_str()), guard]
        });
        Op::Txn(Txn::read(gets))
    }

    pub(crate) fn on_lines(&mut self, names: &[LockName], result: Result<Reply, StoreError>) {
        let reply = as_txn(result);
        let mut gets = reply.into_iter().flat_map(|reply| {
            let revision = reply.header.revision;
            let read = move |op| match op {
                TxnOpReply::Get(get) => (revision, get.kvs.into_iter().next()),
                _ => (revision, None),
            };
            reply.ops.into_iter().map(read).collect::<Vec<_>>()
        });
        for name in names {
            let found = (gets.next(), gets.next(), gets.next());
            let Some(line) = self.lines.get_mut(name) else {
                continue;
            };
            line.looking = false;
            let shard = line.shard;
            self.give_up_those_away(name);
            let at = self.now + limits::LINE_LOOK_INTERVAL;
            self.lines.look_by(name, at);
            self.lines.touch(name);
            if let (Some((revision, record)), Some((_, head)), Some((_, guard))) = found {
                let shown = Shown {
                    revision,
                    record,
                    head,
                };
                let free_in = self.free_in_as_shown(&shown, guard.as_ref());
                self.answer_timed_out(name, free_in);
                self.shown(name, &shown);
                self.guard_seen(shard, guard.as_ref());
            }
        }
    }

    /// After how long the present hold ends at the latest, unless it is renewed.
    fn free_in_as_shown(&self, shown: &Shown, guard: Option<&KeyValue>) -> Millis {
        let session_ttl = self.settings.session_ttl;
        match shown.record.as_ref().map(LockRecord::read) {
            Some(Some((record, id))) => self.free_in(&id, record.ttl()),
            None if matches!(read_guard(guard), GuardSeen::Read(guard, _) if admits(&guard)) => {
                Millis::ZERO
            }
            // The name may be held in another cluster: its TTL is well below that of a group's lease.
            Some(None) | None => free_in_at_most(self.settings.group_ttl, session_ttl),
        }
    }

    /// Tells those whose wait is over how the name is held.
    fn answer_timed_out(&mut self, name: &LockName, free_in: Millis) {
        let timed_out = match self.lines.get_mut(name) {
            Some(line) => std::mem::take(&mut line.timed_out),
            None => Vec::new(),
        };
        for ticket in timed_out {
            if !self.lines.has(ticket) || self.lines.is_trying(ticket) {
                continue;
            }
            self.stats.waits_timed_out.add(1);
            let waited = self.lines.waited(ticket, self.now);
            let reason = Refusal::Timeout(waited.unwrap_or(Millis::ZERO));
            self.refuse(ticket, reason, free_in);
        }
    }

    /// As [`Engine::shown`], of what a waiter's own grant has read: nobody else has to look for that.
    pub(crate) fn shown_by_grant(&mut self, name: &LockName, shown: &Shown) {
        if let Some(line) = self.lines.get_mut(name) {
            line.look_now = !line.timed_out.is_empty();
        }
        self.shown(name, shown);
    }

    /// A linearizable read has shown who holds the name, and who is at the head of its line.
    pub(crate) fn shown(&mut self, name: &LockName, shown: &Shown) {
        let own_lease = shown.head.as_ref().and_then(|kv| kv.lease);
        let is_own = own_lease.is_some_and(|lease| self.is_line_lease(lease));
        let head = shown
            .head
            .as_ref()
            .and_then(|kv| records::place_of(&kv.key));
        let look_at = self.now + limits::LINE_LOOK_INTERVAL;
        self.lines.look_by(name, look_at);
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        if line.busy != Busy::No {
            // What is on its way may change it, and has somebody look afterwards.
            return;
        }
        if shown.revision < line.as_of {
            line.look_now = true;
            return;
        }
        let first = line.standing.front().map(|it| it.place);
        line.head = match (head, first) {
            (Some(head), Some(first)) if head == first => Head::Mine,
            (Some(head), Some(first)) if head < first => Head::Other(head),
            // The first of this gateway's is not there any more.
            (_, Some(_)) => Head::Unknown,
            (Some(head), None) => Head::Other(head),
            (None, None) => Head::Unknown,
        };
        match (line.head, head) {
            (Head::Other(head), _) if is_own => {
                // It is this gateway's, and nobody's.
                if let Some(lease) = own_lease
                    && !line.leaving.iter().any(|(place, _)| *place == head)
                {
                    line.leaving.push((head, lease));
                }
            }
            (Head::Unknown, head) if first.is_some() => {
                self.places_lost(name, head);
                return self.lines.touch(name);
            }
            _ => {}
        }
        line.try_now = shown.record.is_none() && line.head == Head::Mine;
        self.lines.touch(name);
        self.watch_line(name, shown);
    }

    /// Keys of this gateway's waiters before `head` are gone: their lease has ended, or somebody has
    /// deleted them. They join anew.
    pub(crate) fn places_lost(&mut self, name: &LockName, head: Option<Place>) {
        loop {
            let Some(line) = self.lines.get_mut(name) else {
                return;
            };
            let lost = line
                .standing
                .front()
                .is_some_and(|it| head.is_none_or(|head| it.place < head));
            let Some(it) = line.standing.pop_front_if(|_| lost) else {
                line.look_now = true;
                return;
            };
            let job = it.job.map(|job| Job { place: None, ..job });
            line.joining.extend(job);
            // Whatever may be there all the same must not stand in anybody's way.
            line.leaving.push((it.place, it.lease));
            self.lines.unplaced(it.ticket);
        }
    }

    /// Whether the hold with this record ends through this engine, which tells its line then.
    fn tells_end_of(&self, record: &KeyValue) -> bool {
        let Some((_, id)) = LockRecord::read(record) else {
            return false;
        };
        let Whereabouts::Slot(at) = self.whereabouts(&id) else {
            return false;
        };
        let ctl = self.groups.get(at.group);
        let state = ctl.and_then(|ctl| ctl.group.with_slot(at.slot, Slot::state));
        // One that is free by now was told of before this was read.
        state.is_some_and(|state| state.is_hold() || state == SlotState::Ending)
    }

    /// Watches what stands before the first of this gateway's: the lock, unless it is held here, or the
    /// head of the line.
    pub(crate) fn watch_line(&mut self, name: &LockName, shown: &Shown) {
        let Some(line) = self.lines.get(name) else {
            return;
        };
        let wanted = match (line.head, &shown.record, &shown.head) {
            _ if line.standing.is_empty() => None,
            (Head::Mine, Some(record), _) if self.tells_end_of(record) => None,
            (Head::Mine, Some(record), _) => Some(record.key.clone()),
            (Head::Other(_), _, Some(head)) => Some(head.key.clone()),
            _ => None,
        };
        if wanted == line.watched {
            return;
        }
        let had = line.watched.is_some();
        let may = self.lines.watch(name, wanted.clone());
        let after = Revision(shown.revision.0 + 1);
        match wanted.filter(|_| may) {
            Some(key) => self.out.push(Effect::Watch(name.clone(), key, after)),
            None if had => self.out.push(Effect::Unwatch(name.clone())),
            None => {}
        }
    }
}
