//! Where ids and tokens stand in a state.

use crate::state::{
    Answer, Call, Client, ClientIx, GroupId, GroupRef, Late, LockId, Revision, SessionId, Slot,
    State, Write, WriteOp,
};

impl State {
    /// Every session id but those of the sessions' own keys.
    pub(crate) fn each_session(&mut self, mut visit: impl FnMut(&mut SessionId)) {
        for gateway in &mut self.gateways {
            if let Some(session) = &mut gateway.session {
                visit(&mut session.id);
            }
        }
        for key in self.etcd.groups.iter_mut().flatten() {
            visit(&mut key.session);
        }
        self.each_write(|write| visit(&mut write.session));
    }

    /// Every group key as somebody knows it.
    pub(crate) fn each_group(&mut self, mut visit: impl FnMut(&mut GroupRef)) {
        for gateway in &mut self.gateways {
            if let Some(session) = &mut gateway.session {
                visit(&mut session.group);
            }
            for slot in [&mut gateway.slot, &mut gateway.old_slot] {
                if let Slot::Held(hold) | Slot::Ending(hold) = slot {
                    visit(&mut hold.group);
                }
            }
            if let Some(loading) = &mut gateway.loading {
                visit(&mut loading.group);
            }
            if let Call::Answered(Answer::Claimed(group)) = &mut gateway.call {
                visit(group);
            }
        }
        self.each_write(|write| {
            let (WriteOp::Grant { group, .. }
            | WriteOp::Delete { group, .. }
            | WriteOp::Claim { group }) = &mut write.op;
            visit(group);
        });
    }

    /// Every lock id, the record's first.
    pub(crate) fn each_lock(&mut self, mut visit: impl FnMut(&mut LockId)) {
        if let Some(record) = &mut self.etcd.record {
            visit(&mut record.lock);
        }
        for gateway in &mut self.gateways {
            for slot in [&mut gateway.slot, &mut gateway.old_slot] {
                match slot {
                    Slot::Free => {}
                    Slot::Pending { lock, .. } => visit(lock),
                    Slot::Held(hold) | Slot::Ending(hold) => visit(&mut hold.lock),
                }
            }
        }
        for client in &mut self.clients {
            if let Client::Holding { lock, .. } | Client::Releasing { lock } = client {
                visit(lock);
            }
        }
        self.each_write(|write| {
            if let WriteOp::Grant { lock, .. } = &mut write.op {
                visit(lock);
            }
        });
    }

    /// Every client that something in etcd or in a gateway names.
    pub(crate) fn each_client(&mut self, mut visit: impl FnMut(&mut ClientIx)) {
        if let Some(record) = &mut self.etcd.record {
            visit(&mut record.client);
        }
        for gateway in &mut self.gateways {
            for slot in [&mut gateway.slot, &mut gateway.old_slot] {
                match slot {
                    Slot::Free => {}
                    Slot::Pending { client, .. } => visit(client),
                    Slot::Held(hold) | Slot::Ending(hold) => visit(&mut hold.client),
                }
            }
        }
        self.each_write(|write| {
            if let WriteOp::Grant { client, .. } = &mut write.op {
                visit(client);
            }
        });
    }

    /// Every revision of a record: the tokens.
    pub(crate) fn each_token(&mut self, mut visit: impl FnMut(&mut Revision)) {
        if let Some(record) = &mut self.etcd.record {
            visit(&mut record.revision);
        }
        visit(&mut self.newest_told);
        for gateway in &mut self.gateways {
            for slot in [&mut gateway.slot, &mut gateway.old_slot] {
                if let Slot::Held(hold) | Slot::Ending(hold) = slot {
                    visit(&mut hold.token);
                }
            }
            if let Call::Answered(Answer::GrantLanded(token)) = &mut gateway.call {
                visit(token);
            }
        }
        self.each_write(|write| {
            if let WriteOp::Delete { record, .. } = &mut write.op {
                visit(record);
            }
        });
    }

    /// Every write that is under way.
    pub(crate) fn each_write(&mut self, mut visit: impl FnMut(&mut Write)) {
        for gateway in &mut self.gateways {
            if let Call::Sent(write) = &mut gateway.call {
                visit(write);
            }
        }
        for late in self.late.iter_mut().flatten() {
            if let Late::Write(write) = late {
                visit(write);
            }
        }
    }

    /// An id that no session has or had.
    pub(crate) fn new_session(&self) -> SessionId {
        let keys = self.etcd.sessions.iter().flatten().map(|key| key.id);
        let mut newest = keys.fold(SessionId::GONE, SessionId::max);
        let mut seen = *self;
        seen.each_session(|id| newest = newest.max(*id));
        SessionId(newest.0 + 1)
    }

    /// An id that no group has or had.
    pub(crate) fn new_group(&self) -> GroupId {
        let keys = self.etcd.groups.iter().flatten().map(|key| key.id);
        let mut newest = keys.fold(GroupId::GONE, GroupId::max);
        let mut seen = *self;
        seen.each_group(|group| newest = newest.max(group.id));
        GroupId(newest.0 + 1)
    }

    /// An id that no lock has or had.
    pub(crate) fn new_lock(&self) -> LockId {
        let mut newest = LockId(0);
        let mut seen = *self;
        seen.each_lock(|id| newest = newest.max(*id));
        LockId(newest.0 + 1)
    }

    /// A revision above every one that a record has or had.
    pub(crate) fn new_token(&self) -> Revision {
        let mut newest = Revision(0);
        let mut seen = *self;
        seen.each_token(|token| newest = newest.max(*token));
        Revision(newest.0 + 1)
    }
}
