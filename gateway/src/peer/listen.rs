//! The listener for other gateways, and the answers to what they forward.
//!
//! What memory can answer goes back at once, many answers in one frame; the rest is answered when
//! the engine has. A gateway that sends faster than it is answered is not read from meanwhile.

use crate::limits;
use crate::logs::Throttle;
use crate::peer::connection::{Connection, framed};
use crate::peer::handshake::{PeerSecret, Side, shake};
use crate::peer::wire::{Call, CallNo, Frame, Said};
use crate::service::LockService;
use crate::time::Clock;
use crate::tls::ServerTls;
use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

/// The only route of the listener.
pub(super) const PATH: &str = "/peer";
/// What a connection is upgraded to.
pub(super) const PROTOCOL: &str = "holdfast-peer";

/// Serves other gateways, over TLS if there is any. Runs until it is dropped.
pub async fn listen<C: Clock>(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    secret: PeerSecret,
    service: Arc<LockService<C>>,
) {
    let handshakes = Arc::new(Semaphore::new(limits::PEER_HANDSHAKES_MAX));
    let gateways = Arc::new(Semaphore::new(limits::PEER_CONNECTIONS_MAX));
    let refusals = Arc::new(Mutex::new(Throttle::default()));
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a gateway's connection could not be accepted");
                tokio::time::sleep(limits::ACCEPT_RETRY.to_std()).await;
                continue;
            }
        };
        let (secret, service, tls) = (secret.clone(), Arc::clone(&service), tls.clone());
        let (gateways, refusals) = (Arc::clone(&gateways), Arc::clone(&refusals));
        tokio::spawn(async move {
            let greeted = receive(stream, tls.as_deref(), &secret).await;
            drop(handshake);
            match (greeted, gateways.try_acquire()) {
                (Ok(connection), Ok(_place)) => serve(connection, service).await,
                (Ok(_), Err(_)) => tracing::error!("more gateways connect than may"),
                (Err(error), _) => {
                    if let Some(count) = refusals.lock().log(service.now()) {
                        let error = format!("{error:#}");
                        tracing::warn!(error, count, "a connection of a gateway is refused");
                    }
                }
            }
        });
    }
}

async fn receive(
    stream: TcpStream,
    tls: Option<&ServerTls>,
    secret: &PeerSecret,
) -> anyhow::Result<Connection> {
    // Frames are small, and each waits for nothing.
    stream.set_nodelay(true)?;
    match tls {
        None => greet(stream, secret).await,
        Some(tls) => {
            let stream = tls.accept(stream).await.context("its TLS handshake")?;
            greet(stream, secret).await
        }
    }
}

/// Speaks HTTP until the connection is upgraded, and shakes hands, which must not take long.
async fn greet<S>(stream: S, secret: &PeerSecret) -> anyhow::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (upgraded, mut upgrading) = mpsc::channel(1);
    let answer = service_fn(move |request: Request<Incoming>| {
        let upgraded = upgraded.clone();
        async move { Ok::<_, Infallible>(reply(request, &upgraded)) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::PEER_HANDSHAKE_TIMEOUT.to_std())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    let shaking = async {
        serving.await?;
        let request = upgrading
            .recv()
            .await
            .context("it asked for something else")?;
        let mut bytes = framed(TokioIo::new(hyper::upgrade::on(request).await?));
        shake(&mut bytes, Side::Listener, secret).await?;
        Ok(Connection::new(bytes))
    };
    let timeout = limits::PEER_HANDSHAKE_TIMEOUT.to_std();
    tokio::time::timeout(timeout, shaking)
        .await
        .context("it took too long")?
}

fn reply(
    request: Request<Incoming>,
    upgraded: &mpsc::Sender<Request<Incoming>>,
) -> Response<Full<Bytes>> {
    let wants = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    let mut reply = Response::new(Full::default());
    if request.uri().path() != PATH || wants != Some(PROTOCOL.as_bytes()) {
        *reply.status_mut() = StatusCode::NOT_FOUND;
        *reply.body_mut() = "this listener is for other gateways\n".into();
        return reply;
    }
    if upgraded.try_send(request).is_ok() {
        *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = reply.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    }
    reply
}

async fn serve<C: Clock>(mut connection: Connection, service: Arc<LockService<C>>) {
    // Bounded by the calls that may be under way.
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut gathered = Vec::new();
    let mut under_way = 0;
    loop {
        let may_read = under_way < limits::PEER_CALLS_MAX;
        tokio::select! {
            // The other side closes what is idle long before.
            () = tokio::time::sleep(2 * limits::PEER_IDLE.to_std()) => return,
            frame = connection.next(), if may_read => match frame {
                Some(Frame::Calls(calls)) => {
                    let (said, asked) = answer(calls, &service, &answers);
                    under_way += asked;
                    if !said.is_empty() {
                        connection.send(&Frame::Answers(said));
                    }
                }
                Some(Frame::Ping) => connection.send(&Frame::Pong),
                Some(Frame::Left(left)) => {
                    let (cluster, heritage) = left.heritage();
                    service.inherit(&cluster, heritage);
                }
                Some(Frame::Pong | Frame::Answers(_)) => {}
                None => return,
            },
            count = answered.recv_many(&mut gathered, limits::CALLS_PER_FRAME_MAX) => {
                under_way -= count;
                connection.send(&Frame::Answers(std::mem::take(&mut gathered)));
            }
        }
    }
}

/// Answers what memory can answer and asks the engines for the rest; tells how many those are.
fn answer<C: Clock>(
    calls: Vec<Call>,
    service: &Arc<LockService<C>>,
    answers: &mpsc::UnboundedSender<(CallNo, Said)>,
) -> (Vec<(CallNo, Said)>, usize) {
    let now = service.now();
    let mut said = Vec::with_capacity(calls.len());
    let mut asked = 0;
    for call in calls {
        let Some(forward) = call.forward() else {
            said.push((call.no, Said::NotMine));
            continue;
        };
        if let Some(outcome) = service.serve_forwarded(now, &forward) {
            said.push((call.no, outcome.into()));
            continue;
        }
        asked += 1;
        let (service, answers) = (Arc::clone(service), answers.clone());
        tokio::spawn(async move {
            let outcome = service.answer_forwarded(forward).await;
            // The connection may have ended; the call is carried out all the same.
            let _ = answers.send((call.no, outcome.into()));
        });
    }
    (said, asked)
}
