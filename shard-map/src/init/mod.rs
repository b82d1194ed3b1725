//! The first map of a deployment.
//!
//! The order of the writes is what makes `init` resumable, whoever was killed at whatever point
//! and however many run at once:
//!
//! 1. the *intention* (the whole map) to `/holdfast/map/init` in home, if home has no map;
//! 2. each cluster's identity, in the order of their names, so that of two deployments that want
//!    the same clusters one is stopped at the first of them;
//! 3. the guards, each where none is and only while the cluster's identity is as read;
//! 4. in one transaction in home: the map is published and the intention deleted, if the
//!    intention is as read and no map is there.
//!
//! Gateways look for the published map only, so nothing is granted before every guard exists. A
//! home with a published map is never initialised again: a guard that is missing *then* was lost,
//! and one with token base 0 in its place would repeat tokens. Every write is guarded by absence,
//! so repeating it, and a late duplicate of it, changes nothing.

mod call;
mod decide;
mod refusal;
mod steps;

pub use refusal::Refusal;
pub use steps::{identified, identify};

use crate::records::Identity;
use crate::{Cluster, ClusterName, DeploymentId, MapError, ShardCount, ShardMap};
use call::call_txn;
use decide::{Decision, HomeView, check_surveys, decide};
use futures::future::join_all;
use holdfast_store::{Revision, Store, StoreError};
use steps::{Progress, Survey};

/// How often `initialise` starts again because someone else was faster.
const ROUNDS_MAX: u32 = 8;

/// What `initialise` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initialised {
    /// The map that home has: the first, or a later one if [`Outcome::Already`].
    pub map: ShardMap,
    /// How it came to be.
    pub outcome: Outcome,
}

/// How the map came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This run did it all.
    Done,
    /// This run finished what another had begun.
    Resumed,
    /// It was there already, made from the same request. Nothing was written.
    Already,
}

/// Why there is no map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The request does not make a map. Nothing was written.
    #[error(transparent)]
    Request(#[from] MapError),
    /// The state of home or of a cluster forbids it; the text says what to do.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What was written stays, and repeating the same request goes on from there.
    #[error(
        "{step}: {problem}\nWhat is written stays: repeat the same command to go on from there."
    )]
    PartWay {
        /// What could not be done.
        step: String,
        /// Why.
        problem: String,
    },
}

/// Initialises a deployment: writes the guards and the identity of each cluster, and publishes the
/// first map in home. See the [module](self) for the order and what it guarantees.
///
/// `clusters` are the map's clusters with a connection to each; home may be one of them. Stores
/// that live in the process need endpoints too: any URLs that differ will do. `fresh` is the
/// deployment's id, from 128 random bits; a run that goes on with another's work keeps that
/// one's.
///
/// Repeating it with the same request is safe at any time, also concurrently, and needs no more
/// than home once the map is published. A call that is not answered within 5 s is made three times
/// before it counts as failed.
///
/// # Errors
/// See [`InitError`].
pub async fn initialise(
    home: &dyn Store,
    clusters: &[(Cluster, &dyn Store)],
    shards: ShardCount,
    fresh: DeploymentId,
) -> Result<Initialised, InitError> {
    let specs: Vec<Cluster> = clusters
        .iter()
        .map(|(cluster, _)| cluster.clone())
        .collect();
    let wanted = ShardMap::initial(fresh, shards, specs)?;
    let mut outcome = Outcome::Already;
    let mut lost = String::new();
    for _ in 0..ROUNDS_MAX {
        let decision = decide(&read_home(home).await?, &wanted)?;
        let (map, intent) = match decision {
            Decision::Published(map) => return Ok(Initialised { map, outcome }),
            Decision::Resume(map, intent) => (map, Some(intent)),
            Decision::Begin => (wanted.clone(), None),
        };
        let run = Run::new(home, clusters, &map);
        let surveys = run.survey().await?;
        // Whoever wrote an identity that the survey shows had written the intention before.
        if intent.is_none() && decide(&read_home(home).await?, &wanted)? != Decision::Begin {
            continue;
        }
        check_surveys(&map, &surveys)?;
        let intent = match intent {
            Some(intent) => intent,
            None => match run.declare().await? {
                Some(intent) => {
                    outcome = Outcome::Done;
                    intent
                }
                None => continue,
            },
        };
        if outcome == Outcome::Already {
            outcome = Outcome::Resumed;
        }
        match run.carry_out(intent).await? {
            Progress::Made => return Ok(Initialised { map, outcome }),
            Progress::Lost(what) => lost = what,
        }
    }
    Err(InitError::PartWay {
        step: format!("gave up after {ROUNDS_MAX} tries"),
        problem: lost,
    })
}

