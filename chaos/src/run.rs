//! One run: faults strike for as long as asked, then everything is healed and asked about.

use crate::calm::Calm;
use crate::court::Court;
use crate::faults::Strike;
use crate::fleet::{Fleet, FleetOptions};
use crate::report::{self, Found, Report};
use crate::schedule::Schedule;
use crate::stack::{Stack, StackOptions};
use anyhow::Result;
use holdfast_judge::Rule;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often it is looked whether a gateway has ended by itself.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What schedule and habits are drawn from.
    pub seed: u64,
    /// For how long faults strike.
    pub duration: Duration,
    /// What is started.
    pub stack: StackOptions,
    /// The clients.
    pub fleet: FleetOptions,
}

/// Runs, and calls `told` with what strikes when it does.
///
/// # Errors
/// When something cannot be started. What is wrong with the product is in the report.
pub async fn run(options: &Options, told: impl Fn(&Strike)) -> Result<Report> {
    let members: Vec<usize> = options.stack.clusters.iter().map(|c| c.members).collect();
    let (seed, session) = (options.seed, options.stack.session_ttl);
    let gateways = options.stack.gateways;
    let schedule = Schedule::draw(seed, options.duration, gateways, &members, session);
    let stack = Arc::new(Stack::start(&options.stack).await?);
    let court = Arc::new(Court::default());
    let prefix: Arc<str> = format!("chaos/{seed}/").into();
    let fleet = Fleet::start(&court, &stack.targets(), &options.fleet, seed, &prefix);
    let struck = play(&schedule, &stack, &court, told).await?;
    if court.finding().is_none() {
        let calm = Calm {
            stack: &stack,
            court: &court,
            session,
            fleet: &options.fleet,
            prefix: &prefix,
        };
        calm.ask(fleet).await?;
    }
    let (faults, faults_missing) = report::exercised(&struck);
    Ok(Report {
        seed,
        duration_s: options.duration.as_secs(),
        gateways,
        clusters: members,
        finding: Found::of(&court),
        counts: court.counts(),
        faults,
        faults_missing,
        tricks: stack.tricks(),
        schedule: struck,
    })
}

/// Plays the schedule until its end or a finding. Gives what has struck.
#[expect(
    clippy::disallowed_methods,
    reason = "a shell: strikes are played at their real time"
)]
async fn play(
    schedule: &Schedule,
    stack: &Arc<Stack>,
    court: &Court,
    told: impl Fn(&Strike),
) -> Result<Vec<Strike>> {
    let began = Instant::now();
    let mut struck = Vec::new();
    let mut playing = JoinSet::new();
    for strike in &schedule.strikes {
        let at = began + Duration::from_millis(strike.at_ms);
        while Instant::now() < at {
            tokio::time::sleep_until(at.min(Instant::now() + LOOK_INTERVAL)).await;
            look(stack, court);
        }
        if court.finding().is_some() {
            break;
        }
        told(strike);
        let (strike, stack) = (*strike, Arc::clone(stack));
        playing.spawn(async move { strike.play(&stack).await.map(|()| strike) });
        while let Some(played) = playing.try_join_next() {
            struck.push(played??);
        }
    }
    while let Some(played) = playing.join_next().await {
        struck.push(played??);
    }
    struck.sort_by_key(|strike| strike.at_ms);
    Ok(struck)
}

/// A gateway that nobody ended must run.
pub(crate) fn look(stack: &Stack, court: &Court) {
    for (index, gateway) in stack.gateways.iter().enumerate() {
        if let Some(log) = gateway.has_ended() {
            let text = format!("gateway {index} has ended by itself; its log ends:\n{log}");
            court.find(Rule::Inside, None, text);
        }
    }
}
