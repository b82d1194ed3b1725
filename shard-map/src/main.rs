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

/// Prints the result. A reader that has read enough (`| head`) is no failure.
fn print(text: &str, code: u8) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _closed = writeln!(std::io::stderr(), "error: standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(code),
    }
}
