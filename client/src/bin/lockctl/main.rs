//! The `lockctl` command: takes, shows and ends locks, and runs commands under them.

mod args;
mod asking;
mod failure;
mod force;
mod hold_file;
mod holds;
mod limits;
mod look;
mod run;

use args::{Cli, Command};
use clap::{CommandFactory as _, Parser as _};
use failure::Failure;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let code = match Cli::parse().command {
        Command::Run(args) => run::run(&args).await,
        Command::Acquire(args) => code_of(holds::acquire(&args).await),
        Command::Renew(args) => code_of(holds::renew(&args).await),
        Command::Release(args) => code_of(holds::release(&args).await),
        Command::Show(args) => code_of(look::show(&args).await),
        Command::List(args) => code_of(look::list(&args).await),
        Command::ForceRelease(args) => code_of(force::run(&args).await),
        Command::Manual(args) => {
            let written = holdfast_manual::write(&Cli::command(), &args);
            code_of(written.map_err(|error| Failure::Failed(error.to_string())))
        }
    };
    ExitCode::from(code)
}

fn code_of(done: Result<(), Failure>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(failure) => {
            complain(&failure);
            failure.code()
        }
    }
}

/// Prints a result.
fn print(text: &str) -> Result<(), Failure> {
    holdfast_console::print(text)
        .map_err(|error| Failure::Failed(format!("standard output: {error}")))
}

/// JSON, on a line of its own.
fn json(value: &impl serde::Serialize) -> String {
    // Structs of texts and numbers are JSON.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}

fn complain(what: impl Display) {
    // Nothing can be done about a standard error that cannot be written to.
    let _closed = writeln!(std::io::stderr(), "lockctl: {what}");
}
