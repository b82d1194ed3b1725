//! Lease groups: one etcd lease shared by up to a thousand locks of one shard.
//!
//! A group is made (lease, then key), takes grants while it is open, and is retired when it is
//! empty (key deleted under its own revision, then the lease revoked). A claimed group takes no
//! grants: it serves what it has and is retired when that is gone.
//!
//! A gateway that is killed after the lease was granted and before the key is there leaves the lease to
//! its TTL: no key names it, so nobody else may revoke it. It cannot begin with a shorter one, as each
//! keepalive gives a lease the TTL again that it was granted with.

use crate::engine::calls::Purpose;
use crate::engine::group::{GroupCtl, GroupNumber, GroupState};
use crate::engine::later::Task;
use crate::engine::slot::SlotState;
use crate::engine::writes::WriteOp;
use crate::engine::{Engine, proof};
use crate::limits;
use crate::lock_id::{GroupId, SlotIndex};
use crate::time::{Instant, Millis};
use holdfast_store::{LeaseId, Op, Reply, Revision, StoreError};
use rand::Rng;
use shard_map::ShardId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a shard has room for another lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// In this group.
    In(GroupId),
    /// In a group that is being made.
    Coming,
    /// In a group whose lease is not proven at the moment.
    Unproven,
    /// Nowhere: there are as many groups as may be.
    None,
}

/// The groups of this gateway in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_id: BTreeMap<GroupId, GroupCtl>,
    /// Those that arrive from another cluster: its engine has their slots until they are taken.
    arriving: BTreeMap<GroupId, GroupCtl>,
    /// By number; a number that is free may name a group that is gone.
    by_number: Vec<GroupId>,
    free_numbers: Vec<GroupNumber>,
    next_tidy: Instant,
}

impl Groups {
    pub(crate) fn get(&self, group: GroupId) -> Option<&GroupCtl> {
        self.by_id.get(&group)
    }

    pub(crate) fn get_mut(&mut self, group: GroupId) -> Option<&mut GroupCtl> {
        self.by_id.get_mut(&group)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &GroupCtl)> {
        self.by_id.iter().map(|(id, ctl)| (*id, ctl))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn locks(&self) -> usize {
        self.by_id.values().map(GroupCtl::used).sum()
    }

    pub(crate) fn arriving(&self, group: GroupId) -> Option<&GroupCtl> {
        self.arriving.get(&group)
    }

    pub(crate) fn arriving_mut(&mut self, group: GroupId) -> Option<&mut GroupCtl> {
        self.arriving.get_mut(&group)
    }

    pub(crate) fn insert_arriving(&mut self, ctl: GroupCtl) {
        self.arriving.insert(ctl.group.id, ctl);
    }

    pub(crate) fn arriving_where(
        &self,
        is_wanted: impl Fn(&GroupCtl) -> bool,
    ) -> impl Iterator<Item = (GroupId, LeaseId)> {
        let arriving = self.arriving.values().filter(move |ctl| is_wanted(ctl));
        arriving.map(|ctl| (ctl.group.id, ctl.lease))
    }

    pub(crate) fn remove_arriving(&mut self, group: GroupId) -> Option<GroupCtl> {
        self.arriving.remove(&group)
    }

    /// Those that are here, and those that arrive.
    pub(crate) fn with_arriving(&self) -> impl Iterator<Item = (GroupId, &GroupCtl)> {
        let arriving = self.arriving.iter().map(|(id, ctl)| (*id, ctl));
        self.iter().chain(arriving)
    }

    /// The group of an entry in the wheel. It may be another than the entry was made for, when
    /// that one is gone.
    pub(crate) fn numbered(&self, number: GroupNumber) -> Option<(GroupId, &GroupCtl)> {
        let id = self.by_number.get(usize::try_from(number.0).ok()?)?;
        Some((*id, self.get(*id)?))
    }

    pub(crate) fn insert(&mut self, mut ctl: GroupCtl) {
        let id = ctl.group.id;
        ctl.number = match self.free_numbers.pop() {
            Some(number) => number,
            None => {
                self.by_number.push(id);
                // There are no more groups than limits::GROUPS_MAX and those that were claimed.
                GroupNumber(u32::try_from(self.by_number.len() - 1).unwrap_or(u32::MAX))
            }
        };
        if let Some(named) = usize::try_from(ctl.number.0)
            .ok()
            .and_then(|at| self.by_number.get_mut(at))
        {
            *named = id;
        }
        if let Some(replaced) = self.by_id.insert(id, ctl) {
            self.free_numbers.push(replaced.number);
        }
    }

    pub(crate) fn remove(&mut self, group: GroupId) -> Option<GroupCtl> {
        let ctl = self.by_id.remove(&group)?;
        self.free_numbers.push(ctl.number);
        Some(ctl)
    }

    pub(crate) fn take_all(&mut self) -> Vec<GroupId> {
        self.by_number.clear();
        self.free_numbers.clear();
        self.arriving.clear();
        std::mem::take(&mut self.by_id).into_keys().collect()
    }

    /// The leases of groups whose key was never confirmed.
    pub(crate) fn unconfirmed(&self) -> impl Iterator<Item = LeaseId> {
        let unconfirmed = self
            .with_arriving()
            .filter(|(_, ctl)| ctl.revision == Revision::ABSENT);
        unconfirmed.map(|(_, ctl)| ctl.lease)
    }

    /// The groups whose key a linearizable read must show: id, lease, and revision.
    pub(crate) fn settled(&self) -> Vec<(GroupId, LeaseId, Revision)> {
        self.with_arriving()
            .filter(|(_, ctl)| ctl.is_settled())
            .map(|(id, ctl)| (id, ctl.lease, ctl.revision))
            .collect()
    }

    pub(crate) fn prove(&self, group: GroupId, until: Instant) {
        if let Some(ctl) = self.get(group).or_else(|| self.arriving(group)) {
            ctl.stay
                .set_proven_until(until.max(ctl.stay.proven_until()));
        }
    }

    pub(crate) fn void_proofs(&self) {
        self.by_id
            .values()
            .chain(self.arriving.values())
            .for_each(|ctl| ctl.stay.set_proven_until(Instant::NEVER));
    }
}

impl Engine {
    /// Makes a new group for the shard, unless one is on its way. Tells whether one is.
    pub(crate) fn open_group(&mut self, shard: ShardId) -> Room {
        if self.shard_mut(shard).opening {
            return Room::Coming;
        }
        if self.groups.len() >= limits::GROUPS_MAX {
            return Room::None;
        }
        self.shard_mut(shard).opening = true;
        let id = GroupId(self.rng.next_u64());
        let lease = self.new_lease_id();
        let group = self.table.new_group(id, &self.proof);
        self.groups.insert(GroupCtl::new(
            group,
            shard,
            lease,
            GroupState::Granting,
            self.now,
        ));
        let ttl_s = u32::try_from(self.settings.group_ttl.as_secs()).unwrap_or(u32::MAX);
        let op = Op::LeaseGrant { lease, ttl_s };
        self.call(op, limits::CALL_TIMEOUT, Purpose::GroupLease(id));
        Room::Coming
    }

