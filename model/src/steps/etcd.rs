//! etcd: transactions as values, leases, and what goes wrong with them.

use crate::Ownership;
use crate::mutation::Mutation;
use crate::state::{
    Answer, Etcd, GroupRef, LockRecord, Refusal, Revision, SessionId, Write, WriteOp,
};
use crate::steps::Step;

impl Ownership {
    /// Whether the outer compares of the write fail now, and so for ever.
    pub(crate) fn refusal(&self, etcd: &Etcd, write: &Write) -> Option<Refusal> {
        let mistake = |mutation| self.mutation == Some(mutation);
        if mistake(Mutation::ReleaseWithoutCompare) && matches!(write.op, WriteOp::Delete { .. }) {
            return None;
        }
        match etcd.session(write.session) {
            // Without its lease the lane's key cannot be put, and the whole write fails.
            None => Some(Refusal::SessionGone),
            Some(key) if key.revision != write.fence && !mistake(Mutation::WriteWithoutFence) => {
                Some(Refusal::Fence)
            }
            Some(key) if key.lane != write.lane && !mistake(Mutation::WriteWithoutLane) => {
                Some(Refusal::Lane)
            }
            Some(_) => None,
        }
    }
}

impl Step<'_> {
    /// The write arrives.
    pub(super) fn carry_out(&mut self, write: Write) -> Answer {
        if self.model.refusal(&self.state.etcd, &write).is_some() {
            return Answer::Fenced;
        }
        if let Some(session) = self.state.etcd.session_mut(write.session) {
            session.lane = Revision(session.lane.0 + 1);
        }
        let done = match write.op {
            WriteOp::Grant {
                lock,
                client,
                guard,
                group,
            } => {
                let record = LockRecord {
                    lock,
                    client,
                    group: group.id,
                    revision: self.state.new_token(),
                };
                self.carry_out_grant(record, guard, group)
            }
            WriteOp::Delete { record, group } => self.carry_out_delete(record, group),
            WriteOp::Claim { group } => self.carry_out_claim(write.session, group),
        };
        done.unwrap_or(Answer::Refused)
    }

    fn carry_out_grant(
        &mut self,
        record: LockRecord,
        guard: Revision,
        group: GroupRef,
    ) -> Option<Answer> {
        let guarded =
            self.state.etcd.guard.revision == guard || self.mutated(Mutation::GrantWithoutGuard);
        if self.state.etcd.record.is_some() || self.state.etcd.group(group).is_none() || !guarded {
            return None;
        }
        self.state.broken.epoch |= !self.state.etcd.guard.active;
        self.state.etcd.record = Some(record);
        Some(Answer::GrantLanded(record.revision))
    }

    fn carry_out_delete(&mut self, record: Revision, group: GroupRef) -> Option<Answer> {
        let found = self.state.etcd.record?;
        let as_known = (found.revision == record && self.state.etcd.group(group).is_some())
            || self.mutated(Mutation::ReleaseWithoutCompare);
        as_known.then(|| {
            self.state.etcd.record = None;
            Answer::HoldEnded
        })
    }

    fn carry_out_claim(&mut self, by: SessionId, group: GroupRef) -> Option<Answer> {
        let owner = self.state.etcd.group(group)?.session;
        let owned = self.state.etcd.session(owner).is_some();
        if owned && !self.mutated(Mutation::ClaimOfLivingSession) {
            return None;
        }
        let keys = self.state.etcd.groups.iter_mut().flatten();
        let key = keys.into_iter().find(|key| key.as_read() == group)?;
        key.session = by;
        key.claimed = true;
        key.revision = Revision(key.revision.0 + 1);
        Some(Answer::Claimed(key.as_read()))
    }

    /// The session's lease ends in time: nobody may believe in it any more (PROOF).
    pub(super) fn session_expires(&mut self, session: SessionId) {
        let believed = self.state.gateways.iter().any(|gateway| {
            let own = gateway.session.is_some_and(|own| own.id == session);
            own && !gateway.proof.is_over()
        });
        self.state.broken.proof |= believed;
        self.end_session(session);
    }

    pub(super) fn wrong_revoke(&mut self, session: SessionId) {
        self.state.faults.wrong_revokes = self.state.faults.wrong_revokes.once_less();
        self.end_session(session);
    }

    fn end_session(&mut self, session: SessionId) {
        for key in &mut self.state.etcd.sessions {
            key.take_if(|key| key.id == session);
        }
    }

    pub(super) fn guard_changes(&mut self) {
        self.state.faults.guard_changes = self.state.faults.guard_changes.once_less();
        let guard = &mut self.state.etcd.guard;
        guard.active = !guard.active;
        guard.revision = Revision(guard.revision.0 + 1);
    }
}
