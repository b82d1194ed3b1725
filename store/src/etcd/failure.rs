//! What a failed call means: certainly nothing happened, or nobody knows.
//!
//! etcd's errors carry a gRPC code and a fixed text. Which of them are made before anything is
//! proposed was read off etcd's sources (3.4.23, 3.5.16): `v3rpc/interceptor.go` and
//! `v3rpc/key.go` refuse before the server sees the request, `processInternalRaftRequestOnce`
//! before it is proposed, `apply.go` and `apply_auth.go` check a whole transaction before its
//! first write. What is not listed here is ambiguous.

use crate::{DefiniteError, StoreError};
use std::error::Error;
use tonic::{Code, ConnectError, Status};

/// What a failed call means for the call, and for the endpoint and the token that were used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection had been closed before; nothing was sent.
    Closed,
    /// This member refused before doing anything, for a reason of its own; another may not.
    Elsewhere(String),
    /// The token is not, or no longer, accepted; nothing was done.
    Token(String),
    /// The cluster's own answer; every member would give it.
    Answered(StoreError),
    /// Nobody knows what happened, and the endpoint may not be well.
    Unknown(String),
}

/// What an error of etcd's client means.
pub(super) fn of_client_error(error: &etcd_client::Error) -> Failure {
    match error {
        etcd_client::Error::GRpcStatus(status) => of_status(status),
        other => Failure::Unknown(other.to_string()),
    }
}

/// What a gRPC status means.
pub(super) fn of_status(status: &Status) -> Failure {
    if is_unsent(status) {
        return Failure::Closed;
    }
    classify(status.code(), status.message())
}

/// Whether the transport could not even begin. A link connects once, before it is used, so a
/// failed connect means that it was closed and that nothing was sent.
fn is_unsent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn classify(code: Code, message: &str) -> Failure {
    let definite = |error| Failure::Answered(StoreError::Definite(error));
    match (code, message) {
        // Refused by the interceptor, or dropped by the member's Raft node before it was appended
        // or forwarded (no leader, or one that is handing over).
        (
            Code::Unavailable,
            "etcdserver: no leader"
            | "etcdserver: not capable"
            | "etcdserver: rpc not supported for learner",
        )
        | (Code::FailedPrecondition, "etcdserver: rpc not supported for learner")
        | (Code::Unknown, "raft proposal dropped")
        | (Code::Unimplemented, _) => Failure::Elsewhere(message.to_owned()),

        (Code::ResourceExhausted, "etcdserver: too many requests") => {
            definite(DefiniteError::Unreachable(message.to_owned()))
        }

        (Code::Unauthenticated, _)
        | (
            Code::InvalidArgument,
            "etcdserver: revision of auth store is old" | "etcdserver: user name is empty",
        ) => Failure::Token(message.to_owned()),
        (Code::PermissionDenied, _)
        | (
            Code::InvalidArgument,
            "etcdserver: authentication failed, invalid user ID or password",
        ) => definite(DefiniteError::Denied(message.to_owned())),

        (Code::NotFound, "etcdserver: requested lease not found") => {
            definite(DefiniteError::LeaseNotFound)
        }
        (Code::FailedPrecondition, "etcdserver: lease already exists") => {
            definite(DefiniteError::LeaseExists)
        }
        (
            Code::InvalidArgument,
            "etcdserver: key is not provided"
            | "etcdserver: too many operations in txn request"
            | "etcdserver: duplicate key given in txn request"
            | "etcdserver: request is too large",
        )
        | (Code::OutOfRange, "etcdserver: too large lease TTL") => {
            definite(DefiniteError::Invalid(message.to_owned()))
        }
        // The gRPC server's own limit; the request was not even decoded.
        (Code::ResourceExhausted, _)
            if message.starts_with("grpc: received message larger than max") =>
        {
            definite(DefiniteError::Invalid(message.to_owned()))
        }

        // Refused before it is proposed and once the alarm is raised; but the write that uses the
        // space up is *applied* and answered with the same error (`quotaApplierV3` in `apply.go`).
        (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded") => {
            Failure::Answered(StoreError::Ambiguous(message.to_owned()))
        }

        _ => Failure::Unknown(format!("{message} ({code:?})")),
    }
}
