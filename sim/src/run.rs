//! One run: a world made from a seed, through all its phases.

use crate::dice::Dice;
use crate::faults::Fault;
use crate::figures::Figures;
use crate::mistake::Mistake;
use crate::options::Options;
use crate::trace::{Line, Trace};
use crate::world::World;
use holdfast_judge::{Finding, Rule};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a run is made from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    /// The same seed gives the same run.
    pub seed: u64,
    /// A deliberate mistake in the engine.
    pub mutation: Option<Mistake>,
    /// Exactly these faults can happen; none: those that the seed draws.
    pub focus: &'static [Fault],
    /// Whether the trace is kept as text; the run is the same.
    pub traced: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The options, in one line.
    pub options: String,
    /// The first thing that was found.
    pub finding: Option<Finding>,
    /// Of everything that happened.
    pub trace_hash: u64,
    /// Everything that happened, if it was asked for.
    pub trace: Vec<Line>,
    /// What was exercised.
    pub figures: Figures,
}

/// Runs one seed.
pub fn run(plan: Plan) -> Outcome {
    let mut dice = Dice::new(plan.seed);
    let mut apart = Dice::new(!plan.seed);
    let options = Options::draw(&mut dice, &mut apart, plan.focus);
    let text = options.to_string();
    let mut world = World::new(options, dice, Trace::new(plan.traced), plan.mutation);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run_phases()));
    let finding = match ran {
        Ok(()) => world.judge.take_finding(),
        Err(panic) => {
            let why = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(Finding {
                rule: Rule::Inside,
                at: world.now,
                name: None,
                text: why.unwrap_or_else(|| "a panic".to_owned()),
            })
        }
    };
    Outcome {
        options: text,
        finding,
        trace_hash: world.trace.hash(),
        figures: world.figures,
        trace: world.trace.into_lines(),
    }
}
