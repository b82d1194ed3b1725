//! `shard-map plan`

use super::Failure;
use super::args::{Output, PlanArgs};
use super::connection::{Connection, read, records};
use super::home::locks_in;
use super::probe::probe;
use futures::future::join_all;
use holdfast_console::{Align, table};
use holdfast_store::{EtcdStore, Get, KeyRange, StoreError};
use shard_map::plan::{Access, Forecast, LocksIn, Plan, Wish, forecast};
use shard_map::records::{Identity, Record, keys};
use shard_map::{Cluster, ClusterName, Endpoint, ShardMap, TlsFiles, Weight};
use std::path::Path;

pub(super) async fn run(args: &PlanArgs) -> Result<String, Failure> {
    let connection = Connection::new(&args.connection)?;
    let map = connection.read_map().await?;
    let plan = match &args.undo {
        Some(file) => read_plan(file)?
            .undo(&map)
            .map_err(|error| Failure::Refused(error.to_string()))?,
        None => {
            let wish = wish(args, &connection)?;
            Plan::new(&map, &wish).map_err(|error| Failure::Refused(error.to_string()))?
        }
    };
    plan.during()
        .map_err(|error| Failure::Refused(format!("the result would be no shard map: {error}")))?;
    check_clusters(&connection, &plan).await?;
    let locks = count_locks(&connection, &plan).await?;
    let expected = forecast(&plan, &locks);
    let plan = plan.with_forecast(expected);
    std::fs::write(&args.out, plan.to_json())
        .map_err(|error| Failure::Usage(format!("--out {}: {error}", args.out.display())))?;
    Ok(match args.connection.output {
        Output::Json => String::from_utf8_lossy(&plan.to_json()).into_owned(),
        Output::Text => text(&plan, &args.out),
    })
}

/// A plan file.
pub(super) fn read_plan(file: &Path) -> Result<Plan, Failure> {
    let json = std::fs::read(file)
        .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    Plan::from_json(&json).map_err(|error| Failure::Refused(format!("{}: {error}", file.display())))
}

fn wish(args: &PlanArgs, connection: &Connection<'_>) -> Result<Wish, Failure> {
    let changes_access = !(args.add.is_empty() && args.endpoints.is_empty());
    if changes_access && connection.has_bare_user() {
        return Err(Failure::Usage(
            "--user: the map refers to a file that holds NAME:PASSWORD, which gateways read too\n\
             Give --user @FILE."
                .into(),
        ));
    }
    let weight = |name: &ClusterName| {
        let given = args.weights.iter().find(|weight| weight.name == *name);
        given.map_or(Weight::ONE, |weight| weight.value.0)
    };
    let added = |name: &ClusterName| args.add.iter().any(|one| one.name == *name);
    let add = args.add.iter().map(|one| Cluster {
        name: one.name.clone(),
        endpoints: one.value.0.clone(),
        tls: tls_for(connection, &one.value.0),
        credentials_file: connection.credentials_file.clone(),
        weight: weight(&one.name),
    });
    let weights = args.weights.iter().filter(|one| !added(&one.name));
    let access = args.endpoints.iter().map(|one| {
        let access = Access {
            endpoints: one.value.0.clone(),
            tls: tls_for(connection, &one.value.0),
            credentials_file: connection.credentials_file.clone(),
        };
        (one.name.clone(), access)
    });
    Ok(Wish {
        add: add.collect(),
        remove: args.remove.clone(),
        moves: args
            .moves
            .iter()
            .map(|one| (one.shard, one.cluster.clone()))
            .collect(),
        weights: weights.map(|one| (one.name.clone(), one.value.0)).collect(),
        access: access.collect(),
    })
}

fn tls_for(connection: &Connection<'_>, endpoints: &[Endpoint]) -> Option<TlsFiles> {
    let encrypted = endpoints.iter().any(Endpoint::is_tls);
    connection.tls.clone().filter(|_| encrypted)
}

/// Clusters that are added, or reached anew, must be what they are taken for.
pub(super) async fn check_clusters(
    connection: &Connection<'_>,
    plan: &Plan,
) -> Result<(), Failure> {
    let named = |name: &ClusterName| plan.after().cluster(name);
    let (added, anew): (Vec<&Cluster>, Vec<&Cluster>) = (
        plan.added().filter_map(named).collect(),
        plan.reached_anew().filter_map(named).collect(),
    );
    if added.is_empty() && anew.is_empty() {
        return Ok(());
    }
    let all: Vec<(String, &[Endpoint])> = added
        .iter()
        .chain(&anew)
        .map(|cluster| {
            (
                format!("cluster {}", cluster.name),
                cluster.endpoints.as_slice(),
            )
        })
        .collect();
    probe(connection, &all).await?;
    for cluster in added {
        let store = connection.store(&cluster.endpoints)?;
        check_identity(&store, plan.before(), cluster, true).await?;
    }
    for cluster in anew {
        let store = connection.store(&cluster.endpoints)?;
        check_identity(&store, plan.before(), cluster, false).await?;
    }
    Ok(())
}

