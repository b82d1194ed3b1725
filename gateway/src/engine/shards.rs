//! Shards: their guards, as they were read, and the groups that have room.
//!
//! A grant is made only under a guard that was read, is active, and is compared by its revision
//! in the transaction of the grant (EPOCH). A missing guard admits nothing.

use crate::engine::acquire::Job;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::group::GroupCtl;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::onward::To;
use crate::engine::{Engine, proof};
use crate::limits;
use crate::lock_id::GroupId;
use crate::service::ShardStatus;
use crate::time::{Instant, Millis};
use holdfast_store::{Get, KeyRange, KeyValue, Op, Reply, Revision, StoreError, Txn, TxnOpReply};
use shard_map::ShardId;
use shard_map::records::{Guard, GuardState, Record, keys};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// What the engine knows of a shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    pub(crate) guard: GuardSeen,
    read_at: Instant,
    asked: bool,
    /// Names of this shard were asked for that were not free: others may be, until then.
    contended_until: Instant,
    /// A group is on its way.
    pub(crate) opening: bool,
    /// A write of the guard is on its way.
    pub(crate) following: bool,
    /// Open groups with free slots; the last one is filled first.
    pub(crate) with_room: Vec<GroupId>,
    /// Acquires that wait for the guard or for a group.
    parked: VecDeque<Job>,
}

impl Shard {
    /// The cluster that its groups leave for, and the guard that says so, as it was read.
    pub(crate) fn goal(&self) -> Option<(Arc<str>, &Guard, Revision)> {
        match &self.guard {
            GuardSeen::Read(guard, revision) if guard.state != GuardState::Active => {
                let to = guard.to.as_ref()?;
                Some((to.to_shared(), guard, *revision))
            }
            _ => None,
        }
    }

    /// The token base of the guard as it was last read; zero where it was not.
    pub(crate) fn present_token_base(&self) -> u64 {
        match &self.guard {
            GuardSeen::Read(guard, _) => guard.token_base.get(),
            _ => 0,
        }
    }
}

/// The guard, as it was last read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum GuardSeen {
    /// Not read yet.
    #[default]
    Unread,
    /// Absent, or not readable by this version.
    Missing,
    /// As read, at this revision.
    Read(Guard, Revision),
}

impl GuardSeen {
    /// Whether a rollout has not come to its end with the shard.
    fn is_changing(&self) -> bool {
        matches!(self, Self::Read(guard, _) if guard.state == GuardState::Leaving || guard.from.is_some())
    }
}

/// Whether a guard is the whole truth about a name: active, and nothing still arriving.
pub(crate) fn admits(guard: &Guard) -> bool {
    guard.state == GuardState::Active && guard.from.is_none()
}

pub(crate) fn read_guard(kv: Option<&KeyValue>) -> GuardSeen {
    match kv.map(|kv| (Guard::from_value(&kv.key, &kv.value), kv.mod_revision)) {
        Some((Ok(guard), revision)) => GuardSeen::Read(guard, revision),
        Some((Err(_), _)) | None => GuardSeen::Missing,
    }
}

impl Engine {
    pub(crate) fn shard_mut(&mut self, shard: ShardId) -> &mut Shard {
        self.shards.entry(shard).or_default()
    }

    /// The guard under which a grant may be tried. Otherwise the job is parked or answered.
    pub(crate) fn guard_for(&mut self, job: Job) -> Option<(Job, Guard, Revision)> {
        if self.mutated(Mutation::MissingGuardAdmitted)
            && self.shard_mut(job.shard).guard == GuardSeen::Missing
        {
            return Some((job, Guard::first(), Revision::ABSENT));
        }
        match self.shard_mut(job.shard).guard.clone() {
            GuardSeen::Read(guard, revision) if guard.state == GuardState::Active => {
                self.admitted(job, guard, revision)
            }
            // A guard that admits nothing is read again before anything follows from it.
            GuardSeen::Read(guard, at) if self.guard_is_fresh(job.shard) => {
                self.acquire_where_left(job, guard, at);
                None
            }
            GuardSeen::Missing if self.guard_is_fresh(job.shard) => {
                self.unguarded(job);
                None
            }
            GuardSeen::Read(..) | GuardSeen::Missing | GuardSeen::Unread => {
                let shard = job.shard;
                self.park(job);
                self.want_guard(shard);
                None
            }
        }
    }

