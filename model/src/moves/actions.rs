//! What can happen next. Nothing is urgent: whatever may happen may also never happen.

use super::Moves;
use super::mutation::Mutation;
use super::rollout::{MapVersion, SlowIx, SlowTurn};
use super::state::{ClusterIx, Course, GatewayIx, HoldIx, HoldState, Lease, Slot, State, Write};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The operator wants the shard in the other cluster.
    Turn,
    /// A driver takes a turn: it reads both clusters and writes the guard that is due.
    TakeTurn,
    /// A driver begins a slow turn: it has read this map in home, and reads guard and groups of the
    /// cluster that is left.
    LookLeft(MapVersion),
    /// Then those of the goal, and decides.
    LookGoal(SlowIx),
    /// Then its write arrives.
    SlowWrite(SlowIx),
    /// The engine of this cluster, for which the other one's guard is leaving, lets its guard follow.
    Follow(ClusterIx),

    /// A gateway that is to grant the name reads the guard of a cluster.
    ReadGuard(GatewayIx, ClusterIx),
    /// The guard says that names may still be in the other cluster: it looks there.
    LookBeside(GatewayIx),
    /// It looks beside a cluster whose guard it has not read: a mistake.
    LookTooEarly(GatewayIx, ClusterIx),
    /// It grants the name under the guard that it has read.
    Grant(GatewayIx),
    /// A client asks for the release of its hold, and works no more.
    Release(HoldIx),
    /// The same for a hold in the group that does not move; it ends at once.
    ReleaseOther(HoldIx),

    /// The owner reads the guard of the group's cluster, which is leaving, and grants a lease in the
    /// other one, of which it has read, now or long ago, a guard that admits the group.
    Leave(GatewayIx),
    /// The owner's next write is carried out, and answered.
    Write(GatewayIx),
    /// The owner's next write has no answer, and may be carried out later.
    WriteUnheard(GatewayIx),
    /// A write without an answer is carried out.
    Arrive(GatewayIx),
    /// The gateway fences its write off and reads what became of it.
    Fence(GatewayIx),
    /// The owner revokes the lease in the other cluster, to take the move back.
    RevokeThere(GatewayIx),
    /// The owner revokes the lease that the group had before it moved.
    RevokeSource(GatewayIx),

    /// etcd ends a session.
    SessionEnds(GatewayIx, ClusterIx),
    /// The gateway learns of it, gives up what rested on it, and starts another.
    SessionLost(GatewayIx, ClusterIx),
    /// The process dies, its sessions end, and it is started again.
    Die(GatewayIx),
    /// A gateway claims the group, and reads its records.
    Claim(GatewayIx, ClusterIx),
}

impl Moves {
    pub(crate) fn enabled(&self, state: &State, actions: &mut Vec<Action>) {
        self.of_rollout(state, actions);
        for gateway in State::all_gateways() {
            self.of_grants(state, gateway, actions);
            self.of_group(state, gateway, actions);
            self.of_sessions(state, gateway, actions);
        }
        for (hold, seen) in state.all_holds() {
            if seen.state == HoldState::Ended {
                continue;
            }
            if state.lies_in_other_group(hold) {
                actions.push(Action::ReleaseOther(hold));
            } else if state.server_of(hold).is_some() {
                actions.push(Action::Release(hold));
            }
        }
    }

    fn of_rollout(&self, state: &State, actions: &mut Vec<Action>) {
        if state.left.turns > 0 {
            actions.push(Action::Turn);
        }
        if self.due(state).is_some() {
            actions.push(Action::TakeTurn);
        }
        if state.left.slow_turns > 0 && state.slow_turns.contains(&None) {
            actions.extend(state.map.so_far().map(Action::LookLeft));
        }
        actions.extend(state.all_slow_turns().map(|(at, turn)| turn.next(at)));
        let followed = ClusterIx::BOTH.into_iter();
        let followed = followed.filter(|&at| self.following(state, at).is_some());
        actions.extend(followed.map(Action::Follow));
    }

