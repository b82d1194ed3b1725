//! One etcd cluster: the model, and what only a cluster of several members can do.

use crate::clock::{PartyClock, Real};
use crate::dice::Dice;
use crate::faults::Fault;
use crate::figures::Figures;
use holdfast_store::{
    Get, KeepAliveAnswer, Key, KeyRange, KeyValue, LeaseId, Model, ModelTime, Op, Put, Reply,
    Revision, StoreError, Txn, TxnOp, TxnOpReply, WatchEvent,
};
use std::collections::BTreeSet;

/// Longer than any run: no lease ends while nobody leads.
const NO_LEADER_LAG_MS: u64 = 1 << 40;
/// How long a new leader may not know of leases.
const FRESH_LEADER_MS: u64 = 4_000;

/// A leader that does not lead any more and does not know it.
struct Deposed {
    /// What it has.
    model: Model,
    until: Real,
    answers: bool,
}

/// See the module.
pub(crate) struct Cluster {
    model: Model,
    clock: PartyClock,
    deposed: Option<Deposed>,
    elected_at: Real,
    /// Until then it answers the keepalives of groups as if it did not know their leases.
    forgets_until: Real,
    lag_ms: u64,
    pub(crate) down_until: Real,
    /// Leases with a session's TTL.
    session_leases: BTreeSet<LeaseId>,
    session_ttl_s: u32,
    /// Sessions that ended before this were looked for.
    looked_at: Revision,
    /// Somebody has got a lock for which another stood first in line.
    pub(crate) overtaken: Option<String>,
}

/// The keys of locks that it grants if its compares hold. A copy of a record says its token, a grant does
/// not.
fn grants(txn: &Txn, found: &mut Vec<Key>) {
    for op in &txn.then {
        match op {
            TxnOp::Put(put) if put.key.as_bytes().starts_with(b"/locks/") => {
                let says_token = String::from_utf8_lossy(&put.value).contains("\"token\":");
                found.extend((!says_token).then(|| put.key.clone()));
            }
            TxnOp::Txn(inner) => grants(inner, found),
            _ => {}
        }
    }
}

impl Cluster {
    pub(crate) fn new(id: u64, clock: PartyClock, session_ttl_ms: u64) -> Self {
        Self {
            model: Model::new(id, id),
            clock,
            deposed: None,
            elected_at: 0,
            forgets_until: 0,
            lag_ms: 0,
            down_until: 0,
            session_leases: BTreeSet::new(),
            session_ttl_s: u32::try_from(session_ttl_ms / 1000).unwrap_or(u32::MAX),
            looked_at: Revision(1),
            overtaken: None,
        }
    }

    fn time(&self, now: Real) -> ModelTime {
        ModelTime::from_ms(self.clock.read(now))
    }

    /// Carries out one operation.
    pub(crate) fn apply(&mut self, now: Real, op: &Op) -> Result<Reply, StoreError> {
        if let Op::LeaseGrant { lease, ttl_s } = op
            && *ttl_s == self.session_ttl_s
        {
            self.session_leases.insert(*lease);
        }
        let time = self.time(now);
        let heads = self.heads(time, op);
        let result = self.model.apply(time, op);
        self.check_heads(&heads);
        result
    }

    /// The heads of the lines of the names that this may grant, where nobody holds them.
    fn heads(&mut self, time: ModelTime, op: &Op) -> Vec<(Key, Key)> {
        let Op::Txn(txn) = op else {
            return Vec::new();
        };
        let mut locks = Vec::new();
        grants(txn, &mut locks);
        let mut heads = Vec::new();
        for lock in locks {
            let Some(name) = lock.as_str().and_then(|key| key.strip_prefix("/locks/")) else {
                continue;
            };
            let line = KeyRange::prefix(Key::from(format!("/holdfast/waiters/{name}\0")));
            let first = self
                .peek(time, line)
                .into_iter()
                .min_by_key(|kv| kv.create_revision);
            if let Some(first) = first
                && self.model.get(&lock).is_none()
            {
                heads.push((lock, first.key));
            }
        }
        heads
    }

    /// Whoever was granted a name for which others waited was the first of them.
    fn check_heads(&mut self, heads: &[(Key, Key)]) {
        for (lock, head) in heads {
            if self.model.get(lock).is_some() && self.model.get(head).is_some() {
                self.overtaken = Some(format!("{lock:?} is granted, and {head:?} stood first"));
            }
        }
    }

