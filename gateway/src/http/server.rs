//! The accept loop of the public listener.

use super::client::Client;
use super::connection;
use super::edge::Edge;
use super::failure::Failure;
use super::places::Places;
use super::{http2, reply};
use crate::auth::{Caller, Certificate};
use crate::lifecycle::Phase;
use crate::limits;
use crate::logs::Throttle;
use crate::service::Locks;
use crate::time::{Clock, Millis};
use crate::tls::{self, ServerTls};
use holdfast_api::ErrorCode;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

/// Listens on `address`; port 0 means any free one.
///
/// # Errors
/// When the address cannot be listened on.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::ACCEPT_BACKLOG)
}

/// Serves the lock API on `listener`, over TLS if there is any, until the lifecycle is in [`Phase::Finishing`] and every
/// connection has ended (in [`Phase::Done`] they are cut off).
pub async fn serve<L: Locks, C: Clock>(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    edge: Arc<Edge<L, C>>,
) {
    let connections_max = edge.settings.connections_max.0;
    let places = Arc::new(Semaphore::new(connections_max as usize));
    let by_address = Places::new(edge.settings.address_connections_max);
    let refusals = Arc::new(Semaphore::new(limits::REFUSALS_MAX));
    let refusal = Arc::new(refusal().await);
    let is_tls = tls.is_some();
    let mut looks = tokio::time::interval(limits::PRESSURE_INTERVAL.to_std());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked = edge.clock.now();
    let (mut refused, mut broken) = (Throttle::default(), Throttle::default());
    let lifecycle = edge.lifecycle.clone();
    let mut finishing = std::pin::pin!(lifecycle.reached(Phase::Finishing));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = looks.tick() => {
                let now = edge.clock.now();
                let took_ms = now.since(looked).as_ms();
                let late_ms = took_ms.saturating_sub(limits::PRESSURE_INTERVAL.as_ms());
                edge.look(Millis::from_ms(late_ms));
                looked = now;
                continue;
            }
            () = &mut finishing => break,
        };
        let (stream, address) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                if let Some(count) = broken.log(edge.clock.now()) {
                    tracing::warn!(%error, count, "a connection could not be accepted");
                }
                tokio::time::sleep(limits::ACCEPT_RETRY.to_std()).await;
                continue;
            }
        };
        // Replies are small and each is one write; waiting for more would only delay it.
        let _ = stream.set_nodelay(true);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned()
            && let Some(own_place) = by_address.take(address)
        {
            let (edge, tls) = (Arc::clone(&edge), tls.clone());
            edge.metrics.connection_opened();
            tokio::spawn(async move {
                let metrics = Arc::clone(&edge.metrics);
                let _open = OpenConnection(metrics);
                match tls {
                    None => serve_http1(stream, &edge, address, None).await,
                    Some(tls) => serve_tls(stream, &tls, edge, address).await,
                }
                drop((own_place, place));
            });
            continue;
        }
        edge.metrics.connection_refused();
        if let Some(count) = refused.log(edge.clock.now()) {
            tracing::warn!(
                count,
                connections_max,
                "connections refused: there are too many"
            );
        }
        // Saying so in TLS would cost more than serving it; and nothing else would be understood.
        if let Ok(place) = Arc::clone(&refusals).try_acquire_owned()
            && !is_tls
        {
            let refusal = Arc::clone(&refusal);
            tokio::spawn(async move {
                refuse(stream, &refusal).await;
                drop(place);
            });
        }
    }
    drop(listener);
    // All places are free when all connections have ended. The semaphore is never closed.
    let _ = places.acquire_many(connections_max).await;
}

async fn serve_tls<L: Locks, C: Clock>(
    stream: TcpStream,
    tls: &ServerTls,
    edge: Arc<Edge<L, C>>,
    address: IpAddr,
) {
    // Strangers knock on every port; what came of each is of no interest.
    let Ok(stream) = tls.accept(stream).await else {
        return edge.metrics.handshake_failed();
    };
    let certificate = tls::certificate(&stream);
    if tls::is_http2(&stream) {
        let caller = Caller::new(Arc::clone(&edge.auth), address, certificate);
        http2::serve(TokioIo::new(stream), edge, caller).await;
    } else {
        serve_http1(stream, &edge, address, certificate).await;
    }
}

async fn serve_http1<L: Locks, C: Clock, S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    edge: &Edge<L, C>,
    address: IpAddr,
    certificate: Option<Certificate>,
) {
    let client = Client::new(edge, address, certificate);
    connection::serve(
        stream,
        edge.settings.timeouts,
        &edge.lifecycle,
        Phase::Finishing,
        &client,
        |request| edge.answer(&client.caller, request),
    )
    .await;
}

/// Counts a connection for as long as it lives, however it ends.
struct OpenConnection(Arc<crate::metrics::Metrics>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// Tells a client that there are too many, and lets it read that.
async fn refuse(mut stream: TcpStream, refusal: &[u8]) {
    let told = async {
        stream.write_all(refusal).await?;
        stream.shutdown().await?;
        let mut scratch = [0; 1024];
        while stream.read(&mut scratch).await? > 0 {}
        io::Result::Ok(())
    };
    // Whether it listens is its own affair.
    let _ = tokio::time::timeout(limits::LINGER_TIMEOUT.to_std(), told).await;
}

/// The whole refusal, as it stands on the wire.
async fn refusal() -> Vec<u8> {
    let failure = Failure::overloaded("too many connections; reuse them, or come back later");
    let (head, body) = reply::problem(&failure, "/").into_parts();
    // A body that is there already is collected without waiting and without an error.
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.unwrap_or_default();
    let status = ErrorCode::Overloaded.status();
    let mut text = format!("HTTP/1.1 {status} Service Unavailable\r\n").into_bytes();
    for (name, value) in &head.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    let length = body.len();
    text.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
    text.extend_from_slice(b"connection: close\r\n\r\n");
    text.extend_from_slice(&body);
    text
}
