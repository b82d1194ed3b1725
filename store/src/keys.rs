//! Keys, key ranges, revisions and lease ids.

use std::fmt;
use std::sync::Arc;

/// A key in etcd: any bytes, compared byte for byte. A clone shares them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text, where it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl<T: Into<Vec<u8>>> From<T> for Key {
    fn from(bytes: T) -> Self {
        Self(bytes.into().into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// One key, or the half-open range of keys from `start` up to but without `end`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The key, or the first key of the range.
    pub start: Key,
    /// `None`: the range is the one key `start`. An end at or before the start makes the range
    /// empty. Not the empty key or `\0`, to which etcd gives meanings of their own.
    pub end: Option<Key>,
}

impl KeyRange {
    /// Just this key.
    pub fn one(key: impl Into<Key>) -> Self {
        Self {
            start: key.into(),
            end: None,
        }
    }

    /// Every key from `start` up to but without `end`.
    pub fn between(start: impl Into<Key>, end: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            end: Some(end.into()),
        }
    }

    /// Every key that begins with `prefix`, which must not be empty or all `0xff`.
    pub fn prefix(prefix: impl Into<Key>) -> Self {
        let start = prefix.into();
        let mut end = start.as_bytes().to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self {
            start,
            end: Some(end.into()),
        }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        match &self.end {
            None => *key == self.start,
            Some(end) => *key >= self.start && key < end,
        }
    }
}

/// A revision of a cluster's key space. Revisions of one cluster only grow (a restored backup is
/// the exception).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub i64);

impl Revision {
    /// What etcd answers for a key that does not exist.
    pub const ABSENT: Self = Self(0);
}

/// The id of an etcd lease. Chosen at random by whoever grants it, and never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// A lease id from 64 random bits: positive and not zero, as etcd wants it.
    pub fn from_random_bits(bits: u64) -> Self {
        Self((bits >> 1).max(1).cast_signed())
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
