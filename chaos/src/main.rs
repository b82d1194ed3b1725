//! `make chaos`: real gateways, real etcd, random faults, and the judge's verdict.

use anyhow::{Result, ensure};
use clap::Parser;
use holdfast_chaos::{ClusterShape, FleetOptions, Options, Report, StackOptions, run};
use std::io::Write as _;
use std::path::PathBuf;
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
    /// The schedule and the clients' habits are drawn from it; a random one if not given
    #[arg(long)]
    seed: Option<u64>,
    /// How many gateways
    #[arg(long, default_value_t = 3)]
    gateways: usize,
    /// The number of members of each cluster; the first is home
    #[arg(long, value_delimiter = ',', default_value = "1,3,1")]
    clusters: Vec<usize>,
    /// Clients, each with one request at a time
    #[arg(long, default_value_t = 40)]
    clients: usize,
    /// Names; every other acquire is of the first eighth of them
    #[arg(long, default_value_t = 48)]
    names: usize,
    /// The folder with `gateway` and `shard-map`, if not this program's own
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Print the report as JSON on standard output
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match options(&cli) {
        Ok(options) => judge(&cli, &options).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(report) if report.is_clean() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            say(&format!("chaos: {error:#}"));
            ExitCode::from(4)
        }
    }
}

fn options(cli: &Cli) -> Result<Options> {
    ensure!(cli.gateways > 1, "--gateways must be at least 2");
    ensure!(
        !cli.clusters.is_empty() && cli.clusters.iter().all(|members| (1..=5).contains(members)),
        "--clusters: each has one to five members"
    );
    ensure!(
        cli.clients > 0 && cli.names > 0,
        "there must be clients and names"
    );
    let shapes = cli.clusters.iter().map(|members| ClusterShape {
        members: *members,
        ..ClusterShape::ONE
    });
    let mut stack = StackOptions::new(cli.gateways, shapes.collect(), cli.bin.clone())?;
    stack.drain = Duration::from_millis(500);
    Ok(Options {
        seed: cli.seed.unwrap_or_else(rand::random),
        duration: cli.duration,
        stack,
        fleet: FleetOptions::new(cli.clients, cli.names),
    })
}

async fn judge(cli: &Cli, options: &Options) -> Result<Report> {
    say(&format!("seed {}", options.seed));
    let report = run(options, |strike| {
        let seconds = strike.at_ms / 1_000;
        say(&format!(
            "{seconds:>6} s  {} for {} ms: gateway {}, cluster {}, member {}",
            strike.fault, strike.for_ms, strike.gateway, strike.cluster, strike.member
        ));
    })
    .await?;
    if cli.json {
        let mut out = std::io::stdout();
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(std::io::stdout(), "{report}")?;
    }
    Ok(report)
}

fn say(text: &str) {
    // Without a standard error the exit status has to do.
    let _ = writeln!(std::io::stderr(), "{text}");
}
