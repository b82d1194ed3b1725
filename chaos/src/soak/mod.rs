//! `make soak`: clients disconnect and disappear, gateways are restarted, for a long time. Then
//! etcd has exactly what is held, the gateway that lived through it uses no more than at the start,
//! and no log has a secret.

mod credentials;
mod levels;
mod report;
mod secrets;

pub use levels::Levels;
pub use report::SoakReport;

use crate::calm::Calm;
use crate::court::{Counts, Court};
use crate::faults::{Fault, Strike};
use crate::fleet::{Answer, Client, Fleet, FleetOptions};
use crate::report::Found;
use crate::run::look;
use crate::stack::{Gateway, Stack, StackOptions};
use anyhow::{Result, ensure};
use credentials::Credentials;
use holdfast_judge::Rule;
use holdfast_rig::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use secrets::Secrets;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The gateway that is never restarted. Its levels are compared.
const KEPT: usize = 0;
/// The start level is that after a first round of all this, of a fifth of the time and at most this:
/// tables, pools and caches have been in use then.
const WARM_UP_MAX: Duration = Duration::from_secs(60);
/// Between two restarts.
const PAUSE_MS: RangeInclusive<u64> = 500..=3_000;
/// How long a killed gateway stays away.
const AWAY_MS: RangeInclusive<u64> = 0..=5_000;
/// No worker has it.
const STRANGERS_NUMBER: usize = 2_000_000;
/// Connections end, empty groups are given up and idle threads stop within this.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);
/// Threads that have nothing to do end after ten seconds.
const IDLE: Duration = Duration::from_secs(12);
/// Everything that this program can say, and of the libraries what an operator could want.
const LOG_FILTER: &str =
    "debug,h2=info,holdfast_gateway=trace,holdfast_store=trace,shard_map=trace";

/// What to run.
#[derive(Debug, Clone)]
pub struct SoakOptions {
    /// What habits and restarts are drawn from.
    pub seed: u64,
    /// For how long, the final checks not counted.
    pub duration: Duration,
    /// What is started. Credentials and logs are the soak's own.
    pub stack: StackOptions,
    /// The clients. Their credentials are the soak's own.
    pub fleet: FleetOptions,
}

impl SoakOptions {
    /// The usual clients, which disconnect in the middle of one request in six.
    #[must_use]
    pub fn new(seed: u64, duration: Duration, stack: StackOptions, workers: usize) -> Self {
        let fleet = FleetOptions {
            cut_one_in: Some(6),
            ..FleetOptions::new(workers, workers)
        };
        Self {
            seed,
            duration,
            stack,
            fleet,
        }
    }
}

/// Runs, and calls `told` with each restart when it begins.
///
/// # Errors
/// When something cannot be started or asked, or nothing was exercised. What is wrong with the product
/// is in the report.
pub async fn soak(options: &SoakOptions, told: impl Fn(&Strike)) -> Result<SoakReport> {
    let credentials = Credentials::make(&options.stack.programs).await?;
    let stack = StackOptions {
        principals: Some(credentials.roll.clone()),
        log_filter: LOG_FILTER,
        ..options.stack.clone()
    };
    let soak = Soak {
        stack: Stack::start(&stack).await?,
        seed: options.seed,
        session: stack.session_ttl,
        fleet: FleetOptions {
            bearers: credentials.bearers.clone(),
            ..options.fleet.clone()
        },
        credentials,
    };
    let warm_up = (options.duration / 5).min(WARM_UP_MAX);
    let first = soak.round(1, warm_up, &told).await?;
    soak.let_go(&first.court).await;
    tokio::time::sleep(IDLE).await;
    let start = soak.levels().await?;
    // What was found in the first round is told without going on for long.
    let rest = match first.court.finding() {
        Some(_) => Duration::ZERO,
        None => options.duration - warm_up,
    };
    let second = soak.round(2, rest, &told).await?;
    soak.let_go(&second.court).await;
    let end = soak.levels_like(&start, &second).await?;
    let mut secrets = soak.credentials.secrets();
    for id in [first.court.lock_ids(), second.court.lock_ids()].concat() {
        secrets.lock_id(&id);
    }
    let log_bytes = soak.look_at_logs(&secrets, &second.court).await;
    let counts = second.court.counts();
    let finding = Found::of(&first.court).or_else(|| Found::of(&second.court));
    if finding.is_none() {
        ensure_exercised(&counts, second.restarts)?;
    }
    Ok(SoakReport {
        seed: soak.seed,
        duration_s: options.duration.as_secs(),
        finding,
        counts,
        restarts: first.restarts + second.restarts,
        start,
        end,
        secrets: secrets.len(),
        log_bytes,
    })
}

/// A run in which nothing happened has shown nothing.
fn ensure_exercised(counts: &Counts, restarts: u64) -> Result<()> {
    let happened = [
        (counts.grants_in_line, "grants after a wait"),
        (counts.waits_cancelled, "waits that were cancelled"),
        (counts.cut_off, "tries that were cut off"),
        (restarts, "restarts"),
    ];
    for (count, what) in happened {
        ensure!(count > 0, "there were no {what}:\n{counts}");
    }
    Ok(())
}

