//! Claims: taking over the groups of sessions that are gone.
//!
//! *If* the old session's key does not exist and the old group's key is as read, *then* the old
//! key is deleted and the group stands under this gateway's session, on the same lease. The locks
//! are not rewritten. Whoever held the group before, its records are always read from etcd, and
//! until that is done nothing is answered for them.
//!
//! HEIR: no lock of the group is ended before its TTL plus the session's TTL have passed since
//! the claim's success was received, because the old owner may have promised that much.

use crate::engine::calls::{Purpose, as_txn};
use crate::engine::group::{GroupCtl, GroupState};
use crate::engine::owners::{Owned, Owner};
use crate::engine::records::{
    GroupRecord, SessionId, SessionRecord, SourceRecord, Stage, TargetRecord,
};
use crate::engine::writes::{SlotRef, WriteOp};
use crate::engine::{Engine, records};
use crate::limits;
use crate::lock_id::GroupId;
use crate::time::{Instant, Millis};
use holdfast_store::{
    Get, KeyRange, KeyValue, LeaseId, Op, Reply, Revision, StoreError, Txn, TxnOpReply,
};
use shard_map::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The session that a group without an owner falls to first: that whose hash with the group is
/// highest. All gateways that see the same sessions find the same.
pub(crate) fn falls_to(
    group: GroupId,
    alive: impl Iterator<Item = SessionId>,
) -> Option<SessionId> {
    alive.max_by_key(|session| {
        let mut both = [0; 16];
        both[..8].copy_from_slice(&group.0.to_be_bytes());
        both[8..].copy_from_slice(&session.0.to_be_bytes());
        xxhash_rust::xxh3::xxh3_64(&both)
    })
}

/// The groups of all sessions.
pub(crate) fn groups_of(kvs: &[KeyValue]) -> Vec<Orphan> {
    let group = |kv: &KeyValue| {
        let (session, group) = records::group_of_key(&kv.key)?;
        Some(Orphan {
            session,
            group,
            lease: kv.lease?,
            revision: kv.mod_revision,
        })
    };
    kvs.iter().filter_map(group).collect()
}

/// A group of another session, as a linearizable read showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) session: SessionId,
    pub(crate) group: GroupId,
    pub(crate) lease: LeaseId,
    /// Of the group's key.
    pub(crate) revision: Revision,
}

/// A takeover on its way.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) orphan: Orphan,
    pub(crate) shard: ShardId,
    /// Of the owner that is gone.
    pub(crate) session_ttl: Millis,
    /// It was moving to another cluster,
    pub(crate) to: Option<TargetRecord>,
    /// or had come from one.
    pub(crate) from: Option<SourceRecord>,
}

/// The groups of other sessions, and the claims on their way.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    under_way: BTreeSet<GroupId>,
    /// Sessions that are gone and left groups: when that was first seen.
    gone_since: BTreeMap<SessionId, Instant>,
    /// Groups that were arriving when their session ended: their source is asked.
    pub(crate) arriving: BTreeMap<GroupId, Claim>,
    /// The sessions of the last round.
    pub(crate) alive: Sessions,
    /// Only a deliberate mistake puts any here.
    pub(crate) taken_for_dead: BTreeSet<SessionId>,
}

/// The sessions of the cluster, as a linearizable read showed them, and who can be asked there.
pub(crate) type Sessions = BTreeMap<SessionId, Option<Arc<Owner>>>;

impl Engine {
    /// The sessions that are alive, and how their gateways are reached.
    pub(crate) fn read_sessions(&self, kvs: &[KeyValue]) -> Sessions {
        let session = |kv: &KeyValue| {
            let session = records::session_of_key(&kv.key)?;
            let record = serde_json::from_slice::<SessionRecord>(&kv.value).ok();
            // One that is reached where this gateway is can only be an earlier life of it.
            let elsewhere = record.filter(|record| record.peer_url != self.settings.peer_url);
            let owner = elsewhere.map(|record| {
                Arc::new(Owner {
                    session,
                    peer_url: record.peer_url.into(),
                })
            });
            Some((session, owner))
        };
        kvs.iter().filter_map(session).collect()
    }

    /// Takes note of who owns which group.
    pub(crate) fn note_owners(&mut self, groups: &[Orphan], alive: &Sessions) {
        let owned = |group: &Orphan| {
            let owned = match alive.get(&group.session) {
                Some(Some(owner)) => Owned::By(Arc::clone(owner)),
                Some(None) => Owned::Silent,
                None => Owned::Unclaimed,
            };
            (group.group, owned)
        };
        self.owners.replace(groups.iter().map(owned).collect());
    }

