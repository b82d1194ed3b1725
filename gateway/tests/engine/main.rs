//! The lease engine over a model cluster, under virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where it fails"
)]
#![allow(missing_docs, unreachable_pub, reason = "nothing here is for others")]

mod allocations;
mod bundles;
mod forced;
mod forwarding;
mod holds;
mod moves;
mod pair;
mod principals;
mod quotas;
mod takeover;
mod unknown;
mod waiting;
mod world;
