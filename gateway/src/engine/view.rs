//! Looking at locks without touching them: what is read of a name or of a prefix, and what it means.
//!
//! Whoever inspects is told what an acquire would find, by the same rules: the guard of the shard says
//! in which cluster a name without a record is free, and while it says `from`, a record there means
//! that the name is held. Pure; the service asks.

use crate::engine::acquire::free_in_at_most;
use crate::engine::records::{self, LockRecord};
use crate::engine::shards::{GuardSeen, read_guard};
use crate::engine::{Table, To};
use crate::names::LockName;
use crate::service::HoldView;
use crate::time::{Instant, Millis};
use holdfast_store::{Get, KeyRange, KeyValue, Op, Txn, TxnOpReply, TxnReply};
use shard_map::ShardId;
use shard_map::records::{GuardState, Identity, Record, keys};
use std::sync::Arc;

/// Clusters that are asked about one name: there, where its shard comes from, and back, for two moves.
const STEPS_MAX: u8 = 6;

/// What a cluster shows of a name, at one revision.
#[derive(Debug)]
pub(crate) struct Seen {
    guard: GuardSeen,
    pub(crate) record: Option<KeyValue>,
    pub(crate) waiters: u64,
}

/// What follows from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The name has this record there, or none, and that is the whole truth.
    Told,
    /// This cluster is to be asked.
    Ask(To),
    /// The shard moves faster than it can be looked at.
    Moving,
}

/// The search for the cluster that has a name.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The present one is asked because the guard of this one says that the shard comes from it.
    back_to: Option<Arc<str>>,
    /// The source had no record.
    looked: bool,
    steps: u8,
}

impl Search {
    /// What follows from what `cluster` shows.
    pub(crate) fn next(&mut self, cluster: &Arc<str>, seen: &Seen) -> Next {
        self.steps += 1;
        if seen.record.is_some() {
            return Next::Told;
        }
        if self.steps >= STEPS_MAX {
            return Next::Moving;
        }
        if let Some(back) = self.back_to.take() {
            self.looked = true;
            return Next::Ask(To::Cluster(back));
        }
        match &seen.guard {
            GuardSeen::Read(guard, _) if guard.state == GuardState::Active => match &guard.from {
                Some(from) if !self.looked => {
                    self.back_to = Some(Arc::clone(cluster));
                    Next::Ask(To::Cluster(from.to_shared()))
                }
                _ => Next::Told,
            },
            GuardSeen::Read(guard, _) => match &guard.to {
                Some(to) => {
                    self.looked = false;
                    Next::Ask(To::Cluster(to.to_shared()))
                }
                None => Next::Moving,
            },
            GuardSeen::Missing | GuardSeen::Unread => Next::Ask(To::Before),
        }
    }
}

/// Counts the keys of a range, whatever is read of it.
fn count(range: KeyRange) -> Get {
    Get {
        limit: 1,
        ..Get::keys(range)
    }
}

fn identity() -> Get {
    Get::all(KeyRange::one(keys::identity()))
}

/// Asks for a name, and for who answers.
pub(crate) fn ask_name(name: &LockName, shard: ShardId) -> Op {
    Op::Txn(Txn::read([
        identity(),
        Get::all(KeyRange::one(keys::guard(shard))),
        Get::all(KeyRange::one(records::lock_key(name.as_str()))),
        count(records::waiters_of(name.as_str())),
    ]))
}

/// Asks for the first records whose names begin with `prefix` and come after `after`.
pub(crate) fn ask_page(prefix: &str, after: Option<&str>, limit: usize) -> Op {
    let mut range = KeyRange::prefix(records::lock_key(prefix));
    if let Some(after) = after {
        // No name has a NUL, so this is the next one that could be.
        range.start = records::lock_key(&format!("{after}\0"));
    }
    let page = Get {
        limit: i64::try_from(limit).unwrap_or(i64::MAX),
        ..Get::all(range)
    };
    Op::Txn(Txn::read([identity(), page]))
}

