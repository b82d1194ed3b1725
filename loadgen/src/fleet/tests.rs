//! Whole runs in virtual time: clean ones find nothing, each misbehaviour is found.

use super::simulated::{Fate, Lie, Simulation};
use crate::outcome::{Op, Outcome, Phase};
use holdfast_api::paths;
use std::time::Duration;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn outcome(simulation: &Simulation, op: Op, name: &str) -> u64 {
    let outcomes = Phase::ALL.into_iter();
    let all = outcomes.flat_map(|phase| simulation.fleet.stats.outcomes(phase, op));
    all.filter(|(outcome, _)| *outcome == name)
        .map(|(_, count)| count)
        .sum()
}

#[test]
fn every_lock_is_renewed_once_per_interval_evenly_and_released_at_the_end() {
    for args in [
        "--locks 100",
        "--locks 100 --batch 7 --acquire-batch 9",
        "--locks 100 --rate 500",
    ] {
        let run = Simulation::new(args).hold_for(secs(60));
        assert_eq!(run.fleet.held(), 100, "{args}");
        let stats = &run.fleet.stats;
        let renewed = stats.outcomes(Phase::Hold, Op::Renew).collect::<Vec<_>>();
        assert_eq!(renewed.len(), 1, "{args}: {renewed:?}");
        let (name, count) = renewed[0];
        assert_eq!(name, "renewed");
        assert!(count.abs_diff(600) <= 15, "{args}: {count}");
        // A step of the simulation on the way there, and 2 ms to the answer.
        let latencies = stats.latencies(Phase::Hold, Op::Renew);
        assert!(latencies.max() <= 4_500, "{args}: {}", latencies.max());
        let run = run.release();
        assert_eq!(run.kinds(), [""; 0], "{args}");
        assert_eq!((run.held_names(), run.fleet.done()), (0, 100), "{args}");
        assert_eq!(outcome(&run, Op::Release, "released"), 100, "{args}");
    }
}

#[test]
fn first_acquires_keep_to_their_rate() {
    let run = Simulation::new("--locks 200 --rate 100").hold_for(secs(0));
    let acquired_at = run.now.since(run.fleet.began);
    assert!(
        acquired_at >= Duration::from_millis(1_990) && acquired_at < Duration::from_millis(2_020)
    );
}

#[test]
fn unknown_answers_are_retried_and_no_lock_is_lost() {
    let mut count = 0u32;
    let run = Simulation::new("--locks 100 --churn 20 --batch 3 --acquire-batch 2")
        .with_fate(move |_| {
            count += 1;
            match count % 3 {
                0 => Fate::ReplyLost,
                1 => Fate::Unavailable,
                _ => Fate::Answered,
            }
        })
        .hold_for(secs(60))
        .release();
    assert_eq!(run.kinds(), [""; 0]);
    assert_eq!(run.held_names(), 0);
    assert!(run.fleet.stats.unknown > 500 && run.fleet.stats.retries > 500);
    assert!(outcome(&run, Op::Acquire, "already_held") > 0);
}

#[test]
fn a_gateway_that_is_away_for_longer_than_the_promises_loses_each_lock_once() {
    let outage = secs(20)..secs(60);
    let mut began = None;
    let run = Simulation::new("--locks 50")
        .with_fate(move |call| {
            let began = *began.get_or_insert(call.at);
            if outage.contains(&call.at.since(began)) {
                Fate::Unavailable
            } else {
                Fate::Answered
            }
        })
        .hold_for(secs(90));
    assert_eq!(run.kinds(), ["lost"]);
    assert_eq!(run.fleet.findings.lost(), 50);
    assert_eq!(run.fleet.held(), 50, "they are acquired again");
    let history = &run.fleet.findings.samples[0].history;
    assert_eq!(history.len(), 4);
    assert!(
        history
            .iter()
            .all(|line| line.outcome == "cluster_unavailable")
    );
}