    pub(crate) fn on_group_lease(
        &mut self,
        id: GroupId,
        sent: Instant,
        result: Result<Reply, StoreError>,
    ) {
        let ttl = match result {
            Ok(Reply::LeaseGranted { ttl_s, .. }) => {
                Millis::from_secs(u64::try_from(ttl_s).unwrap_or(0))
            }
            Ok(_) => Millis::ZERO,
            Err(error) => return self.group_failed(id, &error),
        };
        let Some(ctl) = self.groups.get_mut(id) else {
            return;
        };
        // The grant of a lease is replicated like a write, so it proves the lease from its send;
        // nothing is promised on it before the group's key is confirmed.
        ctl.stay.set_proven_until(proof::proven_until(sent, ttl));
        ctl.state = GroupState::Writing;
        self.queue_write(WriteOp::OpenGroup(id));
    }

    /// The group never came to be. Its lease id is given up: no key names it.
    pub(crate) fn group_failed(&mut self, id: GroupId, error: &StoreError) {
        let Some(ctl) = self.groups.remove(id) else {
            return;
        };
        tracing::warn!(cluster = %self.settings.cluster, %error, "lease group not made");
        // No key was written that names the lease, so nobody can use it.
        self.revoke(ctl.lease);
        self.do_later(limits::RETRY_BACKOFF, Task::OpenGroup(ctl.shard));
    }

    pub(crate) fn open_group_after_backoff(&mut self, shard: ShardId) {
        self.shard_mut(shard).opening = false;
        self.unpark(shard);
    }

    /// The group's key is in etcd.
    pub(crate) fn group_opened(&mut self, id: GroupId, revision: Revision) {
        let Some(ctl) = self.groups.get_mut(id) else {
            return;
        };
        ctl.revision = revision;
        ctl.state = GroupState::Open;
        ctl.check_due = self.now + self.survey_interval;
        ctl.group.begin_serving();
        let shard = ctl.shard;
        self.table.insert(Arc::clone(&ctl.group));
        self.list_group(id);
        self.shard_mut(shard).opening = false;
        self.unpark(shard);
    }

    /// Puts an open group on its shard's list of groups with room.
    fn list_group(&mut self, id: GroupId) {
        let Some(ctl) = self.groups.get_mut(id) else {
            return;
        };
        if ctl.state == GroupState::Open && !ctl.listed {
            ctl.listed = true;
            let shard = ctl.shard;
            self.shard_mut(shard).with_room.push(id);
        }
    }

