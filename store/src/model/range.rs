//! What etcd takes a key range for.

use crate::{Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The keys that a [`KeyRange`] means to etcd. An empty end is no end on the wire, so it means the
/// one key; the end `\0` means every key from the start on; a range that ends where it starts
/// or before is empty.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bounds<'a> {
    One(&'a Key),
    Span(&'a Key, &'a Key),
    From(&'a Key),
    Empty,
}

impl<'a> From<&'a KeyRange> for Bounds<'a> {
    fn from(range: &'a KeyRange) -> Self {
        match &range.end {
            None => Self::One(&range.start),
            Some(end) => match end.as_bytes() {
                [] => Self::One(&range.start),
                [0] => Self::From(&range.start),
                _ if *end <= range.start => Self::Empty,
                _ => Self::Span(&range.start, end),
            },
        }
    }
}

impl Bounds<'_> {
    pub(super) fn contains(self, key: &Key) -> bool {
        match self {
            Self::One(one) => key == one,
            Self::Span(start, end) => start <= key && key < end,
            Self::From(start) => start <= key,
            Self::Empty => false,
        }
    }

    /// The entries in the range, in key order.
    pub(super) fn of<V>(self, map: &BTreeMap<Key, V>) -> impl Iterator<Item = (&Key, &V)> {
        let (one, bounds) = match self {
            Self::One(key) => (map.get_key_value(key), None),
            Self::Span(start, end) => (None, Some((start, Bound::Excluded(end)))),
            Self::From(start) => (None, Some((start, Bound::Unbounded))),
            Self::Empty => (None, None),
        };
        let span = bounds.map(|(start, end)| map.range::<Key, _>((Bound::Included(start), end)));
        one.into_iter().chain(span.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_means_what_it_means_to_etcd() {
        let map: BTreeMap<Key, ()> = ["a", "b", "c"].map(|key| (Key::from(key), ())).into();
        for (range, expected) in [
            (KeyRange::one("b"), &["b"][..]),
            (KeyRange::one("x"), &[]),
            (KeyRange::between("a", "c"), &["a", "b"]),
            (KeyRange::between("b", ""), &["b"]),
            (KeyRange::between("b", [0]), &["b", "c"]),
            (KeyRange::between("b", "b"), &[]),
            (KeyRange::between("c", "a"), &[]),
        ] {
            let bounds = Bounds::from(&range);
            let expected: Vec<Key> = expected.iter().map(|&key| key.into()).collect();
            let found: Vec<Key> = bounds.of(&map).map(|(key, ())| key.clone()).collect();
            let contained: Vec<Key> = map.keys().filter(|k| bounds.contains(k)).cloned().collect();
            assert_eq!(found, expected, "{range:?}");
            assert_eq!(contained, expected, "{range:?}");
        }
    }
}
