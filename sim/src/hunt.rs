//! Tests of the tests: each deliberate mistake in the engine must be found from outside.

use crate::faults::Fault;
use crate::mistake::Mistake;
use crate::run::{Plan, run};
use holdfast_gateway::engine::Mutation;
use holdfast_judge::{Finding, Rule};
use shard_map::rollout;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a mistake is hunted: with which faults (none: those that each seed draws), and in how many
/// seeds it must be found: at least ten times the median and twice the most that ten ranges of seeds
/// took.
#[derive(Debug, Clone, Copy)]
pub struct Hunt {
    /// The mistake.
    pub mutation: Mistake,
    /// What goes wrong around it.
    pub focus: &'static [Fault],
    /// It must be found in fewer seeds.
    pub seeds_max: u64,
    /// The search begins with this seed.
    pub begin: u64,
}

const fn hunt(mutation: Mutation, seeds_max: u64, focus: &'static [Fault]) -> Hunt {
    Hunt {
        mutation: Mistake::Engine(mutation),
        focus,
        seeds_max,
        begin: 0,
    }
}

/// A mistake that thousands of seeds pass by is looked for from just before the first that is known to
/// find it, so that the hunt takes seconds. After a change of the engine that seed may not find it any
/// more; it is still to be found in as many seeds as any.
const fn beginning(begin: u64, hunt: Hunt) -> Hunt {
    Hunt { begin, ..hunt }
}

/// A mistake in the steps of guards.
const fn hunt_guards(mutation: rollout::Mutation, seeds_max: u64, focus: &'static [Fault]) -> Hunt {
    Hunt {
        mutation: Mistake::Guards(mutation),
        focus,
        seeds_max,
        begin: 0,
    }
}

