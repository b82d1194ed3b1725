//! What a gateway reports of its map.

use super::Refusal;
use shard_map::{MapVersion, ShardMap};
use std::sync::Arc;

/// The map that runs, and what is wrong, if anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapStatus {
    /// The map that runs. `None`: there was none yet, and the gateway is not ready.
    pub map: Option<Arc<ShardMap>>,
    /// The version that the lock service has taken up.
    pub applied: Option<MapVersion>,
    /// Why the lock service has not taken up the map that runs.
    pub apply_problem: Option<String>,
    /// Whether home has answered once with a map that was accepted. Never goes back.
    pub home_seen: bool,
    /// Why the last look at home brought no map.
    pub problem: Option<MapProblem>,
    /// The version of the copy on disk.
    pub disk_version: Option<MapVersion>,
    /// Why the copy on disk is not the map that runs.
    pub disk_problem: Option<String>,
}

/// Why a look at home brought no map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapProblem {
    /// Home did not answer.
    #[error("home cannot be reached: {0}")]
    Unreachable(String),
    /// It answered with a map that this gateway must not run, or with none.
    #[error(transparent)]
    Refused(Refusal),
}
