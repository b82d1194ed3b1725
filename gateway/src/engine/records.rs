//! What gateways write to etcd: keys and values of locks, sessions and lease groups.
//!
//! Readers ignore fields that they do not know, so that gateways of two versions can run side by
//! side.

use crate::engine::line::Place;
use crate::lock_id::{GroupId, LockId};
use crate::names::{LockName, Principal, PrincipalTag, Token};
use crate::service::Acquire;
use crate::time::Millis;
use holdfast_store::{Key, KeyRange, KeyValue, LeaseId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

const LOCKS: &str = "/locks/";
const SESSIONS: &str = "/holdfast/sessions/";
const GROUPS: &str = "/holdfast/groups/";
const LANES: &str = "/holdfast/lanes/";
const WAITERS: &str = "/holdfast/waiters/";

/// The id of a session: random, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The key of a lock's record.
pub(crate) fn lock_key(name: &str) -> Key {
    Key::from(format!("{LOCKS}{name}"))
}

/// The lock's name, if this is the key of a lock's record.
pub(crate) fn lock_name(key: &Key) -> Option<&str> {
    key.as_str()?.strip_prefix(LOCKS)
}

/// Everyone who queues for a name.
pub(crate) fn waiters_of(name: &str) -> KeyRange {
    KeyRange::prefix(Key::from(format!("{WAITERS}{name}\0")))
}

/// The key of a place in the line of a name. Keys of one name are in the order of their places.
pub(crate) fn waiter_key(name: &str, place: Place) -> Key {
    Key::from(format!("{WAITERS}{name}\0{:016x}", place.0))
}

/// The name and the place that a waiter's key names.
pub(crate) fn waiter_of_key(key: &Key) -> Option<(&str, Place)> {
    let (name, place) = key.as_str()?.strip_prefix(WAITERS)?.rsplit_once('\0')?;
    Some((name, Place(parse_hex(place)?)))
}

/// The place that a waiter's key names.
pub(crate) fn place_of(key: &Key) -> Option<Place> {
    waiter_of_key(key).map(|(_, place)| place)
}

/// The key of a session: its presence is the gateway's liveness, its mod revision the fence.
pub(crate) fn session_key(session: SessionId) -> Key {
    Key::from(format!("{SESSIONS}{session}"))
}

/// The key of a lane of a session's batches.
pub(crate) fn lane_key(session: SessionId, lane: u64) -> Key {
    Key::from(format!("{LANES}{session}/{lane}"))
}

/// Every session of the cluster.
pub(crate) fn all_sessions() -> KeyRange {
    KeyRange::prefix(Key::from(SESSIONS))
}

/// The session that a session's key names.
pub(crate) fn session_of_key(key: &Key) -> Option<SessionId> {
    parse_hex(key.as_str()?.strip_prefix(SESSIONS)?).map(SessionId)
}

/// The key of a group that `session` owns.
pub(crate) fn group_key(session: SessionId, group: GroupId) -> Key {
    Key::from(format!("{GROUPS}{session}/{group}"))
}

/// Every group of the cluster, whoever owns it.
pub(crate) fn all_groups() -> KeyRange {
    KeyRange::prefix(Key::from(GROUPS))
}

/// The owner and the id that a group's key names.
pub(crate) fn group_of_key(key: &Key) -> Option<(SessionId, GroupId)> {
    let (session, group) = key.as_str()?.strip_prefix(GROUPS)?.split_once('/')?;
    Some((SessionId(parse_hex(session)?), GroupId(parse_hex(group)?)))
}

fn parse_hex(text: &str) -> Option<u64> {
    (text.len() == 16)
        .then(|| u64::from_str_radix(text, 16).ok())
        .flatten()
}

/// A lock's record. Its lease is that of its group.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockRecord {
    pub(crate) owner_client_id: String,
    /// The etcd lease, in hexadecimal as `etcdctl` prints it.
    pub(crate) lease_id: String,
    pub(crate) lock_id: String,
    pub(crate) ttl_ms: u64,
    pub(crate) token_base: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    /// The fencing token, where the record is no longer the one that the grant wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// When it was granted, in Unix milliseconds by the wall clock of the gateway that did, for those
    /// who inspect it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) granted_at_ms: Option<u64>,
    /// A force-release: the hold ends with its present promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) closed: Option<serde_json::Value>,
}

impl LockRecord {
    /// The record of a grant.
    pub(crate) fn of_grant(
        acquire: &Acquire,
        lock_id: &LockId,
        lease: LeaseId,
        token_base: u64,
        granted_at_ms: u64,
    ) -> Self {
        Self {
            owner_client_id: acquire.client_id.as_str().to_owned(),
            lease_id: lease.to_string(),
            lock_id: lock_id.to_text(),
            ttl_ms: acquire.ttl.as_ms(),
            token_base,
            request_id: acquire.request_id.as_ref().map(|id| id.as_str().to_owned()),
            principal: acquire.principal.as_ref().map(|id| id.as_str().to_owned()),
            metadata: acquire.metadata.clone(),
            token: None,
            granted_at_ms: Some(granted_at_ms),
            closed: None,
        }
    }

