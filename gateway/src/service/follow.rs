//! Keeps the lock service on the map that home has.

use crate::map::MapSource;
use crate::service::LockService;
use crate::time::Clock;
use shard_map::MapVersion;
use std::sync::Arc;

/// Applies every map that `source` comes to run, and lets grants begin once home was seen. Runs
/// for ever.
pub async fn follow_map<C: Clock>(service: Arc<LockService<C>>, source: MapSource) {
    let mut status = source.status();
    let mut applied: Option<MapVersion> = None;
    let mut home_seen = false;
    loop {
        let now = status.borrow_and_update().clone();
        if let Some(map) = now.map.filter(|map| applied != Some(map.version())) {
            match service.apply_map(&map) {
                Ok(()) => applied = Some(map.version()),
                Err(error) => {
                    tracing::error!(version = map.version().0, %error, "the map is not applied");
                }
            }
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
        if status.changed().await.is_err() {
            return;
        }
    }
}
