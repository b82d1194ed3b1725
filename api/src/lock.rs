//! Bodies of the lock API.

use crate::{ErrorCode, strict};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// `POST /api/v1/locks/acquire`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcquireRequest<'a> {
    /// What to lock.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// How long the hold lasts without a renewal.
    pub ttl_ms: u64,
    /// Who asks: the same id acquiring the name again gets the same hold back.
    #[serde(borrow)]
    pub client_id: Cow<'a, str>,
    /// How long to queue for the name; absent or 0 answers at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Shown to those who inspect the lock.
    #[serde(
        default,
        deserialize_with = "strict::unique_strings",
        skip_serializing_if = "Option::is_none"
    )]
    pub metadata: Option<BTreeMap<String, String>>,
    /// With it, only the same request gets the hold back.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Cow<'a, str>>,
}

/// The answer to an acquire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcquireReply {
    /// Whether the lock is the caller's now. Test this, not the status.
    pub acquired: bool,
    /// The handle of the hold; a bearer secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_id: Option<String>,
    /// Give it to the resource with every write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// When the hold ends (or, of a refusal, when the present hold ends if it is not renewed).
    pub expires_at: String,
    /// How long the hold lasts, from when the request was sent (plus `waited_ms`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// When to renew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after_ms: Option<u64>,
    /// The caller held the name already and got the same hold back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already_held: Option<bool>,
    /// How long the request queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RefusalReason>,
}

/// Why an acquire was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// Someone else holds it.
    Held,
    /// The same client holds it, through a request with another `requestId`.
    HeldByYou,
    /// It did not become free within `waitMs`.
    Timeout,
}

/// `POST /api/v1/locks/renew`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenewRequest<'a> {
    /// The handle of the hold.
    #[serde(borrow)]
    pub lock_id: Cow<'a, str>,
    /// The hold's token.
    pub fencing_token: u64,
    /// The wanted time to live; absent: the hold's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// The answer to a renewal, 200 or 409.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewReply {
    /// Whether the hold goes on.
    pub renewed: bool,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How long it lasts, from when the request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// When to renew next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after_ms: Option<u64>,
    /// Why it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
}

/// Why a hold is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// By time, by release, or by the loss of its lease.
    Expired,
    /// Someone else holds the name, it was force-released, or the token is not this hold's.
    Stolen,
}

/// `POST /api/v1/locks/release`; answered 204, or 409 with [`TokenMismatch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseRequest<'a> {
    /// The handle of the hold.
    #[serde(borrow)]
    pub lock_id: Cow<'a, str>,
    /// The hold's token.
    pub fencing_token: u64,
}

/// The body of a release's 409.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenMismatch {
    /// The hold has another token.
    TokenMismatch,
}

/// A release's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseReply {
    /// Whether the lock id holds nothing now.
    pub released: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<TokenMismatch>,
}

/// `POST /api/v1/locks/acquire-batch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcquireBatch<'a> {
    /// Each stands alone.
    #[serde(borrow, deserialize_with = "strict::objects")]
    pub acquisitions: Vec<AcquireRequest<'a>>,
}

/// `POST /api/v1/locks/renew-batch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewBatch<'a> {
    /// Each stands alone.
    #[serde(borrow, deserialize_with = "strict::objects")]
    pub renewals: Vec<RenewRequest<'a>>,
}

/// `POST /api/v1/locks/release-batch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBatch<'a> {
    /// Each stands alone.
    #[serde(borrow, deserialize_with = "strict::objects")]
    pub releases: Vec<ReleaseRequest<'a>>,
}

/// The answer to a batch: results in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchReply<T> {
    /// One per item.
    pub results: Vec<T>,
}

/// One result of an acquire batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AcquireResult {
    /// Not known, or not done.
    Failed {
        /// Why.
        error: ItemError,
    },
    /// As for a single acquire.
    Answered(AcquireReply),
}

/// One result of a renew batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RenewResult {
    /// Not known, or not done.
    Failed {
        /// Why.
        error: ItemError,
    },
    /// As for a single renewal.
    Answered(RenewReply),
}

/// One result of a release batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ReleaseResult {
    /// Not known, or not done.
    Failed {
        /// Why.
        error: ItemError,
    },
    /// As for a single release.
    Answered(ReleaseReply),
}

/// Why an item of a batch has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemError {
    /// What kind of error.
    pub code: ErrorCode,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
