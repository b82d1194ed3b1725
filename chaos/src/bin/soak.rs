//! `make soak`: real gateways, real etcd, and clients that come and go.

use anyhow::{Result, ensure};
use clap::Parser;
use holdfast_chaos::{RunArgs, SoakOptions, exit_code, say, soak};
use std::process::ExitCode;
use std::time::Duration;

/// As the product has it if nothing else is configured. What shorter sessions show sooner is
/// what `make chaos` is for; here a busy machine must not be taken for a fault.
const SESSION_TTL: Duration = Duration::from_secs(9);

/// Has clients disconnect and disappear while gateways are restarted, and looks whether anything
/// is left behind. The first gateway is never restarted.
///
/// Exit status: 0 nothing found, 1 something found, 4 it could not run.
#[derive(Debug, Parser)]
#[command(name = "soak", version)]
struct Cli {
    /// For how long, such as 90s or 30m
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// The number of members of each cluster; the first is home
    #[arg(long, value_delimiter = ',', default_value = "1,1")]
    clusters: Vec<usize>,
    /// Clients, each with one request at a time, and as many names
    #[arg(long, default_value_t = 80)]
    clients: usize,
    #[command(flatten)]
    run: RunArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(judge(&Cli::parse()).await)
}

/// Whether nothing was found.
async fn judge(cli: &Cli) -> Result<bool> {
    ensure!(cli.clients > 0, "there must be clients");
    let mut stack = cli.run.stack(&cli.clusters)?;
    stack.session_ttl = SESSION_TTL;
    let options = SoakOptions::new(cli.run.seed(), cli.duration, stack, cli.clients);
    let report = soak(&options, |strike| {
        let seconds = strike.at_ms / 1_000;
        say(&format!(
            "{seconds:>6} s  {}: gateway {}",
            strike.fault, strike.gateway
        ));
    })
    .await?;
    cli.run.print(&report)?;
    Ok(report.is_clean())
}
