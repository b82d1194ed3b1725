//! Writes on their way, and what becomes known of them.

use crate::actions::Copies;
use crate::mutation::Mutation;
use crate::state::{
    Answer, Call, Client, GatewayIx, Hold, Late, Left, Revision, Slot, Write, WriteOp,
};
use crate::steps::Step;

impl Step<'_> {
    pub(super) fn arrive(&mut self, at: GatewayIx, copies: Copies) {
        let Call::Sent(write) = self.state.gateway(at).call else {
            return;
        };
        if copies == Copies::AndOneLate {
            self.leave_write(at);
        }
        let answer = self.carry_out(write);
        self.gateway(at).call = Call::Answered(answer);
    }

    pub(super) fn late_write(&mut self, copy: usize) {
        if let Some(Late::Write(write)) = self.state.late[copy].take() {
            self.carry_out(write);
        }
    }

    /// Leaves a copy of the gateway's write under way.
    pub(super) fn leave_write(&mut self, at: GatewayIx) {
        let Call::Sent(write) = self.state.gateway(at).call else {
            return;
        };
        if let Some(free) = self.state.late.iter_mut().find(|copy| copy.is_none()) {
            *free = Some(Late::Write(write));
        }
    }

    /// There is no answer, so the outcome is unknown.
    pub(super) fn lose(&mut self, at: GatewayIx) {
        self.gateway(at).call = Call::Unknown;
        let (lost, granted) = (
            Mutation::UnknownTakenAsLost,
            Mutation::UnknownTakenAsGranted,
        );
        match self.state.gateway(at).slot {
            Slot::Pending { .. } if self.mutated(lost) => self.grant_undone(at),
            Slot::Ending(_) if self.mutated(lost) => self.hold_ended(at),
            Slot::Pending { .. } if self.mutated(granted) => {
                let made_up = Revision(self.state.newest_told.0 + 1);
                self.grant_landed(at, made_up);
            }
            _ => {}
        }
    }

    /// The answer to the gateway's write comes.
    pub(super) fn learn(&mut self, at: GatewayIx) {
        let Call::Answered(answer) = self.state.gateway(at).call else {
            return;
        };
        self.gateway(at).call = Call::None;
        self.know_keys(at);
        match (answer, self.state.gateway(at).slot) {
            (Answer::GrantLanded(revision), _) => self.grant_landed(at, revision),
            (Answer::HoldEnded, _) => self.hold_ended(at),
            (Answer::Claimed(group), _) => self.claimed(at, group),
            (Answer::Fenced, _) if !self.state.session_lives(self.state.gateway(at)) => {
                self.session_lost(at);
            }
            (Answer::Fenced | Answer::Refused, Slot::Pending { .. }) => self.grant_undone(at),
            (Answer::Refused, Slot::Ending(_)) => self.delete_refused(at),
            (Answer::Fenced | Answer::Refused, _) => {}
        }
    }

    /// An answer, and a fence, tell the revisions of the session's own keys.
    fn know_keys(&mut self, at: GatewayIx) {
        if let Some(session) = self.state.gateway(at).session
            && let Some(key) = self.state.etcd.session(session.id).copied()
            && let Some(session) = &mut self.gateway(at).session
        {
            session.fence = key.revision;
            session.lane = key.lane;
        }
    }

    /// Rewrites the session's key, so that whatever is under way with its old revision fails, and
    /// reads what became of the write. An unanswered fence is repeated, which is the same as one
    /// that takes longer.
    pub(super) fn fence(&mut self, at: GatewayIx) {
        let gateway = *self.state.gateway(at);
        let Some(session) = gateway.session else {
            return;
        };
        let unfenced = self.mutated(Mutation::ReadWithoutFence);
        let Some(key) = self.state.etcd.session_mut(session.id) else {
            return self.session_lost(at);
        };
        if !unfenced {
            key.revision = Revision(key.revision.0 + 1);
        }
        self.know_keys(at);
        self.gateway(at).call = Call::None;
        match (gateway.slot, self.state.etcd.record) {
            (Slot::Pending { lock, .. }, Some(record)) if record.lock == lock => {
                self.grant_landed(at, record.revision);
            }
            (Slot::Pending { .. }, _) => self.grant_undone(at),
            (Slot::Ending(_), _) => self.delete_refused(at),
            (Slot::Free | Slot::Held(_), record) => {
                let keys = self.state.etcd.groups.iter().flatten();
                let own = keys.filter(|key| key.session == session.id && key.claimed);
                let found = own
                    .copied()
                    .find(|key| record.is_some_and(|r| r.group == key.id));
                if let Some(key) = found {
                    self.claimed(at, key.as_read());
                }
            }
        }
    }

    /// The grant is in etcd. Its hold is kept for its TTL from when it was asked for, told or not.
    fn grant_landed(&mut self, at: GatewayIx, token: Revision) {
        let gateway = *self.state.gateway(at);
        let (Some(session), Slot::Pending { lock, client, left }) = (gateway.session, gateway.slot)
        else {
            return;
        };
        let asking = self.state.client(client) == Client::Asking(at);
        let left = match self.mutated(Mutation::GhostKept) && !asking {
            true => Left::FOR_EVER,
            false => left,
        };
        let hold = Hold {
            lock,
            client,
            token,
            group: session.group,
            left,
        };
        self.gateway(at).call = Call::None;
        self.gateway(at).slot = Slot::Held(hold);
        if asking && !left.is_over() && !gateway.proof.is_over() {
            self.tell_grant(at, hold, client, left);
        }
        self.fail_asking(at);
    }

    /// The grant certainly did not happen. The client is told to ask again, or that the name is
    /// held.
    fn grant_undone(&mut self, at: GatewayIx) {
        self.gateway(at).call = Call::None;
        self.gateway(at).slot = Slot::Free;
        // The refusal shows the guard as it is.
        self.read_guard(at);
        self.fail_asking(at);
    }

    /// Ends the gateway's hold, or goes on with ending it: its delete is sent.
    pub(super) fn end_hold(&mut self, at: GatewayIx) {
        let gateway = *self.state.gateway(at);
        let (Slot::Held(hold) | Slot::Ending(hold)) = gateway.slot else {
            return;
        };
        let left = Left::OVER;
        self.gateway(at).slot = Slot::Ending(Hold { left, ..hold });
        if let Some(session) = gateway.session
            && gateway.call == Call::None
        {
            self.gateway(at).call = Call::Sent(Write {
                session: session.id,
                fence: session.fence,
                lane: session.lane,
                op: WriteOp::Delete {
                    record: hold.token,
                    group: hold.group,
                },
            });
        }
    }

    fn hold_ended(&mut self, at: GatewayIx) {
        let Slot::Ending(hold) = self.state.gateway(at).slot else {
            return;
        };
        self.gateway(at).call = Call::None;
        self.gateway(at).slot = Slot::Free;
        self.tell_released(hold.lock);
    }

    /// The delete did not happen: it is over if the record is not there, and is tried again if it
    /// is.
    fn delete_refused(&mut self, at: GatewayIx) {
        let Slot::Ending(hold) = self.state.gateway(at).slot else {
            return;
        };
        match self.state.etcd.record {
            Some(record) if record.lock == hold.lock => {
                let token = record.revision;
                self.gateway(at).slot = Slot::Ending(Hold { token, ..hold });
            }
            _ => self.hold_ended(at),
        }
    }
}
