//! `make chaos`: real gateways, real etcd, random faults, and the judge's verdict.

use anyhow::{Result, ensure};
use clap::Parser;
use holdfast_chaos::{FleetOptions, Options, RunArgs, exit_code, run, say};
use std::process::ExitCode;
use std::time::Duration;

/// Breaks real gateways and real etcd clusters at random and judges what clients are told.
///
/// Exit status: 0 nothing found, 1 something found, 4 it could not run.
#[derive(Debug, Parser)]
#[command(name = "chaos", version)]
struct Cli {
    /// For how long faults strike, such as 90s or 30m
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// The number of members of each cluster; the first is home
    #[arg(long, value_delimiter = ',', default_value = "1,3,1")]
    clusters: Vec<usize>,
    /// Clients, each with one request at a time
    #[arg(long, default_value_t = 40)]
    clients: usize,
    /// Names; every other acquire is of the first eighth of them
    #[arg(long, default_value_t = 48)]
    names: usize,
    #[command(flatten)]
    run: RunArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(judge(&Cli::parse()).await)
}

/// Whether nothing was found.
async fn judge(cli: &Cli) -> Result<bool> {
    ensure!(
        cli.clients > 0 && cli.names > 0,
        "there must be clients and names"
    );
    let options = Options {
        stack: cli.run.stack(&cli.clusters)?,
        seed: cli.run.seed(),
        duration: cli.duration,
        fleet: FleetOptions::new(cli.clients, cli.names),
    };
    let report = run(&options, |strike| {
        let seconds = strike.at_ms / 1_000;
        say(&format!(
            "{seconds:>6} s  {} for {} ms: gateway {}, cluster {}, member {}",
            strike.fault, strike.for_ms, strike.gateway, strike.cluster, strike.member
        ));
    })
    .await?;
    cli.run.print(&report)?;
    Ok(report.is_clean())
}