async fn read_home(home: &dyn Store) -> Result<HomeView, InitError> {
    let reply = call_txn(home, steps::read_home()).await;
    Ok(HomeView::from_reply(
        reply.map_err(|error| Refusal::home_unreachable(&error))?,
    ))
}

/// One attempt at a map, by whoever declared it.
struct Run<'a> {
    home: &'a dyn Store,
    /// In the order of their names.
    clusters: Vec<(&'a ClusterName, &'a dyn Store)>,
    map: &'a ShardMap,
}

impl<'a> Run<'a> {
    fn new(
        home: &'a dyn Store,
        clusters: &'a [(Cluster, &'a dyn Store)],
        map: &'a ShardMap,
    ) -> Self {
        let named = clusters
            .iter()
            .map(|(cluster, store)| (&cluster.name, *store));
        let mut clusters: Vec<(&ClusterName, &dyn Store)> = named.collect();
        clusters.sort_by_key(|&(name, _)| name);
        Self {
            home,
            clusters,
            map,
        }
    }

    async fn survey(&self) -> Result<Vec<(ClusterName, Survey)>, InitError> {
        let surveys = self.clusters.iter().map(|&(name, store)| async move {
            match call_txn(store, steps::survey()).await {
                Ok(reply) => Ok((name.clone(), Survey::from_reply(reply))),
                Err(error) => Err(Refusal::cluster_unreachable(name, &error).into()),
            }
        });
        join_all(surveys).await.into_iter().collect()
    }

    /// Writes the intention; `None`: someone else has.
    async fn declare(&self) -> Result<Option<Revision>, InitError> {
        let reply = call_txn(self.home, steps::declare(self.map)).await;
        let reply = reply.map_err(|error| part_way("writing the intention to home", &error))?;
        Ok(steps::declared(self.map, &reply))
    }

    async fn carry_out(&self, intent: Revision) -> Result<Progress, InitError> {
        let mut identities = Vec::new();
        for &(name, store) in &self.clusters {
            match self.identify(name, store).await? {
                Some(revision) => identities.push(revision),
                None => return Ok(Progress::Lost(format!("cluster {name} has changed"))),
            }
        }
        for (&(name, store), identity) in self.clusters.iter().zip(identities) {
            for txn in steps::guards(&self.map.shards_of(name), identity) {
                let reply = call_txn(store, txn).await;
                let reply = reply.map_err(|error| {
                    part_way(&format!("writing the guards of cluster {name}"), &error)
                })?;
                if let Progress::Lost(what) = steps::guarded(name, &reply) {
                    return Ok(Progress::Lost(what));
                }
            }
        }
        let reply = call_txn(self.home, steps::publish(self.map, intent)).await;
        let reply = reply.map_err(|error| part_way("publishing the map in home", &error))?;
        Ok(if reply.succeeded {
            Progress::Made
        } else {
            Progress::Lost("home has changed".into())
        })
    }

    /// Writes a cluster's identity; the revision of it, `None` if it is another's.
    async fn identify(
        &self,
        name: &ClusterName,
        store: &dyn Store,
    ) -> Result<Option<Revision>, InitError> {
        let identity = Identity {
            deployment: self.map.deployment(),
            cluster: name.clone(),
            beacon: None,
        };
        let reply = call_txn(store, identify(&identity)).await;
        let reply = reply.map_err(|error| {
            part_way(&format!("writing the identity of cluster {name}"), &error)
        })?;
        Ok(identified(&identity, &reply))
    }
}

fn part_way(step: &str, error: &StoreError) -> InitError {
    InitError::PartWay {
        step: step.to_owned(),
        problem: error.to_string(),
    }
}

#[cfg(test)]
mod test_world;
#[cfg(test)]
mod tests;