struct Soak {
    stack: Stack,
    seed: u64,
    session: Duration,
    fleet: FleetOptions,
    credentials: Credentials,
}

/// What is left of a round: what was told, and how many restarts there were.
struct Round {
    court: Arc<Court>,
    restarts: u64,
}

impl Soak {
    fn kept(&self) -> &Gateway {
        &self.stack.gateways[KEPT]
    }

    /// Clients of its own on names of its own, restarts meanwhile, and the questions afterwards: after
    /// the first round only those about what is left.
    async fn round(
        &self,
        number: u64,
        lasting: Duration,
        told: &impl Fn(&Strike),
    ) -> Result<Round> {
        let court = Arc::new(Court::default());
        let prefix: Arc<str> = format!("soak/{}/{number}/", self.seed).into();
        let (targets, seed) = (self.stack.targets(), self.seed.wrapping_add(number));
        let fleet = Fleet::start(&court, &targets, &self.fleet, seed, &prefix);
        let stranger = Client::new(
            Arc::clone(&court),
            STRANGERS_NUMBER,
            Arc::clone(&prefix),
            &targets,
        )
        .with_bearer(&self.credentials.unknown);
        let restarts = self.restart(lasting, seed, &court, stranger, told).await?;
        if court.finding().is_none() {
            let calm = Calm {
                stack: &self.stack,
                court: &court,
                session: self.session,
                fleet: &self.fleet,
                prefix: &prefix,
            };
            match number {
                1 => calm.end(fleet).await?,
                _ => calm.ask(fleet).await?,
            }
        }
        Ok(Round { court, restarts })
    }

    /// Restarts one gateway after the other but for [`KEPT`], by SIGTERM or SIGKILL.
    #[expect(
        clippy::disallowed_methods,
        reason = "a shell: it goes on for a real time"
    )]
    async fn restart(
        &self,
        lasting: Duration,
        seed: u64,
        court: &Court,
        mut stranger: Client,
        told: &impl Fn(&Strike),
    ) -> Result<u64> {
        let mut dice = StdRng::seed_from_u64(seed);
        let (began, mut restarts) = (Instant::now(), 0);
        while began.elapsed() < lasting && court.finding().is_none() {
            tokio::time::sleep(Duration::from_millis(dice.random_range(PAUSE_MS))).await;
            let strike = Strike {
                at_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                for_ms: dice.random_range(AWAY_MS),
                fault: [Fault::GatewayKilled, Fault::GatewayRestarted][dice.random_range(0..2)],
                gateway: dice.random_range(KEPT + 1..self.stack.gateways.len()),
                cluster: 0,
                member: 0,
            };
            told(&strike);
            strike.play(&self.stack).await?;
            restarts += 1;
            look(&self.stack, court);
            knock(&mut stranger, court).await;
        }
        Ok(restarts)
    }

    /// The gateway comes to have nothing in hand any more; if it does not, that is found.
    async fn let_go(&self, court: &Court) {
        let let_go = wait_until("the gateway to let go", SETTLED_WITHIN, || async {
            let in_hand = levels::in_hand(self.kept()).await?;
            ensure!(in_hand.is_empty(), "{}", in_hand.join(", "));
            Ok(())
        });
        if let Err(error) = let_go.await {
            court.find(Rule::NoGhost, None, format!("{error:#}"));
        }
    }

    async fn levels(&self) -> Result<Levels> {
        wait_until("the levels", SETTLED_WITHIN, || {
            Levels::of(self.kept(), &self.stack)
        })
        .await
    }

    /// The levels when they are at those of the start; if they do not come down to them, that is found.
    async fn levels_like(&self, start: &Levels, round: &Round) -> Result<Levels> {
        let settled = wait_until("the levels of the start", SETTLED_WITHIN, || async {
            let now = Levels::of(self.kept(), &self.stack).await?;
            let grown = now.grown_since(start, round.restarts);
            ensure!(grown.is_empty(), "grown: {}", grown.join(", "));
            Ok(now)
        });
        match settled.await {
            Ok(levels) => Ok(levels),
            Err(error) => {
                let text = format!("{error:#}");
                round.court.find(Rule::Inside, None, text);
                self.levels().await
            }
        }
    }

    /// How much there is to read in the logs of all gateways; a secret in it is found.
    async fn look_at_logs(&self, secrets: &Secrets, court: &Court) -> usize {
        let mut bytes = 0;
        for (index, gateway) in self.stack.gateways.iter().enumerate() {
            let log = gateway.log().await;
            bytes += log.len();
            if let Some(line) = secrets.found_in(&log) {
                let text = format!("the log of gateway {index} has a secret: {line}");
                court.find(Rule::Inside, None, text);
            }
        }
        bytes
    }
}

/// Somebody with a token that nobody has is answered 401 by every gateway.
async fn knock(stranger: &mut Client, court: &Court) {
    for through in 0..stranger.gateways() {
        let (answer, _) = stranger.acquire(through, None, 0, 5_000).await;
        // A gateway that was started a moment ago may have closed the connection that was kept.
        if !matches!(answer, Answer::Rejected(401, _) | Answer::Unknown(_)) {
            let text = format!("a stranger is answered {answer:?}");
            court.find(Rule::Inside, None, text);
        }
    }
}
