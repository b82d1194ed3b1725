//! Keeps the lock service on the map that home has.

use crate::limits;
use crate::logs;
use crate::map::MapSource;
use crate::service::LockService;
use crate::time::Clock;
use shard_map::{MapVersion, ShardMap};
use std::sync::Arc;
use std::time::Duration;

/// How long after a map could not be applied that is tried again.
const APPLY_RETRY: Duration = Duration::from_secs(5);

/// Applies every map that `source` comes to run, and lets grants begin once home was seen. Runs
/// for ever.
pub async fn follow_map<C: Clock>(service: Arc<LockService<C>>, source: MapSource) {
    let mut status = source.status();
    let mut applied: Option<MapVersion> = None;
    let mut home_seen = false;
    loop {
        let now = status.borrow_and_update().clone();
        let to_apply = now.map.filter(|map| applied != Some(map.version()));
        if let Some(map) = &to_apply {
            let version = map.version();
            let taken_up = service.apply_map(map);
            if let Err(error) = &taken_up {
                tracing::error!(version = version.0, %error, "the map is not applied");
            } else {
                note(applied, version);
                applied = Some(version);
                tokio::spawn(leave_later(Arc::clone(&service), map.clone()));
            }
            source.applied(version, taken_up.map_err(|error| format!("{error:#}")));
        }
        if now.home_seen {
            if !home_seen {
                tracing::info!("home was seen: the map is current, grants may begin");
                home_seen = true;
            }
            // Again after each map: it may have brought a cluster.
            service.home_seen().await;
        }
        // The source lives as long as this future holds it, so there is always a next change.
        let changed = status.changed();
        let failed = to_apply.filter(|map| applied != Some(map.version()));
        match failed {
            None => drop(changed.await),
            // A file that was missing may have come, without any change of the map.
            Some(_) => drop(tokio::time::timeout(APPLY_RETRY, changed).await),
        }
    }
}

/// The first map of a process is part of every start; that another takes its place is for operators to
/// see.
fn note(before: Option<MapVersion>, now: MapVersion) {
    let version = now.0;
    match before {
        None => tracing::info!(target: logs::AUDIT, version, "runs its first map"),
        Some(before) => tracing::warn!(
            target: logs::AUDIT,
            version,
            before = before.0,
            "runs another map"
        ),
    }
}

/// Leaves the clusters that this map has no more, once no request is on its way to them.
async fn leave_later<C: Clock>(service: Arc<LockService<C>>, map: Arc<ShardMap>) {
    tokio::time::sleep(limits::ANSWER_MAX.to_std()).await;
    service.leave_clusters(&map);
}
