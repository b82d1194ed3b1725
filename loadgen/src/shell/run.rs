//! The course of a run: threads, phases, the end.

use super::control::Control;
use super::course::{Course, Interrupts};
use super::metrics;
use super::worker::work;
use crate::cli::RunArgs;
use crate::fleet::Fleet;
use crate::plan::Plan;
use crate::report::{Report, Verdict};
use anyhow::{Context as _, bail};
use holdfast_client::{Access, Connection};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) type Worker = JoinHandle<std::io::Result<Fleet>>;

/// Runs it all and prints the summary.
///
/// # Errors
/// When it could not run, or the report cannot be written.
pub(crate) fn run(args: &RunArgs, plan: Plan) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let access = args.access.files().load(&plan.targets)?;
    let plan = Arc::new(plan);
    runtime.block_on(reach_one(&plan, &access))?;
    let control = Arc::new(Control::new(plan.threads));
    if let Some(address) = args.metrics_listen {
        runtime.block_on(metrics::listen(
            address,
            Arc::clone(&plan),
            Arc::clone(&control),
        ))?;
    }
    let workers = start(&plan, &access, &control)?;
    let mut course = Course::new(&plan, &control, &workers);
    let interrupted = runtime.block_on(async {
        let interrupts = Interrupts::new()?;
        anyhow::Ok(course.follow(interrupts).await)
    })?;
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
    // Printed first: it must not be lost with a file that cannot be written.
    report.print_summary()?;
    if let Some(path) = &args.out {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report.verdict())
}

/// Better said at once than after thirty seconds of trying.
async fn reach_one(plan: &Plan, access: &Access) -> anyhow::Result<()> {
    let mut last = None;
    for target in &plan.targets {
        let opening = Connection::open_with(target, access);
        match tokio::time::timeout(Duration::from_secs(5), opening).await {
            Ok(Ok(_connection)) => return Ok(()),
            Ok(Err(error)) => last = Some(error.to_string()),
            Err(_elapsed) => last = Some(format!("{target}: no connection in time")),
        }
    }
    bail!("no target can be reached: {}", last.unwrap_or_default())
}

fn start(plan: &Arc<Plan>, access: &Access, control: &Arc<Control>) -> anyhow::Result<Vec<Worker>> {
    let spawn = |share: crate::plan::Share| {
        let (plan, control) = (Arc::clone(plan), Arc::clone(control));
        let access = access.clone();
        std::thread::Builder::new()
            .name(format!("worker-{}", share.worker))
            .spawn(move || work(plan, share, access, &control))
    };
    let workers: Result<Vec<_>, _> = plan.shares().into_iter().map(spawn).collect();
    Ok(workers?)
}
