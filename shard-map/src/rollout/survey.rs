//! What a cluster has of some shards: guards, and how many groups; and which gateways are in it.

use super::steps::{Groups, GuardRead};
use crate::records::{GroupPlace, Guard, Record, SessionOf, keys};
use crate::{ShardId, limits};
use holdfast_store::{Get, KeyRange, KeyValue, Txn, TxnOpReply, TxnReply};
use std::collections::{BTreeMap, BTreeSet};

/// Some shards in one cluster, all of it read at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    guards: BTreeMap<ShardId, GuardRead>,
    groups: BTreeMap<ShardId, Groups>,
    /// A group that cannot be read may be of any shard.
    unreadable_groups: u64,
    /// The gateways that have a session there, by session.
    sessions: BTreeMap<String, String>,
    /// The sessions that own groups, by shard.
    owners: BTreeMap<ShardId, BTreeSet<String>>,
}

/// Reads what [`Survey`] has of these shards, at most [`limits::MAX_MOVING_MAX`] of them.
pub fn survey(shards: &[ShardId]) -> Txn {
    // Nearby guards in one range would save nothing: their keys sort as text.
    let few = shards.len() <= limits::GUARDS_PER_TXN;
    let guards = match few {
        true => shards
            .iter()
            .map(|&shard| KeyRange::one(keys::guard(shard)))
            .collect(),
        false => vec![keys::guards()],
    };
    let ranges = guards.into_iter().chain([keys::groups(), keys::sessions()]);
    Txn::read(ranges.map(Get::all))
}

impl Survey {
    /// From the reply to [`survey`].
    pub fn from_reply(reply: TxnReply) -> Self {
        let mut found = Self::default();
        let gets = reply.ops.into_iter().filter_map(|op| match op {
            TxnOpReply::Get(get) => Some(get.kvs),
            _ => None,
        });
        for record in gets.flatten() {
            match keys::shard_of_guard(&record.key) {
                Some(shard) => drop(found.guards.insert(shard, guard(&record))),
                None if keys::groups().contains(&record.key) => found.count(&record),
                None => {
                    let session = SessionOf::from_value(&record.key, &record.value);
                    let id = keys::session_of(&record.key).map(str::to_owned);
                    found
                        .sessions
                        .extend(id.zip(session.ok().map(|it| it.instance)));
                }
            }
        }
        found
    }

    /// The shard's guard.
    pub fn guard(&self, shard: ShardId) -> &GuardRead {
        self.guards.get(&shard).unwrap_or(&GuardRead::Absent)
    }

    /// The shard's groups. Those that cannot be read count for every shard.
    pub fn groups(&self, shard: ShardId) -> Groups {
        let known = self.groups.get(&shard).copied().unwrap_or_default();
        Groups {
            all: known.all + self.unreadable_groups,
            arriving: known.arriving + self.unreadable_groups,
        }
    }

    /// Whether this gateway has a session there.
    pub fn has_gateway(&self, instance: &str) -> bool {
        self.gateways().any(|it| it == instance)
    }

    /// The gateways that have a session there.
    pub fn gateways(&self) -> impl Iterator<Item = &str> {
        self.sessions.values().map(String::as_str)
    }

    /// The live sessions that own groups of the shard, each with its gateway.
    pub(super) fn owners(&self, shard: ShardId) -> impl Iterator<Item = (&str, &str)> {
        let owners = self.owners.get(&shard).into_iter().flatten();
        owners.filter_map(|session| Some((session.as_str(), self.sessions.get(session)?.as_str())))
    }

    fn count(&mut self, record: &KeyValue) {
        let Ok(place) = GroupPlace::from_value(&record.key, &record.value) else {
            self.unreadable_groups += 1;
            return;
        };
        if let Some(session) = keys::session_of(&record.key) {
            let owners = self.owners.entry(place.shard).or_default();
            owners.insert(session.to_owned());
        }
        let groups = self.groups.entry(place.shard).or_default();
        groups.all += 1;
        groups.arriving += u64::from(place.from.is_some());
    }
}

fn guard(record: &KeyValue) -> GuardRead {
    match Guard::from_value(&record.key, &record.value) {
        Ok(guard) => GuardRead::Present(guard, record.mod_revision),
        Err(_) => GuardRead::Unreadable,
    }
}
