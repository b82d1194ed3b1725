//! Names and numbers, validated where they are made.

use crate::limits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Why a name or number is refused; the text says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub(crate) String);

/// One of the virtual shards: 0 up to but without the map's [`ShardCount`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ShardId(pub u32);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many shards a map has, `V`: 1 to [`limits::SHARDS_MAX`], chosen once and never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct ShardCount(u32);

impl ShardCount {
    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Every shard, in order.
    pub fn shards(self) -> impl Iterator<Item = ShardId> {
        (0..self.0).map(ShardId)
    }
}

impl TryFrom<u32> for ShardCount {
    type Error = Invalid;
    fn try_from(count: u32) -> Result<Self, Invalid> {
        if (1..=limits::SHARDS_MAX).contains(&count) {
            Ok(Self(count))
        } else {
            Err(Invalid(format!(
                "{count} shards; allowed are 1 to {}",
                limits::SHARDS_MAX
            )))
        }
    }
}

impl From<ShardCount> for u32 {
    fn from(count: ShardCount) -> Self {
        count.0
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a cluster: 1 to 63 of `a`-`z`, `0`-`9`, `-`, `_`, `.`, a letter or digit first.
/// It appears in records, metrics and on command lines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(std::sync::Arc<str>);

impl ClusterName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As shared text.
    pub fn to_shared(&self) -> std::sync::Arc<str> {
        self.0.clone()
    }
}

impl FromStr for ClusterName {
    type Err = Invalid;
    fn from_str(name: &str) -> Result<Self, Invalid> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let good = name.len() <= limits::CLUSTER_NAME_BYTES_MAX
            && name.bytes().next().is_some_and(plain)
            && name
                .bytes()
                .all(|byte| plain(byte) || b"-_.".contains(&byte));
        if good {
            Ok(Self(name.into()))
        } else {
            Err(Invalid(format!(
                "cluster name {name:?}: allowed are 1 to {} of a-z, 0-9, '-', '_', '.', \
                 a letter or digit first",
                limits::CLUSTER_NAME_BYTES_MAX
            )))
        }
    }
}

impl TryFrom<String> for ClusterName {
    type Error = Invalid;
    fn try_from(name: String) -> Result<Self, Invalid> {
        name.parse()
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0.as_ref().into()
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The version of a map; each published map has a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MapVersion(pub u64);

impl MapVersion {
    /// The version that `init` publishes.
    pub const FIRST: Self = Self(1);

    /// The one after it. A map that has the last number can have no successor; it is refused.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for MapVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The epoch of a shard's guard: the version of the map under which the shard came where the guard is,
/// or began to leave; so it is never above the version of the present map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the guards that `init` writes.
    pub const FIRST: Self = Self(MapVersion::FIRST.0);
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is added to the revision of a grant to make its token. Below 2^53.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct TokenBase(u64);

impl TokenBase {
    /// The base of a shard that never moved.
    pub const ZERO: Self = Self(0);

    /// As a number, below 2^53.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for TokenBase {
    type Error = Invalid;
    fn try_from(base: u64) -> Result<Self, Invalid> {
        if base < limits::TOKEN_END {
            Ok(Self(base))
        } else {
            Err(Invalid(format!("token base {base} is not below 2^53")))
        }
    }
}

impl From<TokenBase> for u64 {
    fn from(base: TokenBase) -> Self {
        base.0
    }
}

/// The id of a deployment: 128 random bits, shown as 32 hex digits. Tells apart the clusters of
/// two deployments that have the same names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeploymentId(u128);

impl DeploymentId {
    /// An id from 128 random bits.
    pub const fn from_random_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl FromStr for DeploymentId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(digits) {
            return Err(Invalid(format!(
                "deployment id {text:?}: expected are 32 digits of 0-9 and a-f"
            )));
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|error| Invalid(error.to_string()))
    }
}

impl TryFrom<String> for DeploymentId {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<DeploymentId> for String {
    fn from(id: DeploymentId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_short_and_plain() {
        let longest = "c".repeat(limits::CLUSTER_NAME_BYTES_MAX);
        for good in ["a", "0", "eu-west_1.blue", longest.as_str()] {
            assert_eq!(good.parse::<ClusterName>().unwrap().as_str(), good);
        }
        let too_long = format!("{longest}c");
        for bad in [
            "",
            "-a",
            ".a",
            "A",
            "a=b",
            "a b",
            "ü",
            "a/b",
            too_long.as_str(),
        ] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn shard_counts_are_1_to_65536() {
        for good in [1, 256, 65_536] {
            assert_eq!(ShardCount::try_from(good).unwrap().get(), good);
        }
        for bad in [0, 65_537, u32::MAX] {
            assert!(ShardCount::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_deployment_id_reads_back_as_it_is_shown_and_nothing_else_does() {
        for bits in [0, 1, u128::MAX] {
            let id = DeploymentId::from_random_bits(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in [
            "",
            "1",
            "+0000000000000000000000000000000",
            &"A".repeat(32),
            &"0".repeat(33),
        ] {
            assert!(bad.parse::<DeploymentId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_token_base_is_below_2_to_the_53() {
        assert!(TokenBase::try_from((1 << 53) - 1).is_ok());
        assert!(TokenBase::try_from(1 << 53).is_err());
    }
}
