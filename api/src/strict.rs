//! Readers that are stricter than the derived ones.
//!
//! The derived reader of a struct also takes an array, by position, and that of a map keeps the
//! last of two equal keys. Both would give a meaning to a body that its sender did not write.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

/// Reads a `T` from an object, and from nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads an array of objects.
pub(crate) fn objects<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|object| object.0).collect())
}

/// Reads an object of strings, or null, and refuses a key that is there twice.
pub(crate) fn unique_strings<'de, D>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let read = Option::<UniqueStrings>::deserialize(deserializer)?;
    Ok(read.map(|unique| unique.0))
}

struct UniqueStrings(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for UniqueStrings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueStringsVisitor)
    }
}

struct UniqueStringsVisitor;

impl<'de> Visitor<'de> for UniqueStringsVisitor {
    type Value = UniqueStrings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut strings = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value()?;
            match strings.entry(key) {
                Entry::Vacant(vacant) => vacant.insert(value),
                Entry::Occupied(_) => return Err(A::Error::custom("duplicate key")),
            };
        }
        Ok(UniqueStrings(strings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcquireRequest, RenewBatch, RenewRequest};

    #[test]
    fn an_array_is_not_an_object() {
        let by_position = r#"["lock-x", 1, null]"#;
        assert!(serde_json::from_str::<RenewRequest<'_>>(by_position).is_ok());
        assert!(serde_json::from_str::<Object<RenewRequest<'_>>>(by_position).is_err());
        let batch = format!(r#"{{"renewals":[{by_position}]}}"#);
        assert!(serde_json::from_str::<Object<RenewBatch<'_>>>(&batch).is_err());
    }

    #[test]
    fn an_object_reads_without_copying_its_strings() {
        let body = r#"{"renewals":[{"lockId":"lock-x","fencingToken":1}]}"#;
        let batch: Object<RenewBatch<'_>> = serde_json::from_str(body).unwrap();
        assert!(matches!(
            batch.0.renewals[0].lock_id,
            std::borrow::Cow::Borrowed("lock-x")
        ));
    }

    #[test]
    fn metadata_with_a_key_twice_is_refused() {
        let body = |metadata: &str| {
            format!(r#"{{"name":"n","ttlMs":1000,"clientId":"c","metadata":{metadata}}}"#)
        };
        for (metadata, good) in [
            ("null", true),
            ("{}", true),
            (r#"{"a":"1","b":"2"}"#, true),
            (r#"{"a":"1","a":"2"}"#, false),
            (r#"{"a":1}"#, false),
            (r#"[["a","1"]]"#, false),
        ] {
            let text = body(metadata);
            let read = serde_json::from_str::<AcquireRequest<'_>>(&text);
            assert_eq!(read.is_ok(), good, "{metadata}");
        }
    }
}