#[test]
fn an_outage_that_is_shorter_than_the_promises_shows_in_the_latencies_from_the_intended_moments() {
    let outage = secs(20)..secs(35);
    let mut began = None;
    let run = Simulation::new("--locks 50")
        .with_fate(move |call| {
            let began = *began.get_or_insert(call.at);
            if outage.contains(&call.at.since(began)) {
                Fate::Unavailable
            } else {
                Fate::Answered
            }
        })
        .hold_for(secs(60));
    assert_eq!(run.kinds(), [""; 0]);
    let latencies = run.fleet.stats.latencies(Phase::Hold, Op::Renew);
    // Due at the outage's beginning, answered at its end; a third of the locks' moments came twice.
    assert!((13_000_000..18_000_000).contains(&latencies.max()));
    let omitted = latencies.len() - run.fleet.stats.total(Op::Renew, Outcome::RENEWED);
    assert!((20..35).contains(&omitted), "{omitted}");
}

#[test]
fn a_late_answer_does_not_delay_the_renewals_of_others() {
    let mut slow = 0u32;
    let run = Simulation::new("--locks 1000 --connections 64")
        .with_fate(move |call| {
            slow += u32::from(call.path == paths::RENEW);
            if slow.is_multiple_of(100) {
                Fate::Slow(Duration::from_millis(1_500))
            } else {
                Fate::Answered
            }
        })
        .hold_for(secs(30));
    assert!(
        run.fleet.stats.lateness.max() <= 2_000,
        "{}",
        run.fleet.stats.lateness.max()
    );
    assert_eq!(run.kinds(), [""; 0]);
}

#[test]
fn a_generator_that_is_too_slow_renews_all_locks_equally_and_reports_what_it_missed() {
    // One connection, 100 ms per answer: 10 renewals per second of the 20 that are due, so that
    // each lock is renewed every 20 s instead of every 10 s.
    let run = Simulation::new("--locks 200 --connections 1 --acquire-batch 200")
        .with_fate(|_| Fate::Slow(Duration::from_millis(100)))
        .hold_for(secs(200));
    assert_eq!(run.kinds(), [""; 0]);
    let stats = &run.fleet.stats;
    let renewed = stats.total(Op::Renew, Outcome::RENEWED);
    assert!((1_950..=2_010).contains(&renewed), "{renewed}");
    assert!((1_700..=2_000).contains(&stats.missed), "{}", stats.missed);
    assert!(stats.backlog_max > 150, "{}", stats.backlog_max);
    // What was missed counts from its own moment.
    let latencies = stats.latencies(Phase::Hold, Op::Renew);
    assert!(
        latencies.len() >= renewed + stats.missed - 200,
        "{}",
        latencies.len()
    );
    assert!(latencies.max() >= 15_000_000, "{}", latencies.max());
    assert!(stats.lateness.max() >= 15_000_000);
}

#[test]
fn tokens_grow_under_churn_and_it_is_found_when_they_do_not() {
    let churn = "--locks 50 --churn 50";
    let run = Simulation::new(churn).hold_for(secs(20)).release();
    assert_eq!(run.kinds(), [""; 0]);
    let released = outcome(&run, Op::Release, "released");
    assert!((900..1_100).contains(&released), "{released}");
    assert!(outcome(&run, Op::Acquire, "granted") > 900);

    let run = Simulation::new(churn)
        .with_lie(Lie::OneToken)
        .hold_for(secs(20));
    assert_eq!(run.kinds(), ["token_not_grown"]);
}

#[test]
fn contenders_are_refused_and_it_is_found_when_they_are_not() {
    let contend = "--locks 50 --contend 4 --churn 5";
    let run = Simulation::new(contend).hold_for(secs(20)).release();
    assert_eq!(run.kinds(), [""; 0]);
    assert!(outcome(&run, Op::Contend, "held") > 1_000);
    assert_eq!(run.held_names(), 0);

    let run = Simulation::new("--locks 50 --contend 4")
        .with_lie(Lie::GrantHeld)
        .hold_for(secs(20));
    assert!(run.kinds().contains(&"overlap"), "{:?}", run.kinds());
    let overlap = run
        .fleet
        .findings
        .samples
        .iter()
        .find(|one| one.kind == "overlap");
    assert!(!overlap.unwrap().history.is_empty());
}

#[test]
fn a_409_on_a_live_promise_is_found_for_each_lock() {
    let run = Simulation::new("--locks 50")
        .with_lie(Lie::EndAll)
        .hold_for(secs(15));
    assert_eq!(run.kinds(), ["false_loss"]);
    assert!(run.fleet.findings.other_than_lost() >= 25);
}

