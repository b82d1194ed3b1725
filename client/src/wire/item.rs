//! The bodies of answers, as this client reads them: flat, borrowing, and indifferent to fields
//! and error codes that it does not know.
//!
//! The `*Result` types of `holdfast-api` say the same; being untagged they are buffered before
//! they are read, which costs several times as much, and a batch has up to 10,000 of them.

use crate::clock::Instant;
use crate::error::{Cause, Error, Refused};
use crate::types::{Granted, LockId, Promise, Token};
use holdfast_api::{EndReason, RefusalReason, TokenMismatch};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;

#[derive(Deserialize)]
pub(super) struct Batch<T> {
    pub(super) results: Vec<T>,
}

/// What all errors have in common, whether of a request or of an item of a batch.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireError<'a> {
    #[serde(borrow)]
    pub(super) code: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) detail: Option<Cow<'a, str>>,
    pub(super) retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Acquired<'a> {
    acquired: Option<bool>,
    #[serde(borrow)]
    lock_id: Option<Cow<'a, str>>,
    fencing_token: Option<u64>,
    ttl_ms: Option<u64>,
    renew_after_ms: Option<u64>,
    already_held: Option<bool>,
    waited_ms: Option<u64>,
    reason: Option<RefusalReason>,
    #[serde(borrow)]
    error: Option<WireError<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Renewed<'a> {
    renewed: Option<bool>,
    ttl_ms: Option<u64>,
    renew_after_ms: Option<u64>,
    reason: Option<EndReason>,
    #[serde(borrow)]
    error: Option<WireError<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Released<'a> {
    released: Option<bool>,
    reason: Option<TokenMismatch>,
    #[serde(borrow)]
    error: Option<WireError<'a>>,
}

impl Acquired<'_> {
    pub(super) fn decide(self, sent: Instant) -> Result<Granted, Error> {
        if let Some(error) = self.error {
            return Err(error.of_item());
        }
        match (self.acquired, self.lock_id, self.fencing_token, self.ttl_ms) {
            (Some(true), Some(lock_id), Some(token), Some(ttl)) => Ok(Granted {
                lock_id: LockId::new(lock_id),
                token: Token(token),
                promise: promise(sent, self.waited_ms, ttl, self.renew_after_ms),
                already_held: self.already_held.unwrap_or(false),
            }),
            (Some(false), ..) => Err(Error::Refused(Refused::Taken(
                self.reason.unwrap_or(RefusalReason::Held),
            ))),
            _ => Err(garbled("neither a grant nor a refusal")),
        }
    }
}

impl Renewed<'_> {
    pub(super) fn decide(self, sent: Instant) -> Result<Promise, Error> {
        if let Some(error) = self.error {
            return Err(error.of_item());
        }
        match (self.renewed, self.ttl_ms, self.reason) {
            (Some(true), Some(ttl), _) => Ok(promise(sent, None, ttl, self.renew_after_ms)),
            (Some(false), _, Some(reason)) => Err(Error::Refused(Refused::Ended(reason))),
            _ => Err(garbled("neither renewed nor ended")),
        }
    }
}

impl Released<'_> {
    pub(super) fn decide(self) -> Result<(), Error> {
        if let Some(error) = self.error {
            return Err(error.of_item());
        }
        match (self.released, self.reason) {
            (Some(true), _) => Ok(()),
            (Some(false), Some(TokenMismatch::TokenMismatch)) => {
                Err(Error::Refused(Refused::TokenMismatch))
            }
            _ => Err(garbled("neither released nor refused")),
        }
    }
}

impl WireError<'_> {
    fn of_item(self) -> Error {
        let status = holdfast_api::ErrorCode::ALL
            .iter()
            .find(|code| code.as_str() == self.code)
            .map_or(503, |code| code.status());
        self.into_error(status, None)
    }

    /// The one place that decides what an error status says.
    pub(super) fn into_error(self, status: u16, retry_after: Option<Duration>) -> Error {
        let retry_after = self
            .retry_after_ms
            .map(Duration::from_millis)
            .or(retry_after);
        let code = self.code.into_owned();
        let detail = self.detail.map(Cow::into_owned).unwrap_or_default();
        match status {
            429 => Error::Limited {
                code,
                detail,
                retry_after,
            },
            400 | 401 | 403 | 404 | 405 | 413 | 415 | 431 | 501 => Error::Rejected {
                status,
                code,
                detail,
            },
            _ => Error::Unknown {
                cause: Cause::Answer { status, code },
                retry_after,
            },
        }
    }
}

fn promise(sent: Instant, waited: Option<u64>, ttl: u64, renew_after: Option<u64>) -> Promise {
    Promise::new(
        sent,
        Duration::from_millis(waited.unwrap_or(0)),
        Duration::from_millis(ttl),
        Duration::from_millis(renew_after.unwrap_or(ttl / 3)),
    )
}

pub(super) fn garbled(what: impl Into<String>) -> Error {
    Error::unknown(Cause::Garbled(what.into()))
}
