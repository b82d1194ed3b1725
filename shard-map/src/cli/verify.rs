//! `shard-map verify`

use super::args::{Output, RolloutArgs};
use super::connection::Connection;
use super::home::{ClusterLinks, HomeLink, read_pages};
use super::plan::unreachable;
use super::show::pretty;
use super::{Failure, Printed};
use holdfast_store::KeyValue;
use serde_json::json;
use shard_map::ShardMap;
use shard_map::records::keys;
use shard_map::verify::{Contents, Verdict, verify};

pub(super) async fn run(args: &RolloutArgs) -> Result<Printed, Failure> {
    let connection = Connection::new(&args.connection)?;
    let link = HomeLink::new(&connection)?;
    let before = link.look().await?;
    let links = ClusterLinks::new(&connection, before.map.clusters())?;
    let mut found = look(&links, &before.map).await?;
    if !found.problems.is_empty() {
        // What came or went between two reads is not there any more; what lies wrong is.
        let again = look(&links, &before.map).await?;
        found.problems.retain(|one| again.problems.contains(one));
    }
    let after = link.look().await?;
    if after.map != before.map {
        return Err(Failure::Refused(
            "the map has changed while the clusters were read\nRepeat the command.".into(),
        ));
    }
    let clean = found.problems.is_empty();
    let text = match args.connection.output {
        Output::Json => pretty(&json!({
            "clean": clean, "mapVersion": before.map.version(), "clusters": before.map.clusters().len(),
            "locks": found.locks, "groups": found.groups, "problems": found.problems,
        })),
        Output::Text => {
            let problems: String = found
                .problems
                .iter()
                .map(|one| format!("problem: {one}\n"))
                .collect();
            let verdict = if clean { "clean" } else { "not clean" };
            format!(
                "{problems}{verdict}: map version {}, {} clusters, {} locks, {} groups\n",
                before.map.version(),
                before.map.clusters().len(),
                found.locks,
                found.groups
            )
        }
    };
    Ok(Printed {
        text,
        code: if clean { 0 } else { 4 },
    })
}

/// Reads everything once.
async fn look(links: &ClusterLinks, map: &ShardMap) -> Result<Verdict, Failure> {
    let mut all = Vec::new();
    for (name, store) in links.iter() {
        let read = async |range| -> Result<Vec<KeyValue>, Failure> {
            read_pages(store, range, true)
                .await
                .map_err(|error| unreachable(name, &error))
        };
        // Guards last: a record's shard can only have gone on since it was read.
        let (locks, groups) = (read(keys::locks()).await?, read(keys::groups()).await?);
        let guards = read(keys::guards()).await?;
        all.push(Contents::new(name.clone(), &guards, &groups, &locks));
    }
    Ok(verify(map, &all))
}