    /// A group of the shard that has room; asks for the next one in good time.
    pub(crate) fn group_with_room(&mut self, shard: ShardId) -> Room {
        while let Some(id) = self.shard_mut(shard).with_room.last().copied() {
            match self.groups.get_mut(id) {
                Some(ctl) if ctl.state == GroupState::Open && ctl.room() > 0 => {
                    if ctl.stay.proven_until() <= self.now {
                        self.round.want();
                        return Room::Unproven;
                    }
                    let nearly_full = ctl.room() < limits::GROUP_LOCKS_MAX / 8;
                    if nearly_full && self.shard_mut(shard).with_room.len() == 1 {
                        // If there can be none, this one is filled first.
                        self.open_group(shard);
                    }
                    return Room::In(id);
                }
                Some(ctl) => ctl.listed = false,
                None => {}
            }
            self.shard_mut(shard).with_room.pop();
        }
        self.open_group(shard)
    }

    pub(crate) fn free_slot(&mut self, id: GroupId, slot: SlotIndex) {
        let now = self.now;
        if let Some(ctl) = self.groups.get_mut(id) {
            ctl.free_slot(slot, now);
            self.list_group(id);
        }
    }

    /// Takes no more grants into the group, because something about its key is in doubt.
    pub(crate) fn suspect_group(&mut self, id: GroupId) {
        if let Some(ctl) = self.groups.get_mut(id)
            && ctl.state == GroupState::Open
        {
            ctl.state = GroupState::Closed;
        }
        self.round.want();
    }

    /// The group's key is not what this gateway wrote, as a linearizable read has shown: its
    /// table is void. What waits for one of its locks is looked up in etcd.
    pub(crate) fn group_lost(&mut self, id: GroupId) {
        self.place_lost(id);
        let Some(ctl) = self.groups.remove(id) else {
            return;
        };
        self.move_lost(id);
        tracing::warn!(
            cluster = %self.settings.cluster, group = %id, locks = ctl.used(), "lease group lost"
        );
        self.stats.groups_lost.add(1);
        self.stats.locks_lost.add(ctl.used() as u64);
        self.table.remove(id, &self.proof);
        self.survey_ends(id);
        self.endings_of_lost_group(id);
    }

    /// The leases that want a keepalive: less than half of their time is proven.
    pub(crate) fn leases_due(&self) -> Vec<LeaseId> {
        let wanted = self.now + Millis::from_ms(self.settings.group_ttl.as_ms() / 2);
        self.groups
            .with_arriving()
            .filter(|(_, ctl)| ctl.is_settled() && ctl.stay.proven_until() < wanted)
            .map(|(_, ctl)| ctl.lease)
            .take(limits::KEEPALIVE_BURST_MAX)
            .collect()
    }

    /// Retires groups that have been empty for a while; one open group per shard is kept longer.
    pub(crate) fn keep_groups(&mut self) {
        if self.now < self.groups.next_tidy {
            return;
        }
        self.groups.next_tidy = self.now + limits::TIDY_INTERVAL;
        self.drop_answered_acquires();
        self.drop_answered_parked();
        let now = self.now;
        let empty: Vec<_> = self
            .groups
            .iter()
            .filter(|(id, ctl)| {
                let last = self
                    .shards
                    .get(&ctl.shard)
                    .is_some_and(|s| s.with_room == [*id]);
                let patience = if last {
                    limits::LAST_GROUP_IDLE
                } else {
                    limits::GROUP_IDLE
                };
                ctl.used() == 0
                    && ctl.unreadable == 0
                    && ctl.is_only_here()
                    && matches!(ctl.state, GroupState::Open | GroupState::Closed)
                    && now.since(ctl.empty_since) >= patience
            })
            .map(|(id, _)| id)
            .take(limits::BATCH_BUNDLES_MAX)
            .collect();
        empty.into_iter().for_each(|id| self.retire(id));
    }

    /// Ends an empty group that takes no grants.
    pub(crate) fn retire(&mut self, id: GroupId) {
        if let Some(ctl) = self.groups.get_mut(id) {
            ctl.state = GroupState::Retiring;
            self.survey_ends(id);
            self.queue_write(WriteOp::RetireGroup(id));
        }
    }

    /// The deletion of the group's key is confirmed as this gateway's own.
    pub(crate) fn group_retired(&mut self, id: GroupId) {
        if let Some(ctl) = self.groups.remove(id) {
            debug_assert!(
                ctl.group
                    .slots()
                    .iter()
                    .all(|slot| slot.state() == SlotState::Free),
                "a group with locks is not retired"
            );
            self.table.remove(id, &self.proof);
            self.revoke(ctl.lease);
        }
    }
}
