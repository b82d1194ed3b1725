//! The lease groups of this gateway and their slots, shared between the engines, which change
//! them, and the threads that renew.
//!
//! A renewal reads: the session's proof, the group, its slot, the slot's word, the group's proof.
//! It writes one word. It takes a read lock of its group only, which an engine holds for
//! writing just as long as a slot takes to fill.

use crate::engine::mutation::{Mistake, Mutation};
use crate::engine::proof;
use crate::engine::quota::Quota;
use crate::engine::slot::{AtomicSlotWord, SlotState, SlotWord};
use crate::engine::stats::{RENEWAL_MARGIN_BOUNDS, RenewalMargins};
use crate::engine::tickets::Trouble;
use crate::engine::wheel::Tick;
use crate::limits;
use crate::lock_id::{GroupId, LockId, Secret, SlotIndex};
use crate::names::{LockName, Principal, PrincipalTag, Token};
use crate::service::{Renew, Renewed, ServiceError};
use crate::time::{Instant, Millis};
use dashmap::DashMap;
use holdfast_store::Revision;
use parking_lot::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Every group that this gateway owns, in any cluster.
#[derive(Debug, Default)]
pub struct Table {
    groups: DashMap<GroupId, Arc<Group>, BuildHasherDefault<RandomIdHasher>>,
    quota: Arc<Quota>,
}

/// The hash of an id that is drawn evenly, or made by a hash: itself. No client can choose one: of
/// groups it can only ask for ids, not put any in, and principals are named by the configuration.
#[derive(Debug, Default)]
pub(crate) struct RandomIdHasher(u64);

impl Hasher for RandomIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

/// How far this gateway's session in a cluster is proven.
#[derive(Debug)]
pub struct ClusterProof {
    /// The cluster's name in the map.
    pub name: Arc<str>,
    session_until: AtomicU64,
    last_proof: AtomicU64,
    /// The engine was told to stop; nothing is proven ever again.
    stopped: AtomicBool,
    mistake: Mistake,
    margins: RenewalMargins,
}

/// One lease group. It is the same while it moves to another cluster: what changes is whose proofs
/// count.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    /// Its slots are what etcd has. False while a claim loads, and when the group is gone.
    serving: AtomicBool,
    holds: RwLock<Holds>,
    /// Its slots that are not free are counted there.
    quota: Arc<Quota>,
}

/// What a renewal looks at under the group's read lock.
#[derive(Debug)]
struct Holds {
    slots: Vec<Slot>,
    stay: Arc<Stay>,
    /// The cluster that it moves to, from when its key in the other may be gone.
    next: Option<Arc<Stay>>,
}

/// A group's time in one cluster: how far its lease there is proven, and its owner's session.
#[derive(Debug)]
pub(crate) struct Stay {
    pub(crate) cluster: Arc<ClusterProof>,
    proven_until: AtomicU64,
}

/// One lock of a group.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) word: AtomicSlotWord,
    pub(crate) secret: Secret,
    pub(crate) token: Token,
    /// Of the record in etcd.
    pub(crate) revision: Revision,
    /// Kept when the slot is free, with the secret, so that a late request for a hold whose end
    /// was confirmed is answered from memory.
    pub(crate) name: Option<LockName>,
    /// The TTL in milliseconds; the highest bit says whether the hold is, or was, force-released.
    ttl_ms_and_forced: u32,
    /// Whose hold it is: another's lock id is no use to anybody else.
    pub(crate) owner: PrincipalTag,
    /// The tick of its entry in the wheel; earlier entries are stale.
    armed: AtomicU32,
}

const FORCED: u32 = 1 << 31;

const _: () = assert!(limits::CONFIGURED_MAX.as_ms() < FORCED as u64);

/// What a group can say of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FastRenewal {
    /// The hold goes on.
    Renewed(Renewed),
    /// Nothing can be promised here now.
    Unproven,
    /// The group was taken over and its records are being read.
    Loading,
    /// The engine must look at it.
    AskEngine,
}

impl Table {
    /// An empty one, of a gateway at which each principal may have so many locks; `None`: any number.
    pub fn new(principal_locks_max: Option<NonZeroU32>) -> Self {
        Self {
            groups: DashMap::default(),
            quota: Arc::new(Quota::new(principal_locks_max)),
        }
    }

