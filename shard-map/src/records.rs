//! The records in etcd that the map's owner writes, and their keys.
//!
//! Readers ignore fields that they do not know, so that a gateway can read what a later one
//! wrote. Whoever rewrites a record writes the fields of its own version only. A field that is
//! added later must therefore be one that may be ignored and lost; what must not be ignored gets
//! a state of its own, and a state that a gateway does not know is a guard it cannot read, which
//! admits nothing.

use crate::{ClusterName, DeploymentId, Epoch, MapVersion, ShardId, TokenBase};
use holdfast_store::{Key, KeyRange};
use serde::{Deserialize, Serialize};

/// The guard of a shard in one cluster: whether grants of the shard may happen there. Never
/// deleted, and changed only by compare-and-set that raises (epoch, state).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    /// Raised by every move of the shard.
    pub epoch: Epoch,
    /// What may happen here.
    pub state: GuardState,
    /// Added to the revision of a grant to make its token.
    pub token_base: TokenBase,
    /// The cluster that the shard came from, until nothing of it is left there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ClusterName>,
    /// The cluster that the shard goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ClusterName>,
}

impl Guard {
    /// The guard that `init` writes where a shard begins its life.
    pub const fn first() -> Self {
        Self {
            epoch: Epoch::FIRST,
            state: GuardState::Active,
            token_base: TokenBase::ZERO,
            from: None,
            to: None,
        }
    }
}

/// What a guard admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuardState {
    /// Grants.
    Active,
    /// No grants; the locks that are here are moving.
    Leaving,
    /// Nothing; no lock of the shard is here.
    Moved,
}

impl GuardState {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Leaving => "leaving",
            Self::Moved => "moved",
        }
    }
}

/// Whose cluster this is, kept in the cluster itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The deployment that it belongs to.
    pub deployment: DeploymentId,
    /// Its name there.
    pub cluster: ClusterName,
    /// Random, rewritten every few seconds: an old one shows a restored backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<Beacon>,
}

/// What a lease group's record says of where the group belongs, for those who only count. The rest
/// of it is the gateways'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupPlace {
    /// Its shard.
    pub shard: ShardId,
    /// It came, or comes, from another cluster, which may still have something of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<serde_json::Value>,
}

/// What a session's record says of whose it is. The rest of it is the gateways'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOf {
    /// The gateway's process.
    pub instance: String,
    /// Where other gateways reach it.
    pub peer_url: String,
}

/// The value of a beacon; opaque.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Beacon(pub String);

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record at {key} cannot be read: {problem}")]
pub struct RecordError {
    /// Its key.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A record kept as JSON.
pub trait Record: Serialize + for<'de> Deserialize<'de> {
    /// The record's value in etcd.
    fn to_value(&self) -> Vec<u8> {
        // Text and numbers, written into memory: there is nothing that could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the value that etcd has at `key`. Unknown fields are ignored.
    ///
    /// # Errors
    /// When it is not the JSON of this record.
    fn from_value(key: &Key, value: &[u8]) -> Result<Self, RecordError> {
        serde_json::from_slice(value).map_err(|error| RecordError {
            key: format!("{key:?}"),
            problem: error.to_string(),
        })
    }
}

impl Record for Guard {}
impl Record for Identity {}
impl Record for GroupPlace {}
impl Record for SessionOf {}

/// The keys.
pub mod keys {
    use super::{Key, KeyRange, MapVersion, ShardId};

    const SHARDS: &str = "/holdfast/shards/";
    const MAP_GATEWAYS: &str = "/holdfast/map/gateways/";
    const MAP_LOG: &str = "/holdfast/map/log/";

    /// The guard of a shard.
    pub fn guard(shard: ShardId) -> Key {
        format!("{SHARDS}{shard}").into()
    }

    /// All guards of a cluster, in the order of their text.
    pub fn guards() -> KeyRange {
        KeyRange::prefix(SHARDS)
    }

    /// The shard whose guard has this key; `None` when it is not the key of a guard.
    pub fn shard_of_guard(key: &Key) -> Option<ShardId> {
        let shard = ShardId(key.as_str()?.strip_prefix(SHARDS)?.parse().ok()?);
        // Only the one way of writing it: "+7" and "007" are keys of nothing.
        (guard(shard) == *key).then_some(shard)
    }

    /// Whose cluster it is.
    pub fn identity() -> Key {
        "/holdfast/cluster".into()
    }

    /// The present map (in home).
    pub fn map_current() -> Key {
        "/holdfast/map/current".into()
    }

    /// The map of that version (in home). Sorts by version.
    pub fn map_history(version: MapVersion) -> Key {
        format!("/holdfast/map/history/{:020}", version.0).into()
    }

    /// The rollout that runs (in home).
    pub fn map_rollout() -> Key {
        "/holdfast/map/rollout".into()
    }

    /// Who takes the rollout's steps (in home).
    pub fn map_driver() -> Key {
        "/holdfast/map/driver".into()
    }

