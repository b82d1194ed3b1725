//! What is checked before a plan is applied. Each check that refuses says what to do.

use super::Failure;
use super::connection::{Connection, records};
use super::home::{ClusterLinks, HomeLink};
use super::plan::{check_clusters, check_identity, unreachable};
use holdfast_store::{Alarm, Get, Op, Reply, Store, Txn};
use shard_map::ShardMap;
use shard_map::plan::Plan;
use shard_map::records::{Record, SessionOf, keys};
use shard_map::rollout::Home;
use std::collections::BTreeMap;
use std::time::Duration;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the gateways are looked at, as long as one is behind.
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

/// Every gateway that has a session anywhere must run the present map: one that does not would not
/// move its groups. One that has just started, or ended, is looked at again.
async fn check_gateways(
    connection: &Connection<'_>,
    link: &HomeLink,
    home: &Home,
) -> Result<String, Failure> {
    let links = ClusterLinks::new(connection, home.map.clusters())?;
    let mut seen = home.clone();
    let mut looks = 1;
    loop {
        let live = live(&links, &seen).await?;
        match laggard(&live, &seen) {
            None if live.is_empty() => {
                return Err(Failure::Refused(
                    "no gateway is live, and gateways are what moves shards\nStart one: gateway serve --config gateway.toml"
                        .into(),
                ));
            }
            None => return Ok(format!("{} live gateways run the present map", live.len())),
            Some(Lag { refuses, problem }) if refuses || looks >= CATCHING_UP => {
                return Err(Failure::Refused(format!(
                    "{problem}\nSee its log, and whether it reaches home."
                )));
            }
            Some(_) => {
                looks += 1;
                tokio::time::sleep(LOOK_EVERY).await;
                seen = link.look().await?;
            }
        }
    }
}

/// The peer URLs of all gateways that have a session, or say something in home, by instance.
async fn live(links: &ClusterLinks, home: &Home) -> Result<BTreeMap<String, String>, Failure> {
    let sessions = links
        .ask_each(&Txn::read([Get::all(keys::sessions())]))
        .await?;
    let sessions = sessions.into_values().flat_map(records);
    let sessions =
        sessions.filter_map(|record| SessionOf::from_value(&record.key, &record.value).ok());
    let reports = home.gateways.iter();
    let reports = reports.map(|it| (it.instance.clone(), it.peer_url.clone()));
    Ok(sessions
        .map(|it| (it.instance, it.peer_url))
        .chain(reports)
        .collect())
}

/// How a gateway is not on the present map.
struct Lag {
    /// It will not take it up by itself.
    refuses: bool,
    problem: String,
}

/// A live gateway that does not run the present map.
fn laggard(live: &BTreeMap<String, String>, home: &Home) -> Option<Lag> {
    let present = home.map.version();
    live.iter().find_map(|(instance, peer_url)| {
        let report = home.gateways.iter().find(|it| it.instance == *instance);
        let refused = report.and_then(|report| report.refused.as_ref());
        let problem = match (refused, report.map(|report| report.map)) {
            (Some(why), _) => format!("refuses the present map: {why}"),
            (None, None) => "does not say in home which map it runs".to_owned(),
            (None, Some(None)) => "runs no map yet".to_owned(),
            (None, Some(Some(map))) if map == present => return None,
            (None, Some(Some(map))) => format!("runs map {map}, the present one is {present}"),
        };
        Some(Lag {
            refuses: refused.is_some(),
            problem: format!("gateway {instance} ({peer_url}) {problem}"),
        })
    })
}
