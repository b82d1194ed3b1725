//! `loadgen baseline`: what a gateway's renewals cost, beside what HTTP costs by itself.
//!
//! The same client, on a core of its own, drives two servers in turn on the other core: the
//! gateway, and a bare hyper server ([`bare`]) that reads the body and answers a constant of the
//! same size. Closed loop: every connection sends its next request when the last one is answered,
//! so the server is always busy; what is counted is the processor time that it used. [`wire`] and
//! [`figures`] are pure.

mod bare;
mod course;
mod dial;
mod drive;
mod figures;
mod holds;
mod process;
mod table;
mod wire;

pub(crate) use bare::serve as serve_bare;
pub(crate) use course::run;

use crate::cli::AccessArgs;
use crate::limits;
use clap::Args;
use holdfast_client::Target;
use holdfast_console::Format;
use humantime::Duration;
use serde::Serialize;
use std::path::PathBuf;

/// What `loadgen baseline` is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct BaselineArgs {
    /// The gateway.
    #[arg(long, value_name = "URL")]
    pub(crate) target: Target,

    /// The gateway's process, on this machine: its threads are pinned to --server-core meanwhile,
    /// and its processor time is read.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: i32,

    // The bare server speaks plain HTTP, whatever the gateway does.
    #[command(flatten)]
    pub(crate) access: AccessArgs,

    /// Locks to hold; each is renewed as often as any other, in a random order.
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub(crate) locks: u32,

    /// Their time to live. No lock may end before its turn comes.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) ttl: Duration,

    /// Distinct locks in one batch of renewals.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) batch: usize,

    /// Kept connections, with one request at a time on each.
    #[arg(long, value_name = "C", default_value_t = 64)]
    pub(crate) connections: usize,

    /// How often each of the four measurements is made, in turn.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) runs: usize,

    /// How long each lasts.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) duration: Duration,

    /// How long each is driven before it counts.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) warm_up: Duration,

    /// The core for the servers.
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    pub(crate) server_core: usize,

    /// The core for this process.
    #[arg(long, value_name = "CORE", default_value_t = 1)]
    pub(crate) client_core: usize,

    /// How lock names begin.
    #[arg(long, value_name = "P", default_value = "baseline")]
    pub(crate) name_prefix: String,

    /// Part of the names; decides the order of renewals [default: random].
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u32>,

    /// Do not release the locks at the end.
    #[arg(long)]
    pub(crate) keep: bool,

    /// How the result is printed [default: a table on a terminal, JSON elsewhere].
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// A file that gets the JSON as well.
    #[arg(long, value_name = "FILE", value_parser = crate::cli::file_to_write)]
    pub(crate) out: Option<PathBuf>,
}

/// What `loadgen bare` is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct BareArgs {
    /// Renewals that the answer to a batch has.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) batch: usize,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// One renewal per request.
    Single,
    /// Many distinct locks per request.
    Batch,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Server {
    /// hyper, with a constant.
    Bare,
    /// The gateway.
    Gateway,
}

impl BaselineArgs {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// With a text that names the argument.
    pub(crate) fn check(&self) -> Result<(), String> {
        let bounds = [
            ("locks", self.locks as usize, limits::LOCKS_MAX as usize),
            (
                "batch",
                self.batch,
                limits::BATCH_ITEMS_MAX.min(self.locks as usize),
            ),
            ("connections", self.connections, limits::CONNECTIONS_MAX),
            ("runs", self.runs, limits::BASELINE_RUNS_MAX),
            (
                "name-prefix",
                self.name_prefix.len(),
                limits::PREFIX_BYTES_MAX,
            ),
        ];
        for (name, value, max) in bounds {
            if !(1..=max).contains(&value) {
                return Err(format!("--{name}: wanted is 1 to {max}"));
            }
        }
        if self.duration.is_zero() {
            return Err("--duration: must not be zero".to_owned());
        }
        if self.server_core == self.client_core {
            return Err("--server-core and --client-core: must differ".to_owned());
        }
        Ok(())
    }
}
