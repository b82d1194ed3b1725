//! One connection to one endpoint.
//!
//! A [`Link`] is connected before it is used and never connects again: an error of a later
//! connect attempt says that the link had been closed, and that nothing was sent. A lazily
//! reconnecting channel would leave open, at a timeout, whether the request was sent or still
//! waited for a connection.

use super::auth::TokenCell;
use super::failure::with_causes;
use super::flight::Abandoned;
use super::target::Target;
use futures::future::BoxFuture;
use http::HeaderValue;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::transport::{Channel, Uri};
use tower::{BoxError, Service};

/// The largest reply that is accepted, against a server gone mad: a lease group's records are
/// about 1 MiB, etcd's own limit for a request is 1.5 MiB.
pub(super) const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why there is no connection; nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectFailure(pub(super) String);

/// An open connection, or one that was open once.
pub(super) struct Link {
    /// For streams and calls that etcd's client does not offer.
    pub(super) wire: Wire,
    /// Without token, to obtain one.
    pub(super) bare: Channel,
    /// etcd's client on top of `wire`.
    pub(super) client: etcd_client::Client,
    /// The part of it for transactions, with our limit for replies.
    pub(super) kv: etcd_client::KvClient,
}

/// A channel that adds the token and the demand for a leader to every request.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    channel: Channel,
    token: TokenCell,
    require_leader: bool,
}

/// Connects, TLS included, within the target's time limit.
pub(super) async fn connect(target: Target, token: TokenCell) -> Result<Arc<Link>, ConnectFailure> {
    let connecting = async { link(open(&target).await?, token, target.require_leader).await };
    let result = match tokio::time::timeout(target.timeout, connecting).await {
        Ok(result) => result,
        Err(_) => Err(format!("no connection within {:?}", target.timeout)),
    };
    result
        .map(Arc::new)
        .map_err(|problem| ConnectFailure(format!("{}: {problem}", target.url)))
}

async fn open(target: &Target) -> Result<Channel, String> {
    let tcp = TcpStream::connect((target.host.as_str(), target.port))
        .await
        .map_err(|error| error.to_string())?;
    tcp.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut once = Some(TokioIo::new(tcp));
    let connector = tower::service_fn(move |_: Uri| {
        let io = once.take();
        async move { io.ok_or(LinkClosed) }
    });
    target
        .endpoint
        .connect_with_connector(connector)
        .await
        .map_err(|error| with_causes(&error))
}

async fn link(bare: Channel, token: TokenCell, require_leader: bool) -> Result<Link, String> {
    let wire = Wire {
        channel: bare.clone(),
        token,
        require_leader,
    };
    let boxed = tower::util::BoxCloneSyncService::new(wire.clone());
    let client = etcd_client::Client::from_channel(etcd_client::Channel::Custom(boxed), None)
        .await
        .map_err(|error| error.to_string())?;
    let kv = client
        .kv_client()
        .max_decoding_message_size(REPLY_BYTES_MAX);
    Ok(Link {
        wire,
        bare,
        client,
        kv,
    })
}

/// The connection was closed; a link does not connect again.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct LinkClosed;

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link(..)")
    }
}

impl From<Abandoned> for ConnectFailure {
    fn from(_: Abandoned) -> Self {
        Self("connecting was abandoned".to_owned())
    }
}

impl Service<http::Request<Body>> for Wire {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        if let Some(token) = self.token.get() {
            headers.insert("token", token);
        }
        if self.require_leader {
            headers.insert("hasleader", HeaderValue::from_static("true"));
        }
        let response = self.channel.call(request);
        Box::pin(async move { response.await.map_err(Into::into) })
    }
}
