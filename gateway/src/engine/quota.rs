//! How many locks each principal has at this gateway, in all clusters together, and how many it may.
//!
//! Counted are the slots of groups that are in use: of a lock that is being granted, of a hold, and of one
//! whose record may still be in etcd. A grant takes its place before anything is written, so nobody gets
//! beyond the quota here; what is taken over from another gateway has a place whatever the quota is, and
//! then nothing new is granted until enough has ended. A place is given back when its slot is free, and
//! with the group when that is given up.
//!
//! Those who need not prove who they are are not counted. Who has no lock has no entry, so the table is
//! never larger than the tables of locks.

use crate::engine::table::RandomIdHasher;
use crate::names::PrincipalTag;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use std::hash::BuildHasherDefault;
use std::num::NonZeroU32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// `None`: any number, and nobody is counted.
    locks_max: Option<NonZeroU32>,
    /// A tag is a part of a hash already.
    taken: DashMap<PrincipalTag, u32, BuildHasherDefault<RandomIdHasher>>,
}

/// The place of a lock that has no slot yet. Given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Place<'a> {
    of: &'a Quota,
    owner: PrincipalTag,
}

impl Quota {
    pub(crate) fn new(locks_max: Option<NonZeroU32>) -> Self {
        Self {
            locks_max,
            taken: DashMap::default(),
        }
    }

    /// A place for a lock that is to be granted; `None` when its owner has as many as it may.
    pub(crate) fn take(&self, owner: PrincipalTag) -> Option<Place<'_>> {
        let locks_max = self.locks_max.map_or(u32::MAX, NonZeroU32::get);
        self.place_below(locks_max, owner)
    }

    /// A place for a lock that there is already.
    pub(crate) fn admit(&self, owner: PrincipalTag) -> Place<'_> {
        // There are not so many locks that this is ever `None`.
        let place = self.place_below(u32::MAX, owner);
        place.unwrap_or(Place {
            of: self,
            owner: PrincipalTag::NONE,
        })
    }

    fn place_below(&self, locks_max: u32, owner: PrincipalTag) -> Option<Place<'_>> {
        if self.counts(owner) {
            let mut taken = self.taken.entry(owner).or_default();
            if *taken >= locks_max {
                return None;
            }
            *taken += 1;
        }
        Some(Place { of: self, owner })
    }

    /// The slot that a place was kept for is free.
    pub(crate) fn give_back(&self, owner: PrincipalTag) {
        if !self.counts(owner) {
            return;
        }
        if let Entry::Occupied(mut taken) = self.taken.entry(owner) {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }

    fn counts(&self, owner: PrincipalTag) -> bool {
        self.locks_max.is_some() && owner != PrincipalTag::NONE
    }

    /// How many it has.
    pub(crate) fn taken(&self, owner: PrincipalTag) -> u32 {
        self.taken.get(&owner).map_or(0, |taken| *taken)
    }
}

impl Place<'_> {
    /// The lock has its slot, which gives the place back when it is free.
    pub(crate) fn keep(mut self) {
        self.owner = PrincipalTag::NONE;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.of.give_back(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(locks_max: u32) -> Quota {
        Quota::new(NonZeroU32::new(locks_max))
    }

    fn tag(name: &str) -> PrincipalTag {
        PrincipalTag::of_name(name)
    }

    #[test]
    fn a_principal_has_so_many_places_and_gets_them_back() {
        let quota = quota(2);
        let (one, other) = (tag("one"), tag("other"));
        quota.take(one).unwrap().keep();
        quota.take(one).unwrap().keep();
        assert!(quota.take(one).is_none());
        assert_eq!(quota.taken(one), 2, "a refusal takes nothing");
        quota.take(other).unwrap().keep();
        quota.give_back(one);
        quota.take(one).unwrap().keep();
        assert!(quota.take(one).is_none());
    }

    #[test]
    fn a_place_that_finds_no_slot_is_given_back() {
        let quota = quota(1);
        drop(quota.take(tag("one")).unwrap());
        assert_eq!(quota.taken(tag("one")), 0);
        assert!(quota.take(tag("one")).is_some());
    }

    #[test]
    fn what_there_is_already_is_admitted_beyond_the_quota_and_must_end_first() {
        let quota = quota(1);
        let one = tag("one");
        (0..3).for_each(|_| quota.admit(one).keep());
        assert_eq!(quota.taken(one), 3);
        for _ in 0..2 {
            quota.give_back(one);
            assert!(quota.take(one).is_none());
        }
        quota.give_back(one);
        assert!(quota.take(one).is_some());
    }

    #[test]
    fn whoever_has_no_lock_has_no_entry() {
        let quota = quota(5);
        let tags: Vec<_> = (0..1_000).map(|n| tag(&format!("p{n}"))).collect();
        tags.iter().for_each(|tag| quota.take(*tag).unwrap().keep());
        assert_eq!(quota.taken.len(), 1_000);
        tags.iter().for_each(|tag| quota.give_back(*tag));
        assert_eq!(quota.taken.len(), 0);
        drop(quota.take(tag("one")));
        assert_eq!(
            quota.taken.len(),
            0,
            "nor has one whose grant came to nothing"
        );
    }

    #[test]
    fn nobody_in_particular_is_not_counted_and_nobody_is_without_a_quota() {
        let limited = quota(1);
        (0..10).for_each(|_| limited.take(PrincipalTag::NONE).unwrap().keep());
        let unlimited = Quota::default();
        (0..10).for_each(|_| unlimited.take(tag("one")).unwrap().keep());
        assert!(limited.taken.is_empty() && unlimited.taken.is_empty());
        limited.give_back(PrincipalTag::NONE);
        unlimited.give_back(tag("one"));
    }

    #[test]
    fn many_threads_together_get_as_many_places_as_there_are() {
        let quota = quota(1_000);
        let one = tag("one");
        let take_some = || {
            let places = (0..400).filter_map(|_| quota.take(one));
            places.map(Place::keep).count()
        };
        let got: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take_some)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!((got, quota.taken(one)), (1_000, 1_000));
    }
}
