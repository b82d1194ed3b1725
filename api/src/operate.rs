//! Bodies of what operators ask: to inspect locks, and to end a hold.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A lock, as those see it who inspect: never its `lockId`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockInfo {
    /// The name.
    pub name: String,
    /// Whether anybody holds it.
    pub held: bool,
    /// Who does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The hold's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// The hold ends by then if it is not renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How long ago it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_for_ms: Option<u64>,
    /// As the acquire said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The hold is force-released: it is not renewed any more. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_released: Option<bool>,
    /// How many requests queue for the name.
    pub waiters: u64,
    /// The shard of the name.
    pub shard: u32,
    /// The cluster that has it.
    pub cluster: String,
}

/// A page of locks that are held, in the order of the bytes of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockPage {
    /// The locks.
    pub locks: Vec<LockInfo>,
    /// For the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// `POST /api/v1/locks/force-release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForceReleaseRequest<'a> {
    /// The name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// For the audit log.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    /// At once, not when the last promise to the holder ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immediate: Option<bool>,
}

/// The answer to a force-release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForceReleaseReply {
    /// Whether there was a hold to end.
    pub released: bool,
    /// Its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// The name is not free before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_at: Option<String>,
}
