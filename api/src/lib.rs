//! The HTTP API's wire types and error codes.
//!
//! Times are milliseconds (`...Ms`); `expiresAt` is RFC 3339 UTC with milliseconds and is for
//! people. Requests refuse unknown fields, so that `ttl_ms` does not silently mean nothing;
//! replies may gain fields, so readers ignore what they do not know.

mod lock;
#[cfg(test)]
mod openapi_tests;
mod operate;
mod problem;
mod strict;

pub use lock::{
    AcquireBatch, AcquireReply, AcquireRequest, AcquireResult, BatchReply, EndReason, ItemError,
    RefusalReason, ReleaseBatch, ReleaseReply, ReleaseRequest, ReleaseResult, RenewBatch,
    RenewReply, RenewRequest, RenewResult, TokenMismatch,
};
pub use operate::{ForceReleaseReply, ForceReleaseRequest, LockInfo, LockPage};
pub use problem::{ErrorCode, Problem};
pub use strict::Object;

/// The OpenAPI 3.1 document of the HTTP API, as it is served at `/openapi.json`.
pub const OPENAPI_JSON: &str = include_str!("../openapi.json");

/// The paths of the lock API.
pub mod paths {
    /// Take a lock.
    pub const ACQUIRE: &str = "/api/v1/locks/acquire";
    /// Renew a hold.
    pub const RENEW: &str = "/api/v1/locks/renew";
    /// Give a hold back.
    pub const RELEASE: &str = "/api/v1/locks/release";
    /// Many acquires.
    pub const ACQUIRE_BATCH: &str = "/api/v1/locks/acquire-batch";
    /// Many renewals.
    pub const RENEW_BATCH: &str = "/api/v1/locks/renew-batch";
    /// Many releases.
    pub const RELEASE_BATCH: &str = "/api/v1/locks/release-batch";
    /// Inspect locks.
    pub const LOCKS: &str = "/api/v1/locks";
    /// End someone's hold.
    pub const FORCE_RELEASE: &str = "/api/v1/locks/force-release";
    /// The OpenAPI document.
    pub const OPENAPI: &str = "/openapi.json";

    /// All of them.
    pub const ALL: &[&str] = &[
        ACQUIRE,
        RENEW,
        RELEASE,
        ACQUIRE_BATCH,
        RENEW_BATCH,
        RELEASE_BATCH,
        LOCKS,
        FORCE_RELEASE,
        OPENAPI,
    ];
}
