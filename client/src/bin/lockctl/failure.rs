//! Failures and their exit codes.

use holdfast_api::{EndReason, RefusalReason};
use holdfast_client::{BadAccess, Error, Refused};
use std::fmt;

/// Why a command did not do what it should.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The definite answer no.
    Refused(String),
    /// It may not be done, or nothing is known.
    Failed(String),
    /// The command under the lock cannot be started.
    NotStarted {
        /// 126 or 127, as shells have it.
        code: u8,
        /// What the operating system said.
        text: String,
    },
}

impl Failure {
    /// Of all commands but `run`.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            Self::Failed(_) | Self::NotStarted { .. } => 4,
        }
    }

    /// Of `run`, out of the way of what commands end with.
    pub(crate) fn code_of_run(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Refused(_) => 121,
            Self::Failed(_) => 125,
            Self::NotStarted { code, .. } => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text)
        | Self::Refused(text)
        | Self::Failed(text)
        | Self::NotStarted { text, .. }) = self;
        f.write_str(text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refused) => Self::Refused(text_of(refused).to_owned()),
            Error::Rejected {
                status: 400,
                code,
                detail,
            } => Self::Usage(format!("{code}: {detail}")),
            Error::Rejected { code, detail, .. } => Self::Failed(format!("{code}: {detail}")),
            Error::Unknown { .. } | Error::Limited { .. } => Self::Failed(error.to_string()),
        }
    }
}

impl From<BadAccess> for Failure {
    fn from(error: BadAccess) -> Self {
        Self::Usage(error.to_string())
    }
}

fn text_of(refused: Refused) -> &'static str {
    match refused {
        Refused::Taken(RefusalReason::Held) => "someone else holds it",
        Refused::Taken(RefusalReason::HeldByYou) => {
            "this client holds it, through another request; --request-id gives that hold back"
        }
        Refused::Taken(RefusalReason::Timeout) => "it did not become free in time",
        Refused::Ended(EndReason::Expired) => "the hold is over: by time, or released",
        Refused::Ended(EndReason::Stolen) => {
            "the hold is over: someone else has the lock, or it was ended by force"
        }
        Refused::TokenMismatch => "the token is not this hold's",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(status: u16) -> Error {
        Error::Rejected {
            status,
            code: "code".into(),
            detail: "detail".into(),
        }
    }

    #[test]
    fn each_kind_of_answer_has_its_codes() {
        let taken = Error::Refused(Refused::Taken(RefusalReason::Held));
        let limited = Error::Limited {
            code: "rate_limited".into(),
            detail: "detail".into(),
            retry_after: None,
        };
        for (error, code, of_run) in [
            (taken, 3, 121),
            (rejected(400), 2, 2),
            (rejected(403), 4, 125),
            (rejected(501), 4, 125),
            (limited, 4, 125),
        ] {
            let failure = Failure::from(error);
            assert_eq!((failure.code(), failure.code_of_run()), (code, of_run));
        }
    }

    #[test]
    fn what_the_gateway_says_is_passed_on() {
        let failure = Failure::from(rejected(501));
        assert_eq!(failure.to_string(), "code: detail");
    }
}
