//! The operator's command: initialises a deployment, shows its shard map and moves shards.

mod cli;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match cli::run(cli::Cli::parse()).await {
        Ok(printed) => print(&printed.text, printed.code),
        Err(failure) => {
            // Nothing can be done about a standard error that cannot be written to.
            let _closed = writeln!(std::io::stderr(), "error: {failure}");
            failure.exit_code()
        }
    }
}

fn print(text: &str, code: u8) -> ExitCode {
    match holdfast_console::print(text) {
        Ok(()) => ExitCode::from(code),
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "error: standard output: {error}");
            ExitCode::FAILURE
        }
    }
}