/// Whether the cluster says that it is this one; `may_be_new`: or nobody's yet.
pub(super) async fn check_identity(
    store: &EtcdStore,
    map: &ShardMap,
    cluster: &Cluster,
    may_be_new: bool,
) -> Result<(), Failure> {
    let name = &cluster.name;
    let key = keys::identity();
    let reply = read(store, [Get::all(KeyRange::one(key.clone()))]).await;
    let found = records(reply.map_err(|error| unreachable(name, &error))?);
    let refused = |problem: String| Err(Failure::Refused(format!("cluster {name} {problem}")));
    let Some(record) = found.first() else {
        if may_be_new {
            return Ok(());
        }
        return refused(
            "has no identity record: it is not the cluster of that name\nCheck its endpoints; a cluster is \
             replaced with --add and --remove, not with --endpoints."
                .into(),
        );
    };
    match Identity::from_value(&key, &record.value) {
        Ok(it) if it.deployment == map.deployment() && it.cluster == *name => Ok(()),
        Ok(it) => refused(format!(
            "is cluster {} of deployment {}\nCheck its endpoints: a cluster belongs to one deployment, under one \
             name, for good.",
            it.cluster, it.deployment
        )),
        Err(error) => refused(format!(
            "cannot be told: {error}\nUse an etcd cluster of its own."
        )),
    }
}

pub(super) fn unreachable(name: &ClusterName, error: &StoreError) -> Failure {
    Failure::Refused(format!(
        "cluster {name} cannot be reached: {error}\n\
         Check that its etcd runs, and --cacert, --cert, --key and --user."
    ))
}

/// How many locks are held in the clusters that lose shards.
async fn count_locks(connection: &Connection<'_>, plan: &Plan) -> Result<LocksIn, Failure> {
    let moves = plan.moves();
    let mut asked = Vec::new();
    for name in moves.iter().map(|one| &one.from) {
        if let Some(cluster) = plan.before().cluster(name) {
            let store = connection.store(&cluster.endpoints)?;
            asked.push(async move {
                let locks = locks_in(&store).await;
                Ok((
                    name.clone(),
                    locks.map_err(|error| unreachable(name, &error))?,
                ))
            });
        }
    }
    let counts = join_all(asked).await;
    counts.into_iter().collect()
}

fn text(plan: &Plan, out: &Path) -> String {
    let mut text = summary(plan);
    text.push_str(&format!(
        "\nWritten to {out}. To see what would be checked: shard-map apply {out} --dry-run\n\
         To undo it once it is applied: shard-map plan --undo {out} --out undo.json\n",
        out = out.display()
    ));
    text
}

/// A plan, as people read it.
pub(super) fn summary(plan: &Plan) -> String {
    let map = plan.before();
    let mut text = format!(
        "plan for map version {}, deployment {}\n",
        map.version(),
        map.deployment()
    );
    for (word, names) in [
        ("adds", plan.added().collect::<Vec<_>>()),
        ("removes", plan.removed().collect()),
        ("reaches anew", plan.reached_anew().collect()),
    ] {
        for name in names {
            text.push_str(&format!("{word} cluster {name}\n"));
        }
    }
    let moves = plan.moves();
    if moves.is_empty() {
        text.push_str("\nNo shard moves.\n");
    } else {
        let row = |one: &shard_map::plan::Move| {
            let (count, shards) = (one.shards.count().to_string(), one.shards.to_string());
            vec![
                one.from.to_string(),
                one.to.to_string(),
                count,
                super::show::cut(&shards),
            ]
        };
        let columns = [
            ("FROM", Align::Left),
            ("TO", Align::Left),
            ("SHARDS", Align::Right),
            ("WHICH", Align::Left),
        ];
        text.push_str(&format!("\n{}", table(&columns, moves.iter().map(row))));
    }
    if let Some(forecast) = plan.forecast() {
        text.push_str(&expected(forecast));
    }
    text
}

fn expected(forecast: &Forecast) -> String {
    let Forecast {
        shards,
        names_per_million,
        locks,
        seconds,
        risks,
    } = forecast;
    let percent = format!(
        "{}.{}",
        names_per_million / 10_000,
        names_per_million / 1_000 % 10
    );
    let mut text = format!(
        "\nExpected: {shards} shards, {percent} % of all names, about {locks} held locks, about {seconds} s.\n"
    );
    for risk in risks {
        text.push_str(&format!("Note: {risk}\n"));
    }
    text
}
