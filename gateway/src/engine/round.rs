//! Proof rounds: how far etcd has shown that the session and the groups live.
//!
//! A keepalive's answer alone is no proof: a deposed leader answers too. A round is: keepalives
//! of the session and of the group leases that are due; after the answers one linearizable read
//! of the cluster's identity, the sessions and the groups; and a lease is proven when its answer
//! had a TTL, its key was read on that lease with the known revision, and cluster id and Raft
//! term of both answers agree. What is missing proves nothing and is tried again.
//!
//! The same read shows the groups whose session is gone, which are claimed.

use crate::engine::calls::{Purpose, as_txn};
use crate::engine::claims;
use crate::engine::mutation::Mutation;
use crate::engine::records;
use crate::engine::{Engine, proof};
use crate::limits;
use crate::lock_id::GroupId;
use crate::time::{Instant, Millis};
use holdfast_store::{
    Get, GetReply, Header, KeepAliveAnswer, KeyRange, KeyValue, LeaseId, Op, Reply, Revision,
    StoreError, Txn, TxnOpReply,
};
use shard_map::records::{Identity, Record};
use std::collections::BTreeMap;

/// The rounds of a session.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    running: Option<Round>,
    /// Another round is to follow the one that is running.
    wanted: bool,
    /// Another round is to follow it, after a pause.
    wanted_soon: bool,
    next: Instant,
    began: Instant,
    counter: u64,
}

/// Which round a call belongs to; what comes for an earlier one is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct RoundId(u64);

/// One round: first the answers to the keepalives, then the read.
#[derive(Debug)]
struct Round {
    id: RoundId,
    waiting_for: u8,
    answers: BTreeMap<LeaseId, (Instant, KeepAliveAnswer)>,
}

/// What the linearizable read of a round showed.
struct Seen {
    header: Header,
    identity: GetReply,
    sessions: GetReply,
    groups: GetReply,
}

impl Rounds {
    pub(crate) fn next_wakeup(&self) -> Instant {
        self.next
    }

    /// The round that begins next: all that it reads is read after this.
    pub(crate) fn next_id(&self) -> RoundId {
        RoundId(self.counter + 1)
    }

    /// Something wants to be looked at: begin the next round at once.
    pub(crate) fn want(&mut self) {
        if self.running.is_some() {
            self.wanted = true;
        } else {
            self.next = Instant::NEVER;
        }
    }

    /// As [`Rounds::want`], but not more often than is useful.
    pub(crate) fn want_soon(&mut self, now: Instant) {
        let at = now.max(self.began + limits::WANTED_ROUND_INTERVAL);
        self.look_by(at);
        self.wanted_soon |= self.running.is_some();
    }

    /// A round is wanted then at the latest.
    pub(crate) fn look_by(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    /// Forgets the round that is running; what it has asked says nothing any more.
    pub(crate) fn reset(&mut self) {
        self.running = None;
        self.wanted = false;
        self.wanted_soon = false;
        self.next = Instant::NEVER;
    }
}

impl Engine {
    /// Begins a round when it is time.
    pub(crate) fn keep_round(&mut self) {
        if self.session.live().is_none() || self.now < self.round.next {
            if self.session.live().is_none() {
                self.round.next = self.now + self.round_interval();
            }
            return;
        }
        self.round.next = self.now + self.round_interval();
        if self.round.running.is_some() {
            return;
        }
        self.round.began = self.now;
        self.keep_spare_lease();
        let groups = self.leases_due();
        self.round.counter += 1;
        let id = RoundId(self.round.counter);
        let mut round = Round {
            id,
            waiting_for: 1,
            answers: BTreeMap::new(),
        };
        let timeout = self.round_step_timeout();
        let mut leases = self.session.leases();
        leases.extend(self.line_leases.kept());
        self.call(Op::KeepAlive { leases }, timeout, Purpose::Keepalive(id));
        if !groups.is_empty() {
            round.waiting_for += 1;
            self.call(
                Op::KeepAlive { leases: groups },
                timeout,
                Purpose::Keepalive(id),
            );
        }
        self.round.running = Some(round);
    }