/// Asks how many queue for each of these names; no more than one read may have.
pub(crate) fn ask_waiters<'a>(names: impl Iterator<Item = &'a LockName>) -> Op {
    let counts = names.map(|name| count(records::waiters_of(name.as_str())));
    Op::Txn(Txn::read([identity()].into_iter().chain(counts)))
}

/// What was read, after the identity of who has answered; `None` when that is another cluster.
fn read_from(
    reply: TxnReply,
    expected: &Identity,
) -> Option<impl Iterator<Item = holdfast_store::GetReply>> {
    let mut gets = reply.ops.into_iter().filter_map(|op| match op {
        TxnOpReply::Get(get) => Some(get),
        _ => None,
    });
    let identity = gets.next()?.kvs.into_iter().next()?;
    let found = Identity::from_value(&identity.key, &identity.value).ok()?;
    let same = found.deployment == expected.deployment && found.cluster == expected.cluster;
    same.then_some(gets)
}

/// The answer to [`ask_name`]; `None`: another cluster answers.
pub(crate) fn name_seen(reply: TxnReply, expected: &Identity) -> Option<Seen> {
    let mut gets = read_from(reply, expected)?;
    let guard = gets.next()?;
    let record = gets.next()?;
    Some(Seen {
        guard: read_guard(guard.kvs.first()),
        record: record.kvs.into_iter().next(),
        waiters: gets.next()?.count.unsigned_abs(),
    })
}

/// The answer to [`ask_page`]; `None`: another cluster answers.
pub(crate) fn page_seen(reply: TxnReply, expected: &Identity) -> Option<Vec<KeyValue>> {
    Some(read_from(reply, expected)?.next()?.kvs)
}

/// The answer to [`ask_waiters`]; `None`: another cluster answers.
pub(crate) fn waiters_seen(reply: TxnReply, expected: &Identity) -> Option<Vec<u64>> {
    let counts = read_from(reply, expected)?.map(|get| get.count.unsigned_abs());
    Some(counts.collect())
}

/// A record on a page, with its name, and which of the clusters has it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: LockName,
    pub(crate) cluster: usize,
    pub(crate) record: KeyValue,
}

/// One page out of what each cluster has, in the order of names. Each list is in that order, and is cut
/// off, if at all, after `limit + 1`. A name that two clusters have, because its group moves, is there
/// once. Tells also whether there are more.
pub(crate) fn merge(
    lists: impl IntoIterator<Item = (usize, Vec<KeyValue>)>,
    limit: usize,
) -> (Vec<Entry>, bool) {
    let mut all: Vec<Entry> = lists
        .into_iter()
        .flat_map(|(cluster, kvs)| kvs.into_iter().map(move |kv| (cluster, kv)))
        .filter_map(|(cluster, record)| {
            let name = records::name_of(&record.key)?;
            Some(Entry {
                name,
                cluster,
                record,
            })
        })
        .collect();
    all.sort_by(|one, other| (&one.name, one.cluster).cmp(&(&other.name, other.cluster)));
    // Of two with one name, one is a copy of the other.
    all.dedup_by(|one, other| one.name == other.name);
    let more = all.len() > limit;
    all.truncate(limit);
    (all, more)
}

/// What a record says of its hold. `unix_ms` is the wall clock at `now`.
pub(crate) fn hold_of(
    kv: &KeyValue,
    table: &Table,
    (now, unix_ms): (Instant, u64),
    session_ttl: Millis,
) -> HoldView {
    let Some((record, id)) = LockRecord::read(kv) else {
        // A later version has written it.
        return HoldView::default();
    };
    let at_most = free_in_at_most(record.ttl(), session_ttl);
    let held_for = |at_ms: u64| Millis::from_ms(unix_ms.saturating_sub(at_ms));
    HoldView {
        token: Some(record.fencing_token(kv)),
        free_in: Some(table.left_of(now, &id).unwrap_or(at_most)),
        held_for: record.granted_at_ms.map(held_for),
        is_closed: record.closed.is_some(),
        client_id: Some(record.owner_client_id),
        metadata: record.metadata,
    }
}
