//! Plans: from the present map and a wish to a file that says what will happen.
//!
//! A plan is made for one version of the map and is refused on any other. It carries the map before
//! and the map after, so that what is applied is what was read, and so that it can be undone.

mod balance;
mod forecast;
mod wish;

pub use forecast::{Forecast, LocksIn, forecast};
pub use wish::{Access, Wish, WishError};

use crate::{
    ClusterName, DeploymentId, MapDocument, MapError, MapVersion, ShardId, ShardMap, ShardRanges,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The format of plan files that this version writes and reads.
const FORMAT: u32 = 1;

/// A plan, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    before: ShardMap,
    after: ShardMap,
    forecast: Option<Forecast>,
}

/// The plan as it is written. Unknown fields are refused, as in a map: half a plan is another plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlanFile {
    format: u32,
    /// For those who read the file; what counts is `before` and `after`.
    moves: Vec<Move>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forecast: Option<Forecast>,
    before: MapDocument,
    after: MapDocument,
}

/// Shards that go from one cluster to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Move {
    /// The cluster that they leave.
    pub from: ClusterName,
    /// Where they go.
    pub to: ClusterName,
    /// Which.
    pub shards: ShardRanges,
}

/// Why a file is no plan, or not one for the present map. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not the JSON of a plan of this format.
    #[error("not a plan: {0}\nMake one with: shard-map plan")]
    Syntax(String),
    /// A format of another version.
    #[error(
        "the plan has format {0}; this version reads format {FORMAT}\nMake the plan anew with this version."
    )]
    Format(u32),
    /// One of its maps is none.
    #[error("the plan has a map that is none: {0}\nMake the plan anew.")]
    Map(#[from] MapError),
    /// It contradicts itself.
    #[error("the plan contradicts itself: {0}\nA plan must not be edited; make it anew.")]
    Edited(&'static str),
    /// Made for another deployment.
    #[error(
        "the plan is for deployment {plan}, home is that of {home}\nCheck --home, or make a plan for this deployment."
    )]
    OtherDeployment {
        /// Of the plan.
        plan: DeploymentId,
        /// Of home.
        home: DeploymentId,
    },
    /// Made for another map.
    #[error(
        "the plan was made for map version {plan}, home has {home}\nThe map has changed since. Make the plan anew."
    )]
    Stale {
        /// Of the plan.
        plan: MapVersion,
        /// Of home.
        home: MapVersion,
    },
    /// Its undoing: the map is not as the plan left it.
    #[error(
        "the map is not as this plan leaves it\nOnly a plan that was applied, and after which nothing has changed, can be undone. See: shard-map history"
    )]
    NotApplied,
}

impl Plan {
    /// The plan that makes of `map` what is wished.
    ///
    /// # Errors
    /// When the wish contradicts the map or itself, or changes nothing.
    pub fn new(map: &ShardMap, wish: &Wish) -> Result<Self, WishError> {
        let after = wish::target(map, wish)?;
        Ok(Self {
            before: map.clone(),
            after,
            forecast: None,
        })
    }

    /// The plan that undoes this one, once it was applied and `map` is what it left.
    ///
    /// # Errors
    /// [`PlanError::NotApplied`] when `map` is something else.
    pub fn undo(&self, map: &ShardMap) -> Result<Self, PlanError> {
        let same = map.deployment() == self.after.deployment()
            && same_layout(map.document(), self.after.document());
        if !same {
            return Err(PlanError::NotApplied);
        }
        Ok(Self {
            before: map.clone(),
            after: at_version(&self.before, map.version())?,
            forecast: None,
        })
    }

    /// The same plan with what is expected of it.
    #[must_use]
    pub fn with_forecast(self, forecast: Forecast) -> Self {
        Self {
            forecast: Some(forecast),
            ..self
        }
    }

    /// What is expected of it.
    pub fn forecast(&self) -> Option<&Forecast> {
        self.forecast.as_ref()
    }

    /// The map that it was made for.
    pub fn before(&self) -> &ShardMap {
        &self.before
    }

    /// Clusters and table as they shall be; with the version of the map before.
    pub fn after(&self) -> &ShardMap {
        &self.after
    }

    /// Whether it may be applied to `map`.
    ///
    /// # Errors
    /// When it was made for another map.
    pub fn check_fresh(&self, map: &ShardMap) -> Result<(), PlanError> {
        if map.deployment() != self.before.deployment() {
            return Err(PlanError::OtherDeployment {
                plan: self.before.deployment(),
                home: map.deployment(),
            });
        }
        if *map != self.before {
            return Err(PlanError::Stale {
                plan: self.before.version(),
                home: map.version(),
            });
        }
        Ok(())
    }

    /// The shards that move, by the two clusters.
    pub fn moves(&self) -> Vec<Move> {
        moves(&self.before, &self.after)
    }

    /// All shards that move.
    pub fn moving(&self) -> ShardRanges {
        let moves = self.moves();
        let shards: BTreeSet<ShardId> = moves.iter().flat_map(|one| one.shards.iter()).collect();
        shards.into_iter().collect()
    }

    /// Clusters that are added.
    pub fn added(&self) -> impl Iterator<Item = &ClusterName> {
        missing_in(&self.after, &self.before)
    }

    /// Clusters that are removed.
    pub fn removed(&self) -> impl Iterator<Item = &ClusterName> {
        missing_in(&self.before, &self.after)
    }

