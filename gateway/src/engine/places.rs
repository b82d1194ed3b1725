//! Groups that are to arrive in this cluster whose shard's guard here does not admit them yet.
//!
//! Mostly it has only not been read yet, or is about to follow the one that they leave; the other engine
//! need not ask again for that, and its next group need not wait. If it takes longer, it is told so. There
//! is one group at a time from each cluster (`pace.rs`).

use crate::engine::Engine;
use crate::engine::later::Task;
use crate::engine::words::{Place, Said};
use crate::limits;
use crate::lock_id::GroupId;
use shard_map::ShardId;
use std::collections::BTreeMap;

/// By group: of two words about one, the later one counts.
pub(crate) type Places = BTreeMap<GroupId, Place>;

impl Engine {
    /// The place is prepared when the guard admits it, if that is soon.
    pub(crate) fn place_waits(&mut self, place: Place) {
        self.want_guards([place.shard]);
        self.follow(place.shard, &place.left);
        self.do_later(limits::PLACE_WAIT, Task::RefusePlace(place.group.id));
        self.places.insert(place.group.id, place);
    }

    /// The shard's guard here was read.
    pub(crate) fn places_go_on(&mut self, shard: ShardId) {
        let of_shard = self.places.extract_if(.., |_, place| place.shard == shard);
        for (_, place) in of_shard.collect::<Vec<_>>() {
            if self.guard_that_admits(&place).is_some() {
                self.prepare_place(place);
            } else {
                self.follow(shard, &place.left);
                self.places.insert(place.group.id, place);
            }
        }
    }

    /// It has taken too long.
    pub(crate) fn refuse_place(&mut self, group: GroupId) {
        if let Some(place) = self.places.remove(&group) {
            self.say(&place.from.cluster(), Said::NotYet(group));
        }
    }
}