    /// How many locks this principal has here: those that are being granted and those that are ending
    /// are counted too. Zero where there is no quota.
    pub fn locks_of(&self, principal: &Principal) -> u32 {
        self.quota.taken(PrincipalTag::of(Some(principal)))
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// A group of this gateway, which is not among the others yet.
    pub(crate) fn new_group(&self, id: GroupId, cluster: &Arc<ClusterProof>) -> Arc<Group> {
        Arc::new(Group {
            id,
            serving: AtomicBool::new(false),
            holds: RwLock::new(Holds {
                slots: Vec::new(),
                stay: Stay::new(Arc::clone(cluster)),
                next: None,
            }),
            quota: Arc::clone(&self.quota),
        })
    }

    /// Renews from memory. `None`: only the engine can answer.
    ///
    /// A promise is made only while the session is proven, for at most the TTL in the record, and
    /// never beyond the proof of the group's lease.
    pub fn renew(&self, now: Instant, renew: &Renew) -> Option<Result<Renewed, ServiceError>> {
        let group = self.groups.get(&renew.lock_id.group())?;
        let trouble = match group.renew(now, renew) {
            FastRenewal::Renewed(told) => return Some(Ok(told)),
            FastRenewal::Unproven => Trouble::Unproven,
            FastRenewal::Loading => Trouble::Loading,
            FastRenewal::AskEngine => return None,
        };
        Some(Err(trouble.to_error(&group.cluster_name())))
    }

    /// The cluster that has the group's key now, if it is this gateway's.
    pub fn cluster_of(&self, group: GroupId) -> Option<Arc<str>> {
        let group = self.groups.get(&group)?;
        Some(group.cluster_name())
    }

    /// How long this hold lasts at most without a renewal, if it is this gateway's.
    pub(crate) fn left_of(&self, now: Instant, id: &LockId) -> Option<Millis> {
        let group = self.get(id.group())?;
        let word =
            group.with_slot(id.slot(), |slot| slot.is_of(id).then(|| slot.word.load()))??;
        word.state.is_hold().then(|| word.deadline.since(now))
    }

    /// Whether the group is this gateway's.
    pub fn has(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group)
    }

    pub(crate) fn insert(&self, group: Arc<Group>) {
        self.groups.insert(group.id, group);
    }

    pub(crate) fn get(&self, group: GroupId) -> Option<Arc<Group>> {
        self.groups.get(&group).map(|group| Arc::clone(&group))
    }

    /// Takes a group of this cluster out; whoever still has it finds it neither serving nor proven.
    pub(crate) fn remove(&self, group: GroupId, cluster: &Arc<ClusterProof>) {
        let is_there = |_: &GroupId, group: &Arc<Group>| group.is_in(cluster);
        if let Some((_, group)) = self.groups.remove_if(&group, is_there) {
            group.serving.store(false, Ordering::Release);
            group.stay().set_proven_until(Instant::NEVER);
        }
    }
}

impl ClusterProof {
    /// A cluster in which nothing is proven yet.
    pub fn new(name: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            name,
            session_until: AtomicU64::new(0),
            last_proof: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            mistake: Default::default(),
            margins: RenewalMargins::new(RENEWAL_MARGIN_BOUNDS),
        })
    }

    /// Has the engine make a deliberate mistake.
    #[cfg(feature = "mutations")]
    pub fn mutate(&self, mutation: Mutation) {
        self.mistake.make(mutation);
    }

    pub(crate) fn is_mutated(&self) -> bool {
        self.mistake.is_made()
    }

    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.mistake.is(mutation)
    }

    /// Until when the session is proven to live.
    pub fn session_until(&self) -> Instant {
        Instant::from_ms(self.session_until.load(Ordering::Acquire))
    }

    /// What was left of the holds that were renewed from memory.
    pub fn margins(&self) -> &RenewalMargins {
        &self.margins
    }

    /// Whether the session is proven at `now`.
    pub fn is_proven(&self, now: Instant) -> bool {
        now < self.session_until()
    }

    /// Why this gateway can say nothing definite about the cluster's locks at `now`, if it cannot.
    pub(crate) fn trouble(&self, now: Instant) -> Option<Trouble> {
        match self.stopped.load(Ordering::Acquire) {
            true => Some(Trouble::Draining),
            false => (!self.is_proven(now)).then_some(Trouble::Unproven),
        }
    }

    /// When the keepalive was sent that gave the last proof.
    pub fn last_proof(&self) -> Option<Instant> {
        match self.last_proof.load(Ordering::Acquire) {
            0 => None,
            ms => Some(Instant::from_ms(ms)),
        }
    }

    pub(crate) fn prove(&self, sent: Instant, until: Instant) {
        self.last_proof.store(sent.as_ms(), Ordering::Release);
        self.session_until.store(until.as_ms(), Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn void(&self) {
        self.session_until.store(0, Ordering::Release);
    }
}

impl Stay {
    pub(crate) fn new(cluster: Arc<ClusterProof>) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            proven_until: AtomicU64::new(0),
        })
    }

    pub(crate) fn proven_until(&self) -> Instant {
        Instant::from_ms(self.proven_until.load(Ordering::Acquire))
    }

    pub(crate) fn set_proven_until(&self, until: Instant) {
        self.proven_until.store(until.as_ms(), Ordering::Release);
    }

    /// Until when a promise may last that is made at `now`; `None`: none may be made.
    fn promises(&self, now: Instant) -> Option<Instant> {
        let until = self.proven_until();
        (self.cluster.is_proven(now) && now < until).then_some(until)
    }
}

