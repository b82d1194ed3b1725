//! Writes replies. This is the one place where errors become HTTP.

use super::failure::Failure;
use super::stamp::{RFC3339_BYTES, Stamp};
use crate::service::{
    AcquireOutcome, CloseOutcome, Ended, LockView, Refusal, ReleaseOutcome, RenewOutcome, Renewed,
};
use crate::time::Millis;
use bytes::Bytes;
use holdfast_api::{
    AcquireReply, EndReason, ErrorCode, ForceReleaseReply, ItemError, LockInfo, LockPage, Problem,
    RefusalReason, ReleaseReply, RenewReply, RenewResult, TokenMismatch,
};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// A reply, complete.
pub type Reply = Response<Full<Bytes>>;

const REPLY_BYTES_USUAL: usize = 192;

static JSON: HeaderValue = HeaderValue::from_static("application/json");
static PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A body of JSON.
pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Reply {
    with_type(status, &JSON, encode(body))
}

/// A body that is JSON already.
pub(super) fn static_json(body: &'static str) -> Reply {
    let body = Bytes::from_static(body.as_bytes());
    with_type(StatusCode::OK, &JSON, body)
}

/// No body.
pub(super) fn no_content() -> Reply {
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

/// An error, as `application/problem+json`.
pub(super) fn problem(failure: &Failure, instance: &str) -> Reply {
    let code = failure.code;
    let body = encode(&Problem {
        kind: format!("urn:holdfast:error:{}", code.as_str()),
        title: code.title().to_owned(),
        status: code.status(),
        detail: failure.detail.clone().into_owned(),
        code,
        instance: instance.to_owned(),
        retry_after_ms: failure.retry_after.map(Millis::as_ms),
        cluster: failure.cluster.as_deref().map(str::to_owned),
    });
    let mut reply = with_type(status_of(code), &PROBLEM, body);
    let headers = reply.headers_mut();
    if let Some(allow) = failure.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(challenge) = failure.challenge {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(after) = failure.retry_after {
        let seconds = after.as_ms().div_ceil(1000).max(1);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if failure.ends_connection {
        end_connection(&mut reply);
    }
    reply
}

/// Makes this the last reply on its connection.
pub(super) fn end_connection(reply: &mut Reply) {
    let close = HeaderValue::from_static("close");
    reply.headers_mut().insert(CONNECTION, close);
}

fn status_of(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn with_type(status: StatusCode, content_type: &HeaderValue, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    reply
}

fn encode<T: Serialize>(body: &T) -> Bytes {
    let mut bytes = Vec::with_capacity(REPLY_BYTES_USUAL);
    append(&mut bytes, body);
    Bytes::from(bytes)
}

fn append<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    let before = bytes.len();
    // The wire types have string keys and finite numbers only, so there is nothing to fail.
    if serde_json::to_writer(&mut *bytes, value).is_err() {
        bytes.truncate(before);
    }
}

/// Tells a client the answer to its acquire.
pub(super) fn acquired(outcome: &AcquireOutcome, unix_ms: u64) -> AcquireReply {
    let mut reply = AcquireReply {
        acquired: false,
        lock_id: None,
        fencing_token: None,
        expires_at: String::new(),
        ttl_ms: None,
        renew_after_ms: None,
        already_held: None,
        waited_ms: None,
        reason: None,
    };
    match outcome {
        AcquireOutcome::Granted(grant) => {
            reply.acquired = true;
            reply.lock_id = Some(grant.lock_id.to_text());
            reply.fencing_token = Some(grant.token.0);
            reply.expires_at = expiry(unix_ms, grant.told.ttl);
            reply.ttl_ms = Some(grant.told.ttl.as_ms());
            reply.renew_after_ms = Some(grant.told.renew_after.as_ms());
            reply.waited_ms = grant.waited.map(Millis::as_ms);
            reply.already_held = grant.already_held.then_some(true);
        }
        AcquireOutcome::Refused { reason, free_in } => {
            reply.expires_at = expiry(unix_ms, *free_in);
            reply.reason = Some(match reason {
                Refusal::Held => RefusalReason::Held,
                Refusal::HeldByYou => RefusalReason::HeldByYou,
                Refusal::Timeout(waited) => {
                    reply.waited_ms = Some(waited.as_ms());
                    RefusalReason::Timeout
                }
            });
        }
    }
    reply
}

/// The whole reply to a renewal that goes on.
pub(super) fn renewed_json(told: Renewed, unix_ms: u64) -> Reply {
    let mut body = Vec::with_capacity(REPLY_BYTES_USUAL);
    push_renewed_at(&mut body, told, unix_ms);
    with_type(StatusCode::OK, &JSON, Bytes::from(body))
}

/// The body of that reply, appended.
pub(super) fn push_renewed_at(body: &mut Vec<u8>, told: Renewed, unix_ms: u64) {
    let mut expiry = Stamp::new(unix_ms.saturating_add(told.ttl.as_ms()));
    push_renewed(body, told, unix_ms, &mut expiry);
}

/// How long it is.
pub(super) fn renewed_bytes(told: Renewed) -> usize {
    const AROUND: usize =
        r#"{"renewed":true,"expiresAt":"","ttlMs":,"renewAfterMs":}"#.len() + RFC3339_BYTES;
    let digits = |ms: u64| ms.checked_ilog10().map_or(1, |more| more as usize + 1);
    AROUND + digits(told.ttl.as_ms()) + digits(told.renew_after.as_ms())
}

/// The whole reply to a batch of renewals.
pub fn renewals_json(
    results: impl ExactSizeIterator<Item = Result<RenewOutcome, ItemError>>,
    unix_ms: u64,
) -> Reply {
    const END: &[u8] = b"]}";
    let mut body = Vec::with_capacity(REPLY_BYTES_USUAL * (results.len() + 1));
    let mut expiry = Stamp::new(unix_ms);
    body.extend_from_slice(br#"{"results":["#);
    for (at, result) in results.enumerate() {
        if at > 0 {
            body.push(b',');
        }
        match result {
            Ok(RenewOutcome::Renewed(told)) => push_renewed(&mut body, told, unix_ms, &mut expiry),
            Ok(ended) => append(&mut body, &RenewResult::Answered(renewed(ended, unix_ms))),
            Err(error) => append(&mut body, &RenewResult::Failed { error }),
        }
    }
    body.extend_from_slice(END);
    with_type(StatusCode::OK, &JSON, Bytes::from(body))
}

/// The same as [`renewed`] in JSON, written by hand because this is nine in ten of all results,
/// and the serializer, which looks at every character of every name, costs as much as everything
/// else that such a result needs. `expiry` is of the result before it.
fn push_renewed(body: &mut Vec<u8>, told: Renewed, unix_ms: u64, expiry: &mut Stamp) {
    let expires_at = expiry.at(unix_ms.saturating_add(told.ttl.as_ms()));
    body.extend_from_slice(br#"{"renewed":true,"expiresAt":""#);
    body.extend_from_slice(expires_at.as_bytes());
    body.extend_from_slice(br#"","ttlMs":"#);
    body.extend_from_slice(itoa::Buffer::new().format(told.ttl.as_ms()).as_bytes());
    body.extend_from_slice(br#","renewAfterMs":"#);
    let renew_after_ms = told.renew_after.as_ms();
    body.extend_from_slice(itoa::Buffer::new().format(renew_after_ms).as_bytes());
    body.push(b'}');
}

/// Tells a client the answer to its renewal.
pub(super) fn renewed(outcome: RenewOutcome, unix_ms: u64) -> RenewReply {
    match outcome {
        RenewOutcome::Renewed(Renewed { ttl, renew_after }) => RenewReply {
            renewed: true,
            expires_at: Some(expiry(unix_ms, ttl)),
            ttl_ms: Some(ttl.as_ms()),
            renew_after_ms: Some(renew_after.as_ms()),
            reason: None,
        },
        RenewOutcome::Ended(ended) => RenewReply {
            renewed: false,
            expires_at: None,
            ttl_ms: None,
            renew_after_ms: None,
            reason: Some(match ended {
                Ended::Expired => EndReason::Expired,
                Ended::Stolen => EndReason::Stolen,
            }),
        },
    }
}

/// Tells a client the answer to its release.
pub(super) fn released(outcome: ReleaseOutcome) -> ReleaseReply {
    let mismatch = outcome == ReleaseOutcome::TokenMismatch;
    ReleaseReply {
        released: !mismatch,
        reason: mismatch.then_some(TokenMismatch::TokenMismatch),
    }
}

/// Tells an operator the answer to a force-release that was asked for at `unix_ms`.
pub(super) fn forced(outcome: CloseOutcome, unix_ms: u64) -> ForceReleaseReply {
    match outcome {
        CloseOutcome::Closed { token, free_in } => ForceReleaseReply {
            released: true,
            fencing_token: Some(token.0),
            free_at: Some(expiry(unix_ms, free_in)),
        },
        CloseOutcome::NotHeld => ForceReleaseReply {
            released: false,
            fencing_token: None,
            free_at: None,
        },
    }
}

/// A lock, as it is shown.
pub(super) fn lock_info(view: LockView, unix_ms: u64) -> LockInfo {
    let held = view.hold.is_some();
    let hold = view.hold.unwrap_or_default();
    LockInfo {
        name: view.name.as_str().to_owned(),
        held,
        client_id: hold.client_id,
        fencing_token: hold.token.map(|token| token.0),
        expires_at: hold.free_in.map(|free_in| expiry(unix_ms, free_in)),
        held_for_ms: hold.held_for.map(Millis::as_ms),
        metadata: hold.metadata,
        force_released: hold.is_closed.then_some(true),
        waiters: view.waiters,
        shard: view.shard,
        cluster: view.cluster.as_ref().to_owned(),
    }
}

/// A page of them.
pub(super) fn lock_page(
    locks: Vec<LockView>,
    next_cursor: Option<String>,
    unix_ms: u64,
) -> LockPage {
    let locks = locks.into_iter().map(|view| lock_info(view, unix_ms));
    LockPage {
        locks: locks.collect(),
        next_cursor,
    }
}

fn expiry(unix_ms: u64, after: Millis) -> String {
    let at = unix_ms.saturating_add(after.as_ms());
    Stamp::new(at).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn the_renewal_written_by_hand_is_what_the_serializer_writes() {
        for (ttl_ms, renew_after_ms) in [(0, 0), (29_700, 9_812), (u64::MAX, u64::MAX)] {
            let told = Renewed {
                ttl: Millis::from_ms(ttl_ms),
                renew_after: Millis::from_ms(renew_after_ms),
            };
            let unix_ms = 1_796_000_000_500;
            let by_hand = renewed_json(told, unix_ms);
            let reply = renewed(RenewOutcome::Renewed(told), unix_ms);
            let by_serializer = json(StatusCode::OK, &reply);
            assert_eq!(by_hand.headers(), by_serializer.headers());
            let by_hand = text(by_hand).await;
            assert_eq!(by_hand.len(), renewed_bytes(told));
            assert_eq!(by_hand, text(by_serializer).await);
        }
    }

    #[tokio::test]
    async fn the_batch_written_by_hand_is_what_the_serializer_writes() {
        let unix_ms = 1_796_000_000_500;
        let told = |ttl_ms| {
            Ok(RenewOutcome::Renewed(Renewed {
                ttl: Millis::from_ms(ttl_ms),
                renew_after: Millis::from_ms(ttl_ms / 3),
            }))
        };
        let failed = Failure::overloaded("come back").into_item();
        for results in [
            vec![],
            vec![told(1000)],
            vec![
                told(29_700),
                told(29_700),
                Ok(RenewOutcome::Ended(Ended::Stolen)),
                told(5000),
                Err(failed),
                told(29_700),
            ],
        ] {
            let by_serializer = results.iter().cloned().map(|result| match result {
                Ok(outcome) => RenewResult::Answered(renewed(outcome, unix_ms)),
                Err(error) => RenewResult::Failed { error },
            });
            let results_of = holdfast_api::BatchReply {
                results: by_serializer.collect(),
            };
            let by_serializer = json(StatusCode::OK, &results_of);
            let by_hand = renewals_json(results.into_iter(), unix_ms);
            assert_eq!(by_hand.headers(), by_serializer.headers());
            assert_eq!(text(by_hand).await, text(by_serializer).await);
        }
    }

    async fn text(reply: Reply) -> String {
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }
}
