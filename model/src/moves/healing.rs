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
                None => {
                    return state.is_settled()
                        && state.nobody_waits()
                        && self.slow_turns_are_harmless(&state);
                }
            }
        }
        false
    }

    fn remedy(&self, state: &State) -> Option<Action> {
        State::all_gateways()
            .find_map(|gateway| self.duty(state, gateway))
            .or_else(|| self.due(state).map(|_| Action::TakeTurn))
            .or_else(|| state.in_the_way().map(Action::ReleaseOther))
    }

    /// Nobody looks any more when slow turns go on: they must find that nothing is to be done, or other
    /// guards than they compare.
    fn slow_turns_are_harmless(&self, settled: &State) -> bool {
        let mut state = *settled;
        while let Some((at, turn)) = state.all_slow_turns().next() {
            state = self.after(&state, turn.next(at));
        }
        state.clusters == settled.clusters
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
        (self.may_leave(state, gateway) && state.is_admitted(gateway))
            .then_some(Action::Leave(gateway))
    }
}

impl State {
    /// A hold of the group that does not move, in the cluster that is to be left.
    fn in_the_way(&self) -> Option<super::state::HoldIx> {
        let record = self.cluster(self.map.goal().other()).record?;
        self.lies_in_other_group(record.hold).then_some(record.hold)
    }

    /// The other cluster's guard admits the gateway's group now.
    fn is_admitted(&self, gateway: GatewayIx) -> bool {
        let there = self.gateway(gateway).table.map(|table| table.at.other());
        let guard = there.and_then(|there| self.cluster(there).guard);
        guard.is_some_and(|guard| guard.admits_groups())
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
