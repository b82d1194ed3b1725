//! Each mistake breaks what it must break.

use holdfast_model::Ownership;
use holdfast_model::bounds::{Bounds, Often};
use holdfast_model::mutation::Mutation;
use holdfast_model::properties::names;
use holdfast_model::search::hunt;

/// One client, and none of the rarer faults.
fn one_client() -> Bounds {
    Bounds {
        clients: 1,
        late_writes: 0,
        ..Bounds::default()
    }
}

fn two_clients() -> Bounds {
    Bounds {
        clients: 2,
        ..one_client()
    }
}

fn with_late_writes(bounds: Bounds) -> Bounds {
    Bounds {
        late_writes: 1,
        ..bounds
    }
}

fn with_wrong_revokes(bounds: Bounds) -> Bounds {
    Bounds {
        wrong_revokes: Often::Always,
        ..bounds
    }
}

fn check(mutation: Mutation, bounds: Bounds, property: &'static str) {
    let model = Ownership {
        mutation: Some(mutation),
        ..Ownership::within(bounds)
    };
    let found = hunt(model, 1, property);
    assert!(
        found.breaks(property),
        "{mutation:?} does not break {property} in any of {} states",
        found.states
    );
}

#[test]
fn a_claim_of_a_living_session_takes_what_has_an_owner() {
    check(Mutation::ClaimOfLivingSession, one_client(), names::OWNER);
}

#[test]
fn an_heir_that_forgets_the_session_ends_a_promised_hold() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::HeirForgetsSession, bounds, names::HEIR);
}

#[test]
fn an_heir_that_forgets_the_session_lets_two_hold() {
    let bounds = with_wrong_revokes(two_clients());
    check(Mutation::HeirForgetsSession, bounds, names::ONE_HOLDER);
}

#[test]
fn an_heir_that_forgets_the_ttl_ends_a_promised_hold() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::HeirForgetsTtl, bounds, names::HEIR);
}

#[test]
fn a_claim_that_trusts_an_old_table_ends_a_promised_hold() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::ClaimTrustsOldTable, bounds, names::HEIR);
}

#[test]
fn a_table_that_outlives_its_session_promises_what_an_heir_ends() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::TableOutlivesSession, bounds, names::HEIR);
}

#[test]
fn a_proof_that_outlives_its_session_promises_what_an_heir_ends() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::ProofOutlivesSession, bounds, names::PROOF);
    check(Mutation::ProofOutlivesSession, bounds, names::HEIR);
}

#[test]
fn a_proof_without_the_range_promises_what_an_heir_ends() {
    check(Mutation::ProofWithoutRange, one_client(), names::HEIR);
}

#[test]
fn a_promise_that_is_not_proven_outlives_the_hold() {
    check(Mutation::PromiseUnproven, one_client(), names::HEIR);
}

#[test]
fn a_promise_that_is_not_proven_lets_two_hold() {
    check(Mutation::PromiseUnproven, two_clients(), names::ONE_HOLDER);
}

#[test]
fn a_late_write_without_the_fence_leaves_a_ghost() {
    let bounds = with_late_writes(one_client());
    check(Mutation::WriteWithoutFence, bounds, names::NO_GHOST);
}

#[test]
fn a_late_copy_without_a_lane_leaves_a_ghost() {
    let bounds = with_late_writes(one_client());
    check(Mutation::WriteWithoutLane, bounds, names::NO_GHOST);
}

#[test]
fn a_release_without_compares_ends_the_next_hold() {
    let bounds = with_late_writes(two_clients());
    check(Mutation::ReleaseWithoutCompare, bounds, names::HEIR);
    check(Mutation::ReleaseWithoutCompare, bounds, names::ONE_HOLDER);
}

#[test]
fn a_grant_without_the_guard_is_carried_out_while_the_shard_leaves() {
    let bounds = Bounds {
        guard_changes: Often::Times(1),
        ..one_client()
    };
    check(Mutation::GrantWithoutGuard, bounds, names::EPOCH);
}

#[test]
fn a_read_without_a_fence_leaves_a_ghost() {
    let bounds = with_late_writes(one_client());
    check(Mutation::ReadWithoutFence, bounds, names::NO_GHOST);
}

#[test]
fn an_unknown_outcome_taken_as_lost_leaves_a_ghost_and_a_false_answer() {
    let mutation = Mutation::UnknownTakenAsLost;
    check(mutation, one_client(), names::NO_GHOST);
    check(mutation, one_client(), names::ONE_ANSWER);
}

#[test]
fn an_unknown_outcome_taken_as_granted_tells_a_false_token_and_lets_two_hold() {
    let mutation = Mutation::UnknownTakenAsGranted;
    check(mutation, one_client(), names::FENCE);
    check(mutation, two_clients(), names::ONE_HOLDER);
}

#[test]
fn a_miss_taken_as_lost_is_a_false_answer() {
    check(Mutation::MissTakenAsLost, one_client(), names::ONE_ANSWER);
}

#[test]
fn a_release_that_is_not_confirmed_is_a_false_answer() {
    let mutation = Mutation::ReleaseUnconfirmed;
    check(mutation, one_client(), names::ONE_ANSWER);
}

#[test]
fn an_expiry_that_is_not_confirmed_is_a_false_answer() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::ExpiryUnconfirmed, bounds, names::ONE_ANSWER);
}

#[test]
fn a_hold_that_is_revived_while_it_ends_is_promised_and_gone() {
    check(Mutation::EndingRevived, one_client(), names::HEIR);
}

#[test]
fn a_deadline_that_moves_back_ends_a_promised_hold() {
    let bounds = with_wrong_revokes(one_client());
    check(Mutation::DeadlineMovesBack, bounds, names::HEIR);
}

#[test]
fn a_ghost_that_is_kept_is_never_free() {
    check(Mutation::GhostKept, one_client(), names::NO_GHOST);
}
