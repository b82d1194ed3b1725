//! Each mistake breaks what it must break.

use holdfast_model::moves::mutation::Mutation;
use holdfast_model::moves::properties::names;
use holdfast_model::moves::{Bounds, Moves};
use holdfast_model::search::hunt;

/// The name is granted again, the goal turns once, and all else goes well.
const GRANTS: Bounds = Bounds {
    turns: 1,
    losses: 0,
    slow_turns: 0,
    unheard: false,
    grants: 1,
};

const SLOW_TURNS: Bounds = Bounds {
    slow_turns: 1,
    ..GRANTS
};

/// A gateway loses a session or dies, and writes have no answer.
const LOSSES: Bounds = Bounds {
    losses: 1,
    unheard: true,
    grants: 0,
    ..GRANTS
};

fn check(mutation: Mutation, bounds: Bounds, property: &'static str) {
    let model = Moves {
        mutation: Some(mutation),
        ..Moves::within(bounds)
    };
    let found = hunt(model, 1, property);
    assert!(
        found.breaks(property),
        "{mutation:?} does not break {property} in any of {} states",
        found.states
    );
}

#[test]
fn looking_beside_before_the_guard_is_read_grants_a_name_twice() {
    check(Mutation::CheckBeforeGuard, GRANTS, names::ONE_HOLDER);
}

#[test]
fn a_switch_without_the_guard_grants_a_name_twice_after_a_rollback() {
    check(Mutation::SwitchWithoutGuard, GRANTS, names::ONE_HOLDER);
}

#[test]
fn records_that_are_deleted_before_the_switch_are_lost() {
    check(Mutation::SwitchAfterDelete, GRANTS, names::NOT_LOST);
}

#[test]
fn a_group_that_is_served_before_its_switch_has_two_owners() {
    check(Mutation::ServeBeforeSwitch, LOSSES, names::OWNER);
    check(Mutation::ServeBeforeSwitch, LOSSES, names::NOT_LOST);
}

#[test]
fn the_absence_of_a_key_taken_for_the_own_switch_makes_two_owners() {
    check(Mutation::AbsenceTakenAsMine, LOSSES, names::OWNER);
}

#[test]
fn a_claimer_that_finishes_on_anothers_lease_loses_locks() {
    check(Mutation::FinishOnAnothersLease, LOSSES, names::NOT_LOST);
    check(Mutation::FinishOnAnothersLease, LOSSES, names::OWNER);
}

#[test]
fn a_group_that_is_unmarked_before_its_lease_is_revoked_brings_a_lock_back() {
    check(Mutation::UnmarkBeforeRevoke, LOSSES, names::NO_GHOST);
}

#[test]
fn a_group_that_is_claimed_while_its_source_is_there_has_two_owners() {
    check(Mutation::ClaimWhileSourceIsThere, LOSSES, names::OWNER);
}

#[test]
fn a_guard_that_is_written_without_compare_makes_two_clusters_active() {
    check(Mutation::GuardUncompared, SLOW_TURNS, names::EPOCH);
}

#[test]
fn a_group_that_comes_under_a_guard_that_is_no_more_is_left_behind_and_its_name_granted_twice() {
    check(Mutation::ReceivedWithoutGuard, SLOW_TURNS, names::NONE_LEFT);
    check(
        Mutation::ReceivedWithoutGuard,
        SLOW_TURNS,
        names::ONE_HOLDER,
    );
}

#[test]
fn a_driver_that_believes_reads_of_two_moments_gives_a_rollout_up_that_goes_well() {
    check(Mutation::ContradictionBelieved, SLOW_TURNS, names::GOES_ON);
}

#[test]
fn a_first_step_that_arrives_after_its_rollback_leaves_a_shard_without_a_cluster() {
    check(Mutation::RestLeftAsItWas, SLOW_TURNS, names::SETTLES);
}

#[test]
fn a_guard_that_is_lowered_is_seen() {
    check(Mutation::GuardLowered, GRANTS, names::EPOCH);
}

#[test]
fn a_rollback_that_leaves_the_other_guard_absent_makes_two_clusters_active() {
    check(Mutation::RollbackLeavesAbsent, SLOW_TURNS, names::EPOCH);
}

#[test]
fn a_rollback_without_the_base_makes_tokens_fall() {
    check(Mutation::RollbackWithoutBase, GRANTS, names::FENCE);
}

#[test]
fn a_release_that_does_not_chase_the_copy_brings_a_lock_back() {
    check(Mutation::ReleaseWithoutChase, GRANTS, names::NO_GHOST);
}

#[test]
fn a_from_that_is_dropped_early_leaves_groups_behind_and_grants_a_name_twice() {
    check(Mutation::FromDroppedEarly, GRANTS, names::NONE_LEFT);
    check(Mutation::FromDroppedEarly, GRANTS, names::ONE_HOLDER);
}
