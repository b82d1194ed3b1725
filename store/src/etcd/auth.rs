//! The authentication token: obtained once, shared by all connections, renewed when etcd refuses
//! it.
//!
//! etcd forgets a token after a while without use (per member), when its user changes, and when
//! the member restarts; a signed token (JWT) also goes stale when any user or role changes.

use super::config::Credentials;
use super::flight::{Abandoned, Flight, Generation};
use etcd_client::proto::PbAuthenticateResponse;
use http::HeaderValue;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// The longest wait for a token: etcd hashes the password, which takes it a tenth of a second, and
/// longer under load.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The present token, as the connections read it.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenCell(Arc<RwLock<Option<HeaderValue>>>);

/// The user and the token.
#[derive(Debug)]
pub(super) struct Auth {
    credentials: Option<Credentials>,
    token: TokenCell,
    flight: Flight<(), AuthFailure>,
}

/// Why there is no token; the operation itself was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AuthFailure {
    /// The member could not be asked.
    NotReached(String),
    /// Wrong user or password.
    Denied(String),
}

/// The request of `Auth.Authenticate`, which etcd's client does not offer by itself.
#[derive(Clone, PartialEq, prost::Message)]
struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    password: String,
}

impl TokenCell {
    /// The token to send, if any.
    pub(super) fn get(&self) -> Option<HeaderValue> {
        self.0.read().clone()
    }
}

impl Auth {
    /// For this user; nothing is asked for yet.
    pub(super) fn new(credentials: Option<Credentials>) -> Self {
        Self {
            credentials,
            token: TokenCell::default(),
            flight: Flight::new(),
        }
    }

    /// Where connections read the token.
    pub(super) fn cell(&self) -> TokenCell {
        self.token.clone()
    }

    /// Makes sure that there is a token if one is needed, obtaining it over `channel`.
    pub(super) async fn ensure(&self, channel: &Channel) -> Result<Generation, AuthFailure> {
        let Some(credentials) = &self.credentials else {
            return Ok(Generation::default());
        };
        let obtain = || authenticate(channel.clone(), credentials.clone(), self.cell());
        let ((), generation) = self.flight.get(obtain).await?;
        Ok(generation)
    }

    /// The token of this generation was refused. False when there is no user to obtain another
    /// one for.
    pub(super) fn discard(&self, generation: Generation) -> bool {
        self.flight.discard(generation);
        self.credentials.is_some()
    }
}

async fn authenticate(
    channel: Channel,
    credentials: Credentials,
    cell: TokenCell,
) -> Result<(), AuthFailure> {
    let asked = tokio::time::timeout(TIMEOUT, ask(channel, credentials));
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(_) => return Err(AuthFailure::NotReached("no answer".to_owned())),
    };
    let token = match answer {
        Ok(token) => Some(token),
        Err(status) => without_token(&status)?,
    };
    *cell.0.write() = token;
    Ok(())
}

async fn ask(channel: Channel, credentials: Credentials) -> Result<HeaderValue, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    grpc.ready().await.map_err(unavailable)?;
    let request = AuthenticateRequest {
        name: credentials.user,
        password: credentials.password,
    };
    let path = http::uri::PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
    let codec = ProstCodec::<AuthenticateRequest, PbAuthenticateResponse>::default();
    let response = grpc.unary(Request::new(request), path, codec).await?;
    let mut token = HeaderValue::try_from(response.into_inner().token)
        .map_err(|_| Status::internal("the token is not a header value"))?;
    token.set_sensitive(true);
    Ok(token)
}

/// What a refusal means: `Ok(None)` when the cluster does without authentication.
fn without_token(status: &Status) -> Result<Option<HeaderValue>, AuthFailure> {
    let text = status.message().to_owned();
    match (status.code(), status.message()) {
        (Code::FailedPrecondition, "etcdserver: authentication is not enabled") => Ok(None),
        (Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition, _) => {
            Err(AuthFailure::Denied(text))
        }
        // A user without a password is refused without a gRPC code.
        (Code::Unknown, message) if message.starts_with("auth: authentication failed") => {
            Err(AuthFailure::Denied(text))
        }
        _ => Err(AuthFailure::NotReached(text)),
    }
}

impl AuthFailure {
    /// Says whom it was about.
    pub(super) fn at(self, url: &str) -> Self {
        match self {
            Self::NotReached(text) => Self::NotReached(format!("{url}: no token: {text}")),
            Self::Denied(text) => Self::Denied(text),
        }
    }
}

impl From<Abandoned> for AuthFailure {
    fn from(_: Abandoned) -> Self {
        Self::NotReached("authentication was abandoned".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_authentication_needs_no_token() {
        let text = "etcdserver: authentication is not enabled";
        let refusal = Status::new(Code::FailedPrecondition, text);
        assert_eq!(without_token(&refusal), Ok(None));
    }

    #[test]
    fn wrong_credentials_are_told_apart_from_a_member_that_cannot_answer() {
        for (code, text) in [
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
            ),
            (
                Code::Unknown,
                "auth: authentication failed, password was given for no password user",
            ),
        ] {
            let denied = Err(AuthFailure::Denied(text.to_owned()));
            assert_eq!(without_token(&Status::new(code, text)), denied);
        }
        for (code, text) in [
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unknown, "raft proposal dropped"),
        ] {
            let not_reached = Err(AuthFailure::NotReached(text.to_owned()));
            assert_eq!(without_token(&Status::new(code, text)), not_reached);
        }
    }
}
