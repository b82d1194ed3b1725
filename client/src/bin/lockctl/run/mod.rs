//! `lockctl run`: a command that runs while a lock is held.
//!
//! [`keeper`] decides when the command must end, over values; [`process`], [`signals`] and
//! [`terminal`] are the operating system's part.

mod keeper;
mod process;
mod signals;
mod terminal;

use crate::args::RunArgs;
use crate::asking::Asking;
use crate::complain;
use crate::failure::Failure;
use crate::limits::{GRACE_SHARE_MAX, RELEASE_PATIENCE};
use holdfast_client::{BootClock, Clock as _, Hold, Instant};
use keeper::{Keeper, Step, Why};
use process::Process;
use signals::{Caught, Signals};
use std::future::pending;
use std::pin::pin;
use std::time::Duration;
use terminal::Terminal;

/// The lock was lost, and the command was ended.
const LOST: u8 = 122;

/// Runs it; the exit code.
pub(crate) async fn run(args: &RunArgs) -> u8 {
    match course(args).await {
        Ok(code) => code,
        Err(failure) => {
            complain(&failure);
            failure.code_of_run()
        }
    }
}

async fn course(args: &RunArgs) -> Result<u8, Failure> {
    let grace = args.grace().map_err(Failure::Usage)?;
    let asking = Asking::new(&args.connection, args.wanted.client_id.as_deref())?;
    let mut signals = Signals::listen().map_err(|error| Failure::Failed(error.to_string()))?;
    let wanted = args.wanted.acquire();
    let granted = tokio::select! {
        granted = asking.acquire(&wanted) => granted?,
        // If it was granted just now, the gateway sees that nobody waits for the answer, or the
        // hold ends by its TTL.
        caught = signals.next() => return Ok(caught.exit_code()),
    };
    let hold = asking.client.keep(&wanted, granted);
    // A gateway may promise less than was asked for.
    let lasts = hold.until().since(BootClock.now());
    let grace = grace.min(lasts / GRACE_SHARE_MAX);
    let code = under(&hold, args, grace, &mut signals).await;
    give_back(hold).await;
    code
}

/// Runs the command while the hold lasts; the exit code.
async fn under(
    hold: &Hold,
    args: &RunArgs,
    grace: Duration,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let terminal = Terminal::of_this_process();
    let mut process = Process::start(&args.command, hold, terminal)?;
    let mut keeper = Keeper::new(grace);
    let mut lost = pin!(hold.lost());
    let mut is_lost = false;
    let status = loop {
        let wake = match keeper.step(BootClock.now(), hold.until()) {
            Step::Terminate(why, kill_at) => {
                tell(hold.name(), why, kill_at);
                process.terminate();
                continue;
            }
            Step::Kill => {
                process.kill();
                continue;
            }
            Step::Wait(wake) => wake,
        };
        tokio::select! {
            status = process.ended() => break status,
            loss = &mut lost, if !is_lost => {
                is_lost = true;
                keeper.lost(loss, BootClock.now());
            }
            caught = signals.next() => pass_on(&process, terminal, caught),
            () = sleep_until(wake) => {}
        }
    };
    let Some(kill_at) = keeper.kill_at() else {
        return status;
    };
    process.end_rest(kill_at).await;
    Ok(LOST)
}

/// At a terminal both are in its foreground, and what it sends reaches the command by itself.
fn pass_on(process: &Process, terminal: Terminal, caught: Caught) {
    if terminal == Terminal::None || !caught.comes_from_terminals() {
        process.pass_on(caught);
    }
}

fn tell(name: &str, why: Why, kill_at: Instant) {
    let left = kill_at.since(BootClock.now()).as_secs_f64();
    complain(format_args!(
        "{name}: {why}; the command gets SIGTERM, and SIGKILL in {left:.1}s"
    ));
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => BootClock.sleep_until(wake).await,
        None => pending().await,
    }
}

async fn give_back(hold: Hold) {
    let name = hold.name().to_owned();
    let trouble = match tokio::time::timeout(RELEASE_PATIENCE, hold.release()).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => "no answer".to_owned(),
    };
    complain(format_args!(
        "{name}: not released ({trouble}); it becomes free when its TTL ends"
    ));
}
