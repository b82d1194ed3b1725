//! The shard map's document, plans, and the records beside them.

use holdfast_store::Key;
use shard_map::ShardMap;
use shard_map::plan::Plan;
use shard_map::records::{GroupPlace, Guard, Identity, Record};

/// A map, or another record, that is read is the same after it was written again.
pub(crate) fn map(bytes: &[u8]) {
    if let Ok(map) = ShardMap::from_json(bytes) {
        let again = ShardMap::from_json(&map.to_json());
        assert_eq!(again.as_ref(), Ok(&map));
    }
    if let Ok(plan) = Plan::from_json(bytes) {
        assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan));
    }
    record::<Guard>(bytes);
    record::<Identity>(bytes);
    record::<GroupPlace>(bytes);
}

fn record<R: Record + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let key = Key::from("/holdfast/x");
    if let Ok(read) = R::from_value(&key, bytes) {
        assert_eq!(R::from_value(&key, &read.to_value()), Ok(read));
    }
}