/// Every mistake there is, and how it is hunted.
pub const HUNTS: &[Hunt] = &[
    hunt(
        Mutation::PromiseUnproven,
        200,
        &[
            Fault::GatewayPaused,
            Fault::LinkDown,
            Fault::RenewAfterRelease,
        ],
    ),
    hunt(Mutation::PromiseBeyondHold, 20, &[]),
    hunt(Mutation::ProofWithoutRange, 200, &[]),
    hunt(Mutation::ProofFromLaterSend, 3_000, &[]),
    hunt(Mutation::TtlZeroIgnored, 400, &[]),
    hunt(Mutation::ReleaseWithoutCompare, 200, &[]),
    hunt(Mutation::ReleaseUnconfirmed, 2_000, &[]),
    hunt(
        Mutation::ExpiryUnconfirmed,
        40_000,
        &[
            Fault::WrongRevoke,
            Fault::TermChange,
            Fault::LinkDown,
            Fault::AnyGateway,
        ],
    ),
    hunt(
        Mutation::UnknownTakenAsLost,
        50,
        &[Fault::CallLost, Fault::ReplyLost, Fault::ExpiryLag],
    ),
    hunt(Mutation::MissTakenAsLost, 100, &[]),
    hunt(Mutation::UnknownTakenAsGranted, 100, &[]),
    hunt(Mutation::ReadWithoutFence, 8_000, &[]),
    hunt(Mutation::WriteWithoutFence, 200, &[]),
    hunt(Mutation::GhostKept, 4_000, &[]),
    hunt(Mutation::DeadlineMovesBack, 50, &[]),
    hunt(Mutation::FenceByPlainPut, 50, &[]),
    hunt(Mutation::ClaimTrustsOldTable, 2_000, &[]),
    hunt(
        Mutation::HeirForgetsSession,
        5_000,
        &[
            Fault::WrongRevoke,
            Fault::TermChange,
            Fault::ClientPaused,
            Fault::LinkDown,
        ],
    ),
    hunt(Mutation::HeirCountsFromGrant, 100, &[]),
    hunt(
        Mutation::SurveyEndsPending,
        1_000,
        &[Fault::Surveys, Fault::SlowLinks],
    ),
    hunt(Mutation::EndingRevived, 400, &[]),
    hunt(Mutation::MissingGuardAdmitted, 2_000, &[]),
    hunt(
        Mutation::TokenFromPresentGuard,
        100,
        &[Fault::GuardRaised, Fault::GatewayKilled],
    ),
    hunt(Mutation::LongerWithoutRewrite, 200, &[]),
    hunt(Mutation::AnyTokenRenews, 100, &[]),
    hunt(Mutation::ClaimWhileSessionLives, 4_000, &[]),
    hunt(Mutation::ForwardedReleaseUncompared, 400, &[]),
    hunt(
        Mutation::ProofOutlivesSession,
        4_000,
        &[Fault::LinkDown, Fault::RenewAfterRelease, Fault::AnyGateway],
    ),
    hunt(Mutation::TableOutlivesSession, 2_000, &[]),
    hunt(Mutation::PromiseAfterStop, 400, &[]),
    hunt(
        Mutation::HeritageOfAnyone,
        10_000,
        &[
            Fault::RollingRestart,
            Fault::GatewayKilled,
            Fault::LinkDown,
            Fault::TaskPaused,
        ],
    ),
    hunt(Mutation::EntryAnsweredForOwner, 1_000, &[]),
    hunt(Mutation::NotTheirsTakenAsLost, 400, &[]),
    hunt(Mutation::SourceNotAsked, 100, &[Fault::Rollouts]),
    beginning(
        2_450,
        hunt(
            Mutation::SwitchWithoutGuard,
            20_000,
            &[Fault::Rollouts, Fault::SlowLinks],
        ),
    ),
    beginning(2_150, hunt(Mutation::ReceivedWithoutGuard, 20_000, &[])),
    hunt(
        Mutation::RecordsDeletedBeforeSwitch,
        400,
        &[Fault::Rollouts, Fault::CallLost],
    ),
    hunt(
        Mutation::FinishedByClaimer,
        4_000,
        &[Fault::Rollouts, Fault::SlowLinks, Fault::GatewayKilled],
    ),
    beginning(
        6_740,
        hunt(Mutation::GroupForgetsSource, 20_000, &[Fault::Rollouts]),
    ),
    beginning(
        3_250,
        hunt(Mutation::LookBeforeGuard, 20_000, &[Fault::Rollouts]),
    ),
    hunt(
        Mutation::ServedBeforeSwitch,
        2_000,
        &[Fault::Rollouts, Fault::SlowLinks],
    ),
    beginning(
        1_000,
        hunt(
            Mutation::AbsenceTakenForSwitch,
            10_000,
            &[
                Fault::Rollouts,
                Fault::LinkDown,
                Fault::GatewayKilled,
                Fault::CallLost,
                Fault::RenewAfterRelease,
            ],
        ),
    ),
    hunt(
        Mutation::UnmarkedBeforeRevoke,
        2_000,
        &[Fault::Rollouts, Fault::SlowLinks],
    ),
    beginning(
        780,
        hunt(
            Mutation::CopyNotChased,
            10_000,
            &[
                Fault::Rollouts,
                Fault::GatewayKilled,
                Fault::GatewayStopped,
                Fault::ReEntry,
                Fault::CallLost,
            ],
        ),
    ),
    hunt_guards(rollout::Mutation::GuardUncompared, 100, &[Fault::Rollouts]),
    hunt_guards(rollout::Mutation::GuardLowered, 100, &[Fault::Rollouts]),
    hunt_guards(
        rollout::Mutation::RollbackLeavesAbsent,
        2_000,
        &[Fault::Rollouts],
    ),
    beginning(
        930,
        hunt_guards(
            rollout::Mutation::RollbackWithoutBase,
            10_000,
            &[Fault::Rollouts],
        ),
    ),
    hunt(
        Mutation::ClosedRevived,
        400,
        &[Fault::ForceRelease, Fault::GatewayKilled, Fault::AnyGateway],
    ),
    hunt(
        Mutation::ClosedUnrecorded,
        400,
        &[Fault::ForceRelease, Fault::GatewayKilled, Fault::AnyGateway],
    ),
    hunt(
        Mutation::NewcomerOvertakes,
        200,
        &[Fault::Waits, Fault::WatchLost],
    ),
    hunt(
        Mutation::HeadUnchecked,
        15_000,
        &[Fault::Waits, Fault::WatchLost, Fault::HandRevoke],
    ),
    hunt(Mutation::WaiterKept, 100, &[Fault::Waits]),
    hunt(
        Mutation::TakenBackThoughTold,
        400,
        &[Fault::Waits, Fault::AnswerToNobody, Fault::AnyGateway],
    ),
    hunt_guards(
        rollout::Mutation::FromDroppedEarly,
        1_000,
        &[Fault::Rollouts],
    ),
];

impl Hunt {
    /// The first seed, from `begin` and so many further on, in which the judge finds it, on so many threads. What the
    /// engine's own checks find does not count, nor what is found without the mistake too. The
    /// number of threads makes no difference.
    pub fn find(&self, further: u64, threads: usize) -> Option<(u64, Finding)> {
        let first = self.begin + further;
        let next = AtomicU64::new(first);
        let found = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| self.work(&next, first + self.seeds_max, &found));
            }
        });
        found.into_inner().unwrap_or_default()
    }

    /// Tries seed after seed, until one before them has been found.
    fn work(&self, next: &AtomicU64, end: u64, found: &Mutex<Option<(u64, Finding)>>) {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = |found: &Option<(u64, _)>| found.as_ref().is_some_and(|it| it.0 < seed);
            if seed >= end || found.lock().is_ok_and(|found| is_over(&found)) {
                return;
            }
            let finding = run(self.plan(seed)).finding;
            let Some(finding) = finding.filter(|finding| finding.rule != Rule::Inside) else {
                continue;
            };
            if self.is_found_without(seed) {
                continue;
            }
            if let Ok(mut found) = found.lock()
                && !is_over(&found)
            {
                *found = Some((seed, finding));
            }
        }
    }

    /// The run with the mistake.
    pub fn plan(&self, seed: u64) -> Plan {
        Plan {
            seed,
            mutation: Some(self.mutation),
            focus: self.focus,
            traced: false,
        }
    }

    /// Whether it is not the mistake that is found.
    fn is_found_without(&self, seed: u64) -> bool {
        let without = Plan {
            mutation: None,
            ..self.plan(seed)
        };
        run(without).finding.is_some()
    }
}
