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
use holdfast_client::Connection;
use http::HeaderValue;
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
    let authorization = authorization(args)?;
    let plan = Arc::new(plan);
    runtime.block_on(reach_one(&plan, authorization.as_ref()))?;
    let control = Arc::new(Control::new(plan.threads));
    if let Some(address) = args.metrics_listen {
        runtime.block_on(metrics::listen(
            address,
            Arc::clone(&plan),
            Arc::clone(&control),
        ))?;
    }
    let workers = start(&plan, authorization.as_ref(), &control)?;
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