    fn round_interval(&self) -> Millis {
        Millis::from_ms(self.settings.session_ttl.as_ms() / 3)
    }

    fn round_step_timeout(&self) -> Millis {
        Millis::from_ms(self.settings.session_ttl.as_ms() / 6)
    }

    /// Takes the answer to a burst that was given up for one to the round that runs: a deliberate
    /// mistake.
    pub(crate) fn on_kept_late(&mut self, result: Result<Reply, StoreError>) {
        if let Some(round) = &mut self.round.running
            && let Ok(Reply::KeepAlive(answers)) = result
        {
            let began = self.round.began;
            let credited = answers.into_iter();
            round
                .answers
                .extend(credited.map(|answer| (answer.lease, (began, answer))));
        }
    }

    pub(crate) fn on_kept(
        &mut self,
        id: RoundId,
        sent: Instant,
        result: Result<Reply, StoreError>,
    ) {
        let Some(round) = self.round.running.as_mut().filter(|round| round.id == id) else {
            return;
        };
        if let Ok(Reply::KeepAlive(answers)) = result {
            for answer in answers {
                round.answers.insert(answer.lease, (sent, answer));
                let own = self.session.live().map(|live| live.lease);
                if self.proof.mutated(Mutation::ProofWithoutRange) && own == Some(answer.lease) {
                    let ttl = Millis::from_secs(answer.ttl_s.cast_unsigned());
                    self.proof.prove(sent, proof::proven_until(sent, ttl));
                }
            }
        }
        round.waiting_for -= 1;
        if round.waiting_for > 0 {
            return;
        }
        let read = Txn::read([
            Get::all(KeyRange::one(shard_map::records::keys::identity())),
            Get::all(records::all_sessions()),
            Get::keys(records::all_groups()),
        ]);
        self.call(
            Op::Txn(read),
            self.round_step_timeout(),
            Purpose::RoundRead(id),
        );
    }

    pub(crate) fn on_round_read(&mut self, id: RoundId, result: Result<Reply, StoreError>) {
        let Some(round) = self.round.running.take_if(|round| round.id == id) else {
            return;
        };
        if std::mem::take(&mut self.round.wanted) {
            self.round.next = Instant::NEVER;
        }
        if std::mem::take(&mut self.round.wanted_soon) {
            self.round.want_soon(self.now);
        }
        match as_txn(result).ok().and_then(read_of_round) {
            Some(seen) => self.conclude(&round, &seen),
            None => {
                tracing::warn!(cluster = %self.settings.cluster, "proof round without an answer");
                self.round.next = self.round.next.min(self.now + limits::RETRY_BACKOFF);
            }
        }
    }

    fn conclude(&mut self, round: &Round, seen: &Seen) {
        if !self.is_right_cluster(&seen.identity) {
            self.void_all_proofs("the endpoints answer for another cluster");
            return;
        }
        self.cluster_id = Some(seen.header.cluster_id);
        let Some(live) = self.session.live() else {
            return;
        };
        let is_own = |kv: &KeyValue| {
            records::session_of_key(&kv.key) == Some(live.id) && self.is_session_key(kv)
        };
        if !seen.sessions.kvs.iter().any(is_own) {
            self.session_lost();
            return;
        }
        // Answers that agree with the read, and say that the lease lives.
        let proofs: BTreeMap<LeaseId, (Instant, Instant)> = round
            .answers
            .iter()
            .filter(|(_, (_, answer))| {
                (answer.ttl_s > 0 || self.mutated(Mutation::TtlZeroIgnored))
                    && answer.header.cluster_id == seen.header.cluster_id
                    && answer.header.raft_term == seen.header.raft_term
            })
            .map(|(lease, (sent, answer))| {
                let ttl = match answer.ttl_s {
                    // Only a deliberate mistake comes here with a TTL of 0.
                    0 if *lease == live.lease => self.settings.session_ttl,
                    0 => self.settings.group_ttl,
                    ttl_s => Millis::from_secs(ttl_s.cast_unsigned()),
                };
                (*lease, (*sent, proof::proven_until(*sent, ttl)))
            })
            .collect();
        self.forget_dead_spare(round, live.lease);
        self.check_groups(seen, &proofs);
        let proof = match self.mutated(Mutation::ProofOutlivesSession) {
            true => proofs.values().max_by_key(|(_, until)| *until),
            false => proofs.get(&live.lease),
        };
        if let Some((sent, until)) = proof
            && *until > self.proof.session_until()
        {
            self.proof.prove(*sent, *until);
        } else {
            self.round.next = self.round.next.min(self.now + limits::RETRY_BACKOFF);
        }
        let alive = self.read_sessions(&seen.sessions.kvs);
        let mut foreign = claims::groups_of(&seen.groups.kvs);
        foreign.retain(|group| group.session != live.id);
        self.note_owners(&foreign, &alive);
        self.claim_orphans(&foreign, &alive);
        self.owners_shown(round.id);
    }

