//! Writes replies. This is the one place where errors become HTTP.

use super::failure::Failure;
use super::stamp::{RFC3339_BYTES, push_rfc3339};
use crate::service::{AcquireOutcome, Ended, Refusal, ReleaseOutcome, RenewOutcome, Renewed};
use crate::time::Millis;
use bytes::Bytes;
use holdfast_api::{
    AcquireReply, EndReason, ErrorCode, Problem, RefusalReason, ReleaseReply, RenewReply,
    TokenMismatch,
};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// A reply, complete.
pub(crate) type Reply = Response<Full<Bytes>>;

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
    // The wire types have string keys and finite numbers only, so there is nothing to fail.
    if serde_json::to_writer(&mut bytes, body).is_err() {
        bytes.clear();
    }
    Bytes::from(bytes)
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
            reply.already_held = grant.already_held.then_some(true);
        }
        AcquireOutcome::Refused { reason, free_in } => {
            reply.expires_at = expiry(unix_ms, *free_in);
            reply.reason = Some(match reason {
                Refusal::Held => RefusalReason::Held,
                Refusal::HeldByYou => RefusalReason::HeldByYou,
            });
        }
    }
    reply
}

/// The whole reply to a renewal that goes on.
///
/// The same as [`renewed`] in JSON, written by hand because this is nine in ten of all replies,
/// and the serializer, which looks at every character of every name, costs as much as everything
/// else that such a reply needs.
pub(super) fn renewed_json(told: Renewed, unix_ms: u64) -> Reply {
    let mut body = String::with_capacity(REPLY_BYTES_USUAL);
    body.push_str(r#"{"renewed":true,"expiresAt":""#);
    push_rfc3339(&mut body, unix_ms.saturating_add(told.ttl.as_ms()));
    body.push_str(r#"","ttlMs":"#);
    body.push_str(itoa::Buffer::new().format(told.ttl.as_ms()));
    body.push_str(r#","renewAfterMs":"#);
    body.push_str(itoa::Buffer::new().format(told.renew_after.as_ms()));
    body.push('}');
    with_type(StatusCode::OK, &JSON, Bytes::from(body))
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

fn expiry(unix_ms: u64, after: Millis) -> String {
    let mut text = String::with_capacity(RFC3339_BYTES);
    push_rfc3339(&mut text, unix_ms.saturating_add(after.as_ms()));
    text
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
            let body =
                |reply: Reply| async { reply.into_body().collect().await.unwrap().to_bytes() };
            assert_eq!(body(by_hand).await, body(by_serializer).await);
        }
    }
}
