//! Nothing that must hold is broken in any state, and what must be met is met.

use holdfast_model::Ownership;
use holdfast_model::scenes::{self, Scene};
use holdfast_model::search::search;

fn check(scene: Scene) {
    let found = search(Ownership::within(scene.bounds), 1);
    let broken: Vec<_> = found.broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{}: {}", scene.name, broken.join("\n"));
    let none: [&str; 0] = [];
    assert_eq!(found.not_reached, none, "{}", scene.name);
}

#[test]
fn everything_holds_while_two_clients_contend() {
    check(scenes::CONTENTION);
}

#[test]
fn everything_holds_while_writes_arrive_late_and_twice() {
    check(scenes::LATE_WRITES);
}

#[test]
fn everything_holds_while_sessions_are_revoked_wrongly() {
    check(scenes::WRONG_REVOKES);
}

#[test]
fn everything_holds_while_gateways_die() {
    check(scenes::DEATHS);
}

#[test]
fn everything_holds_while_the_guard_changes() {
    check(scenes::GUARD);
}