    /// Takes note that a name of this shard was asked for that was not free.
    pub(crate) fn shard_contended(&mut self, shard: ShardId) {
        self.shard_mut(shard).contended_until = self.now + limits::CONTENDED_TIME;
    }

    pub(crate) fn is_contended(&mut self, shard: ShardId) -> bool {
        let now = self.now;
        now < self.shard_mut(shard).contended_until
    }

    /// The guard is active: it admits a grant when the name has no record where the shard comes from.
    fn admitted(
        &mut self,
        mut job: Job,
        guard: Guard,
        revision: Revision,
    ) -> Option<(Job, Guard, Revision)> {
        match &guard.from {
            Some(from) if !self.has_looked(job.look.as_ref(), revision) => {
                if self.mutated(Mutation::SourceNotAsked) {
                    return Some((job, guard, revision));
                }
                // One that was read long ago may name a cluster that has nothing of the shard any more,
                // or is none of the map's.
                if !self.guard_is_fresh(job.shard) {
                    let shard = job.shard;
                    self.park(job);
                    self.want_guard(shard);
                    return None;
                }
                job.look = Some(self.look_for(revision));
                self.acquire_goes_on(To::Cluster(from.to_shared()), job);
                None
            }
            _ => Some((job, guard, revision)),
        }
    }

    /// There is no guard here: the shard's turn to come here has not come, or is just coming.
    fn unguarded(&mut self, mut job: Job) {
        if self.mutated(Mutation::LookBeforeGuard) && job.look.is_none() {
            job.look = Some(self.look_for(Revision::ABSENT));
        }
        if self.tickets.has_come_on(job.ticket) {
            if let Some(left) = job.left.take() {
                self.follow(job.shard, &left);
            }
            self.do_later(limits::GUARD_WAIT, Task::Acquire(job));
        } else {
            self.acquire_goes_on(To::Before, job);
        }
    }

    fn guard_is_fresh(&mut self, shard: ShardId) -> bool {
        let now = self.now;
        now.since(self.shard_mut(shard).read_at) < limits::LOOK_AGAIN
    }

    pub(crate) fn park(&mut self, job: Job) {
        self.shard_mut(job.shard).parked.push_back(job);
    }

    /// Forgets parked acquires that have been answered otherwise.
    pub(crate) fn drop_answered_parked(&mut self) {
        let mut answered = Vec::new();
        for shard in self.shards.values_mut() {
            let parked = std::mem::take(&mut shard.parked).into_iter();
            let (open, closed) = parked.partition(|job| self.tickets.is_open(job.ticket));
            shard.parked = open;
            let closed: VecDeque<Job> = closed;
            answered.extend(closed);
        }
        answered.into_iter().for_each(|job| self.drop_job(job));
    }

    /// What was parked may go on.
    pub(crate) fn unpark(&mut self, shard: ShardId) {
        let parked = std::mem::take(&mut self.shard_mut(shard).parked);
        parked.into_iter().for_each(|job| self.queue_acquire(job));
    }

    /// The revision of the guard, as it was last read.
    pub(crate) fn guard_revision(&self, shard: ShardId) -> Option<Revision> {
        match self.shards.get(&shard)?.guard {
            GuardSeen::Read(_, revision) => Some(revision),
            GuardSeen::Unread | GuardSeen::Missing => None,
        }
    }

    /// Reads the guards of these shards.
    pub(crate) fn want_guards(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        let mut wanted: Vec<ShardId> = Vec::new();
        for shard in shards {
            if !std::mem::replace(&mut self.shard_mut(shard).asked, true) {
                wanted.push(shard);
            }
        }
        for shards in wanted.chunks(limits::BATCH_OPS_MAX) {
            let gets = shards
                .iter()
                .map(|shard| Get::all(KeyRange::one(keys::guard(*shard))));
            let op = Op::Txn(Txn::read(gets));
            self.call(op, limits::CALL_TIMEOUT, Purpose::Guards(shards.to_vec()));
        }
    }

