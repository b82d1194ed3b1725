//! What must hold in every state, and what must be met in some.

use super::Moves;
use super::rollout::GuardState;
use super::state::{ClusterIx, Course, HoldState, Lease, Origin, State};
use stateright::Property;

/// Their names: those of the design, where it has them.
pub mod names {
    /// No two clients are promised the name at once.
    pub const ONE_HOLDER: &str = "ONE-HOLDER";
    /// A later hold has a larger token.
    pub const FENCE: &str = "FENCE";
    /// No two gateways with living sessions serve the group.
    pub const OWNER: &str = "OWNER";
    /// No two clusters admit grants, and no guard is lowered.
    pub const EPOCH: &str = "EPOCH";
    /// A hold that was not released lies where its group is served from.
    pub const NOT_LOST: &str = "NOT-LOST";
    /// A hold whose release was answered comes back nowhere.
    pub const NO_GHOST: &str = "NO-GHOST";
    /// Where a guard is `moved`, and nobody asks, nothing of the shard is left.
    pub const NONE_LEFT: &str = "NONE-LEFT";
    /// No driver takes the rollout for broken, or for ended before it is.
    pub const GOES_ON: &str = "GOES-ON";
    /// Once nothing goes wrong any more the rollout ends, nothing is left behind, and what is still on
    /// its way changes nothing.
    pub const SETTLES: &str = "SETTLES";
    /// All of them.
    pub const ALL: &[&str] = &[
        ONE_HOLDER, FENCE, OWNER, EPOCH, NOT_LOST, NO_GHOST, NONE_LEFT, GOES_ON, SETTLES,
    ];
}

pub(crate) fn must_hold() -> Vec<Property<Moves>> {
    vec![
        Property::always(names::ONE_HOLDER, |_, state| one_holder(state)),
        Property::always(names::FENCE, |_, state| tokens_grow(state)),
        Property::always(names::OWNER, |_, state| one_server(state)),
        Property::always(names::EPOCH, |_, state| one_active(state)),
        Property::always(names::NOT_LOST, |_, state| nothing_lost(state)),
        Property::always(names::NO_GHOST, |_, state| nothing_comes_back(state)),
        Property::always(names::NONE_LEFT, |_, state| none_left(state)),
        Property::always(names::GOES_ON, |_, state: &State| !state.stopped_early),
        Property::always(names::SETTLES, |model: &Moves, state| model.settles(state)),
    ]
}

pub(crate) fn must_be_reached() -> Vec<Property<Moves>> {
    vec![
        Property::sometimes(
            "a held lock has moved, and the rollout is over",
            |_, state: &State| {
                let held = state.hold(super::state::HoldIx(0)).map(|hold| hold.state);
                held == Some(HoldState::Promised)
                    && state.map.goal() == ClusterIx::B
                    && state.is_settled()
            },
        ),
        Property::sometimes(
            "a group is to come under a guard that is no more",
            |_, state: &State| stale_arrival(state),
        ),
        Property::sometimes("a move is taken back", |_, state: &State| {
            let mut gateways = state.gateways.iter();
            gateways.any(|gateway| matches!(gateway.course, Course::Undoing { .. }))
        }),
        Property::sometimes(
            "the name is granted where the shard has gone",
            |_, state: &State| {
                let record = state.cluster(ClusterIx::B).record;
                record.is_some_and(|record| record.lease == Lease::OTHER)
            },
        ),
        Property::sometimes(
            "both gateways have a key of the group",
            |_, state: &State| {
                let owner = |at| state.cluster(at).group.map(|key| key.owner.gateway);
                let (a, b) = (owner(ClusterIx::A), owner(ClusterIx::B));
                a.is_some() && b.is_some() && a != b
            },
        ),
    ]
}

fn one_holder(state: &State) -> bool {
    let promised = state
        .all_holds()
        .filter(|(_, hold)| hold.state == HoldState::Promised);
    promised.count() <= 1
}

fn tokens_grow(state: &State) -> bool {
    let tokens: Vec<_> = state.all_holds().map(|(_, hold)| hold.token).collect();
    tokens.is_sorted_by(|earlier, later| earlier < later)
}

fn one_server(state: &State) -> bool {
    let serving = State::all_gateways().filter(|&gateway| state.serves(gateway));
    serving.count() <= 1
}

fn one_active(state: &State) -> bool {
    let active = ClusterIx::BOTH.into_iter().filter(|&at| {
        let guard = state.cluster(at).guard;
        guard.is_some_and(|guard| guard.state == GuardState::Active)
    });
    active.count() <= 1 && !state.guard_lowered
}

fn none_left(state: &State) -> bool {
    state.clusters.iter().all(|cluster| {
        let moved = cluster
            .guard
            .is_some_and(|guard| guard.state == GuardState::Moved);
        !moved || cluster.group.is_none() && cluster.record.is_none()
    })
}

fn stale_arrival(state: &State) -> bool {
    state.gateways.iter().any(|gateway| {
        let there = gateway.table.map(|table| table.at.other());
        let guard = there.and_then(|there| state.cluster(there).guard);
        matches!(gateway.course, Course::Marked { admitting, .. } if guard != Some(admitting))
    })
}

/// The cluster that decides about the group's locks: that of its key, as long as it is not only
/// arriving there.
fn authority(state: &State) -> Option<ClusterIx> {
    let has = |at: ClusterIx| state.cluster(at).group;
    let settled = |at: &ClusterIx| {
        has(*at).is_some_and(|key| {
            !matches!(key.from, Origin::Arriving(_)) || has(at.other()).is_none()
        })
    };
    ClusterIx::BOTH.into_iter().find(settled)
}

fn nothing_lost(state: &State) -> bool {
    state.all_holds().all(|(hold, seen)| {
        let lies = |at: ClusterIx| {
            let record = state.cluster(at).record;
            record.is_some_and(|record| record.hold == hold)
        };
        let decides = authority(state);
        seen.state != HoldState::Promised
            || state.lies_in_other_group(hold)
            || decides.is_some_and(lies)
    })
}

fn nothing_comes_back(state: &State) -> bool {
    let decides = authority(state);
    state.all_holds().all(|(hold, seen)| {
        let comes_back = ClusterIx::BOTH.into_iter().any(|at| {
            let cluster = state.cluster(at);
            let record = cluster.record.is_some_and(|record| record.hold == hold);
            // A record that the switch has left behind goes with its lease.
            record && cluster.group.is_some() && decides.is_some()
        });
        seen.state != HoldState::Ended || !comes_back
    })
}
