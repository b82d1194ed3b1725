//! What can happen next. The names are those of the gateway's engine where it has one.
//!
//! Nothing is urgent: whatever may happen may also wait for any number of ticks, or for ever. A
//! gateway that is stopped and continues is one of which nothing happens for a while.

use crate::Ownership;
use crate::state::{
    Answer, Call, Client, ClientIx, Gateway, GatewayIx, Left, SESSIONS_MAX, SessionId, Slot, State,
};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,

    /// A client asks for the lock, and the gateway sends a grant.
    Grant(GatewayIx, ClientIx),
    /// A client asks for the lock that this gateway holds for it: a lost reply, or re-entry.
    EnterAgain(GatewayIx, ClientIx),
    /// A client does not wait for its answer any longer.
    GiveUp(ClientIx),
    /// A client renews, and gets the answer or does not.
    Renew(GatewayIx, ClientIx, Heard),
    /// A client asks for the release of its lock; from here on it does not hold it.
    Release(GatewayIx, ClientIx),
    /// A client whose promise has ended forgets the lock.
    Forget(ClientIx),

    /// The gateway's write reaches etcd, and a second copy of it stays under way or does not.
    Arrive(GatewayIx, Copies),
    /// A write that nobody waits for any more reaches etcd.
    LateWrite(usize),
    /// The gateway has no answer in time, and its write does not arrive any more.
    Lose(GatewayIx),
    /// The gateway has no answer in time, and its write may arrive later.
    GiveUpWrite(GatewayIx),
    /// The gateway learns that its grant was carried out.
    GrantLanded(GatewayIx),
    /// The gateway learns that its grant's compares failed.
    GrantRefused(GatewayIx),
    /// The gateway learns that the record is deleted.
    HoldEnded(GatewayIx),
    /// The gateway learns that the compares of its delete failed.
    DeleteRefused(GatewayIx),
    /// The gateway learns that its claim was carried out.
    Claimed(GatewayIx),
    /// The gateway learns that the compares of its claim failed.
    ClaimRefused(GatewayIx),
    /// The gateway learns that its write was refused by the fence: its session is gone.
    Fenced(GatewayIx),
    /// The gateway makes sure that its write can happen no more, and reads what became of it.
    Fence(GatewayIx),

    /// The gateway starts a session and opens a group.
    StartSession(GatewayIx),
    /// A round: a keepalive, and one linearizable read of the session and the groups.
    Prove(GatewayIx),
    /// A deadline has passed: the hold ends, and its delete is sent.
    Expire(GatewayIx),
    /// The delete of a hold that is ending is sent again.
    Delete(GatewayIx),
    /// A group without a session was read, and its claim is sent.
    Claim(GatewayIx),
    /// The records of a claimed group are read.
    Load(GatewayIx),
    /// The process dies and is started again; its write does not arrive any more.
    Kill(GatewayIx),
    /// The process dies and is started again; its write may arrive later.
    KillLeavingWrite(GatewayIx),

    /// etcd ends the lease of a session that was not kept alive in time.
    SessionExpires(SessionId),
    /// A leader that was stopped and continues revokes a session's lease that was kept alive.
    WrongRevoke(SessionId),
    /// The shard's guard becomes `leaving`, or `active` again.
    GuardChanges,
}

/// Whether a client gets its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// How many copies of a write reach etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// One.
    One,
    /// One now, and one later.
    AndOneLate,
}

impl Ownership {
    pub(crate) fn enabled(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for client in self.clients() {
            self.of_client(state, client, actions);
        }
        for gateway in self.gateways() {
            self.of_write(state, gateway, actions);
            self.of_gateway(state, gateway, actions);
        }
        self.of_etcd(state, actions);
    }

    fn of_client(&self, state: &State, client: ClientIx, actions: &mut Vec<Action>) {
        match state.client(client) {
            Client::Idle => actions.extend(self.gateways().filter_map(|at| {
                let gateway = state.gateway(at);
                if self.may_grant(gateway) {
                    return Some(Action::Grant(at, client));
                }
                self.may_enter_again(state, gateway, client)
                    .then_some(Action::EnterAgain(at, client))
            })),
            Client::Asking(_) => actions.push(Action::GiveUp(client)),
            Client::Holding { left, .. } => {
                for at in self.gateways() {
                    actions.push(Action::Renew(at, client, Heard::Yes));
                    actions.push(Action::Renew(at, client, Heard::No));
                    actions.push(Action::Release(at, client));
                }
                if left.is_over() {
                    actions.push(Action::Forget(client));
                }
            }
            Client::Releasing { .. } => {
                actions.extend(self.gateways().map(|at| Action::Release(at, client)));
            }
        }
    }

