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
    /// The connection was closed before anything was sent.
    Closed(String),
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
    let Some(cause) = status.source() else {
        return classify(status.code(), status.message());
    };
    // The transport failed; its message is but "transport error".
    let text = with_causes(cause);
    if is_unsent(cause) {
        return Failure::Closed(text);
    }
    match classify(status.code(), status.message()) {
        Failure::Unknown(_) => Failure::Unknown(text),
        failure => failure,
    }
}

/// Whether the transport says that it sent nothing.
///
/// A link connects once, before it is used, so a failed connect means that it was closed before.
/// For HTTP/2, hyper calls a request canceled only when its connection ended before it took the
/// request from its queue (`Envelope` in hyper's `client/dispatch.rs`).
fn is_unsent(mut error: &(dyn Error + 'static)) -> bool {
    loop {
        let is_canceled = |error: &hyper::Error| error.is_canceled();
        if error.is::<ConnectError>() || error.downcast_ref().is_some_and(is_canceled) {
            return true;
        }
        match error.source() {
            Some(source) => error = source,
            None => return false,
        }
    }
}

/// An error with what caused it, which `Display` leaves out.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
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
        // A lease was to be renewed by a leader that is none any more.
        | (Code::Unknown, "raft proposal dropped" | "not a primary lessor")
        | (Code::Unimplemented, _) => Failure::Elsewhere(message.to_owned()),

        (Code::ResourceExhausted, "etcdserver: too many requests") => {
            definite(DefiniteError::Unreachable(message.to_owned()))
        }

        _ if is_about_token(code, message) => Failure::Token(message.to_owned()),
        (Code::PermissionDenied, _)
        | (Code::Unknown, "auth: permission denied")
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

fn is_about_token(code: Code, message: &str) -> bool {
    match code {
        Code::Unauthenticated => true,
        Code::InvalidArgument => matches!(
            message,
            "etcdserver: revision of auth store is old" | "etcdserver: user name is empty"
        ),
        // As 3.4 answers a question for alarms: the error without its gRPC code.
        Code::Unknown => matches!(
            message,
            "auth: invalid auth token"
                | "auth: revision in header is old"
                | "auth: user name is empty"
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definite(error: DefiniteError) -> Failure {
        Failure::Answered(StoreError::Definite(error))
    }

    fn invalid(message: &str) -> Failure {
        definite(DefiniteError::Invalid(message.to_owned()))
    }

    #[test]
    fn what_etcd_refuses_before_it_does_anything_is_definite() {
        use Code::{
            FailedPrecondition, InvalidArgument, NotFound, OutOfRange, PermissionDenied,
            ResourceExhausted,
        };
        let denied = |text: &str| definite(DefiniteError::Denied(text.to_owned()));
        let too_large = "grpc: received message larger than max (2097999 vs. 2097152)";
        for (code, message, expected) in [
            (
                NotFound,
                "etcdserver: requested lease not found",
                definite(DefiniteError::LeaseNotFound),
            ),
            (
                FailedPrecondition,
                "etcdserver: lease already exists",
                definite(DefiniteError::LeaseExists),
            ),
            (
                ResourceExhausted,
                "etcdserver: too many requests",
                definite(DefiniteError::Unreachable(
                    "etcdserver: too many requests".to_owned(),
                )),
            ),
            (
                PermissionDenied,
                "etcdserver: permission denied",
                denied("etcdserver: permission denied"),
            ),
            (
                InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                denied("etcdserver: authentication failed, invalid user ID or password"),
            ),
            (ResourceExhausted, too_large, invalid(too_large)),
            (
                OutOfRange,
                "etcdserver: too large lease TTL",
                invalid("etcdserver: too large lease TTL"),
            ),
        ] {
            assert_eq!(classify(code, message), expected, "{message}");
        }
        for message in [
            "etcdserver: key is not provided",
            "etcdserver: too many operations in txn request",
            "etcdserver: duplicate key given in txn request",
            "etcdserver: request is too large",
        ] {
            assert_eq!(classify(InvalidArgument, message), invalid(message));
        }
    }

    #[test]
    fn what_one_member_refuses_before_it_does_anything_is_tried_at_another() {
        for (code, message) in [
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: not capable"),
            (
                Code::Unavailable,
                "etcdserver: rpc not supported for learner",
            ),
            (Code::Unknown, "raft proposal dropped"),
            (Code::Unknown, "not a primary lessor"),
            (Code::Unimplemented, "unknown service etcdserverpb.KV"),
        ] {
            assert_eq!(
                classify(code, message),
                Failure::Elsewhere(message.to_owned())
            );
        }
    }

    #[test]
    fn a_refused_token_is_told_apart_from_a_missing_permission() {
        for (code, message) in [
            (Code::Unauthenticated, "etcdserver: invalid auth token"),
            (
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty"),
            (Code::Unknown, "auth: invalid auth token"),
            (Code::Unknown, "auth: revision in header is old"),
            (Code::Unknown, "auth: user name is empty"),
        ] {
            assert_eq!(classify(code, message), Failure::Token(message.to_owned()));
        }
    }

    #[test]
    fn whatever_may_have_been_proposed_is_ambiguous() {
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to connection lost",
            ),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unavailable, "etcdserver: unhealthy cluster"),
            (Code::Unavailable, "transport is closing"),
            (Code::Unavailable, ""),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "etcdserver: request canceled"),
            (Code::DataLoss, "etcdserver: corrupt cluster"),
            (Code::Unknown, "raft: stopped"),
            (Code::Unknown, "anything else"),
            (Code::Internal, "stream terminated by RST_STREAM"),
            // The right text with another code is not the error that was looked at.
            (Code::Unknown, "etcdserver: no leader"),
            (Code::Unknown, "etcdserver: requested lease not found"),
            (
                Code::ResourceExhausted,
                "grpc: trying to send message larger than max",
            ),
        ] {
            let failure = classify(code, message);
            assert!(
                matches!(&failure, Failure::Unknown(text) if text.contains(message)),
                "{code:?} {message}: {failure:?}"
            );
        }
    }

    #[test]
    fn a_lack_of_space_is_ambiguous_because_the_write_that_causes_it_is_applied() {
        let message = "etcdserver: mvcc: database space exceeded";
        assert_eq!(
            classify(Code::ResourceExhausted, message),
            Failure::Answered(StoreError::Ambiguous(message.to_owned()))
        );
    }

    #[test]
    fn a_failed_connect_says_that_nothing_was_sent_a_broken_connection_does_not() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let connect = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        assert!(matches!(of_status(&connect), Failure::Closed(_)));
        let broken = Status::from_error(Box::new(reset));
        assert!(matches!(of_status(&broken), Failure::Unknown(_)));
        let told_by_server = Status::unavailable("connection refused");
        assert!(matches!(of_status(&told_by_server), Failure::Unknown(_)));
    }
}
