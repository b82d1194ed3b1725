//! What to start.

use crate::caller::Callers;
use std::ffi::OsString;
use std::path::PathBuf;

/// What to start, and when it is ready.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) envs: Vec<(OsString, OsString)>,
    pub(crate) ready: Option<(u16, String)>,
    pub(crate) known_as: Option<(Callers, String)>,
}

impl ProcessSpec {
    /// `program` without arguments, ready as soon as it is started.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            envs: Vec::new(),
            ready: None,
            known_as: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable, over those of the test.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.envs.push((key.into(), value.into()));
        self
    }

    /// Ready means: `GET path` on this loopback port answers 200.
    #[must_use]
    pub fn ready_when_get_answers_200(mut self, port: u16, path: impl Into<String>) -> Self {
        self.ready = Some((port, path.into()));
        self
    }

    /// Enters the process into the list under this name for as long as it runs.
    #[must_use]
    pub fn known_as(mut self, callers: &Callers, name: impl Into<String>) -> Self {
        self.known_as = Some((callers.clone(), name.into()));
        self
    }
}
