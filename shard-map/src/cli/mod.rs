//! The command line: arguments in, text out.

mod args;
mod connection;
mod failure;
mod init;
mod lookup;
mod plan;
mod probe;
mod show;
mod table;

pub(crate) use args::Cli;
pub(crate) use failure::Failure;

use args::Command;

/// Carries out a command; what it prints.
pub(crate) async fn run(cli: Cli) -> Result<String, Failure> {
    match cli.command {
        Command::Init(args) => init::run(&args).await,
        Command::Show(args) => show::run(&args).await,
        Command::Lookup(args) => lookup::run(&args).await,
        Command::Plan(args) => plan::run(&args).await,
        unavailable => Err(Failure::Usage(format!(
            "shard-map {} is not available yet; what is: shard-map --help",
            unavailable.name()
        ))),
    }
}
