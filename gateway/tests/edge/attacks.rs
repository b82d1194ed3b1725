//! Hostile input against the edge.

use crate::fixture;
use crate::hostile::{attack, attack_slowly};
use holdfast_gateway::http::{EdgeSettings, Timeouts};
use holdfast_gateway::time::Millis;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_input_gets_a_clear_answer_and_harms_nobody_else() {
    attack(fixture::start().address).await;
}

#[tokio::test]
async fn requests_that_are_never_finished_get_a_clear_answer() {
    let short = Millis::from_ms(50);
    let timeouts = Timeouts {
        header: short,
        body: short,
        ..Timeouts::default()
    };
    let settings = EdgeSettings {
        timeouts,
        ..EdgeSettings::default()
    };
    attack_slowly(fixture::start_with(settings).address).await;
}