    /// Clusters that are reached otherwise afterwards.
    pub fn reached_anew(&self) -> impl Iterator<Item = &ClusterName> {
        let changed = |name: &&ClusterName| {
            let (before, after) = (self.before.cluster(name), self.after.cluster(name));
            before.zip(after).is_some_and(|(before, after)| {
                (&before.endpoints, &before.tls, &before.credentials_file)
                    != (&after.endpoints, &after.tls, &after.credentials_file)
            })
        };
        let names = self.after.clusters().iter().map(|cluster| &cluster.name);
        names.filter(changed)
    }

    /// The map to publish while shards move: all clusters of before and after, the table of after,
    /// and where each moving shard comes from. Without moves it is the map of after.
    ///
    /// # Errors
    /// When the two maps together are none: too many clusters, too large.
    pub fn during(&self) -> Result<ShardMap, MapError> {
        during(&self.before, &self.after, self.before.version().next())
    }

    /// The plan file.
    pub fn to_json(&self) -> Vec<u8> {
        let file = PlanFile {
            format: FORMAT,
            moves: self.moves(),
            forecast: self.forecast.clone(),
            before: self.before.document().clone(),
            after: self.after.document().clone(),
        };
        let mut json = serde_json::to_vec_pretty(&file).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// When it is none, or one that was edited.
    pub fn from_json(json: &[u8]) -> Result<Self, PlanError> {
        let syntax = |error: serde_json::Error| PlanError::Syntax(error.to_string());
        let value: serde_json::Value = serde_json::from_slice(json).map_err(syntax)?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        match format.and_then(|format| u32::try_from(format).ok()) {
            Some(FORMAT) => {}
            Some(other) => return Err(PlanError::Format(other)),
            None => return Err(PlanError::Syntax("it has no format".into())),
        }
        let file: PlanFile = serde_json::from_value(value).map_err(syntax)?;
        let plan = Self {
            before: ShardMap::try_from(file.before)?,
            after: ShardMap::try_from(file.after)?,
            forecast: file.forecast,
        };
        let (before, after) = (&plan.before, &plan.after);
        let ids = |map: &ShardMap| (map.deployment(), map.shards(), map.version());
        if ids(before) != ids(after) {
            return Err(PlanError::Edited(
                "its two maps are not versions of one map",
            ));
        }
        if before.moving().chain(after.moving()).next().is_some() {
            return Err(PlanError::Edited("one of its maps is that of a rollout"));
        }
        if plan.moves() != file.moves {
            return Err(PlanError::Edited(
                "its moves are not those between its two maps",
            ));
        }
        Ok(plan)
    }
}

/// The map to publish, as `version`, while shards go from where `before` has them to where `after`
/// has them.
///
/// # Errors
/// As [`Plan::during`].
pub fn during(
    before: &ShardMap,
    after: &ShardMap,
    version: MapVersion,
) -> Result<ShardMap, MapError> {
    let mut sources: BTreeMap<ShardId, ClusterName> = BTreeMap::new();
    for Move { from, shards, .. } in moves(before, after) {
        sources.extend(shards.iter().map(|shard| (shard, from.clone())));
    }
    let mut clusters = after.clusters().to_vec();
    let leaving = before.clusters().iter();
    let leaving = leaving.filter(|cluster| after.cluster(&cluster.name).is_none());
    if !sources.is_empty() {
        clusters.extend(leaving.cloned());
    }
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    ShardMap::try_from(MapDocument {
        version,
        clusters,
        moves: wish::ranges(&sources),
        ..after.document().clone()
    })
}

/// The same clusters and table under another version.
///
/// # Errors
/// When no map can have that version.
pub fn at_version(map: &ShardMap, version: MapVersion) -> Result<ShardMap, MapError> {
    ShardMap::try_from(MapDocument {
        version,
        moves: BTreeMap::new(),
        ..map.document().clone()
    })
}

fn moves(before: &ShardMap, after: &ShardMap) -> Vec<Move> {
    let mut lists: BTreeMap<(&ClusterName, &ClusterName), Vec<ShardId>> = BTreeMap::new();
    for shard in before.shards().shards() {
        let (from, to) = (before.cluster_of(shard), after.cluster_of(shard));
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| from.name != to.name) {
            lists.entry((&from.name, &to.name)).or_default().push(shard);
        }
    }
    let one = |((from, to), shards): ((&ClusterName, &ClusterName), Vec<ShardId>)| Move {
        from: from.clone(),
        to: to.clone(),
        shards: shards.into_iter().collect(),
    };
    lists.into_iter().map(one).collect()
}

fn missing_in<'a>(map: &'a ShardMap, other: &'a ShardMap) -> impl Iterator<Item = &'a ClusterName> {
    let names = map.clusters().iter().map(|cluster| &cluster.name);
    names.filter(|name| other.cluster(name).is_none())
}

/// Whether clusters and table are the same; an empty list of shards is as none.
fn same_layout(a: &MapDocument, b: &MapDocument) -> bool {
    let table = |document: &MapDocument| -> BTreeSet<(ClusterName, String)> {
        let listed = document
            .table
            .iter()
            .filter(|(_, shards)| shards.count() > 0);
        listed
            .map(|(name, shards)| (name.clone(), shards.to_string()))
            .collect()
    };
    a.clusters == b.clusters && table(a) == table(b) && a.moves == b.moves
}

#[cfg(test)]
mod tests;
