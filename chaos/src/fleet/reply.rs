//! What an HTTP answer says.

use holdfast_api::{
    AcquireReply, EndReason, ForceReleaseReply, RefusalReason, RenewReply, TokenMismatch,
};
use holdfast_client::RawReply;
use holdfast_judge::Promise;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The answer to a request, as a client understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The lock is the client's.
    Granted {
        /// The handle.
        lock_id: String,
        /// The fencing token.
        token: u64,
        /// How long.
        promise: Promise,
        /// It was the client's before.
        already_held: bool,
        /// So long did the request wait in line.
        waited_ms: u64,
    },
    /// The name is not free, for so long at most if nobody renews it.
    Refused {
        /// Why.
        reason: RefusalReason,
        /// How long.
        free_in_ms: u64,
    },
    /// The hold goes on.
    Renewed(Promise),
    /// The hold is over.
    Ended(EndReason),
    /// The lock id holds nothing now.
    Released,
    /// The token is not the hold's.
    Mismatch,
    /// The hold with this token is over for its holder.
    Forced {
        /// The fencing token.
        token: u64,
        /// The name is not free before so long.
        free_in_ms: u64,
    },
    /// Nobody held the name.
    NotHeld,
    /// Nothing is known: a code of a 503, or what became of the connection.
    Unknown(String),
    /// The request was wrong: a status, and the body.
    Rejected(u16, String),
}

impl Answer {
    /// The answer to an acquire.
    pub(super) fn to_acquire(raw: &RawReply) -> Self {
        let Some(reply) = known::<AcquireReply>(raw, 200) else {
            return Self::unknown(raw);
        };
        match (reply.lock_id, reply.fencing_token, reply.ttl_ms) {
            (Some(lock_id), Some(token), Some(ttl_ms)) if reply.acquired => Self::Granted {
                lock_id,
                token,
                promise: Promise {
                    ttl_ms,
                    renew_after_ms: reply.renew_after_ms.unwrap_or(ttl_ms / 3),
                },
                already_held: reply.already_held.unwrap_or(false),
                waited_ms: reply.waited_ms.unwrap_or(0),
            },
            _ => match (reply.reason, left_ms(&reply.expires_at)) {
                (Some(reason), Some(free_in_ms)) => Self::Refused { reason, free_in_ms },
                _ => Self::Rejected(raw.status, text(raw)),
            },
        }
    }

    /// The answer to a renewal.
    pub(super) fn to_renew(raw: &RawReply) -> Self {
        if let Some(reply) = known::<RenewReply>(raw, 409)
            && let Some(reason) = reply.reason
        {
            return Self::Ended(reason);
        }
        match known::<RenewReply>(raw, 200).map(|reply| (reply.ttl_ms, reply.renew_after_ms)) {
            Some((Some(ttl_ms), Some(renew_after_ms))) => Self::Renewed(Promise {
                ttl_ms,
                renew_after_ms,
            }),
            _ => Self::unknown(raw),
        }
    }

    /// The answer to a release.
    pub(super) fn to_release(raw: &RawReply) -> Self {
        #[derive(serde::Deserialize)]
        struct Mismatch {
            reason: TokenMismatch,
        }
        match raw.status {
            204 => Self::Released,
            _ => match known::<Mismatch>(raw, 409).map(|reply| reply.reason) {
                Some(TokenMismatch::TokenMismatch) => Self::Mismatch,
                None => Self::unknown(raw),
            },
        }
    }

    /// The answer to a force-release.
    pub(super) fn to_force_release(raw: &RawReply) -> Self {
        let Some(reply) = known::<ForceReleaseReply>(raw, 200) else {
            return Self::unknown(raw);
        };
        let free_in_ms = reply.free_at.as_deref().and_then(left_ms);
        match (reply.released, reply.fencing_token, free_in_ms) {
            (true, Some(token), Some(free_in_ms)) => Self::Forced { token, free_in_ms },
            (false, None, None) => Self::NotHeld,
            _ => Self::Rejected(raw.status, text(raw)),
        }
    }

    fn unknown(raw: &RawReply) -> Self {
        match raw.status {
            502..=504 => Self::Unknown(code(raw)),
            status => Self::Rejected(status, text(raw)),
        }
    }
}

fn known<T: serde::de::DeserializeOwned>(raw: &RawReply, status: u16) -> Option<T> {
    (raw.status == status)
        .then(|| serde_json::from_slice(&raw.body).ok())
        .flatten()
}

fn text(raw: &RawReply) -> String {
    String::from_utf8_lossy(&raw.body).into_owned()
}

fn code(raw: &RawReply) -> String {
    let body: Option<serde_json::Value> = serde_json::from_slice(&raw.body).ok();
    let code = body.as_ref().and_then(|body| body["code"].as_str());
    code.unwrap_or("a 503 without a code").to_owned()
}

/// How long it is until a time of day; zero if it has passed.
fn left_ms(expires_at: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(expires_at, &Rfc3339).ok()?;
    let left = (at - OffsetDateTime::now_utc()).whole_milliseconds();
    u64::try_from(left.max(0)).ok()
}
