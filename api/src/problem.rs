//! Errors on the wire: `application/problem+json`.

use serde::{Deserialize, Serialize};

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// A URI reference for the kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
    /// For programs.
    pub code: ErrorCode,
    /// The request this is about.
    pub instance: String,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The etcd cluster that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $title:literal;)*) => {
        /// What kind of error, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $code)] $name,)*
        }

        impl ErrorCode {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The HTTP status it comes with.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The kind in words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

error_codes! {
    /// The body or a field of it is wrong; the detail names the field.
    InvalidRequest = "invalid_request", 400, "Invalid request";
    /// The lock id is not one that this service made.
    InvalidLockId = "invalid_lock_id", 400, "Invalid lock id";
    /// No credentials, or wrong ones.
    Unauthenticated = "unauthenticated", 401, "Not authenticated";
    /// The credentials lack a right.
    Forbidden = "forbidden", 403, "Forbidden";
    /// No such route.
    NotFound = "not_found", 404, "Not found";
    /// The route has other methods.
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed";
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout", 408, "Request timeout";
    /// The body is too large.
    BodyTooLarge = "body_too_large", 413, "Body too large";
    /// The body is not said to be JSON.
    UnsupportedMediaType = "unsupported_media_type", 415, "Unsupported media type";
    /// Too many clients or requests for this caller's share.
    RateLimited = "rate_limited", 429, "Rate limited";
    /// The caller's quota is used up.
    QuotaExceeded = "quota_exceeded", 429, "Quota exceeded";
    /// The header section is too large.
    HeadersTooLarge = "headers_too_large", 431, "Headers too large";
    /// A fault of the service itself.
    Internal = "internal", 500, "Internal error";
    /// The feature is not there yet.
    NotImplemented = "not_implemented", 501, "Not implemented";
    /// The etcd cluster cannot be asked, or this gateway's session there is not proven.
    ClusterUnavailable = "cluster_unavailable", 503, "Cluster unavailable";
    /// The gateway that owns the lock cannot be asked.
    OwnerUnreachable = "owner_unreachable", 503, "Owner unreachable";
    /// It may or may not have happened; ask again.
    OutcomeUnknown = "outcome_unknown", 503, "Outcome unknown";
    /// The shard is on its way to another cluster.
    ShardMoving = "shard_moving", 503, "Shard moving";
    /// This gateway is about to stop.
    Draining = "draining", 503, "Draining";
    /// More work than can be queued.
    Overloaded = "overloaded", 503, "Overloaded";
}
