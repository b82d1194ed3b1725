//! What a command that watches a rollout keeps from look to look.

use super::connection::Connection;
use super::home::{ClusterLinks, locks_in};
use super::{Failure, clock};
use futures::future::join_all;
use shard_map::{ClusterName, MapVersion, ShardMap};
use std::collections::BTreeMap;

/// etcd counts keys by going through them, which costs time that moves and acquires need too: before the
/// next count a command rests so many times as long as the last one took.
const REST: u64 = 50;

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    /// Connections to the clusters of the map of this version.
    links: Option<(MapVersion, ClusterLinks)>,
    locks_left: u64,
    count_next_unix_ms: u64,
}

impl Known {
    /// Connections to the clusters of this map.
    pub(super) fn links(
        &mut self,
        connection: &Connection<'_>,
        map: &ShardMap,
    ) -> Result<&ClusterLinks, Failure> {
        let links = match self.links.take() {
            Some((version, links)) if version == map.version() => links,
            _ => ClusterLinks::new(connection, map.clusters())?,
        };
        Ok(&self.links.insert((map.version(), links)).1)
    }

    /// About how many locks are still to go, where so many shards are still to leave each cluster: as many
    /// as there would be if the locks of a cluster were spread evenly over its shards. A cluster that does
    /// not answer counts as empty.
    pub(super) async fn locks_left(
        &mut self,
        map: &ShardMap,
        waiting: BTreeMap<ClusterName, u64>,
    ) -> u64 {
        let began = clock::unix_ms();
        if let Some((_, links)) = &self.links
            && began >= self.count_next_unix_ms
        {
            let counts = waiting.iter().map(|(name, go)| async move {
                let locks = locks_in(links.get(name)?).await.ok()?;
                Some(share_of(locks, *go, map.shards_of(name).count()))
            });
            self.locks_left = join_all(counts).await.into_iter().flatten().sum();
            let now = clock::unix_ms();
            self.count_next_unix_ms = now + REST * now.saturating_sub(began);
        }
        self.locks_left
    }
}

/// How many of a cluster's locks are to go, when so many of its shards are, and so many stay.
fn share_of(locks: u64, go: u64, stay: u64) -> u64 {
    let all = u128::from(go) + u128::from(stay);
    let share = u128::from(locks) * u128::from(go) / all.max(1);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_cluster_that_is_drained_every_lock_is_left_until_its_last_shard_has_gone() {
        let left = [2, 1, 0].map(|go| share_of(1_000, go, 0));
        assert_eq!(left, [1_000, 1_000, 0]);
        assert_eq!(share_of(1_000, 16, 48), 250);
    }
}