    fn may_grant(&self, gateway: &Gateway) -> bool {
        !gateway.proof.is_over()
            && gateway.slot == Slot::Free
            && gateway.loading.is_none()
            && gateway.call == Call::None
            && gateway.guard.is_some()
    }

    /// The grant that is refused, with the record found, is left out: what counts is that it was
    /// found by a write that passed the fence.
    fn may_enter_again(&self, state: &State, gateway: &Gateway, client: ClientIx) -> bool {
        !gateway.proof.is_over()
            && matches!(gateway.slot, Slot::Held(hold) if hold.client == client
                && !hold.left.is_over() && state.etcd.has_record_of(hold.lock))
            && state.session_lives(gateway)
    }

    fn of_write(&self, state: &State, at: GatewayIx, actions: &mut Vec<Action>) {
        let room = self.has_room_for_late_write(state);
        match state.gateway(at).call {
            Call::None => {}
            Call::Sent(_) => {
                actions.push(Action::Arrive(at, Copies::One));
                actions.push(Action::Lose(at));
                if room {
                    actions.push(Action::Arrive(at, Copies::AndOneLate));
                    actions.push(Action::GiveUpWrite(at));
                }
            }
            Call::Answered(_) => {
                actions.extend(learn(state.gateway(at), at));
                actions.push(Action::Lose(at));
            }
            Call::Unknown => actions.push(Action::Fence(at)),
        }
    }

    pub(crate) fn has_room_for_late_write(&self, state: &State) -> bool {
        state.late.iter().flatten().count() < usize::from(self.bounds.late_writes)
    }

    fn of_gateway(&self, state: &State, at: GatewayIx, actions: &mut Vec<Action>) {
        let gateway = state.gateway(at);
        if gateway.session.is_none() {
            let sessions = state.etcd.sessions.iter().flatten().count();
            if sessions < SESSIONS_MAX {
                actions.push(Action::StartSession(at));
            }
            return;
        }
        actions.push(Action::Prove(at));
        if gateway.loading.is_some() {
            actions.push(Action::Load(at));
        }
        let idle = gateway.call == Call::None;
        match gateway.slot {
            Slot::Held(hold) if hold.left.is_over() && idle => actions.push(Action::Expire(at)),
            Slot::Ending(_) if idle => actions.push(Action::Delete(at)),
            Slot::Free if idle && self.orphan(state, gateway).is_some() => {
                actions.push(Action::Claim(at));
            }
            _ => {}
        }
        if state.faults.kills.is_left() && self.may_die(state) {
            actions.push(Action::Kill(at));
            if matches!(gateway.call, Call::Sent(_)) && self.has_room_for_late_write(state) {
                actions.push(Action::KillLeavingWrite(at));
            }
        }
    }

    /// There is room for the session that a dead gateway leaves.
    fn may_die(&self, state: &State) -> bool {
        let sessions = state.etcd.sessions.iter().flatten().count();
        sessions <= usize::from(self.bounds.gateways)
    }

    fn of_etcd(&self, state: &State, actions: &mut Vec<Action>) {
        let late = state.late.iter().enumerate();
        actions.extend(late.filter_map(|(at, write)| write.map(|_| Action::LateWrite(at))));
        for key in state.etcd.sessions.iter().flatten() {
            if key.left == Left::OVER {
                actions.push(Action::SessionExpires(key.id));
            } else if state.faults.wrong_revokes.is_left() {
                actions.push(Action::WrongRevoke(key.id));
            }
        }
        if state.faults.guard_changes.is_left() {
            actions.push(Action::GuardChanges);
        }
    }
}

/// What the gateway does with the answer to its write.
pub(crate) fn learn(gateway: &Gateway, at: GatewayIx) -> Option<Action> {
    let Call::Answered(answer) = gateway.call else {
        return None;
    };
    Some(match (answer, gateway.slot) {
        (Answer::GrantLanded(_), _) => Action::GrantLanded(at),
        (Answer::HoldEnded, _) => Action::HoldEnded(at),
        (Answer::Claimed(_), _) => Action::Claimed(at),
        (Answer::Refused, Slot::Pending { .. }) => Action::GrantRefused(at),
        (Answer::Refused, Slot::Ending(_)) => Action::DeleteRefused(at),
        (Answer::Refused, _) => Action::ClaimRefused(at),
        (Answer::Fenced, _) => Action::Fenced(at),
    })
}
