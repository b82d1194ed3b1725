//! Grants of the name: the guard is read, then the other cluster if the guard says so, then the
//! name is granted under the guard that was read. And releases.

use super::Moves;
use super::rollout::GuardState;
use super::state::{
    ClusterIx, GatewayIx, Hold, HoldIx, HoldState, Lease, Record, Seen, Slot, State,
};

impl Moves {
    pub(crate) fn read_guard(&self, state: &mut State, gateway: GatewayIx, at: ClusterIx) {
        let guard = state.cluster(at).guard;
        let active = guard.filter(|guard| guard.state == GuardState::Active);
        let own = state.gateway_mut(gateway);
        own.seen = active.map(|guard| Seen {
            at,
            guard,
            checked: !guard.from || own.absent_beside == Some(at),
        });
        own.absent_beside = None;
    }

    /// A record in the other cluster means *held*, whatever hangs it there.
    pub(crate) fn look_beside(&self, state: &mut State, gateway: GatewayIx) {
        let Some(seen) = state.gateway(gateway).seen else {
            return;
        };
        let absent = state.cluster(seen.at.other()).record.is_none();
        state.gateway_mut(gateway).seen = absent.then_some(Seen {
            checked: true,
            ..seen
        });
    }

    pub(crate) fn look_too_early(&self, state: &mut State, gateway: GatewayIx, at: ClusterIx) {
        let absent = state.cluster(at.other()).record.is_none();
        state.gateway_mut(gateway).absent_beside = absent.then_some(at);
    }

    pub(crate) fn grant(&self, state: &mut State, gateway: GatewayIx) {
        let Some(seen) = state.gateway_mut(gateway).seen.take() else {
            return;
        };
        let next = state.holds.iter().position(Option::is_none);
        let cluster = state.cluster_mut(seen.at);
        let (Some(next), true, None) = (next, cluster.guard == Some(seen.guard), cluster.record)
        else {
            return;
        };
        cluster.revision += 1;
        let token = seen.guard.base + cluster.revision;
        cluster.record = u8::try_from(next).ok().map(|next| Record {
            hold: HoldIx(next),
            lease: Lease::OTHER,
        });
        state.holds[next] = Some(Hold {
            token,
            state: HoldState::Promised,
        });
        state.left.grants -= 1;
    }

    /// The owner marks the slot; its delete comes next.
    pub(crate) fn release(&self, state: &mut State, hold: HoldIx) {
        let Some(gateway) = state.server_of(hold) else {
            return;
        };
        if let Some(table) = &mut state.gateway_mut(gateway).table {
            table.slot = Slot::Ending(hold);
        }
        state.set_hold(hold, HoldState::Releasing);
    }

    pub(crate) fn release_other(&self, state: &mut State, hold: HoldIx) {
        for at in ClusterIx::BOTH {
            let cluster = state.cluster_mut(at);
            cluster.record = cluster.record.filter(|record| record.hold != hold);
        }
        state.set_hold(hold, HoldState::Ended);
    }
}
