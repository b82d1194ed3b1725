//! What an action does, and how writes are carried out.

use super::Moves;
use super::actions::Action;
use super::mutation::Mutation;
use super::state::{ClusterIx, GatewayIx, Life, State, Unheard, Write};

impl Moves {
    pub(crate) fn after(&self, state: &State, action: Action) -> State {
        let mut next = *state;
        let state = &mut next;
        match action {
            Action::Turn => {
                state.map = state.map.next();
                state.left.turns -= 1;
            }
            Action::TakeTurn => {
                if let Some(guard) = self.due(state) {
                    self.write_guard(state, guard);
                }
            }
            Action::LookLeft(map) => state.look_left(map),
            Action::LookGoal(at) => self.look_goal(state, at),
            Action::SlowWrite(at) => self.slow_write(state, at),
            Action::Follow(at) => {
                if let Some(guard) = self.following(state, at) {
                    self.write_guard(state, guard);
                }
            }
            Action::ReadGuard(gateway, at) => self.read_guard(state, gateway, at),
            Action::LookBeside(gateway) => self.look_beside(state, gateway),
            Action::LookTooEarly(gateway, at) => self.look_too_early(state, gateway, at),
            Action::Grant(gateway) => self.grant(state, gateway),
            Action::Release(hold) => self.release(state, hold),
            Action::ReleaseOther(hold) => self.release_other(state, hold),
            Action::Leave(gateway) => self.leave(state, gateway),
            Action::Write(gateway) => self.write(state, gateway),
            Action::WriteUnheard(gateway) => self.write_unheard(state, gateway),
            Action::Arrive(gateway) => self.arrive(state, gateway),
            Action::Fence(gateway) => self.fence(state, gateway),
            Action::RevokeThere(gateway) => self.revoke_there(state, gateway),
            Action::RevokeSource(gateway) => {
                if let Some((there, lease)) = state.source_to_revoke(gateway) {
                    state.cluster_mut(there).revoke(lease);
                }
            }
            Action::SessionEnds(gateway, at) => {
                state.end_session(gateway, at);
                state.left.losses -= 1;
            }
            Action::SessionLost(gateway, at) => self.session_lost(state, gateway, at),
            Action::Die(gateway) => self.die(state, gateway),
            Action::Claim(gateway, at) => self.claim(state, gateway, at),
        }
        next
    }

    fn write(&self, state: &mut State, gateway: GatewayIx) {
        if let Some((at, write)) = self.next_write(state, gateway) {
            let done = self.carry_out(state, at, write);
            self.learn(state, gateway, write, done);
        }
    }

    fn write_unheard(&self, state: &mut State, gateway: GatewayIx) {
        let next = self.next_write(state, gateway);
        state.gateway_mut(gateway).unheard = next.map(|(at, write)| Unheard {
            at,
            write,
            arrived: false,
        });
    }

    fn arrive(&self, state: &mut State, gateway: GatewayIx) {
        if let Some(unheard) = state.gateway(gateway).unheard {
            self.carry_out(state, unheard.at, unheard.write);
            let arrived = true;
            state.gateway_mut(gateway).unheard = Some(Unheard { arrived, ..unheard });
        }
    }

    /// From here on the write cannot be carried out any more; what is there is the truth.
    fn fence(&self, state: &mut State, gateway: GatewayIx) {
        if let Some(Unheard { at, write, .. }) = state.gateway_mut(gateway).unheard.take() {
            match state.shows(at, write) {
                Shown::Done => self.learn(state, gateway, write, true),
                Shown::Refused => self.learn(state, gateway, write, false),
                Shown::Undone => {}
            }
        }
    }

    /// Whether the compares held.
    fn carry_out(&self, state: &mut State, at: ClusterIx, write: Write) -> bool {
        let switched_anyway = self.mutated(Mutation::SwitchWithoutGuard);
        let received_anyway = self.mutated(Mutation::ReceivedWithoutGuard);
        let cluster = state.cluster_mut(at);
        let has = |key| cluster.group == Some(key);
        let may = match write {
            Write::Replace { old, .. } => has(old),
            Write::Put { new, admitting } => {
                let admits = received_anyway || cluster.guard == Some(admitting);
                admits && cluster.group.is_none() && cluster.leases.has(new.lease)
            }
            Write::Copy { key, record } => {
                has(key) && cluster.record.is_none() && cluster.leases.has(record.lease)
            }
            Write::Switch { key, guard } => {
                has(key) && (switched_anyway || cluster.guard == Some(guard))
            }
            Write::Delete { key, hold } => {
                has(key) && cluster.record.is_some_and(|record| record.hold == hold)
            }
        };
        if may {
            match write {
                Write::Replace { new, .. } | Write::Put { new, .. } => cluster.group = Some(new),
                Write::Copy { record, .. } => cluster.record = Some(record),
                Write::Switch { .. } => cluster.group = None,
                Write::Delete { .. } => cluster.record = None,
            }
        }
        may
    }

    fn session_lost(&self, state: &mut State, gateway: GatewayIx, at: ClusterIx) {
        self.give_up(state, gateway, at);
        state.start_session(gateway, at);
    }

    fn die(&self, state: &mut State, gateway: GatewayIx) {
        state.left.losses -= 1;
        let own = state.gateway_mut(gateway);
        (own.seen, own.table, own.unheard) = (None, None, None);
        own.course = super::state::Course::Stays;
        for at in ClusterIx::BOTH {
            state.start_session(gateway, at);
        }
    }
}

/// What a read after a fence shows of a write.
enum Shown {
    Done,
    /// It was not carried out, and may be sent again.
    Undone,
    /// It was not carried out, and something else is in its way.
    Refused,
}

impl State {
    fn shows(&self, at: ClusterIx, write: Write) -> Shown {
        let cluster = self.cluster(at);
        let of = |done: bool, undone: bool| match (done, undone) {
            (true, _) => Shown::Done,
            (false, true) => Shown::Undone,
            (false, false) => Shown::Refused,
        };
        match write {
            Write::Replace { old, new } => {
                of(cluster.group == Some(new), cluster.group == Some(old))
            }
            Write::Put { new, .. } => of(cluster.group == Some(new), cluster.group.is_none()),
            Write::Copy { key, record } => of(
                cluster.record == Some(record),
                cluster.group == Some(key) && cluster.record.is_none(),
            ),
            // The fence found the session alive, so nobody else can have deleted the key. There may be
            // another one meanwhile: the group may have been taken over where it went, and come back.
            Write::Switch { key, .. } => of(cluster.group != Some(key), cluster.group == Some(key)),
            Write::Delete { key, hold } => {
                let there = cluster.record.is_some_and(|record| record.hold == hold);
                of(!there, cluster.group == Some(key))
            }
        }
    }

    fn end_session(&mut self, gateway: GatewayIx, at: ClusterIx) {
        self.cluster_mut(at).sessions[usize::from(gateway.0)] = None;
    }

    fn start_session(&mut self, gateway: GatewayIx, at: ClusterIx) {
        let next = Life(self.gateway(gateway).life(at).0 + 1);
        self.gateway_mut(gateway).set_life(at, next);
        self.cluster_mut(at).sessions[usize::from(gateway.0)] = Some(next);
    }
}
