//! The values of labels.

use crate::service::{AcquireOutcome, ReleaseOutcome, RenewOutcome};
use holdfast_api::ErrorCode;

/// What a request asks for, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Take a lock.
    Acquire,
    /// Renew a hold.
    Renew,
    /// Give a hold back.
    Release,
    /// Many acquires.
    AcquireBatch,
    /// Many renewals.
    RenewBatch,
    /// Many releases.
    ReleaseBatch,
    /// Inspect locks.
    Inspect,
    /// End someone's hold.
    ForceRelease,
    /// The OpenAPI document.
    OpenApi,
    /// No route.
    Other,
}

impl Operation {
    pub(super) const ALL: [Self; 10] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::AcquireBatch,
        Self::RenewBatch,
        Self::ReleaseBatch,
        Self::Inspect,
        Self::ForceRelease,
        Self::OpenApi,
        Self::Other,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::AcquireBatch => "acquire_batch",
            Self::RenewBatch => "renew_batch",
            Self::ReleaseBatch => "release_batch",
            Self::Inspect => "inspect",
            Self::ForceRelease => "force_release",
            Self::OpenApi => "openapi",
            Self::Other => "other",
        }
    }
}

/// What is asked about one lock, alone or in a batch, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockCall {
    /// Take it.
    Acquire,
    /// Renew it.
    Renew,
    /// Give it back.
    Release,
}

impl LockCall {
    pub(super) const ALL: [Self; 3] = [Self::Acquire, Self::Renew, Self::Release];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
        }
    }
}

/// How it went, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Ok,
    /// Someone else holds the lock.
    Refused,
    /// The hold is over, or the token is another's.
    Ended,
    /// With an error.
    Failed(ErrorCode),
}

/// How many outcomes there are.
pub(super) const OUTCOMES: usize = 3 + ErrorCode::ALL.len();

impl From<&RenewOutcome> for Outcome {
    fn from(outcome: &RenewOutcome) -> Self {
        match outcome {
            RenewOutcome::Renewed(_) => Self::Ok,
            RenewOutcome::Ended(_) => Self::Ended,
        }
    }
}

impl From<&AcquireOutcome> for Outcome {
    fn from(outcome: &AcquireOutcome) -> Self {
        match outcome {
            AcquireOutcome::Granted(_) => Self::Ok,
            AcquireOutcome::Refused { .. } => Self::Refused,
        }
    }
}

impl From<&ReleaseOutcome> for Outcome {
    fn from(outcome: &ReleaseOutcome) -> Self {
        match outcome {
            ReleaseOutcome::Released => Self::Ok,
            ReleaseOutcome::TokenMismatch => Self::Ended,
        }
    }
}

impl Outcome {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let definite = [Self::Ok, Self::Refused, Self::Ended];
        let failed = ErrorCode::ALL.iter().copied().map(Self::Failed);
        definite.into_iter().chain(failed)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Ended => "ended",
            Self::Failed(code) => code.as_str(),
        }
    }

    /// Its place in [`Outcome::all`].
    pub(super) fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Refused => 1,
            Self::Ended => 2,
            Self::Failed(code) => 3 + code as usize,
        }
    }
}
/// What is read anew when its files change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// The principals.
    Roll,
    /// Certificate, key and authorities of the public listener.
    Tls,
    /// Those of the admin listener.
    AdminTls,
    /// Those between gateways, where they listen.
    PeerTls,
    /// The same, where they dial.
    PeerClientTls,
}

impl Reloaded {
    /// Everything of this kind.
    pub const ALL: [Self; 5] = [
        Self::Roll,
        Self::Tls,
        Self::AdminTls,
        Self::PeerTls,
        Self::PeerClientTls,
    ];

    /// As it is called in labels and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Roll => "principals",
            Self::Tls => "tls",
            Self::AdminTls => "admin_tls",
            Self::PeerTls => "peer",
            Self::PeerClientTls => "peer_client",
        }
    }
}
