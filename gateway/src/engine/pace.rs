//! How fast groups leave a cluster: to each other cluster one after the other, with a rest in between.
//!
//! A move asks etcd and this gateway for work that renewals and acquires need too. So the next one waits
//! [`limits::MOVE_REST_TIMES`] times as long as the last one took: only so small a part of the time is
//! spent on moves, and where everything is slow already they become rarer by themselves. One at a time
//! also means that few holds have to wait with their end for a move.
//!
//! Groups take turns, so that one which cannot go keeps no other from going; and what goes to one
//! cluster does not wait for another that does not answer.

use crate::limits;
use crate::lock_id::GroupId;
use crate::time::{Instant, Millis};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By the cluster that groups go to. There are as many as the map has clusters.
#[derive(Debug, Default)]
pub(crate) struct Paces(BTreeMap<Arc<str>, Pace>);

#[derive(Debug, Default)]
struct Pace {
    /// Which group went last, or tried to.
    last: Option<GroupId>,
    /// It is still on its way.
    busy: bool,
    /// The next one does not begin before this.
    next: Instant,
}

impl Paces {
    /// Whether a group may begin to go there.
    pub(crate) fn is_free(&self, to: &str, now: Instant) -> bool {
        let pace = self.0.get(to);
        pace.is_none_or(|pace| !pace.busy && pace.next <= now)
    }

    /// Whether the first group's turn comes before the second's.
    pub(crate) fn goes_before(&self, to: &str, first: GroupId, second: GroupId) -> bool {
        let last = self.0.get(to).and_then(|pace| pace.last);
        let waits = |group: GroupId| (Some(group) <= last, group);
        waits(first) < waits(second)
    }

    /// This group begins to go there.
    pub(crate) fn begins(&mut self, to: &Arc<str>, group: GroupId) {
        let pace = self.0.entry(Arc::clone(to)).or_default();
        pace.last = Some(group);
        pace.busy = true;
    }

    /// It is there, or has come back; the next one may begin then at the earliest.
    pub(crate) fn ends(&mut self, to: &str, group: GroupId, next: Instant) {
        let pace = self.0.get_mut(to);
        if let Some(pace) = pace.filter(|pace| pace.last == Some(group)) {
            pace.busy = false;
            pace.next = next;
        }
    }

    /// When the next rest is over.
    pub(crate) fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        let ends = self.0.values().map(|pace| pace.next);
        ends.filter(|next| *next > now).min()
    }
}

/// How long nothing moves after a move that took so long.
pub(crate) fn rest_after(took: Millis) -> Millis {
    let rest = took.times(limits::MOVE_REST_TIMES);
    rest.clamp(limits::MOVE_REST_MIN, limits::MOVE_REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ms(ms)
    }

    #[test]
    fn one_group_at_a_time_goes_to_a_cluster_and_others_go_elsewhere_meanwhile() {
        let (mut paces, b) = (Paces::default(), Arc::from("b"));
        paces.begins(&b, GroupId(1));
        assert!(!paces.is_free("b", at(1_000_000)));
        assert!(paces.is_free("c", at(0)));
    }

    #[test]
    fn the_next_group_waits_as_many_times_as_long_as_the_last_one_took() {
        let (mut paces, b) = (Paces::default(), Arc::from("b"));
        let over = at(1_000) + rest_after(Millis::from_ms(100));
        assert_eq!(over, at(1_000 + limits::MOVE_REST_TIMES * 100));
        paces.begins(&b, GroupId(1));
        paces.ends("b", GroupId(1), over);
        assert_eq!(paces.next_wakeup(at(1_000)), Some(over));
        assert!(!paces.is_free("b", at(over.as_ms() - 1)));
        assert!(paces.is_free("b", over));
        assert_eq!(paces.next_wakeup(over), None);
    }

    #[test]
    fn a_rest_is_never_none_and_never_long() {
        assert_eq!(rest_after(Millis::ZERO), limits::MOVE_REST_MIN);
        assert_eq!(rest_after(limits::MOVE_TIME_MAX), limits::MOVE_REST_MAX);
    }

    #[test]
    fn a_group_that_does_not_get_away_comes_again_after_all_others() {
        let (mut paces, b) = (Paces::default(), Arc::from("b"));
        let ids = [1, 2, 3].map(GroupId);
        let mut went = Vec::new();
        for _ in 0..4 {
            let next = ids.into_iter().reduce(|first, second| {
                match paces.goes_before("b", second, first) {
                    true => second,
                    false => first,
                }
            });
            paces.begins(&b, next.unwrap());
            went.extend(next);
        }
        assert_eq!(went, [1, 2, 3, 1].map(GroupId));
    }
}