    /// Reads a record; `None` when this gateway cannot make sense of it.
    pub(crate) fn read(kv: &KeyValue) -> Option<(Self, LockId)> {
        let record: Self = serde_json::from_slice(&kv.value).ok()?;
        let id = LockId::parse(&record.lock_id)?;
        (lock_name(&kv.key) == Some(id.name())).then_some((record, id))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The fencing token of the hold whose record this is.
    pub(crate) fn fencing_token(&self, kv: &KeyValue) -> Token {
        let granted = self
            .token_base
            .saturating_add(kv.mod_revision.0.cast_unsigned());
        Token(self.token.unwrap_or(granted))
    }

    pub(crate) fn ttl(&self) -> Millis {
        Millis::from_ms(self.ttl_ms)
    }

    /// Whose hold it is.
    pub(crate) fn owner(&self) -> PrincipalTag {
        let principal = self.principal.as_deref();
        principal.map_or(PrincipalTag::NONE, PrincipalTag::of_name)
    }

    /// Whether the hold is this principal's to renew and release.
    pub(crate) fn is_open_to(&self, principal: Option<&Principal>) -> bool {
        Principal::may_touch(principal, self.principal.as_deref())
    }

    /// Whether the same client, with the same credentials, made it.
    pub(crate) fn is_of(&self, acquire: &Acquire) -> bool {
        self.owner_client_id == acquire.client_id.as_str()
            && self.principal.as_deref() == acquire.principal.as_ref().map(|id| id.as_str())
    }

    /// Whether the same request made it.
    pub(crate) fn is_of_request(&self, acquire: &Acquire) -> bool {
        self.request_id.as_deref() == acquire.request_id.as_ref().map(|id| id.as_str())
    }
}

impl fmt::Debug for LockRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRecord")
            .field("ttl_ms", &self.ttl_ms)
            .finish_non_exhaustive()
    }
}

/// What names a lock by its record in etcd.
pub(crate) fn name_of(key: &Key) -> Option<LockName> {
    LockName::new(lock_name(key)?).ok()
}

/// A session's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRecord {
    pub(crate) instance: String,
    pub(crate) peer_url: String,
    pub(crate) version: String,
}

/// A waiter's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaiterRecord {
    pub(crate) instance: String,
    pub(crate) client_id: String,
}

/// A group's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupRecord {
    pub(crate) shard: u32,
    pub(crate) lease: String,
    /// The TTL of its owner's session: an heir waits that much longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session_ttl_ms: Option<u64>,
    /// A move to another cluster has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<TargetRecord>,
    /// It came, or comes, from another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<SourceRecord>,
}

/// Where a group moves to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetRecord {
    pub(crate) cluster: String,
    /// Its lease there.
    pub(crate) lease: String,
}

impl TargetRecord {
    pub(crate) fn new(cluster: &str, lease: LeaseId) -> Self {
        Self {
            cluster: cluster.to_owned(),
            lease: lease.to_string(),
        }
    }
}

/// Where a group has come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceRecord {
    pub(crate) cluster: String,
    /// Its lease there.
    pub(crate) lease: String,
    pub(crate) stage: Stage,
}

/// How far a group has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// The source may still have its key.
    Arriving,
    /// The source has no key of it any more; records may be left over there.
    Arrived,
}

impl SourceRecord {
    pub(crate) fn arriving(cluster: &str, lease: LeaseId) -> Self {
        Self {
            cluster: cluster.to_owned(),
            lease: lease.to_string(),
            stage: Stage::Arriving,
        }
    }

    pub(crate) fn cluster(&self) -> Arc<str> {
        self.cluster.as_str().into()
    }
}

/// A lease as it is written in records.
pub(crate) fn lease_of(text: &str) -> Option<LeaseId> {
    parse_hex(text).map(|bits| LeaseId(bits.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_what_they_belong_to() {
        let (session, group) = (SessionId(7), GroupId(0xabc));
        assert_eq!(session_of_key(&session_key(session)), Some(session));
        assert_eq!(
            group_of_key(&group_key(session, group)),
            Some((session, group))
        );
        assert_eq!(lock_name(&lock_key("a/b")), Some("a/b"));
        for foreign in [
            "/holdfast/groups/1/2",
            "/holdfast/groups/x",
            "/lock",
            "/holdfast/sessions/",
        ] {
            let key = Key::from(foreign);
            assert_eq!(group_of_key(&key), None);
            assert_eq!(session_of_key(&key), None);
            assert_eq!(lock_name(&key), None);
        }
    }

    #[test]
    fn the_keys_of_waiters_are_in_the_order_of_their_places() {
        let places = [0, 9, 10, 0xff, 0x1000, u64::MAX].map(Place);
        let keys = places.map(|place| waiter_key("a", place));
        assert!(keys.is_sorted());
        for (key, place) in keys.iter().zip(places) {
            assert_eq!(waiter_of_key(key), Some(("a", place)));
            assert!(waiters_of("a").contains(key));
        }
        assert_eq!(place_of(&lock_key("a")), None);
    }

    #[test]
    fn the_waiters_of_a_name_are_not_those_of_a_longer_name() {
        let range = waiters_of("a");
        assert!(range.contains(&Key::from("/holdfast/waiters/a\0x")));
        assert!(!range.contains(&Key::from("/holdfast/waiters/ab\0x")));
        assert!(!range.contains(&Key::from("/holdfast/waiters/a/b\0x")));
    }
}
