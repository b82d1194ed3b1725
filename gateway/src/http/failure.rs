//! Why a request has no answer, before it becomes HTTP.

use crate::auth::{Exhausted, NoPlace, Right, Stranger};
use crate::limits;
use crate::names::Invalid;
use crate::service::ServiceError;
use crate::time::Millis;
use holdfast_api::{ErrorCode, ItemError};
use std::borrow::Cow;
use std::sync::Arc;

/// An error on its way to the client. It says whose fault it is (the code), what to do (the
/// detail), and when to come back; nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: ErrorCode,
    pub(super) detail: Cow<'static, str>,
    pub(super) retry_after: Option<Millis>,
    pub(super) cluster: Option<Arc<str>>,
    /// How credentials are to be shown.
    pub(super) challenge: Option<&'static str>,
    /// The methods that the route has.
    pub(super) allow: Option<&'static str>,
    /// The rest of the request is not read, so nothing can follow it on its connection.
    pub(super) ends_connection: bool,
}

impl Failure {
    pub(super) fn new(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retry_after: None,
            cluster: None,
            challenge: None,
            allow: None,
            ends_connection: false,
        }
    }

    pub(super) fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidRequest, detail)
    }

    /// There is no hint whether the lock exists.
    pub(super) fn forbidden(right: Right) -> Self {
        let right = right.as_str();
        let detail =
            format!("the principal does not have the right `{right}` on this name or prefix");
        Self::new(ErrorCode::Forbidden, detail)
    }

    pub(super) fn overloaded(detail: &'static str) -> Self {
        Self {
            retry_after: Some(limits::OVERLOADED_RETRY_AFTER),
            ..Self::new(ErrorCode::Overloaded, detail)
        }
    }

    /// Nobody knows what became of it.
    pub(super) fn unknown() -> Self {
        let detail = "no answer in time; it may or may not have happened, so ask again";
        Self {
            retry_after: Some(limits::OVERLOADED_RETRY_AFTER),
            ..Self::new(ErrorCode::OutcomeUnknown, detail)
        }
    }

    pub(super) fn ending_connection(self) -> Self {
        Self {
            ends_connection: true,
            ..self
        }
    }

    /// As the error of one item of a batch.
    pub(super) fn into_item(self) -> ItemError {
        ItemError {
            code: self.code,
            detail: Some(self.detail.into_owned()),
            retry_after_ms: self.retry_after.map(Millis::as_ms),
        }
    }
}

impl From<Stranger> for Failure {
    fn from(stranger: Stranger) -> Self {
        Self {
            challenge: Some(stranger.challenge),
            ..Self::new(ErrorCode::Unauthenticated, stranger.detail)
        }
    }
}

impl From<Exhausted> for Failure {
    fn from(exhausted: Exhausted) -> Self {
        let detail = "more requests per second than this caller may send; slow down";
        Self {
            retry_after: Some(exhausted.retry_after),
            ..Self::new(ErrorCode::RateLimited, detail)
        }
    }
}

impl From<NoPlace> for Failure {
    fn from(_: NoPlace) -> Self {
        let detail = "more requests of this caller wait in line than may; let some of them end first, or ask without \
                      `waitMs`";
        Self {
            retry_after: Some(limits::OVERLOADED_RETRY_AFTER),
            ..Self::new(ErrorCode::QuotaExceeded, detail)
        }
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid.to_string())
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self {
            retry_after: Some(error.retry_after),
            cluster: error.cluster,
            ..Self::new(error.code, error.detail)
        }
    }
}
