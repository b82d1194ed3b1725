//! What the commands share: how they print, tables for people and JSON for programs, and which
//! certificates they are given.

mod table;
mod tls;

pub use table::{Align, table};
pub use tls::TlsArgs;

use clap::ValueEnum;
use std::io::{self, IsTerminal, Write as _};

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl Format {
    /// What was asked for, or else a table on a terminal and JSON elsewhere.
    pub fn of(asked: Option<Self>, out: &impl IsTerminal) -> Self {
        asked.unwrap_or(match out.is_terminal() {
            true => Self::Table,
            false => Self::Json,
        })
    }
}

/// Writes to the standard output. A reader that has read enough (`| head`) is no failure.
///
/// # Errors
/// When it cannot be written to for another reason.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_is_not_a_terminal_gets_json_unless_it_asks_for_a_table() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(Format::of(None, &file), Format::Json);
        assert_eq!(Format::of(Some(Format::Table), &file), Format::Table);
    }
}
