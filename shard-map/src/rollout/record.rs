//! What home keeps about rollouts.
//!
//! Whoever changes the rollout's record compares the record as it was read *and* the present map;
//! so of two operators, or of an operator and a driver, one is refused and looks again.

use crate::plan::Plan;
use crate::records::Record;
use crate::{ClusterName, MapVersion, ShardRanges, limits};
use serde::{Deserialize, Serialize};

/// The rollout that runs. There is at most one; when it ends, its record becomes a [`LogEntry`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The map before it, which the history has.
    pub before: MapVersion,
    /// The clusters of the present map that the map at the end does not have.
    pub leaves: Vec<ClusterName>,
    /// Where it goes.
    pub direction: Direction,
    /// Whether it goes on.
    pub state: RunState,
    /// Why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Shards that move at one time, at least 1.
    pub max_moving: u32,
    /// Shards that move before all others; when they have, the rollout pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<ShardRanges>,
    /// Who began it.
    pub who: String,
    /// Why.
    pub reason: String,
    /// When, in milliseconds since 1970.
    pub began_unix_ms: u64,
}

impl Rollout {
    /// The one that brings this plan about, by nobody in particular: at the usual pace, all of it.
    pub fn of(plan: &Plan) -> Self {
        Self {
            before: plan.before().version(),
            leaves: plan.removed().cloned().collect(),
            direction: Direction::Forward,
            state: RunState::Running,
            problem: None,
            max_moving: limits::MAX_MOVING_DEFAULT,
            canary: None,
            who: String::new(),
            reason: String::new(),
            began_unix_ms: 0,
        }
    }
}

/// Whether a rollout brings its plan about, or takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// To the map of the plan.
    Forward,
    /// To the map before it.
    Back,
}

/// Whether a rollout goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// It does.
    Running,
    /// An operator, or the end of the canary, stopped it. Groups of shards whose turn had come
    /// still move.
    Paused,
    /// A guard contradicts the order in which guards are written. Somebody must look.
    Failed,
}

impl RunState {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Failed => "failed",
        }
    }
}

/// A change of the map that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// The map before it.
    pub before: MapVersion,
    /// The map after it.
    pub after: MapVersion,
    /// Whether it was taken back.
    pub direction: Direction,
    /// How many shards moved.
    pub shards: u64,
    /// Who began it.
    pub who: String,
    /// Why.
    pub reason: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// When it ended.
    pub ended_unix_ms: u64,
}

/// What a live gateway says of its map; hangs from a lease that ends with the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReport {
    /// The process.
    pub instance: String,
    /// Where other gateways reach it.
    pub peer_url: String,
    /// Its program's version.
    pub version: String,
    /// The map that it runs; `None`: none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapVersion>,
    /// Why it does not run the present map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Who takes the steps; hangs from the lease of its [`GatewayReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverRecord {
    /// The gateway.
    pub instance: String,
}

impl Record for Rollout {}
impl Record for LogEntry {}
impl Record for GatewayReport {}
impl Record for DriverRecord {}
