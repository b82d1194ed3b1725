//! The load generator: holds many locks through a gateway, open loop, and checks every answer.
//!
//! Three layers: [`checker`] and [`schedule`] know nothing of requests; [`fleet`] decides what to
//! ask and what an answer means, over values; [`shell`] owns threads, sockets and the terminal.
//! What is absent on purpose: a task or a timer per lock or per request.

mod checker;
mod cli;
mod fleet;
mod limits;
mod outcome;
mod plan;
mod report;
mod schedule;
mod shell;
mod stats;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use cli::{Cli, Command, RunArgs};
use plan::Plan;
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::io::Write as _;
use std::process::ExitCode;

const COULD_NOT_RUN: u8 = 4;

fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    let seed = SysRng.try_next_u32().unwrap_or(std::process::id());
    let plan = Plan::new(&args, seed).unwrap_or_else(|problem| {
        Cli::command()
            .error(ErrorKind::ValueValidation, problem)
            .exit()
    });
    run(&args, plan)
}

fn run(args: &RunArgs, plan: Plan) -> ExitCode {
    match shell::run(args, plan) {
        Ok(verdict) => ExitCode::from(verdict.exit_code()),
        Err(error) => {
            // Without a standard error the exit code has to do.
            let _ = writeln!(std::io::stderr(), "loadgen: {error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}
