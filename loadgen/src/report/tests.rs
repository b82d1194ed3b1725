use super::*;
use crate::plan::Share;
use crate::plan::tests::{args, plan};
use holdfast_client::Instant;
use std::sync::Arc;

fn report(found: bool) -> Report {
    let text = "--locks 4 --stop-renewing 0.5";
    let plan = Arc::new(plan(text).unwrap());
    let share: Share = plan.shares().remove(0);
    let mut fleet = Fleet::new(Arc::clone(&plan), share, Instant::ZERO);
    fleet
        .stats
        .outcome(Phase::Hold, Op::Renew, Outcome::RENEWED);
    fleet.stats.request(Phase::Hold);
    let (from, to) = (Instant::ZERO, Instant::from_micros(2_000));
    fleet.stats.latency(Phase::Hold, Op::Renew, from, to, None);
    if found {
        let known = crate::checker::Known::default();
        let lost = crate::checker::Violation::Lost;
        fleet.findings.push(&lost, "a".into(), 5, &known);
    }
    let mut times = PhaseTimes::default();
    times.set(Phase::Hold, 2.0, 1.0);
    Report::new(&args(text), &plan, vec![fleet], times, false)
}

#[test]
fn a_report_reads_back_and_its_rates_are_per_second_of_the_phase() {
    let json = serde_json::to_string(&report(false)).unwrap();
    let report: Report = serde_json::from_str(&json).unwrap();
    let hold = &report.phases["hold"];
    assert!((hold.requests_per_sec - 0.5).abs() < 1e-9);
    assert!((hold.client_cores - 0.5).abs() < 1e-9);
    let renew = &hold.ops["renew"];
    assert!((renew.per_sec - 0.5).abs() < 1e-9);
    assert_eq!(renew.outcomes["renewed"], 1);
    assert!((renew.latency_ms.max - 2.0).abs() < 0.01);
    assert_eq!(report.config["locks"], 4);
    assert_eq!(report.not_acquired, 4);
    assert!(report.stopped.is_some());
}

#[test]
fn the_verdict_and_the_summary_say_what_was_found() {
    let clean = report(false);
    assert_eq!(clean.verdict().exit_code(), 0);
    assert!(clean.summary().contains("clean"));
    let found = report(true);
    assert_eq!(found.verdict().exit_code(), 1);
    assert_eq!(found.lost, 1);
    assert!(found.summary().contains("FOUND: lost 1"));
    assert!(found.summary().contains("lost at 5 ms: a"));
}
