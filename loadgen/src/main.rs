//! The load generator: holds many locks through a gateway, open loop, and checks every answer.
//!
//! Three layers: [`checker`] and [`schedule`] know nothing of requests; [`fleet`] decides what to
//! ask and what an answer means, over values; [`shell`] owns threads, sockets and the terminal.
//! [`baseline`] is a program of its own: closed loop, and about cost only.
//! What is absent on purpose: a task or a timer per lock or per request.

mod baseline;
mod checker;
mod cli;
mod fleet;
mod handover;
mod limits;
mod outcome;
mod plan;
mod report;
mod schedule;
mod shell;
mod stats;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use cli::{Cli, Command};
use plan::Plan;
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::io::Write as _;
use std::process::ExitCode;

const COULD_NOT_RUN: u8 = 4;

fn main() -> ExitCode {
    let seed = || SysRng.try_next_u32().unwrap_or(std::process::id());
    match Cli::parse().command {
        Command::Run(args) => {
            let plan = Plan::new(&args, seed()).unwrap_or_else(|problem| usage(problem));
            let verdict = shell::run(&args, plan);
            exit_code(verdict.map(|verdict| verdict.exit_code()))
        }
        Command::Baseline(args) => {
            args.check().unwrap_or_else(|problem| usage(problem));
            exit_code(baseline::run(&args, seed()).map(|()| 0))
        }
        Command::HandOver(args) => exit_code(handover::run(&args, seed()).map(|()| 0)),
        Command::Bare(args) => exit_code(baseline::serve_bare(&args).map(|()| 0)),
        Command::Manual(args) => {
            let written = holdfast_manual::write(&Cli::command(), &args);
            exit_code(written.map(|()| 0).map_err(anyhow::Error::from))
        }
    }
}

fn usage(problem: String) -> ! {
    let mut command = Cli::command();
    command.error(ErrorKind::ValueValidation, problem).exit()
}

fn exit_code(done: anyhow::Result<u8>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Without a standard error the exit code has to do.
            let _ = writeln!(std::io::stderr(), "loadgen: {error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}