#[test]
fn a_renewal_that_promises_more_than_was_asked_for_is_found() {
    let run = Simulation::new("--locks 5")
        .with_lie(Lie::RenewDouble)
        .hold_for(secs(15));
    assert_eq!(run.kinds(), ["promise_too_long"]);
}

#[test]
fn a_loss_is_noticed_when_no_answer_comes_at_all() {
    let run = Simulation::new("--locks 20 --connections 1")
        .with_fate(|call| match call.path {
            paths::RENEW => Fate::Slow(secs(3_600)),
            _ => Fate::Answered,
        })
        .hold_for(secs(45));
    assert_eq!(run.fleet.findings.lost(), 20);
}

#[test]
fn a_contender_whose_release_is_refused_is_found() {
    let run = Simulation::new("--locks 5 --stop-renewing 1 --duration 100s")
        .with_lie(Lie::RefuseRelease)
        .hold_for(secs(100));
    assert_eq!(run.fleet.free.freed, 5);
    assert_eq!(run.kinds(), ["release_refused"]);
}

#[test]
fn a_refused_release_is_found() {
    let run = Simulation::new("--locks 5")
        .with_lie(Lie::RefuseRelease)
        .hold_for(secs(1))
        .release();
    assert_eq!(run.kinds(), ["release_refused"]);
    assert_eq!(run.fleet.findings.other_than_lost(), 5);
}

#[test]
fn the_locks_of_stopped_holders_become_free_after_their_promises() {
    let stop = "--locks 100 --stop-renewing 0.5 --duration 100s";
    let run = Simulation::new(stop).hold_for(secs(100)).release();
    assert_eq!(run.kinds(), [""; 0]);
    let free = &run.fleet.free;
    assert!((25..75).contains(&free.stopped), "{}", free.stopped);
    assert_eq!(free.freed, free.stopped);
    // The hold lasts 1 % longer than was told: 300 ms; tries come every few dozen milliseconds.
    let earliest = free.earliest_ms.unwrap();
    let latest = free.latest_ms.unwrap();
    assert!((300.0..600.0).contains(&earliest), "{earliest}");
    assert!(earliest <= latest && latest < 600.0, "{latest}");
    assert!(free.latest_refused_ms.unwrap() <= 301.0);
    assert_eq!(run.held_names(), 0);
}

#[test]
fn a_stopped_holders_lock_that_becomes_free_too_early_is_found() {
    let stop = "--locks 100 --stop-renewing 0.5 --duration 100s";
    let run = Simulation::new(stop)
        .with_lie(Lie::EndEarly)
        .hold_for(secs(100));
    assert_eq!(run.kinds(), ["overlap"]);
    assert!(run.fleet.free.earliest_ms.unwrap() < 0.0);
}

#[test]
fn locks_are_renewed_while_others_are_released() {
    // 10 releases per second for 400 locks: longer than a promise.
    let run = Simulation::new("--locks 400 --connections 4")
        .with_fate(|call| match call.path {
            paths::RELEASE => Fate::Slow(Duration::from_millis(300)),
            _ => Fate::Answered,
        })
        .hold_for(secs(1))
        .release();
    assert_eq!(run.kinds(), [""; 0]);
    assert!(run.fleet.stats.outcomes(Phase::Release, Op::Renew).count() > 0);
}

#[test]
fn a_job_that_was_not_sent_is_due_again() {
    let mut run = Simulation::new("--locks 1");
    let job = run.fleet.next(run.now).unwrap();
    assert!(run.fleet.next(run.now).is_none());
    run.fleet.unsent(job, run.now);
    let run = run.hold_for(secs(1)).release();
    assert_eq!(run.kinds(), [""; 0]);
}

#[test]
fn acquires_that_must_be_changed_end_the_run_unless_some_were_granted() {
    let mut run = Simulation::new("--locks 1");
    let job = run.fleet.next(run.now).unwrap();
    let rejected = holdfast_client::Error::Rejected {
        status: 401,
        code: "unauthenticated".into(),
        detail: "no credentials".into(),
    };
    let at = crate::checker::At {
        sent: run.now,
        received: run.now,
    };
    let answer = run.fleet.read(&job, Err(rejected), run.now);
    run.fleet.answer(job, at, answer);
    assert!(
        run.fleet
            .fatal
            .as_deref()
            .unwrap()
            .contains("no credentials")
    );
}
