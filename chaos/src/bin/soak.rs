//! `make soak`: real gateways, real etcd, and clients that come and go.

use anyhow::{Result, ensure};
use clap::Parser;
use holdfast_chaos::{ClusterShape, SoakOptions, SoakReport, StackOptions, soak};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// As the product has it if nothing else is configured. What shorter sessions show sooner is
/// what `make chaos` is for; here a busy machine must not be taken for a fault.
const SESSION_TTL: Duration = Duration::from_secs(9);

/// Has clients disconnect and disappear while gateways are restarted, and looks whether anything
/// is left behind.
///
/// Exit status: 0 nothing found, 1 something found, 4 it could not run.
#[derive(Debug, Parser)]
#[command(name = "soak", version)]
struct Cli {
    /// For how long, such as 90s or 30m
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Habits and restarts are drawn from it; a random one if not given
    #[arg(long)]
    seed: Option<u64>,
    /// How many gateways; the first one is never restarted
    #[arg(long, default_value_t = 3)]
    gateways: usize,
    /// The number of members of each cluster; the first is home
    #[arg(long, value_delimiter = ',', default_value = "1,1")]
    clusters: Vec<usize>,
    /// Clients, each with one request at a time, and as many names
    #[arg(long, default_value_t = 80)]
    clients: usize,
    /// The folder with `gateway` and `shard-map`, if not this program's own
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Print the report as JSON on standard output
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()).await {
        Ok(report) if report.is_clean() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            say(&format!("soak: {error:#}"));
            ExitCode::from(4)
        }
    }
}

async fn run(cli: &Cli) -> Result<SoakReport> {
    ensure!(cli.gateways > 1, "--gateways must be at least 2");
    ensure!(cli.clients > 0, "there must be clients");
    ensure!(
        !cli.clusters.is_empty() && cli.clusters.iter().all(|members| (1..=5).contains(members)),
        "--clusters: each has one to five members"
    );
    let shapes = cli.clusters.iter().map(|members| ClusterShape {
        members: *members,
        ..ClusterShape::ONE
    });
    let mut stack = StackOptions::new(cli.gateways, shapes.collect(), cli.bin.clone())?;
    stack.session_ttl = SESSION_TTL;
    let seed = cli.seed.unwrap_or_else(rand::random);
    say(&format!("seed {seed}"));
    let options = SoakOptions::new(seed, cli.duration, stack, cli.clients);
    let report = soak(&options, |strike| {
        let seconds = strike.at_ms / 1_000;
        say(&format!(
            "{seconds:>6} s  {}: gateway {}",
            strike.fault, strike.gateway
        ));
    })
    .await?;
    let mut out = std::io::stdout();
    if cli.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(report)
}

fn say(text: &str) {
    // Without a standard error the exit status has to do.
    let _ = writeln!(std::io::stderr(), "{text}");
}
