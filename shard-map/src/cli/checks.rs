//! What is checked before a plan is applied. Each check that refuses says what to do.

use super::Failure;
use super::connection::{Connection, records};
use super::home::{ClusterLinks, HomeLink};
use super::plan::{check_clusters, check_identity, unreachable};
use holdfast_store::{Alarm, Get, Op, Reply, Store, Txn};
use serde::Deserialize;
use shard_map::ShardMap;
use shard_map::plan::Plan;
use shard_map::records::keys;
use shard_map::rollout::Home;
use std::collections::BTreeMap;
use std::time::Duration;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a gateway that still runs the map before is looked at again, after a change.
const CATCHING_UP: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Makes every check; the names of those that were passed, with what they found.
pub(super) async fn check(
    connection: &Connection<'_>,
    link: &HomeLink,
    home: &Home,
    plan: &Plan,
    during: &ShardMap,
) -> Result<Vec<String>, Failure> {
    let mut passed = Vec::new();
    if let Some(rollout) = &home.rollout {
        return Err(Failure::Refused(format!(
            "a rollout is {} (of {}, begun {})\nLet it end, or take it back: shard-map status, shard-map rollback",
            rollout.state.as_str(),
            rollout.who,
            super::clock::when(rollout.began_unix_ms)
        )));
    }
    passed.push("no other rollout runs".to_owned());
    plan.check_fresh(&home.map)
        .map_err(|error| Failure::Refused(error.to_string()))?;
    passed.push(format!(
        "the plan is for the present map, version {}",
        home.map.version()
    ));
    check_clusters(connection, plan).await?;
    let links = ClusterLinks::new(connection, during.clusters())?;
    for (name, store) in links.iter() {
        if let Some(cluster) = during.cluster(name) {
            let may_be_new = home.map.cluster(name).is_none();
            check_identity(store, &home.map, cluster, may_be_new).await?;
        }
    }
    passed.push(format!(
        "{} clusters are reachable, each is the one of its name",
        during.clusters().len()
    ));
    for (name, store) in links.iter() {
        let alarms = store.call(Op::Alarms, CALL_TIMEOUT).await;
        let alarms = match alarms.map_err(|error| unreachable(name, &error))? {
            Reply::Alarms { alarms } => alarms,
            _ => Vec::new(),
        };
        if alarms.contains(&Alarm::NoSpace) {
            return Err(Failure::Refused(format!(
                "cluster {name} has no space left (NOSPACE alarm)\nCompact and defragment it, or raise its quota; then: \
                 etcdctl alarm disarm (there)."
            )));
        }
        if alarms.contains(&Alarm::Corrupt) {
            return Err(Failure::Refused(format!(
                "cluster {name} has a member with corrupt data (CORRUPT alarm)\nReplace that member first."
            )));
        }
    }
    passed.push("no cluster has an alarm".to_owned());
    passed.extend(check_versions(&links, home).await?);
    passed.push(check_gateways(connection, link, home).await?);
    Ok(passed)
}

async fn check_versions(links: &ClusterLinks, home: &Home) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    for (name, store) in links.iter() {
        let version = store
            .version(CALL_TIMEOUT)
            .await
            .map_err(|error| unreachable(name, &error))?;
        if version.is_supported() {
            continue;
        }
        if home.map.cluster(name).is_none() {
            return Err(Failure::Refused(format!(
                "cluster {name} runs etcd {version}, which cannot be relied upon\nUse 3.5 from 3.5.14 on, or 3.6."
            )));
        }
        notes.push(format!(
            "cluster {name} runs etcd {version}: better use 3.5 from 3.5.14 on, or 3.6"
        ));
    }
    Ok(match notes.is_empty() {
        true => vec!["every cluster runs a supported etcd".to_owned()],
        false => notes,
    })
}

/// What a gateway's session says of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionOf {
    instance: String,
    peer_url: String,
}

/// Every gateway that has a session anywhere must run the present map: one that does not would not
/// move its groups.
async fn check_gateways(
    connection: &Connection<'_>,
    link: &HomeLink,
    home: &Home,
) -> Result<String, Failure> {
    let links = ClusterLinks::new(connection, home.map.clusters())?;
    let sessions = links
        .ask_each(&Txn::read([Get::all(keys::sessions())]))
        .await?;
    let sessions = sessions.into_values().flat_map(records);
    let sessions =
        sessions.filter_map(|record| serde_json::from_slice::<SessionOf>(&record.value).ok());
    let mut live: BTreeMap<String, String> =
        sessions.map(|it| (it.instance, it.peer_url)).collect();
    live.extend(
        home.gateways
            .iter()
            .map(|it| (it.instance.clone(), it.peer_url.clone())),
    );
    if live.is_empty() {
        return Err(Failure::Refused(
            "no gateway is live, and gateways are what moves shards\nStart one: gateway serve --config gateway.toml".into(),
        ));
    }
    let mut seen = home.clone();
    for looks_left in (0..CATCHING_UP).rev() {
        match laggard(&live, &seen) {
            None => break,
            Some((Lag::Behind, _)) if looks_left > 0 => {
                tokio::time::sleep(LOOK_EVERY).await;
                seen = link.look().await?;
            }
            Some((_, problem)) => {
                return Err(Failure::Refused(format!(
                    "{problem}\nWait some seconds if it has just started or stopped; else see its log, and whether it \
                     reaches home."
                )));
            }
        }
    }
    Ok(format!("{} live gateways run the present map", live.len()))
}

/// How a gateway is not on the present map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lag {
    /// It runs the one before: it may just not have seen the present one yet.
    Behind,
    Otherwise,
}

/// A live gateway that does not run the present map.
fn laggard(live: &BTreeMap<String, String>, home: &Home) -> Option<(Lag, String)> {
    let present = home.map.version();
    live.iter().find_map(|(instance, peer_url)| {
        let report = home.gateways.iter().find(|it| it.instance == *instance);
        let (lag, problem) = match report.map(|report| (&report.refused, report.map)) {
            None => (
                Lag::Otherwise,
                "does not say in home which map it runs".to_owned(),
            ),
            Some((Some(why), _)) => (Lag::Otherwise, format!("refuses the present map: {why}")),
            Some((None, Some(map))) if map == present => return None,
            Some((None, Some(map))) => (
                Lag::Behind,
                format!("runs map {map}, the present one is {present}"),
            ),
            Some((None, None)) => (Lag::Otherwise, "runs no map yet".to_owned()),
        };
        Some((lag, format!("gateway {instance} ({peer_url}) {problem}")))
    })
}
