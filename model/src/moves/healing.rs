//! What becomes of a state when nothing goes wrong any more.

use super::Moves;
use super::actions::Action;
use super::state::{ClusterIx, GatewayIx, HoldState, State};

/// Far more steps than a rollout takes from anywhere.
const STEPS_MAX: usize = 200;

impl Moves {
    /// Whether the rollout comes to its end if every message arrives, gateways do what they have to
    /// do, and clients release what would keep it waiting.
    pub(crate) fn settles(&self, state: &State) -> bool {
        let mut state = *state;
        for _ in 0..STEPS_MAX {
            match self.remedy(&state) {
                Some(action) => state = self.after(&state, action),
                None => return state.is_settled() && state.nobody_waits(),
            }
        }
        false
    }

    fn remedy(&self, state: &State) -> Option<Action> {
        state
            .late_guard
            .map(|_| Action::LateGuard)
            .or_else(|| State::all_gateways().find_map(|gateway| self.duty(state, gateway)))
            .or_else(|| self.next_guard(state).map(|_| Action::StepGuard))
            .or_else(|| state.in_the_way().map(Action::ReleaseOther))
    }

    fn duty(&self, state: &State, gateway: GatewayIx) -> Option<Action> {
        let own = state.gateway(gateway);
        for at in ClusterIx::BOTH {
            if !state.session_lives(gateway, at) && state.may_learn_of_loss(gateway, at) {
                return Some(Action::SessionLost(gateway, at));
            }
        }
        if let Some(unheard) = own.unheard {
            return Some(match unheard.arrived {
                true => Action::Fence(gateway),
                false => Action::Arrive(gateway),
            });
        }
        if let Some(at) = ClusterIx::BOTH
            .into_iter()
            .find(|&at| self.may_claim(state, gateway, at))
        {
            return Some(Action::Claim(gateway, at));
        }
        if self.lease_to_revoke(own).is_some() {
            return Some(Action::RevokeThere(gateway));
        }
        if state.source_to_revoke(gateway).is_some() {
            return Some(Action::RevokeSource(gateway));
        }
        if self.next_write(state, gateway).is_some() {
            return Some(Action::Write(gateway));
        }
        self.may_leave(state, gateway)
            .then_some(Action::Leave(gateway))
    }
}

impl State {
    /// A hold of the group that does not move, in the cluster that is to be left.
    fn in_the_way(&self) -> Option<super::state::HoldIx> {
        let record = self.cluster(self.goal.other()).record?;
        self.lies_in_other_group(record.hold).then_some(record.hold)
    }

    /// Whoever asked for a release can have it: the hold is served, or its record is nowhere.
    fn nobody_waits(&self) -> bool {
        self.all_holds().all(|(hold, seen)| {
            let lies = self.clusters.iter().any(|cluster| {
                let record = cluster.record;
                record.is_some_and(|record| record.hold == hold)
            });
            seen.state != HoldState::Releasing || !lies || self.server_of(hold).is_some()
        })
    }
}
