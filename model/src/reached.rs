//! What a search must meet on its way. Otherwise what holds may hold because nothing happens.

use crate::Ownership;
use crate::state::{Call, Client, Gateway, Late, Refusal, Slot, State, Write, WriteOp};
use stateright::Property;

impl Ownership {
    /// All that can be met within the bounds.
    pub(crate) fn must_be_reached(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::sometimes(
                "a grant that nobody was told of is kept for its client",
                |_, state| untold(state),
            ),
            Property::sometimes(
                "a grant without an answer was carried out",
                |_, state: &State| state.gateways.iter().any(|own| unknown(state, own, true)),
            ),
            Property::sometimes(
                "a grant without an answer was not carried out",
                |_, state: &State| state.gateways.iter().any(|own| unknown(state, own, false)),
            ),
        ];
        if self.bounds.gateways > 1 {
            all.push(Property::sometimes(
                "an heir serves while the old owner is stopped",
                |_, state| stale_owner(state, false),
            ));
        }
        if self.bounds.clients > 1 {
            all.push(Property::sometimes(
                "a client that was stopped believes in its lock while another holds it",
                |_, state| woken(state),
            ));
        }
        if self.bounds.gateways > 1 && self.bounds.wrong_revokes.is_left() {
            all.push(Property::sometimes(
                "an heir serves a promised hold while the old owner may promise too",
                |_, state| stale_owner(state, true),
            ));
        }
        if self.bounds.late_writes > 0 {
            all.extend(of_late_writes());
        }
        if self.bounds.kills.is_left() {
            all.push(Property::sometimes(
                "a gateway has died and its session lives on",
                |_, state| left_behind(state),
            ));
        }
        if self.bounds.guard_changes.is_left() {
            all.push(Property::sometimes(
                "a grant is under way that the guard will refuse",
                |_, state| guarded(state),
            ));
        }
        all
    }
}

fn of_late_writes() -> [Property<Ownership>; 4] {
    [
        Property::sometimes("a late grant will be carried out", |_, state| {
            late(state, |late| {
                let Late::Write(write) = late else {
                    return false;
                };
                matches!(write.op, WriteOp::Grant { .. }) && state.etcd.record.is_none()
            })
        }),
        Property::sometimes("a late write will be refused by the fence", |_, state| {
            late(state, |late| *late == Late::Refused(Refusal::Fence))
        }),
        Property::sometimes("a late write will be refused by its lane", |_, state| {
            late(state, |late| *late == Late::Refused(Refusal::Lane))
        }),
        Property::sometimes("a late write will find its session gone", |_, state| {
            late(state, |late| *late == Late::Refused(Refusal::SessionGone))
        }),
    ]
}

fn late(state: &State, is: impl Fn(&Late) -> bool) -> bool {
    state.late.iter().flatten().any(is)
}

fn untold(state: &State) -> bool {
    state.gateways.iter().any(|gateway| {
        matches!(gateway.slot, Slot::Held(hold)
            if !hold.left.is_over() && state.client(hold.client) == Client::Idle)
    })
}

fn unknown(state: &State, gateway: &Gateway, carried_out: bool) -> bool {
    gateway.call == Call::Unknown
        && matches!(gateway.slot, Slot::Pending { lock, .. }
            if state.etcd.has_record_of(lock) == carried_out)
}

/// A gateway still has the lock in its table although its session is gone and another has taken
/// over; `proven`: and it believes that its session lives, while the lock is promised.
fn stale_owner(state: &State, proven: bool) -> bool {
    let serves = |gateway: &Gateway| matches!(gateway.slot, Slot::Held(hold) if state.etcd.has_record_of(hold.lock));
    let stale = state.gateways.iter().any(|gateway| {
        serves(gateway) && !state.session_lives(gateway) && gateway.proof.is_over() != proven
    });
    let mut living = state
        .gateways
        .iter()
        .filter(|gateway| state.session_lives(gateway));
    let promised = || {
        state
            .clients
            .iter()
            .any(|client| client.promised().is_some())
    };
    stale && living.any(serves) && (!proven || promised())
}

fn woken(state: &State) -> bool {
    let woken = |client: &Client| matches!(client, Client::Holding { left, .. } if left.is_over());
    let promised = |client: &Client| client.promised().is_some();
    state.clients.iter().any(woken) && state.clients.iter().any(promised)
}

fn left_behind(state: &State) -> bool {
    let believed = |id| {
        let own = |gateway: &Gateway| gateway.session.is_some_and(|session| session.id == id);
        state.gateways.iter().any(own)
    };
    state
        .etcd
        .sessions
        .iter()
        .flatten()
        .any(|key| !believed(key.id))
}

fn guarded(state: &State) -> bool {
    state.gateways.iter().any(|gateway| {
        matches!(gateway.call, Call::Sent(Write { op: WriteOp::Grant { guard, .. }, .. })
            if guard != state.etcd.guard.revision && state.session_lives(gateway))
    })
}
