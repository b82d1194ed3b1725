//! `shard-map init`

use super::Failure;
use super::args::{Endpoints, InitArgs, Named, Output};
use super::connection::Connection;
use super::probe::probe;
use super::show::{MapView, pretty, text_of};
use holdfast_store::{EtcdStore, Store};
use serde::Serialize;
use shard_map::init::{Initialised, Outcome, initialise};
use shard_map::records::keys;
use shard_map::{Cluster, ClusterName, DeploymentId, Endpoint, ShardCount, ShardMap, Weight};
use std::collections::HashMap;

pub(super) async fn run(args: &InitArgs) -> Result<String, Failure> {
    let connection = Connection::new(&args.connection)?;
    let shards = ShardCount::try_from(args.shards)
        .map_err(|error| Failure::Usage(format!("--shards: {error}")))?;
    let clusters = clusters(args, &connection)?;
    // A request that makes no map is refused before anybody is asked anything.
    let deployment = DeploymentId::from_random_bits(rand::random());
    ShardMap::initial(deployment, shards, clusters.clone())
        .map_err(|error| Failure::Usage(error.to_string()))?;

    let home = connection.home()?;
    let found = connection.read_home(&home).await?;
    if !found.iter().any(|record| record.key == keys::map_current()) {
        let named = |cluster: &Cluster| format!("cluster {}", cluster.name);
        let mut all: Vec<(String, &[Endpoint])> = vec![("home".into(), &args.connection.home)];
        all.extend(clusters.iter().map(|c| (named(c), c.endpoints.as_slice())));
        probe(&connection, &all).await?;
    }
    let stores = clusters
        .iter()
        .map(|cluster| connection.store(&cluster.endpoints));
    let stores: Vec<EtcdStore> = stores.collect::<Result<_, _>>()?;
    let with_stores: Vec<(Cluster, &dyn Store)> = clusters
        .into_iter()
        .zip(&stores)
        .map(|(cluster, store)| (cluster, store as &dyn Store))
        .collect();
    let done = initialise(&home, &with_stores, shards, deployment).await?;
    Ok(match args.connection.output {
        Output::Json => json(&done),
        Output::Text => text(&done),
    })
}

fn clusters(args: &InitArgs, connection: &Connection<'_>) -> Result<Vec<Cluster>, Failure> {
    if connection.has_bare_user() {
        return Err(Failure::Usage(
            "--user: the map refers to a file that holds NAME:PASSWORD, which gateways read too\n\
             Give --user @FILE."
                .into(),
        ));
    }
    let mut weights: HashMap<&ClusterName, Weight> = HashMap::new();
    for weight in &args.weights {
        let known = args
            .clusters
            .iter()
            .any(|cluster| cluster.name == weight.name);
        if !known || weights.insert(&weight.name, weight.value.0).is_some() {
            return Err(Failure::Usage(format!(
                "--weight {}: expected is the name of one of the clusters, each once",
                weight.name
            )));
        }
    }
    let cluster = |named: &Named<Endpoints>| {
        let endpoints = named.value.0.clone();
        let encrypted = endpoints.iter().any(Endpoint::is_tls);
        Cluster {
            name: named.name.clone(),
            endpoints,
            tls: connection.tls.clone().filter(|_| encrypted),
            credentials_file: connection.credentials_file.clone(),
            weight: weights.get(&named.name).copied().unwrap_or(Weight::ONE),
        }
    };
    Ok(args.clusters.iter().map(cluster).collect())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitView<'a> {
    outcome: &'static str,
    #[serde(flatten)]
    map: MapView<'a>,
}

fn json(done: &Initialised) -> String {
    let view = InitView {
        outcome: match done.outcome {
            Outcome::Done => "initialised",
            Outcome::Resumed => "resumed",
            Outcome::Already => "already_initialised",
        },
        map: MapView::of(&done.map),
    };
    pretty(&view)
}

fn text(done: &Initialised) -> String {
    let first = match done.outcome {
        Outcome::Done => "Initialised.",
        Outcome::Resumed => "Initialised; this run finished what another had begun.",
        Outcome::Already => "Initialised already by the same request; nothing was changed.",
    };
    let shards = done.map.shards();
    let files = files_of(&done.map);
    format!(
        "{first}\n\n{}\nThe number of shards, {shards}, is for good: it decides where every lock name lives.\n{files}",
        text_of(&done.map)
    )
}

/// What gateways will look for on their hosts.
fn files_of(map: &ShardMap) -> String {
    let mut files: Vec<String> = Vec::new();
    for cluster in map.clusters() {
        let tls = cluster.tls.iter();
        let tls = tls.flat_map(|tls| [&tls.ca_file, &tls.cert_file, &tls.key_file]);
        let named = tls.flatten().chain(&cluster.credentials_file);
        files.extend(named.map(ToString::to_string));
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        return String::new();
    }
    format!(
        "Gateways read these files on their own hosts: {}\n",
        files.join(", ")
    )
}
