//! Calls that are on their way, and what their replies are for.

use crate::engine::batch::Batch;
use crate::engine::claims::Orphan;
use crate::engine::cold::ColdJob;
use crate::engine::mutation::Mutation;
use crate::engine::outcome::Question;
use crate::engine::round::RoundId;
use crate::engine::stats::EtcdCall;
use crate::engine::survey::SurveyNo;
use crate::engine::words::Place;
use crate::engine::writes::SlotRef;
use crate::engine::{Effect, Engine};
use crate::lock_id::{GroupId, Secret};
use crate::names::LockName;
use crate::time::{Instant, Millis};
use holdfast_store::{Header, LeaseId, Op, Reply, StoreError, TxnReply};
use shard_map::ShardId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A call to the cluster. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What a call's reply is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    SessionLease,
    SessionKey,
    SpareLease(LeaseId),
    Fence,
    Keepalive(RoundId),
    /// Keepalives that were given up; only a deliberate mistake still wants their answer.
    LateKeepalive,
    RoundRead(RoundId),
    Guards(Vec<ShardId>),
    Alarms,
    GroupLease(GroupId),
    Batch(Batch),
    Resolve(Question),
    Cold(Vec<ColdJob>),
    Orphans(Vec<Orphan>),
    /// Who holds these names, and who is at the heads of their lines.
    Lines(Vec<LockName>),
    /// A further lease for waiters.
    LineLease(LeaseId),
    /// The record of a hold that is force-released.
    ToClose(SlotRef, Secret),
    Survey(GroupId, SurveyNo),
    /// A lease for a group that arrives.
    PlaceLease(Box<Place>, LeaseId),
    /// A revoke that another engine waits for.
    RevokeFor(Arc<str>, GroupId, LeaseId),
    /// A write of the shard's guard.
    Follow(ShardId),
    /// Whether there is a key of the group, for another engine.
    IsThere(Arc<str>, GroupId),
    /// Revokes that no one waits for.
    Revoke,
    /// The revoke of the session's lease when the gateway stops.
    LastRevoke(LeaseId),
    /// Who has taken over from a gateway that has stopped.
    Heirs,
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) purpose: Purpose,
    pub(crate) sent: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    pending: HashMap<CallId, Pending>,
    counter: u64,
}

impl Calls {
    /// Forgets every call; replies that still come say nothing any more. Tells the leases that were asked
    /// for to be places, which nobody knows of then.
    pub(crate) fn forget_all(&mut self) -> impl Iterator<Item = LeaseId> + use<> {
        let pending: BTreeMap<_, _> = self.pending.drain().collect();
        pending.into_values().filter_map(|it| match it.purpose {
            Purpose::PlaceLease(_, lease) => Some(lease),
            _ => None,
        })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len()
    }
}

impl Engine {
    pub(crate) fn call(&mut self, op: Op, timeout: Millis, purpose: Purpose) {
        self.calls.counter += 1;
        self.stats.calls(EtcdCall::of(&purpose)).add(1);
        let id = CallId(self.calls.counter);
        self.calls.pending.insert(
            id,
            Pending {
                purpose,
                sent: self.now,
            },
        );
        self.out.push(Effect::Call { id, op, timeout });
    }

    pub(crate) fn on_reply(&mut self, call: CallId, result: Result<Reply, StoreError>) {
        let Some(Pending { purpose, sent }) = self.calls.pending.remove(&call) else {
            return;
        };
        let result = self.believe(result);
        self.stats.replied(self.now.since(sent), &result);
        if let Ok(Reply::Txn(reply)) = &result {
            self.seen = self.seen.max(reply.header.revision);
        }
        match purpose {
            Purpose::SessionLease => self.on_session_lease(result),
            Purpose::SessionKey => self.on_session_key(result),
            Purpose::SpareLease(lease) => self.on_spare_lease(lease, &result),
            Purpose::Fence => self.on_fence(result),
            Purpose::Keepalive(round) => {
                if result.is_err() && self.mutated(Mutation::ProofFromLaterSend) {
                    let purpose = Purpose::LateKeepalive;
                    self.calls.pending.insert(call, Pending { purpose, sent });
                }
                self.on_kept(round, sent, result);
            }
            Purpose::LateKeepalive => self.on_kept_late(result),
            Purpose::RoundRead(round) => self.on_round_read(round, result),
            Purpose::Guards(shards) => self.on_guards(&shards, result),
            Purpose::Alarms => self.on_alarms(result),
            Purpose::GroupLease(group) => self.on_group_lease(group, sent, result),
            Purpose::Batch(batch) => self.on_batch(batch, result),
            Purpose::Resolve(question) => self.on_resolved(question, result),
            Purpose::Cold(jobs) => self.on_cold(jobs, result),
            Purpose::Orphans(orphans) => self.on_orphans(orphans, result),
            Purpose::Lines(names) => self.on_lines(&names, result),
            Purpose::LineLease(lease) => self.on_line_lease(lease, result.is_ok()),
            Purpose::ToClose(at, secret) => self.on_read_to_close(at, secret, result),
            Purpose::Survey(group, no) => self.on_survey(group, no, result),
            Purpose::PlaceLease(place, lease) => self.on_place_lease(*place, lease, sent, result),
            Purpose::RevokeFor(from, group, lease) => {
                self.on_revoked_for(&from, group, lease, &result);
            }
            Purpose::Follow(shard) => self.on_followed(shard),
            Purpose::IsThere(from, group) => self.on_is_there(&from, group, result),
            Purpose::Revoke => {}
            Purpose::LastRevoke(lease) => self.on_session_revoked(lease, result),
            Purpose::Heirs => self.on_heirs(result),
        }
    }
}

impl Engine {
    /// A reply of another cluster (a wrong endpoint in the map) says nothing about this one.
    fn believe(&self, result: Result<Reply, StoreError>) -> Result<Reply, StoreError> {
        let Some(right) = self.cluster_id else {
            return result;
        };
        let foreign = |header: &Header| header.cluster_id != right;
        match result {
            Ok(Reply::KeepAlive(mut answers)) => {
                answers.retain(|answer| !foreign(&answer.header));
                Ok(Reply::KeepAlive(answers))
            }
            Ok(
                Reply::Txn(TxnReply { header, .. })
                | Reply::LeaseGranted { header, .. }
                | Reply::LeaseRevoked { header }
                | Reply::LeaseKeys { header, .. },
            ) if foreign(&header) => {
                let cluster = &self.settings.cluster;
                tracing::error!(
                    %cluster, answered_by = header.cluster_id,
                    "an endpoint of this cluster belongs to another etcd cluster: correct the map"
                );
                Err(StoreError::Ambiguous(
                    "answered by another etcd cluster".to_owned(),
                ))
            }
            result => result,
        }
    }
}

/// What a call whose reply must be a transaction's came to.
pub(crate) fn as_txn(result: Result<Reply, StoreError>) -> Result<TxnReply, StoreError> {
    match result {
        Ok(Reply::Txn(txn)) => Ok(txn),
        Ok(_) => Err(StoreError::Ambiguous("a reply of another kind".to_owned())),
        Err(error) => Err(error),
    }
}
