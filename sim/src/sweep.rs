//! Many runs, on all processors.

use crate::figures::Figures;
use crate::run::{Plan, run};
use holdfast_judge::Finding;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What came of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// How many seeds were run.
    pub seeds: u64,
    /// What was found, by seed, in the order of the seeds.
    pub findings: Vec<(u64, Finding)>,
    /// What all of them exercised.
    pub figures: Figures,
}

/// Runs every seed of the range, otherwise as planned, on so many threads, until so many findings have been made.
pub fn sweep(seeds: Range<u64>, threads: usize, findings_max: usize, plan: Plan) -> Swept {
    let next = AtomicU64::new(seeds.start);
    let swept = Mutex::new(Swept::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| work(&next, &seeds, findings_max, plan, &swept));
        }
    });
    let mut swept = swept.into_inner().unwrap_or_default();
    swept.findings.sort_by_key(|(seed, _)| *seed);
    swept
}

fn work(
    next: &AtomicU64,
    seeds: &Range<u64>,
    findings_max: usize,
    plan: Plan,
    swept: &Mutex<Swept>,
) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end {
            return;
        }
        let outcome = run(Plan { seed, ..plan });
        let Ok(mut swept) = swept.lock() else {
            return;
        };
        if swept.findings.len() >= findings_max {
            return;
        }
        swept.seeds += 1;
        swept.figures.add(&outcome.figures);
        swept
            .findings
            .extend(outcome.finding.map(|finding| (seed, finding)));
    }
}
