//! Somebody who runs `shard-map`.

use anyhow::{Context, Result};
use holdfast_rig::{Callers, Process, ProcessSpec};
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug, Clone)]
pub struct Operator {
    name: String,
    program: PathBuf,
    home: String,
    callers: Callers,
}

/// What a command came to.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// All that it printed.
    pub text: String,
}

impl Operator {
    pub(super) fn new(name: &str, programs: &Path, home: String, callers: Callers) -> Self {
        Self {
            name: name.to_owned(),
            program: programs.join("shard-map"),
            home,
            callers,
        }
    }

    /// Starts a command, which may be killed. One operator runs one command at a time: that is how the
    /// ways to the clusters know whose it is.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(&self, args: &[&str]) -> Result<Process> {
        let spec = ProcessSpec::new(&self.program)
            .known_as(&self.callers, &self.name)
            .env("HOLDFAST_HOME", &self.home)
            .args(args);
        Process::start(spec).await
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started, or has not ended within five minutes.
    pub async fn run(&self, args: &[&str]) -> Result<Ran> {
        let mut process = self.start(args).await?;
        let status = process.wait_end().await?;
        Ok(Ran {
            code: status.code().context("it was killed")?,
            text: process.log(),
        })
    }
}
