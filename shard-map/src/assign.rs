//! The first assignment of shards to clusters.

use crate::{ShardCount, Weight};

/// How many of the shards each cluster gets, by the largest remainder of the weights.
///
/// The shares add up to `shards`, each is its cluster's exact share rounded down or up, and
/// between equal remainders the cluster that stands first gets more. The same input gives the
/// same answer. `weights` must not be empty.
pub fn shares(shards: ShardCount, weights: &[Weight]) -> Vec<u32> {
    let total: u64 = weights.iter().map(|weight| u64::from(weight.get())).sum();
    let quota = |weight: &Weight| u64::from(shards.get()) * u64::from(weight.get());
    let mut shares: Vec<u32> = weights
        .iter()
        .map(|weight| u32::try_from(quota(weight) / total).unwrap_or(u32::MAX))
        .collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    // The sort is stable, which is what decides between equal remainders.
    by_remainder.sort_by_key(|&place| std::cmp::Reverse(quota(&weights[place]) % total));
    let left_over = shards.get() - shares.iter().sum::<u32>();
    for &place in by_remainder.iter().take(left_over as usize) {
        shares[place] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares_of(shards: u32, weights: &[u32]) -> Vec<u32> {
        let weights: Vec<_> = weights
            .iter()
            .map(|&weight| Weight::try_from(weight).unwrap())
            .collect();
        shares(ShardCount::try_from(shards).unwrap(), &weights)
    }

    #[test]
    fn equal_weights_give_shares_that_differ_by_at_most_one() {
        assert_eq!(shares_of(256, &[1, 1, 1]), [86, 85, 85]);
        assert_eq!(shares_of(256, &[1]), [256]);
        assert_eq!(shares_of(2, &[1, 1, 1]), [1, 1, 0]);
    }

    #[test]
    fn the_largest_remainder_gets_what_is_left_over() {
        // Exact shares: 2.5, 5.0, 2.5 and 1.25, 3.75.
        assert_eq!(shares_of(10, &[1, 2, 1]), [3, 5, 2]);
        assert_eq!(shares_of(5, &[1, 3]), [1, 4]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_are_the_exact_share_rounded(
            shards in 1u32..=65_536,
            weights in proptest::collection::vec(1u32..=1_000_000, 1..256),
        ) {
            let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            let shares = shares_of(shards, &weights);
            prop_assert_eq!(shares.iter().sum::<u32>(), shards);
            for (share, weight) in shares.iter().zip(&weights) {
                let exact = u64::from(shards) * u64::from(*weight);
                prop_assert!(u64::from(*share) >= exact / total);
                prop_assert!(u64::from(*share) <= exact.div_ceil(total));
            }
        }
    }
}
