//! The command line: arguments in, text out.

mod apply;
mod args;
mod checks;
mod clock;
mod connection;
mod failure;
mod history;
mod home;
mod init;
mod known;
mod lookup;
mod plan;
mod probe;
mod show;
mod status;
mod verify;

pub(crate) use args::Cli;
pub(crate) use failure::Failure;

use args::Command;
use clap::CommandFactory as _;

use std::io::Write as _;

/// What a command prints, and the exit code of its success.
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) code: u8,
}

impl<T: Into<String>> From<T> for Printed {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            code: 0,
        }
    }
}

/// Carries out a command; what it prints.
pub(crate) async fn run(cli: Cli) -> Result<Printed, Failure> {
    match cli.command {
        Command::Init(args) => init::run(&args).await.map(Printed::from),
        Command::Show(args) => show::run(&args).await.map(Printed::from),
        Command::Lookup(args) => lookup::run(&args).await.map(Printed::from),
        Command::Plan(args) => plan::run(&args).await.map(Printed::from),
        Command::Apply(args) => apply::apply(&args).await,
        Command::Status(args) => status::run(&args).await,
        Command::Pause(args) => apply::pause(&args).await,
        Command::Resume(args) => apply::resume(&args).await,
        Command::Rollback(args) => apply::rollback(&args).await,
        Command::Verify(args) => verify::run(&args).await,
        Command::History(args) => history::run(&args).await,
        Command::Manual(args) => match holdfast_manual::write(&Cli::command(), &args) {
            Ok(()) => Ok(Printed::from("")),
            Err(error) => Err(Failure::Refused(format!(
                "the pages cannot be written: {error}"
            ))),
        },
        unavailable @ Command::Rebase(_) => Err(Failure::Usage(format!(
            "shard-map {} is not available yet; what is: shard-map --help",
            unavailable.name()
        ))),
    }
}

/// Prints in between, for commands that watch. A reader that has read enough is noticed at the end.
fn emit(text: &str) {
    let mut out = std::io::stdout();
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
