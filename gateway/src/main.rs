//! The gateway command.

mod cli;
mod hello;
mod ready_command;
mod token_command;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command, ConfigArgs, DevArgs};
use holdfast_gateway::app::{Addresses, DevOptions, run_dev, run_serve};
use holdfast_gateway::config::{Config, Log, LogFormat, Problems};
use holdfast_gateway::{limits, logs};
use std::io::Write as _;
use std::process::ExitCode;
use tokio::runtime::{Handle, Runtime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Dev(args) => dev(args),
        Command::Serve(args) => serve(&args),
        Command::Check(args) => check(&args),
        Command::Token(args) => token_command::run(args).map(|entry| print(&entry)),
        Command::Ready(args) => ready_command::run(&args).map(|answer| print(&answer)),
        Command::Manual(args) => {
            holdfast_manual::write(&Cli::command(), &args).context("the pages cannot be written")
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs everything in this process, and says what to try once it is ready.
fn dev(args: DevArgs) -> anyhow::Result<()> {
    logs::start(&Log {
        format: LogFormat::Auto,
        filter: args.log_filter,
    })?;
    let clusters = args.clusters;
    let options = DevOptions {
        listen: args.listen,
        admin_listen: args.admin_listen,
        insecure: args.insecure,
        clusters,
    };
    let greet = move |addresses: Addresses| {
        print(&hello::text(addresses.public, addresses.admin, clusters));
    };
    run(None, limits::CONNECTIONS_MAX, |engines| {
        run_dev(options, engines, greet)
    })
}

/// Runs over etcd, as configured.
fn serve(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = load(args)?;
    logs::start(&config.log)?;
    let threads = config.worker_threads;
    let connections_max = config.edge.connections_max.0;
    let ready = |_: Addresses| tracing::info!("ready: every cluster's session is proven");
    run(Some(threads), connections_max, |engines| {
        run_serve(config, engines, ready)
    })
}

/// Prints the effective configuration.
fn check(args: &ConfigArgs) -> anyhow::Result<()> {
    print(&load(args)?.to_toml());
    Ok(())
}

fn load(args: &ConfigArgs) -> Result<Config, Problems> {
    // A variable whose name is not UTF-8 is none of ours; of a value, what is not is replaced.
    let env = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        Some((name, value.to_string_lossy().into_owned()))
    });
    Config::load(args.config.as_deref(), env)
}

/// Runs `work` on `threads` worker threads, by default one per processor, with as many others for
/// the engines: a runtime looks at its sockets only now and then while there is work, and an engine
/// that has a thousand locks to end would keep renewals waiting.
fn run<F>(
    threads: Option<usize>,
    connections_max: u32,
    work: impl FnOnce(Handle) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    raise_file_limit(connections_max);
    let engines = start_threads("engine", threads)?;
    let requests = start_threads("worker", threads)?;
    requests.block_on(work(engines.handle().clone()))
}

fn start_threads(name: &str, threads: Option<usize>) -> anyhow::Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.thread_name(name).enable_all().build();
    runtime.with_context(|| format!("the {name} threads cannot be started"))
}

/// Every connection needs a file descriptor, and the limit that a process starts with is kept low
/// for the sake of programs that cannot count beyond it. What may be had without asking is had.
fn raise_file_limit(connections_max: u32) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let wanted = u64::from(connections_max) + limits::FILES_BESIDE_CONNECTIONS;
    if let Some(files_max) = limit.maximum.filter(|files_max| *files_max < wanted) {
        tracing::warn!(
            files_max,
            wanted,
            "too few open files are allowed for limits.connections_max; clients may have to wait"
        );
    }
}

fn print(text: &str) {
    // Whoever closed the standard output does not want it.
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
}

fn complain(error: &anyhow::Error) {
    let _ = writeln!(std::io::stderr().lock(), "gateway: {error:#}");
}
