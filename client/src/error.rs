//! What a call can come back with instead of what was asked for.

use holdfast_api::{EndReason, RefusalReason};
use std::time::Duration;

/// Why a call did not do what was asked.
///
/// The three kinds must not be mixed up: only [`Error::Refused`] says something about the lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It may or may not have happened (503, 502, 504, a timeout, a broken connection). Says
    /// *nothing* about the lock: a holder goes on and tries again until its own deadline.
    #[error("outcome unknown: {cause}")]
    Unknown {
        /// What was seen.
        cause: Cause,
        /// When the gateway wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The definite answer no.
    #[error("refused: {0}")]
    Refused(Refused),
    /// Nothing happened, because the caller's share is used up (429). Says nothing about the
    /// lock; the same request may be sent again later.
    #[error("over the limit: {code}: {detail}")]
    Limited {
        /// `rate_limited` or `quota_exceeded`.
        code: String,
        /// Which share is used up, and what to do.
        detail: String,
        /// When the gateway wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// Nothing happened, and the request must be changed before it is sent again (400, 401, 403,
    /// 404, 405, 413, 415, 431, 501).
    #[error("bad request: {status} {code}: {detail}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The kind, for programs.
        code: String,
        /// What is wrong and what to do.
        detail: String,
    },
}

/// The definite answer no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// To an acquire: someone holds the name.
    #[error("the lock is taken ({0:?})")]
    Taken(RefusalReason),
    /// To a renewal: the hold is over.
    #[error("the hold is over ({0:?})")]
    Ended(EndReason),
    /// To a release: the token is not this hold's.
    #[error("the token is not this hold's")]
    TokenMismatch,
}

/// Why an outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No target could be reached; nothing was sent. The text is the last error.
    #[error("no target can be reached: {0}")]
    NotSent(String),
    /// The connection broke after the request was sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The gateway, or what stands before it, answered so.
    #[error("{status} {code}")]
    Answer {
        /// The HTTP status; 200 for an item of a batch.
        status: u16,
        /// The kind, for programs; empty when the answer did not come from a gateway.
        code: String,
    },
    /// The answer makes no sense.
    #[error("garbled answer: {0}")]
    Garbled(String),
}

impl Error {
    pub(crate) fn unknown(cause: Cause) -> Self {
        Self::Unknown {
            cause,
            retry_after: None,
        }
    }

    /// Whether the outcome is unknown.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether the same request may succeed later, without being changed.
    pub fn may_retry(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Limited { .. })
    }

    /// When the gateway wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unknown { retry_after, .. } | Self::Limited { retry_after, .. } => *retry_after,
            Self::Refused(_) | Self::Rejected { .. } => None,
        }
    }
}