    fn peek(&mut self, time: ModelTime, range: KeyRange) -> Vec<KeyValue> {
        let read = Op::Txn(Txn::read([Get::keys(range)]));
        match self.model.apply(time, &read) {
            Ok(Reply::Txn(reply)) => match reply.ops.into_iter().next() {
                Some(TxnOpReply::Get(get)) => get.kvs,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Carries out one operation of a gateway, which may reach a member that is behind.
    pub(crate) fn serve(
        &mut self,
        now: Real,
        op: &Op,
        faults: &BTreeSet<Fault>,
        dice: &mut Dice,
        figures: &mut Figures,
    ) -> Result<Reply, StoreError> {
        if matches!(op, Op::KeepAlive { .. } | Op::LeaseKeys { .. })
            && faults.contains(&Fault::DeposedAnswers)
            && dice.per_mille(400)
            && let Some(reply) = self.ask_deposed(now, op)
        {
            figures.fault(Fault::DeposedAnswers);
            return reply;
        }
        if let Op::KeepAlive { leases } = op
            && faults.contains(&Fault::KeepaliveZero)
            && now < self.elected_at + FRESH_LEADER_MS
            && dice.coin()
        {
            figures.fault(Fault::KeepaliveZero);
            return Ok(self.answer_zero(leases));
        }
        if let Op::KeepAlive { leases } = op
            && now < self.forgets_until
            && faults.contains(&Fault::LeaseForgotten)
            && self.are_groups(leases)
        {
            figures.fault(Fault::LeaseForgotten);
            return Ok(self.answer_zero(leases));
        }
        let mut result = self.apply(now, op);
        if let Ok(Reply::KeepAlive(answers)) = &mut result
            && faults.contains(&Fault::KeepalivePartial)
            && dice.per_mille(150)
        {
            figures.fault(Fault::KeepalivePartial);
            answers.retain(|_| dice.coin());
        }
        result
    }

    /// Whether none of them is a session's.
    pub(crate) fn are_groups(&self, leases: &[LeaseId]) -> bool {
        !leases.iter().any(|it| self.session_leases.contains(it))
    }

    fn answer_zero(&self, leases: &[LeaseId]) -> Reply {
        let header = self.model.header();
        let zero = |lease: &LeaseId| KeepAliveAnswer {
            header,
            lease: *lease,
            ttl_s: 0,
        };
        Reply::KeepAlive(leases.iter().map(zero).collect())
    }

    pub(crate) fn forget_groups(&mut self, until: Real) {
        self.forgets_until = self.forgets_until.max(until);
    }

    fn ask_deposed(&mut self, now: Real, op: &Op) -> Option<Result<Reply, StoreError>> {
        let time = self.time(now);
        let deposed = self.deposed.as_mut()?;
        (deposed.answers && now < deposed.until).then(|| deposed.model.apply(time, op))
    }

    /// Elects another leader; the old one does not know it until then.
    pub(crate) fn elect(&mut self, now: Real, deposed_until: Real, answers: bool) {
        let time = self.time(now);
        self.model.advance(time);
        self.deposed = Some(Deposed {
            model: self.model.clone(),
            until: deposed_until,
            answers,
        });
        self.elected_at = now;
        self.model.elect_leader(time);
    }

    /// The deposed leader looks at its leases once more and revokes those that have ended for it.
    /// Tells how many.
    pub(crate) fn deposed_revokes(&mut self, now: Real) -> usize {
        let time = self.time(now);
        let Some(mut deposed) = self.deposed.take() else {
            return 0;
        };
        let before: BTreeSet<_> = deposed.model.leases().collect();
        deposed.model.advance(time);
        let after: BTreeSet<_> = deposed.model.leases().collect();
        let ended = before
            .difference(&after)
            .filter(|lease| self.session_leases.contains(lease));
        let mut revoked = 0;
        for lease in ended {
            let done = self.model.apply(time, &Op::LeaseRevoke { lease: *lease });
            revoked += usize::from(done.is_ok());
        }
        revoked
    }

    /// Nobody leads until then; no lease ends meanwhile.
    pub(crate) fn go_down(&mut self, now: Real, until: Real) {
        self.model.advance(self.time(now));
        self.model.set_expiry_lag_ms(NO_LEADER_LAG_MS);
        self.down_until = self.down_until.max(until);
    }

    /// A leader is elected, if it is time.
    pub(crate) fn come_back(&mut self, now: Real) {
        if now >= self.down_until {
            self.elect(now, 0, false);
            self.model.set_expiry_lag_ms(self.lag_ms);
        }
    }

    pub(crate) fn set_lag(&mut self, lag_ms: u64) {
        self.lag_ms = lag_ms;
        self.model.set_expiry_lag_ms(lag_ms);
    }

    pub(crate) fn set_no_space(&mut self, raised: bool) {
        self.model.set_no_space(raised);
    }

    pub(crate) fn put(&mut self, now: Real, key: Key, value: Vec<u8>) {
        let put = Put {
            key,
            value,
            lease: None,
        };
        self.write(now, TxnOp::Put(put));
    }

    pub(crate) fn delete(&mut self, now: Real, key: Key) {
        self.write(now, TxnOp::Delete(KeyRange::one(key)));
    }

    fn write(&mut self, now: Real, op: TxnOp) {
        // Inside, so that a lack of space does not refuse what is done by hand.
        let inner = Txn {
            then: vec![op],
            ..Txn::default()
        };
        let txn = Txn {
            then: vec![TxnOp::Txn(inner)],
            ..Txn::default()
        };
        let done = self.apply(now, &Op::Txn(txn));
        debug_assert!(done.is_ok(), "{done:?}");
    }

    /// How many sessions have ended since this was asked last.
    pub(crate) fn sessions_ended(&mut self, now: Real) -> usize {
        self.model.advance(self.time(now));
        let sessions = KeyRange::prefix(Key::from("/holdfast/sessions/"));
        let is_end = |event: &WatchEvent| matches!(event, WatchEvent::Delete(..));
        let ended = match self.model.events_from(self.looked_at, &sessions) {
            Ok(events) => events.filter(is_end).count(),
            // A watch that has fallen behind is made again, and looks then.
            Err(_) => 1,
        };
        self.looked_at = Revision(self.model.header().revision.0 + 1);
        ended
    }

    /// Whether it has this key.
    pub(crate) fn has(&mut self, now: Real, key: &Key) -> bool {
        self.model.advance(self.time(now));
        self.model.get(key).is_some()
    }

    /// What it has with this prefix.
    pub(crate) fn read(&mut self, now: Real, prefix: &str) -> Vec<KeyValue> {
        let get = Get::all(KeyRange::prefix(Key::from(prefix)));
        match self.apply(now, &Op::Txn(Txn::read([get]))) {
            Ok(Reply::Txn(reply)) => match reply.ops.into_iter().next() {
                Some(TxnOpReply::Get(get)) => get.kvs,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The leases that live.
    pub(crate) fn leases(&mut self, now: Real) -> Vec<LeaseId> {
        self.model.advance(self.time(now));
        self.model.leases().collect()
    }
}
