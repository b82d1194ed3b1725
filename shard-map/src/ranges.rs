//! Sets of shards, written as people write them: `0-84,200`.

use crate::{Invalid, ShardId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A set of shards: ranges in ascending order that do not touch each other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShardRanges(Vec<(u32, u32)>);

impl ShardRanges {
    /// Every shard of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ShardId> {
        self.0
            .iter()
            .flat_map(|&(first, last)| (first..=last).map(ShardId))
    }

    /// How many shards are in the set.
    pub fn count(&self) -> u64 {
        let size = |&(first, last): &(u32, u32)| u64::from(last - first) + 1;
        self.0.iter().map(size).sum()
    }

    /// The highest shard of the set.
    pub fn last(&self) -> Option<ShardId> {
        self.0.last().map(|&(_, last)| ShardId(last))
    }
}

/// From shards in ascending order; one that is not greater than the one before is left out.
impl FromIterator<ShardId> for ShardRanges {
    fn from_iter<I: IntoIterator<Item = ShardId>>(shards: I) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for ShardId(shard) in shards {
            match ranges.last_mut() {
                Some((_, last)) if shard <= *last => {}
                Some((_, last)) if shard - 1 == *last => *last = shard,
                _ => ranges.push((shard, shard)),
            }
        }
        Self(ranges)
    }
}

/// From text; the empty text is the empty set.
impl FromStr for ShardRanges {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(Invalid(format!("{part:?} runs backwards")));
            }
            match ranges.last_mut() {
                Some((_, before)) if first <= *before => {
                    return Err(Invalid(format!(
                        "{part:?} comes after shard {before}; shards are listed in ascending \
                         order, each once"
                    )));
                }
                Some((_, before)) if first - 1 == *before => *before = last,
                _ => ranges.push((first, last)),
            }
        }
        Ok(Self(ranges))
    }
}

fn number(text: &str) -> Result<u32, Invalid> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => Err(Invalid(format!(
            "{text:?} is not a shard; shards are written like \"0-84,200\""
        ))),
    }
}

impl fmt::Display for ShardRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for ShardRanges {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<ShardRanges> for String {
    fn from(ranges: ShardRanges) -> Self {
        ranges.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_set_of_shards_reads_back_as_it_is_written(
            set in proptest::collection::btree_set(0u32..300, 0..200),
        ) {
            let ranges: ShardRanges = set.iter().copied().map(ShardId).collect();
            let read: ShardRanges = ranges.to_string().parse().unwrap();
            prop_assert_eq!(&read, &ranges);
            prop_assert_eq!(read.iter().map(|shard| shard.0).collect::<std::collections::BTreeSet<_>>(), set);
            prop_assert_eq!(read.count(), read.iter().count() as u64);
            prop_assert_eq!(read.last(), read.iter().last());
        }
    }

    #[test]
    fn neighbouring_shards_are_written_as_one_range() {
        let written = |text: &str| text.parse::<ShardRanges>().unwrap().to_string();
        assert_eq!(written("0,1,2-4,6"), "0-4,6");
        assert_eq!(written("7-7"), "7");
        assert_eq!(written(""), "");
        assert_eq!(written("0-4294967295"), "0-4294967295");
    }

    #[test]
    fn shards_out_of_order_twice_or_not_a_number_are_refused() {
        for bad in [
            "1,0",
            "0,0",
            "0-3,2",
            "3-1",
            "a",
            "-",
            "1-",
            ",",
            "1,",
            "+1",
            " 1",
            "4294967296",
        ] {
            assert!(bad.parse::<ShardRanges>().is_err(), "{bad:?}");
        }
    }
}
