//! The listener for other gateways, and the answers to what they forward.
//!
//! What memory can answer goes back at once, many answers in one frame; the rest is answered when
//! the engine has. A gateway that sends faster than it is answered is not read from meanwhile.

use crate::limits;
use crate::peer::handshake::{self, Frames, PeerSecret, Side};
use crate::peer::wire::{Call, CallNo, Frame, Said};
use crate::service::{ForwardOutcome, LockService};
use crate::time::Clock;
use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

/// The only route of the listener.
pub(super) const PATH: &str = "/peer";
/// What a connection is upgraded to.
pub(super) const PROTOCOL: &str = "holdfast-peer";

/// Answers are gathered so many at a time.
const ANSWERS_AT_ONCE_MAX: usize = limits::CALLS_PER_FRAME_MAX;

/// Serves other gateways. Runs until it is dropped.
pub async fn listen<C: Clock>(
    listener: TcpListener,
    secret: PeerSecret,
    service: Arc<LockService<C>>,
) {
    let places = Arc::new(Semaphore::new(limits::PEER_CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
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
        let (secret, service) = (secret.clone(), Arc::clone(&service));
        tokio::spawn(async move {
            let _place = place;
            greet(stream, secret, service).await;
        });
    }
}

/// Speaks HTTP until the connection is upgraded, which must not take long.
async fn greet<C: Clock>(stream: TcpStream, secret: PeerSecret, service: Arc<LockService<C>>) {
    // Frames are small, and each waits for nothing.
    let _ = stream.set_nodelay(true);
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
    let timeout = limits::PEER_HANDSHAKE_TIMEOUT.to_std();
    let shaken = tokio::time::timeout(timeout, async {
        // An error shows as a connection that was not upgraded.
        let _ = serving.await;
        let connection = hyper::upgrade::on(upgrading.recv().await?).await.ok()?;
        let mut frames = handshake::frames(TokioIo::new(connection));
        match handshake::shake(&mut frames, Side::Listener, &secret).await {
            Ok(()) => Some(frames),
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "a gateway's connection is refused"
                );
                None
            }
        }
    });
    if let Ok(Some(frames)) = shaken.await {
        serve(frames, service).await;
    }
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

type Connection = Frames<TokioIo<Upgraded>>;

async fn serve<C: Clock>(connection: Connection, service: Arc<LockService<C>>) {
    let (sink, mut stream) = connection.split();
    // Bounded by the calls that may be under way.
    let (answers, answered) = mpsc::unbounded_channel();
    let under_way = Arc::new(Semaphore::new(limits::PEER_CALLS_MAX));
    let writing = tokio::spawn(write(sink, answered, Arc::clone(&under_way)));
    while let Some(Ok(bytes)) = stream.next().await {
        match Frame::decode(&bytes) {
            Some(Frame::Calls(calls)) => {
                let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
                match under_way.acquire_many(count).await {
                    // The writer gives them back, one for each answer.
                    Ok(places) => places.forget(),
                    Err(_) => break,
                }
                answer(calls, &service, &answers);
            }
            Some(Frame::Ping) => {
                let _ = answers.send(Outgoing::Pong);
            }
            Some(Frame::Pong | Frame::Answers(_)) => {}
            None => break,
        }
    }
    writing.abort();
}

enum Outgoing {
    Pong,
    Answer(CallNo, Said),
}

fn answer<C: Clock>(
    calls: Vec<Call>,
    service: &Arc<LockService<C>>,
    answers: &mpsc::UnboundedSender<Outgoing>,
) {
    let now = service.now();
    for call in calls {
        let Some(forward) = call.forward() else {
            let _ = answers.send(Outgoing::Answer(call.no, Said::NotMine));
            continue;
        };
        match service.serve_forwarded(now, &forward) {
            Some(outcome) => {
                let _ = answers.send(Outgoing::Answer(call.no, outcome.into()));
            }
            None => {
                let (service, answers) = (Arc::clone(service), answers.clone());
                tokio::spawn(async move {
                    let outcome: ForwardOutcome = service.answer_forwarded(forward).await;
                    let _ = answers.send(Outgoing::Answer(call.no, outcome.into()));
                });
            }
        }
    }
}

async fn write(
    mut sink: SplitSink<Connection, Bytes>,
    mut answered: mpsc::UnboundedReceiver<Outgoing>,
    under_way: Arc<Semaphore>,
) {
    let mut gathered = Vec::new();
    while answered.recv_many(&mut gathered, ANSWERS_AT_ONCE_MAX).await > 0 {
        let mut answers = Vec::new();
        let mut pong = false;
        for outgoing in gathered.drain(..) {
            match outgoing {
                Outgoing::Pong => pong = true,
                Outgoing::Answer(no, said) => answers.push((no, said)),
            }
        }
        under_way.add_permits(answers.len());
        if pong && sink.send(Frame::Pong.encode()).await.is_err() {
            return;
        }
        if !answers.is_empty() && sink.send(Frame::Answers(answers).encode()).await.is_err() {
            return;
        }
    }
}
