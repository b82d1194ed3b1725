//! Which shard a lock name belongs to.

use crate::limits;
use crate::{Invalid, ShardCount, ShardId};
use xxhash_rust::xxh3::xxh3_64;

/// The shard of a lock name: `jump(xxh3_64(name bytes, seed 0), V)`.
///
/// The same for ever: `golden/placement.tsv` pins it, because a name whose shard changes would be
/// looked for where its lock is not.
pub fn shard_of(name: &str, shards: ShardCount) -> ShardId {
    shard_of_hash(xxh3_64(name.as_bytes()), shards)
}

fn shard_of_hash(hash: u64, shards: ShardCount) -> ShardId {
    ShardId(jump_consistent_hash::hash(hash, shards.get() as usize))
}

/// Whether a lock can have this name: UTF-8 of 1 to 512 bytes without control characters.
///
/// # Errors
/// When it cannot; the text says what is allowed.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    let bytes_max = limits::NAME_BYTES_MAX;
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > bytes_max {
        format!("has {} bytes", name.len())
    } else if name.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid(format!(
        "the name {problem}; allowed are 1 to {bytes_max} bytes of UTF-8 without control characters"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(shards: u32) -> ShardCount {
        ShardCount::try_from(shards).unwrap()
    }

    #[test]
    fn placement_is_what_it_has_always_been() {
        let mut lines = include_str!("../golden/placement.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'));
        assert_eq!(lines.next(), Some("hash\tV=1\tV=7\tV=256\tV=1024\tname"));
        let mut names = 0;
        for line in lines {
            let [hash, v1, v7, v256, v1024, name] =
                line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let name: String = serde_json::from_str(name).unwrap();
            assert_eq!(
                format!("{:016x}", xxh3_64(name.as_bytes())),
                hash,
                "{name:?}"
            );
            for (shards, expected) in [(1, v1), (7, v7), (256, v256), (1024, v1024)] {
                let shard = shard_of(&name, count(shards));
                assert_eq!(shard.to_string(), expected, "{name:?} of {shards}");
            }
            names += 1;
        }
        assert!(names >= 300, "only {names} names");
    }

    /// The hash whose first step in the jump hash wraps around: anybody can make a name for it,
    /// so it must not be an overflow that panics.
    #[test]
    fn a_hash_that_wraps_in_the_jump_is_placed_like_any_other() {
        assert_eq!(
            shard_of_hash(0x2019_97f8_6663_13ab, count(1024)),
            ShardId(0)
        );
    }

    #[test]
    fn names_that_no_lock_can_have_are_refused() {
        let longest = "n".repeat(limits::NAME_BYTES_MAX);
        for good in ["a", "ünï/%2F", &longest] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a\0b", "\u{85}", &format!("{longest}n")] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