impl Holds {
    /// As [`Stay::promises`], in every cluster whose word counts.
    fn promises(&self, now: Instant) -> Option<Instant> {
        let until = self.stay.promises(now)?;
        match &self.next {
            Some(next) => Some(until.min(next.promises(now)?)),
            None => Some(until),
        }
    }
}

impl Group {
    /// The cluster whose proof counts.
    pub(crate) fn stay(&self) -> Arc<Stay> {
        Arc::clone(&self.holds.read().stay)
    }

    pub(crate) fn is_in(&self, cluster: &Arc<ClusterProof>) -> bool {
        Arc::ptr_eq(&self.holds.read().stay.cluster, cluster)
    }

    fn cluster_name(&self) -> Arc<str> {
        Arc::clone(&self.holds.read().stay.cluster.name)
    }

    /// From now on a promise needs the proof of `next` too; `None`: no longer. Tells the latest
    /// deadline of its holds; none that is made later is beyond both proofs.
    pub(crate) fn promise_in_both(&self, next: Option<Arc<Stay>>) -> Instant {
        let mut holds = self.holds.write();
        holds.next = next;
        let held = holds.slots.iter().map(|slot| slot.word.load());
        let held = held.filter(|word| word.state.is_hold());
        held.fold(Instant::NEVER, |latest, word| latest.max(word.deadline))
    }

    /// The cluster that it moves to, while both proofs count.
    pub(crate) fn next_stay(&self) -> Option<Arc<Stay>> {
        self.holds.read().next.clone()
    }

    /// From now on only the proof in this cluster counts.
    pub(crate) fn promise_in(&self, stay: Arc<Stay>) {
        let mut holds = self.holds.write();
        holds.next = None;
        holds.stay = stay;
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// Answers no renewal any more; tells the deadlines of its holds, which no renewal moves after
    /// this.
    pub(crate) fn close(&self) -> Vec<(SlotIndex, Secret, Instant)> {
        self.serving.store(false, Ordering::Release);
        // Whoever renews reads `serving` under the lock that is waited for here.
        let slots = self.slots_mut();
        let held = (0..).zip(slots.iter()).filter_map(|(index, slot)| {
            let word = slot.word.load();
            let held = word.state.is_hold();
            held.then_some((SlotIndex(index), slot.secret, word.deadline))
        });
        held.collect()
    }

    pub(crate) fn begin_serving(&self) {
        self.serving.store(true, Ordering::Release);
    }

    pub(crate) fn slots(&self) -> MappedRwLockReadGuard<'_, Vec<Slot>> {
        RwLockReadGuard::map(self.holds.read(), |holds| &holds.slots)
    }