    fn forget_dead_spare(&mut self, round: &Round, own: LeaseId) {
        let dead: Vec<_> = round
            .answers
            .iter()
            .filter(|(lease, (_, answer))| **lease != own && answer.ttl_s <= 0)
            .map(|(lease, _)| *lease)
            .collect();
        for lease in dead {
            self.drop_spare_lease(lease);
            self.line_lease_lost(lease);
        }
    }

    fn is_right_cluster(&self, identity: &GetReply) -> bool {
        let right = identity.kvs.first().is_some_and(|kv| {
            Identity::from_value(&kv.key, &kv.value).is_ok_and(|found| {
                found.deployment == self.settings.deployment
                    && found.cluster.as_str() == &*self.settings.cluster
            })
        });
        if !right {
            tracing::error!(
                cluster = %self.settings.cluster,
                "the identity record of this cluster is missing or names another: check the \
                 endpoints in the shard map"
            );
        }
        right
    }

    /// Compares the groups of this session with what was read. A group whose key is not the same
    /// takes its table with it.
    fn check_groups(&mut self, seen: &Seen, proofs: &BTreeMap<LeaseId, (Instant, Instant)>) {
        let read_at = seen.header.revision;
        let found: BTreeMap<GroupId, (Revision, Option<LeaseId>)> = seen
            .groups
            .kvs
            .iter()
            .filter_map(|kv| {
                let (session, group) = records::group_of_key(&kv.key)?;
                let own = self.session.live().is_some_and(|live| live.id == session);
                own.then_some((group, (kv.mod_revision, kv.lease)))
            })
            .collect();
        for (group, lease, revision) in self.groups.settled() {
            if revision > read_at {
                continue;
            }
            if found.get(&group) != Some(&(revision, Some(lease))) {
                self.group_lost(group);
            } else if let Some((_, until)) = proofs.get(&lease) {
                self.groups.prove(group, *until);
            }
        }
    }

    /// What was proven is void when its time has passed: tables sleep until a round shows the
    /// same session and the same groups.
    pub(crate) fn void_lapsed_proofs(&mut self) {
        let until = self.proof.session_until();
        if until != Instant::NEVER && until <= self.now {
            self.void_all_proofs("the session was not proven in time");
        }
    }

    pub(crate) fn void_all_proofs(&mut self, why: &str) {
        if self.proof.session_until() == Instant::NEVER {
            return;
        }
        self.round.reset();
        tracing::warn!(cluster = %self.settings.cluster, why, "nothing is promised until proven");
        self.stats.proofs_voided.add(1);
        self.proof.void();
        self.groups.void_proofs();
    }
}

fn read_of_round(reply: holdfast_store::TxnReply) -> Option<Seen> {
    let header = reply.header;
    let mut gets = reply.ops.into_iter().map(|op| match op {
        TxnOpReply::Get(get) => Some(get),
        _ => None,
    });
    Some(Seen {
        header,
        identity: gets.next()??,
        sessions: gets.next()??,
        groups: gets.next()??,
    })
}
