//! What an engine must be told.

use crate::time::Millis;
use std::sync::Arc;

/// The settings of an engine, validated by the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster's name in the map.
    pub cluster: Arc<str>,
    /// The deployment that the cluster must belong to.
    pub deployment: shard_map::DeploymentId,
    /// This process: random, told in session records.
    pub instance: String,
    /// Where other gateways reach this one.
    pub peer_url: String,
    /// The session's TTL in whole seconds: how soon others may take over after a crash.
    pub session_ttl: Millis,
    /// The TTL of a group's lease in whole seconds; at least 1.5 × the longest TTL of a lock.
    pub group_ttl: Millis,
}
