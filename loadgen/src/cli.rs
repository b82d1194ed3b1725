//! The command line.

use crate::baseline::{BareArgs, BaselineArgs};
use crate::handover::HandOverArgs;
use clap::{Args, Parser, Subcommand};
use holdfast_client::{AccessFiles, IdentityFiles, Target, TlsFiles};
use holdfast_console::TlsArgs;
use holdfast_manual::ManualArgs;
use humantime::Duration;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Puts load on a Holdfast gateway and checks what it answers.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Acquire locks, renew them on schedule, release them, and check every answer.
    ///
    /// Exit codes: 0 clean, 1 lost locks or findings, 2 usage, 4 could not run.
    Run(Box<RunArgs>),

    /// Measure what a gateway's renewals cost, beside a bare HTTP server.
    ///
    /// Holds locks, renews them singly and in batches as fast as one core of a gateway can, and
    /// does the same with a bare hyper server that answers a constant, in turn. Reports requests
    /// per second, processor time per request, and their ratios. Wants a machine with two idle
    /// cores, and the gateway's process on it.
    ///
    /// Exit codes: 0 measured, 2 usage, 4 could not run, or something was answered that is no
    /// success.
    Baseline(Box<BaselineArgs>),

    /// Measure how long it takes from a release until the next in line has the lock.
    ///
    /// Also measures a plain acquire on the same gateways, one at a time, and prints both: of a busy
    /// machine, one write after the other, and of a rested one, each after a pause of 60 ms. With several
    /// gateways the lock goes round them.
    HandOver(HandOverArgs),

    /// The bare HTTP server that `baseline` starts and compares with.
    ///
    /// Prints its address and serves until standard input ends.
    Bare(BareArgs),

    /// Write man pages and shell completions.
    #[command(hide = true)]
    Manual(ManualArgs),
}

/// What `loadgen run` is told; also the `config` part of the report.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunArgs {
    /// Gateways or load balancers; connections are spread evenly over them.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    #[serde(serialize_with = "texts")]
    pub(crate) target: Vec<Target>,

    /// All connections go to the first target; the others are for when that one fails.
    #[arg(long)]
    pub(crate) prefer_first: bool,

    /// Locks to hold.
    #[arg(long, value_name = "N")]
    pub(crate) locks: u32,

    /// The time to live that is asked for.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    #[serde(serialize_with = "text")]
    pub(crate) ttl: Duration,

    /// The interval of each lock's renewals.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    #[serde(serialize_with = "text")]
    pub(crate) renew_every: Duration,

    /// How long to hold, once all locks are held.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    #[serde(serialize_with = "text")]
    pub(crate) duration: Duration,

    /// First acquires per second [default: as fast as the connections allow].
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<f64>,

    /// Renewals per request; 1 sends single renewals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) batch: usize,

    /// Acquires or releases per request; 1 sends single ones.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) acquire_batch: usize,

    /// Kept connections, with one request at a time on each.
    #[arg(long, value_name = "C", default_value_t = 64)]
    pub(crate) connections: usize,

    /// Threads; locks and connections are shared out among them.
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub(crate) threads: usize,

    /// How lock names and client ids begin.
    #[arg(long, value_name = "P", default_value = "loadgen")]
    pub(crate) name_prefix: String,

    /// Part of the names; decides every random choice [default: random].
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u32>,

    /// Give up a request after this and repeat it [default: a third of what a late renewal has
    /// left, at most 5s].
    #[arg(long, value_name = "TIME")]
    #[serde(serialize_with = "maybe_text")]
    pub(crate) timeout: Option<Duration>,

    /// Do not release the locks at the end.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Workers that keep trying to acquire held names, which must be refused.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) contend: usize,

    /// Releases followed by a new acquire of the same name, per second.
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    pub(crate) churn: f64,

    /// Part of the holders, 0 to 1, that stop after half the duration without a release;
    /// contenders then look when their locks become free.
    #[arg(long, value_name = "F", default_value_t = 0.0)]
    pub(crate) stop_renewing: f64,

    #[command(flatten)]
    #[serde(skip)]
    pub(crate) access: AccessArgs,

    /// Serve metrics for Prometheus here, at /metrics, while it runs.
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip)]
    pub(crate) metrics_listen: Option<SocketAddr>,

    /// Where the JSON report goes.
    #[arg(long, value_name = "FILE", value_parser = file_to_write)]
    #[serde(skip)]
    pub(crate) out: Option<PathBuf>,
}

/// Better refused than after the run, when it is to be written.
pub(crate) fn file_to_write(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    match folder {
        _ if path.is_dir() => Err("it is a folder".to_owned()),
        Some(folder) if !folder.is_dir() => Err(format!("there is no folder {}", folder.display())),
        _ => Ok(path),
    }
}

/// What is shown to gateways, and whom to believe.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessArgs {
    /// A file with the bearer token to send.
    #[arg(long, value_name = "FILE", alias = "bearer-file")]
    pub(crate) token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsArgs,
}

impl AccessArgs {
    pub(crate) fn files(&self) -> AccessFiles {
        let TlsArgs { cacert, cert, key } = self.tls.clone();
        let identity = cert.zip(key);
        AccessFiles {
            token: self.token_file.clone(),
            tls: TlsFiles {
                cacert,
                identity: identity.map(|(cert, key)| IdentityFiles { cert, key }),
            },
        }
    }
}

fn text<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn maybe_text<S: serde::Serializer>(
    value: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

fn texts<S: serde::Serializer>(values: &[Target], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}
