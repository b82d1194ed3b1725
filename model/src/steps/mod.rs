//! What each action does.

mod etcd;
mod requests;
mod session;
mod writes;

use crate::Ownership;
use crate::actions::Action;
use crate::mutation::Mutation;
use crate::state::{ClientIx, GatewayIx, State};

/// A state that is being made from the one before.
pub(crate) struct Step<'a> {
    model: &'a Ownership,
    state: State,
}

impl<'a> Step<'a> {
    /// The state after `action`, not yet renamed (see `canon.rs`).
    pub(crate) fn after(model: &'a Ownership, state: &State, action: Action) -> State {
        let mut step = Step {
            model,
            state: *state,
        };
        step.act(action);
        model.forget_what_is_over(&mut step.state);
        step.state
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Tick => self.state.tick(),

            Action::Grant(at, client) => self.grant(at, client),
            Action::EnterAgain(at, client) => self.enter_again(at, client),
            Action::GiveUp(client) => self.give_up(client),
            Action::Renew(at, client, heard) => self.renew(at, client, heard),
            Action::Release(at, client) => self.release(at, client),
            Action::Forget(client) => self.forget(client),

            Action::Arrive(at, copies) => self.arrive(at, copies),
            Action::LateWrite(copy) => self.late_write(copy),
            Action::Lose(at) => self.lose(at),
            Action::GiveUpWrite(at) => {
                self.leave_write(at);
                self.lose(at);
            }
            Action::GrantLanded(at)
            | Action::GrantRefused(at)
            | Action::HoldEnded(at)
            | Action::DeleteRefused(at)
            | Action::Claimed(at)
            | Action::ClaimRefused(at)
            | Action::Fenced(at) => self.learn(at),
            Action::Fence(at) => self.fence(at),

            Action::StartSession(at) => self.start_session(at),
            Action::Prove(at) => self.prove(at),
            Action::Expire(at) | Action::Delete(at) => self.end_hold(at),
            Action::Claim(at) => self.claim(at),
            Action::Load(at) => self.load(at),
            Action::Kill(at) => self.kill(at),
            Action::KillLeavingWrite(at) => {
                self.leave_write(at);
                self.kill(at);
            }

            Action::SessionExpires(session) => self.session_expires(session),
            Action::WrongRevoke(session) => self.wrong_revoke(session),
            Action::GuardChanges => self.guard_changes(),
        }
    }

    fn mutated(&self, mutation: Mutation) -> bool {
        self.model.mutation == Some(mutation)
    }

    fn gateway(&mut self, at: GatewayIx) -> &mut crate::state::Gateway {
        self.state.gateway_mut(at)
    }

    fn client(&mut self, at: ClientIx) -> &mut crate::state::Client {
        self.state.client_mut(at)
    }
}
