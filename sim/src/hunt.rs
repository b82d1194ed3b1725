//! Tests of the tests: each deliberate mistake in the engine must be found from outside.

use crate::faults::Fault;
use crate::judge::{Finding, Rule};
use crate::run::{Plan, run};
use holdfast_gateway::engine::Mutation;

/// How a mistake is hunted: with which faults (none: those that each seed draws), and in how many
/// seeds it must be found.
#[derive(Debug, Clone, Copy)]
pub struct Hunt {
    /// The mistake.
    pub mutation: Mutation,
    /// What goes wrong around it.
    pub focus: &'static [Fault],
    /// It must be found in fewer seeds.
    pub seeds_max: u64,
}

const fn hunt(mutation: Mutation, seeds_max: u64, focus: &'static [Fault]) -> Hunt {
    Hunt {
        mutation,
        focus,
        seeds_max,
    }
}

/// Every mistake that is hunted.
pub const HUNTS: &[Hunt] = &[
    hunt(
        Mutation::PromiseUnproven,
        4_000,
        &[
            Fault::GatewayPaused,
            Fault::LinkDown,
            Fault::RenewAfterRelease,
        ],
    ),
    hunt(Mutation::PromiseBeyondHold, 10, &[]),
    hunt(Mutation::ProofWithoutRange, 300, &[]),
    hunt(Mutation::ReleaseWithoutCompare, 300, &[]),
    hunt(Mutation::ReleaseUnconfirmed, 600, &[]),
    hunt(
        Mutation::UnknownTakenAsLost,
        50,
        &[Fault::CallLost, Fault::ReplyLost, Fault::ExpiryLag],
    ),
    hunt(Mutation::MissTakenAsLost, 1_000, &[]),
    hunt(Mutation::UnknownTakenAsGranted, 100, &[]),
    hunt(Mutation::ReadWithoutFence, 300, &[]),
    hunt(Mutation::WriteWithoutFence, 500, &[]),
    hunt(Mutation::GhostKept, 800, &[]),
    hunt(Mutation::DeadlineMovesBack, 100, &[]),
    hunt(Mutation::ClaimTrustsOldTable, 2_000, &[]),
    hunt(
        Mutation::HeirForgetsSession,
        1_000,
        &[
            Fault::WrongRevoke,
            Fault::TermChange,
            Fault::ClientPaused,
            Fault::LinkDown,
        ],
    ),
    hunt(Mutation::HeirCountsFromGrant, 200, &[]),
    hunt(
        Mutation::SurveyEndsPending,
        2_000,
        &[Fault::Surveys, Fault::SlowLinks],
    ),
    hunt(Mutation::EndingRevived, 500, &[]),
    hunt(Mutation::MissingGuardAdmitted, 500, &[]),
    hunt(
        Mutation::TokenFromPresentGuard,
        100,
        &[Fault::GuardRaised, Fault::GatewayKilled],
    ),
    hunt(Mutation::LongerWithoutRewrite, 200, &[]),
    hunt(Mutation::AnyTokenRenews, 100, &[]),
];

impl Hunt {
    /// The first seed in which the judge finds it. What the engine's own checks find does not
    /// count.
    pub fn find(&self) -> Option<(u64, Finding)> {
        (0..self.seeds_max).find_map(|seed| {
            let plan = Plan {
                seed,
                mutation: Some(self.mutation),
                focus: self.focus,
                traced: false,
            };
            let finding = run(plan).finding?;
            (finding.rule != Rule::Inside).then_some((seed, finding))
        })
    }
}