    pub(crate) fn slots_mut(&self) -> MappedRwLockWriteGuard<'_, Vec<Slot>> {
        RwLockWriteGuard::map(self.holds.write(), |holds| &mut holds.slots)
    }

    /// Looks at one slot.
    pub(crate) fn with_slot<R>(&self, slot: SlotIndex, look: impl FnOnce(&Slot) -> R) -> Option<R> {
        self.slots().get(usize::from(slot.0)).map(look)
    }

    /// Changes one slot, which must exist.
    pub(crate) fn change_slot(&self, slot: SlotIndex, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots_mut().get_mut(usize::from(slot.0)) {
            change(slot);
        }
    }

    /// The lock of this slot, which is in use, is certainly not in etcd.
    pub(crate) fn free(&self, slot: SlotIndex) {
        self.change_slot(slot, |slot| {
            slot.word.store(SlotWord::FREE);
            self.quota.give_back(slot.owner);
        });
    }

    pub(crate) fn renew(&self, now: Instant, renew: &Renew) -> FastRenewal {
        let holds = self.holds.read();
        let cluster = &holds.stay.cluster;
        if !self.is_serving() {
            return FastRenewal::Loading;
        }
        let proven_until = holds.promises(now);
        if proven_until.is_none() && !cluster.mutated(Mutation::PromiseUnproven) {
            return FastRenewal::Unproven;
        }
        let Some(slot) = holds.slots.get(usize::from(renew.lock_id.slot().0)) else {
            return FastRenewal::AskEngine;
        };
        let any_token = cluster.mutated(Mutation::AnyTokenRenews);
        if !slot.is_of(&renew.lock_id) || (slot.token != renew.token && !any_token) {
            return FastRenewal::AskEngine;
        }
        if !slot.is_open_to(renew.principal.as_ref()) {
            return FastRenewal::AskEngine;
        }
        let wanted = renew.ttl.unwrap_or(slot.ttl());
        if wanted > slot.ttl() && !cluster.mutated(Mutation::LongerWithoutRewrite) {
            return FastRenewal::AskEngine;
        }
        let until = match proven_until {
            Some(proven) if !cluster.mutated(Mutation::PromiseUnproven) => {
                (now + wanted).min(proven)
            }
            _ => now + wanted,
        };
        let shortens = cluster.mutated(Mutation::DeadlineMovesBack);
        let revives = cluster.mutated(Mutation::EndingRevived);
        if shortens && slot.state() == SlotState::Held
            || revives && slot.state() == SlotState::Ending
        {
            slot.word.store(SlotWord::held(until));
        }
        let Some(deadline) = slot.word.extend(now, until) else {
            return FastRenewal::AskEngine;
        };
        let ttl_ms = slot.ttl().as_ms().max(1);
        let margin = deadline.since(now).as_ms() * 100 / ttl_ms;
        cluster.margins.record(margin);
        let held = match cluster.mutated(Mutation::PromiseBeyondHold) {
            true => until.since(now) + until.since(now),
            false => until.since(now),
        };
        FastRenewal::Renewed(proof::told(held, now, slot.secret))
    }

    /// As [`Group::renew`], where the record cannot be rewritten: whoever asks for longer than it says is
    /// promised as long as it says.
    pub(crate) fn renew_as_stored(&self, now: Instant, renew: &Renew) -> FastRenewal {
        let stored = self.with_slot(renew.lock_id.slot(), Slot::ttl);
        // Another renewal may have had it rewritten meanwhile, for longer than this one asks for.
        let ttl = renew
            .ttl
            .zip(stored)
            .map(|(asked, stored)| asked.min(stored));
        let renew = Renew {
            ttl,
            ..renew.clone()
        };
        self.renew(now, &renew)
    }
}

impl Drop for Group {
    /// What is in it is not this gateway's to look after any more.
    fn drop(&mut self) {
        let slots = &self.holds.get_mut().slots;
        let used = slots.iter().filter(|slot| slot.state() != SlotState::Free);
        used.for_each(|slot| self.quota.give_back(slot.owner));
    }
}

impl Slot {
    /// A slot that nothing has used.
    pub(crate) fn unused() -> Self {
        Self {
            word: AtomicSlotWord::new(SlotWord::FREE),
            secret: Secret(0),
            token: Token(0),
            revision: Revision::ABSENT,
            name: None,
            ttl_ms_and_forced: 0,
            owner: PrincipalTag::NONE,
            armed: AtomicU32::new(Tick::NONE.as_u32()),
        }
    }

    /// Whether it is, or was last, the hold of this lock id.
    pub(crate) fn is_of(&self, id: &LockId) -> bool {
        self.secret == id.secret()
            && self
                .name
                .as_ref()
                .is_some_and(|name| name.as_str().as_bytes() == id.name_bytes())
    }

    /// Whether the hold is this principal's to renew and release.
    pub(crate) fn is_open_to(&self, principal: Option<&Principal>) -> bool {
        PrincipalTag::of(principal).may_touch(self.owner)
    }

    pub(crate) fn state(&self) -> SlotState {
        self.word.load().state
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state() == SlotState::Closed
    }

    pub(crate) fn ttl(&self) -> Millis {
        Millis::from_ms(u64::from(self.ttl_ms_and_forced & !FORCED))
    }

    pub(crate) fn set_ttl(&mut self, ttl: Millis) {
        let ttl_ms = u32::try_from(ttl.as_ms()).unwrap_or(u32::MAX) & !FORCED;
        self.ttl_ms_and_forced = self.ttl_ms_and_forced & FORCED | ttl_ms;
    }

    /// Whether the hold is, or was, force-released.
    pub(crate) fn is_forced(&self) -> bool {
        self.ttl_ms_and_forced & FORCED != 0
    }

    pub(crate) fn set_forced(&mut self, forced: bool) {
        let bit = if forced { FORCED } else { 0 };
        self.ttl_ms_and_forced = self.ttl_ms_and_forced & !FORCED | bit;
    }

    pub(crate) fn armed(&self) -> Tick {
        Tick::from_u32(self.armed.load(Ordering::Relaxed))
    }

    pub(crate) fn set_armed(&self, tick: Tick) {
        self.armed.store(tick.as_u32(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_with_its_name_is_nine_words() {
        assert_eq!(size_of::<Slot>(), 80);
    }
}
