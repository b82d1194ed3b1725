//! What must hold in every state.

use crate::Ownership;
use crate::state::{Client, LockRecord, State};
use stateright::Property;

/// Their names: those of the design.
pub mod names {
    /// At no instant do two clients hold unexpired promises for one name.
    pub const ONE_HOLDER: &str = "ONE-HOLDER";
    /// Tokens grow, and a hold has the token of its record.
    pub const FENCE: &str = "FENCE";
    /// A promise is made only while the session is proven, and no proof outlives its session
    /// unless that is revoked although it was kept alive.
    pub const PROOF: &str = "PROOF";
    /// The lock that a gateway with a living session has in its table hangs from a group that etcd
    /// says is that session's.
    pub const OWNER: &str = "OWNER";
    /// Nothing but its release ends a hold whose promise has not ended.
    pub const HEIR: &str = "HEIR";
    /// A hold that a client is told of is there, and one that it is told is over, or released, is
    /// not; nor is a promised one told to be over.
    pub const ONE_ANSWER: &str = "ONE-ANSWER";
    /// A name is free in time, wherever things stand, once nothing goes wrong any more and no
    /// client says anything.
    pub const NO_GHOST: &str = "NO-GHOST";
    /// No grant is carried out while the guard is not active.
    pub const EPOCH: &str = "EPOCH";
    /// All of them.
    pub const ALL: &[&str] = &[
        ONE_HOLDER, FENCE, PROOF, OWNER, HEIR, ONE_ANSWER, NO_GHOST, EPOCH,
    ];
}

impl Ownership {
    pub(crate) fn must_hold(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(names::ONE_HOLDER, |_, state| one_holder(state)),
            Property::always(names::FENCE, |_, state: &State| !state.broken.fence),
            Property::always(names::PROOF, |_, state| proof(state)),
            Property::always(names::OWNER, |_, state| owner(state)),
            Property::always(names::HEIR, |_, state| heir(state)),
            Property::always(names::ONE_ANSWER, |_, state: &State| {
                !state.broken.one_answer
            }),
            Property::always(names::NO_GHOST, |model: &Self, state| model.heals(state)),
            Property::always(names::EPOCH, |_, state: &State| !state.broken.epoch),
        ]
    }
}

fn one_holder(state: &State) -> bool {
    state.clients.iter().filter_map(Client::promised).count() <= 1
}

fn proof(state: &State) -> bool {
    let within_lease = state.gateways.iter().all(|gateway| {
        let session = gateway.session.and_then(|own| state.etcd.session(own.id));
        session.is_none_or(|key| gateway.proof <= key.left)
    });
    within_lease && !state.broken.proof
}

fn owner(state: &State) -> bool {
    let Some(LockRecord { lock, .. }) = state.etcd.record else {
        return true;
    };
    let mut living = state
        .gateways
        .iter()
        .filter(|gateway| state.session_lives(gateway));
    living.all(|gateway| {
        let hold = gateway.slot.hold().filter(|hold| hold.lock == lock);
        hold.is_none_or(|hold| {
            let owner = state.etcd.group(hold.group).map(|key| key.session);
            owner == gateway.session.map(|session| session.id)
        })
    })
}

fn heir(state: &State) -> bool {
    let mut promised = state.clients.iter().filter_map(Client::promised);
    promised.all(|lock| state.etcd.has_record_of(lock))
}
