//! Sessions, rounds of proof, and takeovers.

use crate::Ownership;
use crate::mutation::Mutation;
use crate::state::{
    Call, Gateway, GatewayIx, GroupKey, GroupRef, Hold, Left, Loading, Revision, Session,
    SessionKey, Slot, State, Write, WriteOp,
};
use crate::steps::Step;

impl Ownership {
    /// A group with a record whose session is gone, as a gateway that asks etcd sees it. Groups
    /// without a record are claimed and retired too, which changes nothing for anybody.
    pub(crate) fn orphan(&self, state: &State, by: &Gateway) -> Option<GroupRef> {
        let record = state.etcd.record?;
        let key = state
            .etcd
            .groups
            .iter()
            .flatten()
            .find(|key| key.id == record.group)?;
        let own = by.session.is_some_and(|own| own.id == key.session);
        let lives = state.etcd.session(key.session).is_some();
        let free = !lives || self.mutation == Some(Mutation::ClaimOfLivingSession);
        (free && !own && by.loading.is_none() && state.session_lives(by)).then(|| key.as_read())
    }
}

impl Step<'_> {
    pub(super) fn start_session(&mut self, at: GatewayIx) {
        let id = self.state.new_session();
        let first = Revision(1);
        let key = SessionKey {
            id,
            revision: first,
            lane: first,
            left: self.model.bounds.session_ttl,
        };
        let free = self
            .state
            .etcd
            .sessions
            .iter_mut()
            .find(|key| key.is_none());
        let Some(free) = free else { return };
        *free = Some(key);
        let group = GroupKey {
            id: self.state.new_group(),
            session: id,
            revision: first,
            claimed: false,
        };
        let free = self.state.etcd.groups.iter_mut().find(|key| key.is_none());
        let Some(free) = free else { return };
        *free = Some(group);
        self.gateway(at).session = Some(Session {
            id,
            fence: first,
            lane: first,
            group: group.as_read(),
        });
        self.read_guard(at);
    }

    pub(super) fn read_guard(&mut self, at: GatewayIx) {
        let guard = self.state.etcd.guard;
        self.gateway(at).guard = guard.active.then_some(guard.revision);
    }

    /// Keepalive and read at one moment. Where the read comes later it can only show more.
    pub(super) fn prove(&mut self, at: GatewayIx) {
        let Some(session) = self.state.gateway(at).session else {
            return;
        };
        let ttl = self.model.bounds.session_ttl;
        let proof = match self.mutated(Mutation::ProofOutlivesSession) {
            true => Left(2 * ttl.0),
            false => ttl,
        };
        match self.state.etcd.session_mut(session.id) {
            Some(key) => {
                key.left = ttl;
                self.gateway(at).proof = proof;
                self.read_guard(at);
                self.check_groups(at, session);
            }
            None if self.model.mutation == Some(Mutation::ProofWithoutRange) => {
                self.state.broken.proof = true;
                self.gateway(at).proof = proof;
            }
            None => self.session_lost(at),
        }
    }

    /// A group whose key is not the same takes its table with it.
    fn check_groups(&mut self, at: GatewayIx, session: Session) {
        let gateway = *self.state.gateway(at);
        let etcd = self.state.etcd;
        let owned = |group| {
            etcd.group(group)
                .is_some_and(|key| key.session == session.id)
        };
        if self.mutated(Mutation::TableOutlivesSession) {
            return;
        }
        if gateway.slot.hold().is_some_and(|hold| !owned(hold.group)) {
            self.gateway(at).slot = Slot::Free;
            self.gateway(at).call = Call::None;
        }
        if gateway.loading.is_some_and(|loading| !owned(loading.group)) {
            self.gateway(at).loading = None;
        }
    }

    /// A linearizable read has shown that the session is gone: every table is void.
    pub(super) fn session_lost(&mut self, at: GatewayIx) {
        let gateway = *self.state.gateway(at);
        *self.gateway(at) = Gateway::DOWN;
        if self.mutated(Mutation::TableOutlivesSession) {
            self.gateway(at).slot = gateway.slot;
        }
        if self.mutated(Mutation::ClaimTrustsOldTable) && matches!(gateway.slot, Slot::Held(_)) {
            self.gateway(at).old_slot = gateway.slot;
        }
        self.fail_asking(at);
    }

    pub(super) fn kill(&mut self, at: GatewayIx) {
        self.state.faults.kills = self.state.faults.kills.once_less();
        *self.gateway(at) = Gateway::DOWN;
        self.fail_asking(at);
    }

    pub(super) fn claim(&mut self, at: GatewayIx) {
        let gateway = *self.state.gateway(at);
        let group = self.model.orphan(&self.state, &gateway);
        let (Some(session), Some(group)) = (gateway.session, group) else {
            return;
        };
        self.gateway(at).call = Call::Sent(Write {
            session: session.id,
            fence: session.fence,
            lane: session.lane,
            op: WriteOp::Claim { group },
        });
    }

    /// The claim is confirmed; its time counts from here (HEIR).
    pub(super) fn claimed(&mut self, at: GatewayIx, group: GroupRef) {
        let bounds = &self.model.bounds;
        let left = match self.model.mutation {
            Some(Mutation::HeirForgetsSession) => bounds.lock_ttl,
            Some(Mutation::HeirForgetsTtl) => bounds.session_ttl,
            _ => bounds.heir_keeps(),
        };
        if let Slot::Held(old) = self.state.gateway(at).old_slot
            && self.state.etcd.has_record_of(old.lock)
        {
            self.gateway(at).old_slot = Slot::Free;
            self.gateway(at).slot = Slot::Held(Hold { group, ..old });
            return;
        }
        self.gateway(at).loading = Some(Loading { group, left });
    }

    pub(super) fn load(&mut self, at: GatewayIx) {
        let gateway = *self.state.gateway(at);
        let (Some(session), Some(loading)) = (gateway.session, gateway.loading) else {
            return;
        };
        // Where its record is gone, the group's key is: see `forget_what_is_over`.
        self.gateway(at).loading = None;
        let key = self.state.etcd.group(loading.group);
        let own = key.filter(|key| key.session == session.id);
        if let Some(record) = self.state.etcd.record
            && own.is_some_and(|own| own.id == record.group)
        {
            self.gateway(at).slot = Slot::Held(Hold {
                lock: record.lock,
                client: record.client,
                token: record.revision,
                group: loading.group,
                left: loading.left,
            });
        }
    }
}