    pub(crate) fn want_guard(&mut self, shard: ShardId) {
        self.want_guards([shard]);
    }

    /// The shards whose guards are read now: those that have groups here, which leave when their guard
    /// says so; those whose guard is going to change, as it was last read; and some of the others in
    /// turn. For what becomes of those nothing here depends on it, but operators are shown them.
    pub(crate) fn guards_to_look_at(&mut self) -> BTreeSet<ShardId> {
        let changing = self.shards.iter().filter(|(_, it)| it.guard.is_changing());
        let with_groups = self.groups.iter().map(|(_, ctl)| ctl.shard);
        let mut wanted: BTreeSet<_> = changing.map(|(id, _)| *id).chain(with_groups).collect();
        let after = self.guards_swept;
        let rest = self
            .shards
            .range((Bound::Excluded(after), Bound::Unbounded));
        let in_turn = rest.chain(self.shards.range(..=after));
        let share = self.shards.len().div_ceil(limits::GUARDS_SWEEP_LOOKS);
        for (shard, _) in in_turn.take(share) {
            self.guards_swept = *shard;
            wanted.insert(*shard);
        }
        wanted
    }

    pub(crate) fn on_guards(&mut self, shards: &[ShardId], result: Result<Reply, StoreError>) {
        let reply = as_txn(result);
        for (at, shard) in shards.iter().enumerate() {
            self.shard_mut(*shard).asked = false;
            match reply.as_ref().map(|reply| reply.ops.get(at)) {
                Ok(Some(TxnOpReply::Get(get))) => {
                    self.guard_seen(*shard, get.kvs.first());
                    self.unpark(*shard);
                }
                _ => self.do_later(limits::RETRY_BACKOFF, Task::ReadGuard(*shard)),
            }
        }
    }

    /// Takes over a guard that was read, unless a later one is known.
    pub(crate) fn guard_seen(&mut self, shard: ShardId, kv: Option<&KeyValue>) {
        let read = read_guard(kv);
        let now = self.now;
        let known = self.shard_mut(shard);
        known.read_at = now;
        let older = matches!(
            (&read, &known.guard),
            (GuardSeen::Read(_, read), GuardSeen::Read(_, known)) if read < known
        );
        if !older {
            known.guard = read;
            self.lines_go_on(shard);
            self.places_go_on(shard);
        }
    }

    /// The shards that this engine has dealt with, for operators.
    pub fn shard_statuses(&self) -> Vec<ShardStatus> {
        let mut statuses: BTreeMap<ShardId, ShardStatus> = self
            .shards
            .iter()
            .map(|(id, shard)| (*id, self.status_without_groups(*id, Some(shard))))
            .collect();
        for (_, ctl) in self.groups.iter() {
            let status = statuses
                .entry(ctl.shard)
                .or_insert_with(|| self.status_without_groups(ctl.shard, None));
            status.groups += 1;
            status.locks += ctl.used() as u64;
            status.oldest_proof = status.oldest_proof.max(self.proof_age(ctl));
        }
        statuses.into_values().collect()
    }

    fn status_without_groups(&self, id: ShardId, shard: Option<&Shard>) -> ShardStatus {
        let guard = match shard.map(|shard| &shard.guard) {
            Some(GuardSeen::Read(guard, _)) => Some(guard),
            _ => None,
        };
        ShardStatus {
            shard: id.0,
            cluster: Arc::clone(&self.settings.cluster),
            epoch: guard.map(|guard| guard.epoch.0),
            state: guard.map(|guard| guard.state.as_str()),
            groups: 0,
            locks: 0,
            oldest_proof: None,
        }
    }

    /// How long ago the keepalive was sent that proved the group's lease; `None` when nothing is
    /// proven.
    fn proof_age(&self, ctl: &GroupCtl) -> Option<Millis> {
        let until = ctl.stay.proven_until();
        let length = proof::proven_until(Instant::NEVER, self.settings.group_ttl);
        let sent = Instant::from_ms(until.as_ms().saturating_sub(length.as_ms()));
        (until != Instant::NEVER).then(|| self.now.since(sent))
    }
}
