//! What the programs are told alike, and how they tell what they have found.

use crate::stack::{ClusterShape, StackOptions};
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// See the module.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Everything that is left to chance is drawn from it; a random one if not given
    #[arg(long)]
    seed: Option<u64>,
    /// How many gateways
    #[arg(long, default_value_t = 3)]
    gateways: usize,
    /// The folder with `gateway` and `shard-map`, if not this program's own
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Print the report as JSON on standard output
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    /// The seed, which is told.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let seed = self.seed.unwrap_or_else(rand::random);
        say(&format!("seed {seed}"));
        seed
    }

    /// The gateways over clusters with so many members each.
    ///
    /// # Errors
    /// When there are too few, or the programs are not built.
    pub fn stack(&self, clusters: &[usize]) -> Result<StackOptions> {
        ensure!(self.gateways > 1, "--gateways must be at least 2");
        ensure!(
            !clusters.is_empty() && clusters.iter().all(|members| (1..=5).contains(members)),
            "--clusters: each has one to five members"
        );
        let shapes = clusters.iter().map(|members| ClusterShape {
            members: *members,
            ..ClusterShape::ONE
        });
        StackOptions::new(self.gateways, shapes.collect(), self.bin.clone())
    }

    /// Prints the report.
    ///
    /// # Errors
    /// When the standard output cannot be written to.
    pub fn print(&self, report: &(impl Serialize + Display)) -> Result<()> {
        let mut out = std::io::stdout();
        if self.json {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        } else {
            write!(out, "{report}")?;
        }
        Ok(())
    }
}

/// The exit status of a run that was clean, was not, or came to nothing.
#[must_use]
pub fn exit_code(is_clean: Result<bool>) -> ExitCode {
    match is_clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::from(4)
        }
    }
}

/// Tells whoever looks on.
pub fn say(text: &str) {
    // Without a standard error the exit status has to do.
    let _ = writeln!(std::io::stderr(), "{text}");
}
