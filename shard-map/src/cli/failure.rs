//! Failures and their exit codes.

use shard_map::init::InitError;
use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what it should.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// A pre-check refused it: nothing was changed by this run, or nothing that matters.
    Refused(String),
    /// It failed after it had begun to write; what is written stays.
    PartWay(String),
}

impl Failure {
    /// 2 usage, 3 refused, 4 failed part-way.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Refused(_) => ExitCode::from(3),
            Self::PartWay(_) => ExitCode::from(4),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Refused(text) | Self::PartWay(text)) = self;
        f.write_str(text)
    }
}

impl From<InitError> for Failure {
    fn from(error: InitError) -> Self {
        let text = error.to_string();
        match error {
            InitError::Request(_) => Self::Usage(text),
            InitError::Refused(_) => Self::Refused(text),
            InitError::PartWay { .. } => Self::PartWay(text),
        }
    }
}
