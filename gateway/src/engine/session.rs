//! The session: this gateway's liveness in the cluster.
//!
//! A session is a random id, a key, and a short lease of its own. A lost session is never
//! revived: its id and its lease are given up, and the gateway starts another and claims the
//! groups of the old one like anyone else.

use crate::engine::Engine;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::claims;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::records::{self, SessionId, SessionRecord};
use crate::engine::tickets::Trouble;
use crate::limits;
use crate::time::Instant;
use holdfast_store::{
    Compare, DefiniteError, Get, Key, KeyRange, LeaseId, Op, Put, Reply, Revision, StoreError, Txn,
    TxnOp, TxnOpReply,
};
use rand::Rng;

/// A session that etcd has confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveSession {
    pub(crate) id: SessionId,
    pub(crate) lease: LeaseId,
    /// The key with another create revision is not this session.
    pub(crate) created: Revision,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Down,
    Starting(SessionId, LeaseId),
    Live(LiveSession),
    Stopped,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Session {
    state: State,
    /// A lease kept ready, because etcd grants none when its space is used up.
    spare: Spare,
    /// The stop waits for heirs, until then at most.
    wait_for_heirs: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Spare {
    #[default]
    None,
    Asked,
    Kept(LeaseId),
}

impl Session {
    pub(crate) fn live(&self) -> Option<LiveSession> {
        match self.state {
            State::Live(live) => Some(live),
            _ => None,
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// The leases that a round keeps alive for the session.
    pub(crate) fn leases(&self) -> Vec<LeaseId> {
        let own = self.live().map(|live| live.lease);
        let spare = match self.spare {
            Spare::Kept(lease) => Some(lease),
            _ => None,
        };
        own.into_iter().chain(spare).collect()
    }
}

impl Engine {
    pub(crate) fn start_session(&mut self) {
        if !matches!(self.session.state, State::Down) {
            return;
        }
        let id = SessionId(self.rng.next_u64());
        if let Spare::Kept(lease) = self.session.spare {
            self.session.spare = Spare::None;
            self.session.state = State::Starting(id, lease);
            self.put_session_key(id, lease);
            return;
        }
        let lease = self.new_lease_id();
        self.session.state = State::Starting(id, lease);
        let op = Op::LeaseGrant {
            lease,
            ttl_s: self.session_ttl_s(),
        };
        self.call(op, limits::CALL_TIMEOUT, Purpose::SessionLease);
    }

    pub(crate) fn on_session_lease(&mut self, result: Result<Reply, StoreError>) {
        let State::Starting(id, lease) = self.session.state else {
            return;
        };
        match result {
            Ok(_) => self.put_session_key(id, lease),
            Err(error) => self.abandon_session(&error.to_string()),
        }
    }

    fn put_session_key(&mut self, id: SessionId, lease: LeaseId) {
        let key = records::session_key(id);
        let inner = Txn {
            compare: vec![Compare::absent(KeyRange::one(key))],
            then: vec![TxnOp::Put(self.session_put(id, lease))],
            or_else: Vec::new(),
        };
        // Nested, because etcd's quota check looks at direct puts only: a session can start
        // when the space is used up.
        let txn = Txn {
            then: vec![TxnOp::Txn(inner)],
            ..Txn::default()
        };
        self.call(Op::Txn(txn), limits::CALL_TIMEOUT, Purpose::SessionKey);
    }

    /// What writes the session's key, at its start and as a fence.
    pub(crate) fn session_put(&self, id: SessionId, lease: LeaseId) -> Put {
        let record = SessionRecord {
            instance: self.settings.instance.clone(),
            peer_url: self.settings.peer_url.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Put {
            key: records::session_key(id),
            value: serde_json::to_vec(&record).unwrap_or_default(),
            lease: Some(lease),
        }
    }

    pub(crate) fn on_session_key(&mut self, result: Result<Reply, StoreError>) {
        let State::Starting(id, lease) = self.session.state else {
            return;
        };
        let reply = match as_txn(result) {
            Ok(reply) => reply,
            Err(error) => return self.abandon_session(&error.to_string()),
        };
        if !matches!(
            reply.ops.first(),
            Some(TxnOpReply::Txn {
                succeeded: true,
                ..
            })
        ) {
            return self.abandon_session("its key exists already");
        }
        let created = reply.header.revision;
        self.session.state = State::Live(LiveSession { id, lease, created });
        self.fence_begins(created);
        self.round.want();
        tracing::info!(cluster = %self.settings.cluster, session = %id, "session started");
        self.keep_round();
    }

    /// Gives up a session that never came to life. Its id and lease are never used again, so
    /// whatever of it still arrives in etcd ends with the lease.
    fn abandon_session(&mut self, why: &str) {
        tracing::warn!(cluster = %self.settings.cluster, why, "session not started; trying again");
        if let State::Starting(_, lease) = self.session.state {
            self.revoke(lease);
        }
        self.session.state = State::Down;
        self.do_later(limits::RETRY_BACKOFF, Task::StartSession);
    }

    /// The session's key is gone, as a linearizable read has shown: every table of this cluster
    /// is void, and everything that was on its way counts as unknown. Grants that were made are
    /// found again by whoever claims the groups.
    pub(crate) fn session_lost(&mut self) {
        let Some(live) = self.session.live() else {
            return;
        };
        tracing::warn!(cluster = %self.settings.cluster, session = %live.id, "session lost");
        self.stats.sessions_lost.add(1);
        self.stats.locks_lost.add(self.groups.locks() as u64);
        self.give_session_up(Trouble::Unknown);
        self.session.state = State::Down;
        self.start_session();
    }

    fn give_session_up(&mut self, trouble: Trouble) {
        let goes_on = trouble == Trouble::Draining && self.mutated(Mutation::PromiseAfterStop);
        if !goes_on {
            self.proof.void();
        }
        // Nothing was granted on them, and as long as no key names them nobody else gives them up.
        let unconfirmed: Vec<_> = self
            .groups
            .unconfirmed()
            .chain(self.calls.forget_all())
            .collect();
        unconfirmed.into_iter().for_each(|lease| self.revoke(lease));
        self.later.clear();
        self.fail_all_tickets(trouble);
        if matches!(self.session.spare, Spare::Asked) {
            self.session.spare = Spare::None;
        }
        self.fence = Default::default();
        self.round.reset();
        self.alarm = Default::default();
        self.shards.clear();
        self.places.clear();
        self.give_moves_up();
        if !goes_on && !self.mutated(Mutation::TableOutlivesSession) {
            self.groups.void_proofs();
        }
        for group in self.groups.take_all() {
            if self.proof.mutated(Mutation::ClaimTrustsOldTable) {
                self.old_tables.extend(self.table.get(group));
            }
            if !goes_on && !self.mutated(Mutation::TableOutlivesSession) {
                self.table.remove(group, &self.proof);
            }
        }
        self.writes.clear();
        self.endings = Default::default();
        self.closings = Default::default();
        self.give_lines_up();
        self.cold = Default::default();
        self.forwards = Default::default();
        self.claims = Default::default();
        self.heritages = Default::default();
        self.survey = Default::default();
        self.wheel.clear();
    }

    /// Stops promising and revokes the session's lease, never a group's: the locks stay, and
    /// another gateway can claim their groups at once.
    pub(crate) fn stop(&mut self) {
        let mut leases = self.session.leases();
        leases.extend(self.line_leases.kept());
        self.proof.stop();
        self.bequeath();
        self.give_session_up(Trouble::Draining);
        self.session.state = State::Stopped;
        self.session.spare = Spare::None;
        let Some((own, spare)) = leases.split_first() else {
            self.out.push(super::Effect::Stopped);
            return;
        };
        spare.iter().for_each(|lease| self.revoke(*lease));
        self.revoke_session(*own);
    }

    /// Nobody may claim while the session lives, so its revoke is repeated until it is certain.
    pub(crate) fn revoke_session(&mut self, lease: LeaseId) {
        let op = Op::LeaseRevoke { lease };
        self.call(op, limits::CALL_TIMEOUT, Purpose::LastRevoke(lease));
    }

    pub(crate) fn on_session_revoked(&mut self, lease: LeaseId, result: Result<Reply, StoreError>) {
        match result {
            Ok(_) | Err(StoreError::Definite(DefiniteError::LeaseNotFound)) => {
                self.session.wait_for_heirs = Some(self.now + limits::HEIRS_WAIT);
                self.look_for_heirs();
            }
            Err(_) => self.do_later(limits::RETRY_BACKOFF, Task::RevokeSession(lease)),
        }
    }

    /// A gateway that has stopped still wants to know its heirs, to forward what reaches it late.
    pub(crate) fn look_for_heirs(&mut self) {
        if self.session.is_stopped() {
            let read = Txn::read([
                Get::all(records::all_sessions()),
                Get::keys(records::all_groups()),
            ]);
            self.call(Op::Txn(read), limits::CALL_TIMEOUT, Purpose::Heirs);
        }
    }

    pub(crate) fn on_heirs(&mut self, result: Result<Reply, StoreError>) {
        self.do_later(limits::HEIRS_INTERVAL, Task::LookForHeirs);
        let Ok(reply) = as_txn(result) else {
            return self.stopped_if(false);
        };
        let mut gets = reply.ops.into_iter().map(|op| match op {
            TxnOpReply::Get(get) => get.kvs,
            _ => Vec::new(),
        });
        let sessions = gets.next().unwrap_or_default();
        let groups = claims::groups_of(&gets.next().unwrap_or_default());
        let alive = self.read_sessions(&sessions);
        self.note_owners(&groups, &alive);
        let orphaned = |group: &claims::Orphan| !alive.contains_key(&group.session);
        self.stopped_if(alive.is_empty() || !groups.iter().any(orphaned));
    }

    /// The stop is over when every group has an heir, or after a time.
    fn stopped_if(&mut self, inherited: bool) {
        if let Some(until) = self.session.wait_for_heirs
            && (inherited || until <= self.now)
        {
            self.session.wait_for_heirs = None;
            self.out.push(super::Effect::Stopped);
        }
    }

    /// Keeps one lease ready beside the session's own.
    pub(crate) fn keep_spare_lease(&mut self) {
        if matches!(self.session.spare, Spare::None) && self.session.live().is_some() {
            let lease = self.new_lease_id();
            self.session.spare = Spare::Asked;
            let op = Op::LeaseGrant {
                lease,
                ttl_s: self.session_ttl_s(),
            };
            self.call(op, limits::CALL_TIMEOUT, Purpose::SpareLease(lease));
        }
    }

    pub(crate) fn on_spare_lease(&mut self, lease: LeaseId, result: &Result<Reply, StoreError>) {
        self.session.spare = if result.is_ok() {
            Spare::Kept(lease)
        } else {
            Spare::None
        };
    }

    /// A keepalive found the lease gone.
    pub(crate) fn drop_spare_lease(&mut self, lease: LeaseId) {
        if matches!(self.session.spare, Spare::Kept(kept) if kept == lease) {
            self.session.spare = Spare::None;
        }
    }

    pub(crate) fn revoke(&mut self, lease: LeaseId) {
        self.call(
            Op::LeaseRevoke { lease },
            limits::CALL_TIMEOUT,
            Purpose::Revoke,
        );
    }

    pub(crate) fn new_lease_id(&mut self) -> LeaseId {
        LeaseId::from_random_bits(self.rng.next_u64())
    }

    pub(crate) fn session_key(&self) -> Option<Key> {
        self.session
            .live()
            .map(|live| records::session_key(live.id))
    }

    /// Reads the session's key, without its value.
    pub(crate) fn get_session_key(&self) -> Option<Get> {
        self.session_key().map(|key| Get::keys(KeyRange::one(key)))
    }

    pub(crate) fn session_ttl_s(&self) -> u32 {
        u32::try_from(self.settings.session_ttl.as_secs()).unwrap_or(u32::MAX)
    }
}
