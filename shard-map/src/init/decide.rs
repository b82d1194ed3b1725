//! What the records mean for `init`: decisions over values.

use super::refusal::Refusal;
use super::steps::{Survey, gets};
use crate::records::keys;
use crate::{ClusterName, MapVersion, ShardMap};
use holdfast_store::{Key, KeyValue, Revision, TxnReply};
use std::collections::HashMap;

/// What home has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HomeView {
    pub(super) current: Option<KeyValue>,
    pub(super) first: Option<KeyValue>,
    pub(super) intent: Option<KeyValue>,
}

impl HomeView {
    /// From the reply to [`super::steps::read_home`].
    pub(super) fn from_reply(reply: TxnReply) -> Self {
        let mut found = gets(reply.ops).into_iter().flat_map(|get| get.kvs);
        let mut view = Self::default();
        for record in found.by_ref() {
            if record.key == keys::map_current() {
                view.current = Some(record);
            } else if record.key == keys::map_init() {
                view.intent = Some(record);
            } else {
                view.first = Some(record);
            }
        }
        view
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing: home has this map, made from the same request.
    Published(ShardMap),
    /// Go on with the intention that was read at this revision.
    Resume(ShardMap, Revision),
    /// Write the intention.
    Begin,
}

/// Decides by what home has.
pub(super) fn decide(home: &HomeView, wanted: &ShardMap) -> Result<Decision, Refusal> {
    if let Some(current) = &home.current {
        let map = read_map(current)?;
        let first = home.first.as_ref().map_or(Ok(map.clone()), read_map)?;
        if !same_request(&first, wanted) {
            return Err(Refusal::Initialised {
                deployment: map.deployment(),
                version: map.version(),
                difference: difference(&first, wanted),
            });
        }
        return Ok(Decision::Published(map));
    }
    if home.first.is_some() {
        return Err(Refusal::MapLost {
            key: show(&keys::map_history(MapVersion::FIRST)),
        });
    }
    let Some(intent) = &home.intent else {
        return Ok(Decision::Begin);
    };
    let map = read_map(intent)?;
    if !same_request(&map, wanted) {
        return Err(Refusal::half_finished(&map, wanted));
    }
    Ok(Decision::Resume(map, intent.mod_revision))
}

/// Whether the clusters may become this map's: in the order of names, each with its survey.
pub(super) fn check_surveys(
    map: &ShardMap,
    surveys: &[(ClusterName, Survey)],
) -> Result<(), Refusal> {
    let mut seen: HashMap<u64, &ClusterName> = HashMap::new();
    for (name, survey) in surveys {
        if let Some(first) = seen.insert(survey.etcd_id, name) {
            return Err(Refusal::SameCluster {
                first: first.clone(),
                second: name.clone(),
                etcd_id: survey.etcd_id,
            });
        }
    }
    for (name, survey) in surveys {
        match (&survey.identity, &survey.leftover) {
            (Some(Err(error)), _) => {
                return Err(Refusal::NotEmpty {
                    cluster: name.clone(),
                    key: error.key.clone(),
                });
            }
            (Some(Ok(found)), _)
                if found.deployment != map.deployment() || found.cluster != *name =>
            {
                return Err(Refusal::OtherDeployment {
                    cluster: name.clone(),
                    found: found.cluster.clone(),
                    deployment: found.deployment,
                });
            }
            (None, Some(key)) => {
                return Err(Refusal::NotEmpty {
                    cluster: name.clone(),
                    key: show(key),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_map(record: &KeyValue) -> Result<ShardMap, Refusal> {
    ShardMap::from_json(&record.value).map_err(|error| Refusal::Unreadable {
        key: show(&record.key),
        problem: error.to_string(),
    })
}

fn show(key: &Key) -> String {
    format!("{key:?}")
}

/// Whether two first maps differ in nothing but the deployment's id.
fn same_request(a: &ShardMap, b: &ShardMap) -> bool {
    let (mut a, b) = (a.document().clone(), b.document());
    a.deployment = b.deployment;
    a == *b
}

/// What a request has that the one before had not, in words.
pub(super) fn difference(found: &ShardMap, wanted: &ShardMap) -> String {
    if found.shards() != wanted.shards() {
        return format!("it has {} shards, not {}", found.shards(), wanted.shards());
    }
    for cluster in found.clusters() {
        match wanted.cluster(&cluster.name) {
            None => return format!("it has a cluster {}", cluster.name),
            Some(other) if other != cluster => {
                return format!(
                    "its cluster {} has other endpoints, files or weight",
                    cluster.name
                );
            }
            Some(_) => {}
        }
    }
    let added = wanted.clusters().iter();
    let mut added = added.filter(|cluster| found.cluster(&cluster.name).is_none());
    match added.next() {
        Some(cluster) => format!("it has no cluster {}", cluster.name),
        None => "its shards are assigned otherwise".into(),
    }
}
