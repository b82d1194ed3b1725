//! Where each shard goes: shares by weight, with the fewest moves that give them.

use crate::{Cluster, ClusterName, ShardId, shares};
use std::collections::{BTreeMap, BTreeSet};

/// Gives each cluster its share of the shards by weight, moving as few as possible.
///
/// `table` says where each shard is now, possibly on a cluster that is not listed any more; all of
/// those move. `pinned` shards stay where `table` has them, even if their cluster then has more than
/// its share. `clusters` must not be empty, names in ascending order. The same input gives the same
/// answer.
pub(super) fn balance(
    table: &BTreeMap<ShardId, ClusterName>,
    clusters: &[Cluster],
    pinned: &BTreeSet<ShardId>,
) -> BTreeMap<ShardId, ClusterName> {
    let weights: Vec<_> = clusters.iter().map(|cluster| cluster.weight).collect();
    let Some(count) = u32::try_from(table.len())
        .ok()
        .and_then(|v| v.try_into().ok())
    else {
        return table.clone();
    };
    let mut room: BTreeMap<&ClusterName, u32> = clusters
        .iter()
        .map(|cluster| &cluster.name)
        .zip(shares(count, &weights))
        .collect();
    // Pinned shards take their places first.
    for shard in pinned {
        if let Some(room) = table.get(shard).and_then(|at| room.get_mut(at)) {
            *room = room.saturating_sub(1);
        }
    }
    // Then those with low numbers, so that what leaves a cluster is the end of its range.
    let mut after = BTreeMap::new();
    let mut homeless = Vec::new();
    for (&shard, at) in table {
        match room.get_mut(at) {
            _ if pinned.contains(&shard) => {}
            Some(room) if *room > 0 => *room -= 1,
            _ => {
                homeless.push(shard);
                continue;
            }
        }
        after.insert(shard, at.clone());
    }
    let places = room
        .into_iter()
        .flat_map(|(name, room)| std::iter::repeat_n(name, room as usize));
    after.extend(homeless.into_iter().zip(places.cloned()));
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weight;
    use proptest::prelude::*;

    fn cluster(name: &str, weight: u32) -> Cluster {
        Cluster {
            weight: Weight::try_from(weight).unwrap(),
            ..Cluster::new(name.parse().unwrap(), Vec::new())
        }
    }

    /// How many of `table`'s shards each cluster has.
    fn counts(table: &BTreeMap<ShardId, ClusterName>, clusters: &[Cluster]) -> Vec<u32> {
        let count = |cluster: &Cluster| table.values().filter(|at| **at == cluster.name).count();
        let counts = clusters.iter().map(count);
        counts.map(|count| count.try_into().unwrap()).collect()
    }

    #[test]
    fn what_leaves_a_cluster_is_the_end_of_its_range() {
        let at = |shard: u32| if shard < 4 { "a" } else { "b" };
        let table = (0..8)
            .map(|shard| (ShardId(shard), at(shard).parse().unwrap()))
            .collect();
        let clusters = [cluster("a", 1), cluster("b", 1), cluster("c", 2)];
        let after = balance(&table, &clusters, &BTreeSet::new());
        let moved = after.iter().filter(|(shard, at)| table[shard] != **at);
        let moved: Vec<_> = moved.map(|(shard, at)| (shard.0, at.as_str())).collect();
        assert_eq!(moved, [(2, "c"), (3, "c"), (6, "c"), (7, "c")]);
    }

    proptest! {
        #[test]
        fn shares_are_by_weight_and_no_shard_moves_without_need(
            at in proptest::collection::vec(0usize..6, 1..300),
            weights in proptest::collection::vec(1u32..9, 1..6),
        ) {
            let names = ["a", "b", "c", "d", "e", "gone"];
            let table: BTreeMap<ShardId, ClusterName> = (0..)
                .zip(&at)
                .map(|(shard, &at)| (ShardId(shard), names[at].parse().unwrap()))
                .collect();
            let clusters: Vec<Cluster> =
                names.iter().zip(&weights).map(|(name, &weight)| cluster(name, weight)).collect();
            let after = balance(&table, &clusters, &BTreeSet::new());

            let weights: Vec<_> = clusters.iter().map(|cluster| cluster.weight).collect();
            let wanted = shares(u32::try_from(at.len()).unwrap().try_into().unwrap(), &weights);
            prop_assert_eq!(counts(&after, &clusters), wanted.clone());
            let moved = table.iter().filter(|(shard, at)| after[shard] != **at).count();
            // No assignment with these shares moves fewer: what a cluster has beyond its share must go.
            let had = counts(&table, &clusters);
            let stay: u32 = had.iter().zip(&wanted).map(|(had, wanted)| had.min(wanted)).sum();
            prop_assert_eq!(moved, at.len() - stay as usize);
        }

        #[test]
        fn pinned_shards_stay_and_every_shard_has_a_cluster(
            at in proptest::collection::vec(0usize..3, 1..60),
            pins in proptest::collection::btree_set(0u32..60, 0..60),
        ) {
            let names = ["a", "b", "c"];
            let table: BTreeMap<ShardId, ClusterName> = (0..)
                .zip(&at)
                .map(|(shard, &at)| (ShardId(shard), names[at].parse().unwrap()))
                .collect();
            let clusters: Vec<Cluster> = names.iter().map(|name| cluster(name, 1)).collect();
            let pinned = pins.into_iter().map(ShardId).filter(|shard| table.contains_key(shard));
            let pinned: BTreeSet<ShardId> = pinned.collect();
            let after = balance(&table, &clusters, &pinned);
            prop_assert_eq!(after.len(), table.len());
            prop_assert!(pinned.iter().all(|shard| after[shard] == table[shard]));
        }
    }
}
