//! What becomes of a state when nothing goes wrong any more.

use crate::Ownership;
use crate::actions::{Action, Copies, learn};
use crate::state::{Call, GatewayIx, Left, Slot, State};
use crate::steps::Step;

/// Steps in a row without a tick; far more than there can be.
const STEPS_MAX: usize = 64;

impl Ownership {
    /// Whether the name becomes free in time if clients are silent from here on, every message
    /// arrives, and the gateways do what they have to do (NO-GHOST).
    pub(crate) fn heals(&self, state: &State) -> bool {
        let mut state = *state;
        for _ in 0..=self.bounds.free_within().0 {
            self.settle(&mut state);
            if state.etcd.record.is_none() {
                return true;
            }
            state.tick();
        }
        false
    }

    fn settle(&self, state: &mut State) {
        for _ in 0..STEPS_MAX {
            let Some(action) = self.remedy(state) else {
                return;
            };
            *state = Step::after(self, state, action);
        }
    }

    fn remedy(&self, state: &State) -> Option<Action> {
        let late = state.late.iter().position(Option::is_some);
        let mut sessions = state.etcd.sessions.iter().flatten();
        let expired = sessions.find(|key| key.left == Left::OVER);
        late.map(Action::LateWrite)
            .or_else(|| self.gateways().find_map(|at| self.duty(state, at)))
            .or_else(|| expired.map(|key| Action::SessionExpires(key.id)))
    }

    fn duty(&self, state: &State, at: GatewayIx) -> Option<Action> {
        let gateway = state.gateway(at);
        match gateway.call {
            Call::None => {}
            Call::Sent(_) => return Some(Action::Arrive(at, Copies::One)),
            Call::Answered(_) => return learn(gateway, at),
            Call::Unknown => return Some(Action::Fence(at)),
        }
        if gateway.session.is_none() {
            return Some(Action::StartSession(at));
        }
        if gateway.proof < self.bounds.session_ttl {
            return Some(Action::Prove(at));
        }
        if gateway.loading.is_some() {
            return Some(Action::Load(at));
        }
        match gateway.slot {
            Slot::Held(hold) if hold.left.is_over() => Some(Action::Expire(at)),
            Slot::Ending(_) => Some(Action::Delete(at)),
            Slot::Free => self.orphan(state, gateway).map(|_| Action::Claim(at)),
            Slot::Pending { .. } | Slot::Held(_) => None,
        }
    }
}
