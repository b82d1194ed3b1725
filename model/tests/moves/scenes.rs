//! Nothing that must hold is broken in any state, the rollout ends from every one, and what must be
//! met is met.

use holdfast_model::moves::{Bounds, Moves};
use holdfast_model::search::search;

const QUIET: Bounds = Bounds {
    turns: 1,
    losses: 0,
    slow_turns: 0,
    unheard: false,
    grants: 0,
};

fn check(bounds: Bounds, not_reached: &[&str]) {
    let found = search(Moves::within(bounds), 1);
    let broken: Vec<_> = found.broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert_eq!(found.not_reached, not_reached);
}

#[test]
fn everything_holds_while_sessions_are_lost_and_writes_have_no_answer() {
    let bounds = Bounds {
        losses: 1,
        unheard: true,
        ..QUIET
    };
    check(bounds, &["the name is granted where the shard has gone"]);
}

#[test]
fn everything_holds_while_the_name_is_granted_and_a_driver_takes_long_over_a_turn() {
    let bounds = Bounds {
        slow_turns: 1,
        grants: 1,
        ..QUIET
    };
    check(bounds, &["both gateways have a key of the group"]);
}

#[test]
fn everything_holds_while_the_goal_turns_again_and_again() {
    let bounds = Bounds {
        turns: 3,
        slow_turns: 1,
        ..QUIET
    };
    let not_reached = [
        "the name is granted where the shard has gone",
        "both gateways have a key of the group",
    ];
    check(bounds, &not_reached);
}

#[test]
fn everything_holds_while_two_drivers_at_once_take_long_over_their_turns() {
    let bounds = Bounds {
        turns: 2,
        slow_turns: 2,
        ..QUIET
    };
    let not_reached = [
        "the name is granted where the shard has gone",
        "both gateways have a key of the group",
    ];
    check(bounds, &not_reached);
}

#[test]
fn everything_holds_while_a_session_is_lost_and_a_driver_takes_long_over_a_turn() {
    let bounds = Bounds {
        losses: 1,
        slow_turns: 1,
        ..QUIET
    };
    check(bounds, &["the name is granted where the shard has gone"]);
}
