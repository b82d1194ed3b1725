//! The course of a run: threads, phases, the end.

use super::control::{Control, Order};
use super::progress::{Progress, say};
use super::worker::work;
use crate::cli::RunArgs;
use crate::fleet::Fleet;
use crate::limits::STALL;
use crate::outcome::Phase;
use crate::plan::Plan;
use crate::report::{PhaseTimes, Report, Verdict};
use anyhow::{Context as _, bail};
use holdfast_client::{BootClock, Clock as _, Connection, Instant};
use http::HeaderValue;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

type Worker = JoinHandle<std::io::Result<Fleet>>;

/// How often the main thread looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs it all and prints the summary.
///
/// # Errors
/// When it could not run, or the report cannot be written.
pub(crate) fn run(args: &RunArgs, plan: Plan) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let authorization = authorization(args)?;
    let plan = Arc::new(plan);
    runtime.block_on(reach_one(&plan, authorization.as_ref()))?;
    let control = Arc::new(Control::new(plan.threads));
    let workers = start(&plan, authorization.as_ref(), &control)?;
    let mut course = Course::new(&plan, &control, &workers);
    let interrupted = runtime.block_on(course.follow());
    let (times, could_not_run) = (course.times, course.could_not_run);
    let mut fleets = Vec::new();
    for worker in workers {
        match worker.join() {
            Ok(fleet) => fleets.push(fleet?),
            Err(_panicked) => bail!("a worker panicked"),
        }
    }
    if let Some(why) = could_not_run {
        bail!(why);
    }
    let report = Report::new(args, &plan, fleets, times, interrupted);
    if let Some(path) = &args.out {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    report.print_summary()?;
    Ok(report.verdict())
}

fn authorization(args: &RunArgs) -> anyhow::Result<Option<HeaderValue>> {
    let Some(path) = &args.bearer_file else {
        return Ok(None);
    };
    let token =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .context("the bearer token has characters that no header can have")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Better said at once than after thirty seconds of trying.
async fn reach_one(plan: &Plan, authorization: Option<&HeaderValue>) -> anyhow::Result<()> {
    let mut last = None;
    for target in &plan.targets {
        let opening = Connection::open(target, authorization);
        match tokio::time::timeout(Duration::from_secs(5), opening).await {
            Ok(Ok(_connection)) => return Ok(()),
            Ok(Err(error)) => last = Some(error.to_string()),
            Err(_elapsed) => last = Some(format!("{target}: no connection in time")),
        }
    }
    bail!("no target can be reached: {}", last.unwrap_or_default())
}

fn start(
    plan: &Arc<Plan>,
    authorization: Option<&HeaderValue>,
    control: &Arc<Control>,
) -> anyhow::Result<Vec<Worker>> {
    let spawn = |share: crate::plan::Share| {
        let (plan, control) = (Arc::clone(plan), Arc::clone(control));
        let authorization = authorization.cloned();
        std::thread::Builder::new()
            .name(format!("worker-{}", share.worker))
            .spawn(move || work(plan, share, authorization, &control))
    };
    let workers: Result<Vec<_>, _> = plan.shares().into_iter().map(spawn).collect();
    Ok(workers?)
}

/// Leads the workers through the phases.
struct Course<'a> {
    plan: &'a Plan,
    control: &'a Control,
    workers: &'a [Worker],
    clock: BootClock,
    began: Instant,
    times: PhaseTimes,
    could_not_run: Option<String>,
    progress: Option<Progress>,
}

/// Why a phase is over.
#[derive(PartialEq, Eq)]
enum Ended {
    Done,
    Stalled,
    Interrupted,
}

impl<'a> Course<'a> {
    fn new(plan: &'a Plan, control: &'a Control, workers: &'a [Worker]) -> Self {
        let clock = BootClock;
        Self {
            plan,
            control,
            workers,
            began: clock.now(),
            clock,
            times: PhaseTimes::default(),
            could_not_run: None,
            progress: Some(Progress::new()),
        }
    }

    /// To the end; `true` when it was interrupted.
    async fn follow(&mut self) -> bool {
        let acquired = self.acquire().await;
        let interrupted = if self.could_not_run.is_some() {
            false
        } else {
            let held = match acquired {
                Ended::Interrupted => Ended::Interrupted,
                Ended::Done | Ended::Stalled => self.hold().await,
            };
            if !self.plan.keep {
                self.release().await;
            }
            held == Ended::Interrupted
        };
        self.control.give(Order::Stop);
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
        interrupted
    }

    async fn acquire(&mut self) -> Ended {
        let locks = self.plan.locks;
        let ended = self
            .phase(Phase::Acquire, None, |total| {
                let achieved = u64::from(total.first_grants);
                (
                    achieved,
                    total.first_grants == locks || total.fatal.is_some(),
                )
            })
            .await;
        let total = self.control.total();
        if let Some(fatal) = total.fatal {
            self.could_not_run = Some(format!("the gateway refuses acquires: {fatal}"));
        } else if total.first_grants == 0 {
            let trouble = total
                .last_trouble
                .unwrap_or_else(|| "the names are held".to_owned());
            self.could_not_run = Some(format!("no lock could be acquired; last: {trouble}"));
        }
        ended
    }

    async fn hold(&mut self) -> Ended {
        self.control.give(Order::Hold);
        let end = self.clock.now() + self.plan.duration;
        self.phase(Phase::Hold, Some(end), |_| (0, false)).await
    }

    async fn release(&mut self) {
        self.control.give(Order::Release);
        self.phase(Phase::Release, None, |total| {
            let over = total.over && total.phase == Some(Phase::Release);
            (u64::from(total.done), over)
        })
        .await;
    }

    /// Waits for the end of a phase: its moment, or that `judge` says it is done, or that what it
    /// says was achieved does not grow any more.
    async fn phase(
        &mut self,
        phase: Phase,
        end: Option<Instant>,
        judge: impl Fn(&super::control::Snapshot) -> (u64, bool),
    ) -> Ended {
        let began = self.clock.now();
        let cpu = cpu_used();
        let mut progress_at = (0, began);
        let ended = loop {
            let now = self.clock.now();
            let total = self.control.total();
            if let Some(progress) = &mut self.progress {
                progress.show(now, self.began, &total);
            }
            let (achieved, done) = judge(&total);
            if achieved != progress_at.0 {
                progress_at = (achieved, now);
            }
            if done || end.is_some_and(|end| now >= end) {
                break Ended::Done;
            }
            // They only end when they are told to, unless something broke.
            if self.workers.iter().any(JoinHandle::is_finished) {
                break Ended::Interrupted;
            }
            if end.is_none() && now >= progress_at.1 + STALL {
                say(&format!(
                    "nothing more is achieved in the {} phase",
                    phase.name()
                ));
                break Ended::Stalled;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                Ok(()) = tokio::signal::ctrl_c() => break Ended::Interrupted,
            }
        };
        let secs = self.clock.now().since(began).as_secs_f64();
        let cpu_secs = (cpu_used() - cpu).as_secs_f64();
        self.times.set(phase, secs, cpu_secs);
        ended
    }
}

/// Processor time of this process so far.
fn cpu_used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let secs = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_nanos(u64::try_from(used.tv_nsec).unwrap_or(0))
}