    /// What one gateway says of its map (in home).
    pub fn map_gateway(instance: &str) -> Key {
        format!("{MAP_GATEWAYS}{instance}").into()
    }

    /// What all live gateways say (in home).
    pub fn map_gateways() -> KeyRange {
        KeyRange::prefix(MAP_GATEWAYS)
    }

    /// The change that led to that version (in home). Sorts by version.
    pub fn map_log(version: MapVersion) -> Key {
        format!("{MAP_LOG}{:020}", version.0).into()
    }

    /// Every change there was (in home), in the order of versions.
    pub fn map_logs() -> KeyRange {
        KeyRange::prefix(MAP_LOG)
    }

    /// All lease groups of a cluster.
    pub fn groups() -> KeyRange {
        KeyRange::prefix("/holdfast/groups/")
    }

    /// The session of that id.
    pub fn session(id: &str) -> Key {
        format!("/holdfast/sessions/{id}").into()
    }

    /// The id of the session that this key is of, or whose group it is of; `None`: of none.
    pub fn session_of(key: &Key) -> Option<&str> {
        let key = key.as_str()?;
        let group = || Some(key.strip_prefix("/holdfast/groups/")?.split_once('/')?.0);
        key.strip_prefix("/holdfast/sessions/").or_else(group)
    }

    /// All sessions of a cluster.
    pub fn sessions() -> KeyRange {
        KeyRange::prefix("/holdfast/sessions/")
    }

    /// All locks of a cluster.
    pub fn locks() -> KeyRange {
        KeyRange::prefix("/locks/")
    }

    /// The map that an unfinished `init` is about to publish (in home).
    pub fn map_init() -> Key {
        "/holdfast/map/init".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_written_as_the_design_says() {
        let text = |value: Vec<u8>| String::from_utf8(value).unwrap();
        assert_eq!(
            text(Guard::first().to_value()),
            r#"{"epoch":1,"state":"active","tokenBase":0}"#
        );
        let leaving = Guard {
            epoch: Epoch(2),
            state: GuardState::Leaving,
            token_base: TokenBase::try_from(4711).unwrap(),
            from: Some("a".parse().unwrap()),
            to: Some("b".parse().unwrap()),
        };
        assert_eq!(
            text(leaving.to_value()),
            r#"{"epoch":2,"state":"leaving","tokenBase":4711,"from":"a","to":"b"}"#
        );
        let identity = Identity {
            deployment: DeploymentId::from_random_bits(0xabc),
            cluster: "a".parse().unwrap(),
            beacon: None,
        };
        assert_eq!(
            text(identity.to_value()),
            r#"{"deployment":"00000000000000000000000000000abc","cluster":"a"}"#
        );
    }

    #[test]
    fn a_field_that_a_later_gateway_added_is_ignored() {
        let value = br#"{"epoch":1,"state":"active","tokenBase":0,"since":"later"}"#;
        let key = keys::guard(ShardId(1));
        assert_eq!(Guard::from_value(&key, value), Ok(Guard::first()));
    }

    #[test]
    fn a_guard_with_an_unknown_state_or_a_token_base_too_large_cannot_be_read() {
        let key = keys::guard(ShardId(1));
        for bad in [
            r#"{"epoch":1,"state":"frozen","tokenBase":0}"#,
            r#"{"epoch":1,"state":"active","tokenBase":9007199254740992}"#,
            r#"{"epoch":1,"state":"active"}"#,
            r#"{"epoch":-1,"state":"active","tokenBase":0}"#,
            "",
        ] {
            let error = Guard::from_value(&key, bad.as_bytes()).unwrap_err();
            assert_eq!(error.key, "/holdfast/shards/1", "{bad}");
        }
    }

    #[test]
    fn states_are_ordered_as_guards_go_through_them() {
        assert!(GuardState::Active < GuardState::Leaving);
        assert!(GuardState::Leaving < GuardState::Moved);
        for state in [GuardState::Active, GuardState::Leaving, GuardState::Moved] {
            let written = serde_json::to_value(state).unwrap();
            assert_eq!(written, state.as_str());
        }
    }

    #[test]
    fn the_key_of_a_guard_leads_back_to_its_shard_and_no_other_key_does() {
        for shard in [0, 7, 65_535].map(ShardId) {
            assert_eq!(keys::shard_of_guard(&keys::guard(shard)), Some(shard));
            assert!(keys::guards().contains(&keys::guard(shard)));
        }
        for other in [
            "/holdfast/shards/",
            "/holdfast/shards/007",
            "/holdfast/shards/+7",
            "/holdfast/cluster",
        ] {
            assert_eq!(keys::shard_of_guard(&other.into()), None, "{other}");
        }
    }

    #[test]
    fn history_sorts_by_version() {
        let key = |version| keys::map_history(MapVersion(version));
        assert!(key(2) < key(10) && key(10) < key(u64::MAX));
    }
}