    fn of_grants(&self, state: &State, gateway: GatewayIx, actions: &mut Vec<Action>) {
        if state.left.grants == 0 {
            return;
        }
        for at in ClusterIx::BOTH {
            actions.push(Action::ReadGuard(gateway, at));
            if self.mutated(Mutation::CheckBeforeGuard) {
                actions.push(Action::LookTooEarly(gateway, at));
            }
        }
        match state.gateway(gateway).seen {
            Some(seen) if seen.checked => actions.push(Action::Grant(gateway)),
            Some(_) => actions.push(Action::LookBeside(gateway)),
            None => {}
        }
    }

    fn of_group(&self, state: &State, gateway: GatewayIx, actions: &mut Vec<Action>) {
        let own = state.gateway(gateway);
        if let Some(unheard) = own.unheard {
            if state.session_lives(gateway, unheard.at) {
                actions.push(Action::Fence(gateway));
                if !unheard.arrived {
                    actions.push(Action::Arrive(gateway));
                }
            }
            return;
        }
        if self.next_write(state, gateway).is_some() {
            actions.push(Action::Write(gateway));
            if self.bounds.unheard {
                actions.push(Action::WriteUnheard(gateway));
            }
        }
        if self.may_leave(state, gateway) {
            actions.push(Action::Leave(gateway));
        }
        if self.lease_to_revoke(own).is_some() {
            actions.push(Action::RevokeThere(gateway));
        }
        if state.source_to_revoke(gateway).is_some() {
            actions.push(Action::RevokeSource(gateway));
        }
    }

    fn of_sessions(&self, state: &State, gateway: GatewayIx, actions: &mut Vec<Action>) {
        if state.left.losses > 0 {
            actions.push(Action::Die(gateway));
        }
        for at in ClusterIx::BOTH {
            if !state.session_lives(gateway, at) {
                if state.may_learn_of_loss(gateway, at) {
                    actions.push(Action::SessionLost(gateway, at));
                }
            } else {
                if state.left.losses > 0 {
                    actions.push(Action::SessionEnds(gateway, at));
                }
                if self.may_claim(state, gateway, at) {
                    actions.push(Action::Claim(gateway, at));
                }
            }
        }
    }
}

impl SlowTurn {
    pub(crate) fn next(self, at: SlowIx) -> Action {
        match self {
            Self::HasLeft { .. } => Action::LookGoal(at),
            Self::Decided(_) => Action::SlowWrite(at),
        }
    }
}

impl State {
    /// The gateway that serves this hold from its table.
    pub(crate) fn server_of(&self, hold: HoldIx) -> Option<GatewayIx> {
        Self::all_gateways().find(|&gateway| {
            let table = self.gateway(gateway).table;
            table.is_some_and(|table| table.slot == Slot::Held(hold)) && self.serves(gateway)
        })
    }

    /// Whether the gateway's sessions let it promise what its table says: that of the group's cluster,
    /// and from when the switch was sent until it is confirmed that of the other one too.
    pub(crate) fn serves(&self, gateway: GatewayIx) -> bool {
        let own = self.gateway(gateway);
        let switching = own
            .unheard
            .is_some_and(|unheard| matches!(unheard.write, Write::Switch { .. }));
        own.table.is_some_and(|table| {
            let both = !switching || self.session_lives(gateway, table.at.other());
            self.session_lives(gateway, table.at) && both
        })
    }

    pub(crate) fn lies_in_other_group(&self, hold: HoldIx) -> bool {
        ClusterIx::BOTH.into_iter().any(|at| {
            let record = self.cluster(at).record;
            record.is_some_and(|record| record.hold == hold && record.lease == Lease::OTHER)
        })
    }

    /// What is not known of a write in the other cluster is found out first.
    pub(crate) fn may_learn_of_loss(&self, gateway: GatewayIx, at: ClusterIx) -> bool {
        let unheard = self.gateway(gateway).unheard;
        unheard.is_none_or(|unheard| unheard.at == at)
    }

    /// The lease that the group had before it moved here, while that lives.
    pub(crate) fn source_to_revoke(&self, gateway: GatewayIx) -> Option<(ClusterIx, Lease)> {
        let own = self.gateway(gateway);
        let table = own.table.filter(|_| own.course == Course::Stays)?;
        let (there, lease) = (table.at.other(), table.key.source()?);
        let serves = self.session_lives(gateway, table.at);
        (serves && self.cluster(there).leases.has(lease)).then_some((there, lease))
    }
}