    /// Begins to claim the groups that have no owner.
    ///
    /// Each falls to one of the live sessions first, so that survivors share the work; what that
    /// one leaves is claimed by any of them.
    pub(crate) fn claim_orphans(&mut self, groups: &[Orphan], alive: &Sessions) {
        let Some(own) = self.session.live().map(|live| live.id) else {
            return;
        };
        let gone: BTreeSet<SessionId> = groups
            .iter()
            .map(|group| group.session)
            .filter(|session| {
                !alive.contains_key(session) || self.claims.taken_for_dead.contains(session)
            })
            .collect();
        let now = self.now;
        self.claims.alive = alive.clone();
        self.claims
            .gone_since
            .retain(|session, _| gone.contains(session));
        for session in &gone {
            self.claims.gone_since.entry(*session).or_insert(now);
        }
        let taken = self.groups.len() + self.claims.under_way.len();
        let room = limits::GROUPS_MAX.saturating_sub(taken);
        let mut orphans = Vec::new();
        for group in groups {
            let Some(since) = self.claims.gone_since.get(&group.session) else {
                continue;
            };
            if now.since(*since) < limits::UNCLAIMED_TIME {
                self.round.look_by(now + limits::UNCLAIMED_INTERVAL);
            }
            let mine = now.since(*since) >= limits::FIRST_CLAIM_TIME
                || falls_to(group.group, alive.keys().copied()) == Some(own);
            if !mine {
                self.round.look_by(now + limits::FIRST_CLAIM_TIME);
            } else if orphans.len() < room
                && self.groups.get(group.group).is_none()
                && self.claims.under_way.insert(group.group)
            {
                orphans.push(*group);
            }
        }
        self.read_orphans(&orphans);
    }

    fn read_orphans(&mut self, orphans: &[Orphan]) {
        if !orphans.is_empty() {
            let groups = orphans.len();
            tracing::info!(
                cluster = %self.settings.cluster, groups, "claiming lease groups without a session"
            );
        }
        for orphans in orphans.chunks(limits::READ_KEYS_MAX) {
            let gets = orphans.iter().map(|orphan| {
                Get::all(KeyRange::one(records::group_key(
                    orphan.session,
                    orphan.group,
                )))
            });
            let op = Op::Txn(Txn::read(gets));
            self.call(op, limits::CALL_TIMEOUT, Purpose::Orphans(orphans.to_vec()));
        }
    }

    pub(crate) fn on_orphans(&mut self, orphans: Vec<Orphan>, result: Result<Reply, StoreError>) {
        let mut read = as_txn(result)
            .map(|reply| reply.ops)
            .unwrap_or_default()
            .into_iter();
        for orphan in orphans {
            let kv = match read.next() {
                Some(TxnOpReply::Get(get)) => get.kvs.into_iter().next(),
                _ => None,
            };
            let record = kv
                .filter(|kv| kv.mod_revision == orphan.revision)
                .and_then(|kv| serde_json::from_slice::<GroupRecord>(&kv.value).ok());
            match record {
                Some(GroupRecord {
                    shard,
                    session_ttl_ms,
                    to,
                    from,
                    ..
                }) => {
                    let arrives = from
                        .as_ref()
                        .is_some_and(|from| from.stage == Stage::Arriving);
                    let session_ttl = Millis::from_ms(session_ttl_ms.unwrap_or(0));
                    let claim = Claim {
                        orphan,
                        shard: ShardId(shard),
                        session_ttl,
                        to,
                        from,
                    };
                    if arrives {
                        self.claims.arriving.insert(orphan.group, claim);
                        self.ask_source(orphan.group);
                    } else {
                        self.queue_write(WriteOp::Claim(claim));
                    }
                }
                // Changed since, or not readable: looked at again in the next round.
                _ => self.claim_ends(orphan.group),
            }
        }
    }

    /// The claim is confirmed; its time counts from here.
    pub(crate) fn claimed(&mut self, claim: Claim, revision: Revision) {
        let Claim {
            orphan,
            shard,
            session_ttl,
            to,
            from,
        } = claim;
        self.claim_ends(orphan.group);
        self.owners.remove(orphan.group);
        self.stats.claims.add(1);
        tracing::debug!(
            cluster = %self.settings.cluster, group = %orphan.group, from = %orphan.session,
            "lease group claimed"
        );
        let group = self.table.new_group(orphan.group, &self.proof);
        self.table.insert(Arc::clone(&group));
        let mut ctl = GroupCtl::new(group, shard, orphan.lease, GroupState::Loading, self.now);
        ctl.revision = revision;
        ctl.claimed_at = self.now;
        ctl.claimed_from = Some(orphan.session);
        ctl.heir_of_ttl = session_ttl;
        ctl.to.clone_from(&to);
        ctl.from = from;
        let old = self
            .old_tables
            .iter()
            .find(|old| old.id == orphan.group)
            .map(Arc::clone);
        if let Some(old) = old {
            let held = ctl.trust(Arc::clone(&old));
            self.table.insert(old);
            self.groups.insert(ctl);
            for (slot, deadline) in held {
                let group = orphan.group;
                self.arm(SlotRef { group, slot }, deadline);
            }
            return self.round.want();
        }
        self.groups.insert(ctl);
        self.round.want();
        if let Some(to) = to {
            self.undo_of_claimed(orphan.group, &to);
        }
        self.leave_source(orphan.group);
        self.want_load(orphan.group);
    }

    pub(crate) fn claim_ends(&mut self, group: GroupId) {
        self.claims.under_way.remove(&group);
    }
}
