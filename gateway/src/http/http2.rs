//! One client connection that speaks HTTP/2, from its TLS handshake to its end.
//!
//! The guard is for HTTP/1.1: here the library's own rules bound what a client may do. It may have
//! so many requests under way ([`limits::HTTP2_STREAMS_MAX`]), headers of so many bytes, and is cut
//! off when it takes back more requests than the library will remember: a request that is reset at
//! once costs the client nothing and the server its beginning. Large replies that their clients do
//! not read wait in a memory that all connections share ([`held`](super::held)).

use super::edge::Edge;
use crate::auth::Caller;
use crate::lifecycle::Phase;
use crate::limits;
use crate::service::Locks;
use crate::time::Clock;
use http::header::CONNECTION;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of a connection, so that it can be told whether it is idle.
#[derive(Debug, Default)]
struct Requests {
    begun: AtomicU64,
    answered: AtomicU64,
}

/// Serves a connection until the client ends it, it is idle, or the process is about to stop.
pub(super) async fn serve<L, C, S>(stream: S, edge: Arc<Edge<L, C>>, caller: Caller)
where
    L: Locks,
    C: Clock,
    S: Read + Write + Unpin + Send + 'static,
{
    let (caller, requests) = (Arc::new(caller), Arc::new(Requests::default()));
    let (lifecycle, idle) = (edge.lifecycle.clone(), edge.settings.timeouts.idle);
    let counted = Arc::clone(&requests);
    let service = service_fn(move |request: Request<Incoming>| {
        let (edge, caller) = (Arc::clone(&edge), Arc::clone(&caller));
        let counted = Counted::new(Arc::clone(&counted));
        async move {
            let reply = edge.answer(&caller, request).await;
            drop(counted);
            Ok::<_, Infallible>(without_connection(edge.replies.hold(reply)))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::HTTP2_STREAMS_MAX)
        .max_pending_accept_reset_streams(limits::HTTP2_RESETS_PENDING_MAX)
        .max_local_error_reset_streams(limits::HTTP2_RESETS_PENDING_MAX)
        .max_header_list_size(limits::HTTP2_HEADER_BYTES_MAX)
        .max_send_buf_size(limits::HTTP2_SEND_BYTES_MAX)
        .keep_alive_interval(limits::HTTP2_PING_INTERVAL.to_std())
        .keep_alive_timeout(limits::HTTP2_PING_TIMEOUT.to_std())
        .serve_connection(stream, service);
    let mut connection = pin!(connection);
    let mut finishing = pin!(lifecycle.reached(Phase::Finishing));
    let mut done = pin!(lifecycle.reached(Phase::Done));
    let mut looks = tokio::time::interval(idle.to_std());
    looks.tick().await;
    let (mut begun, mut ending) = (0, false);
    loop {
        tokio::select! {
            // How a connection broke is of no interest: every answer was given or is lost.
            _ = connection.as_mut() => return,
            () = &mut done => return,
            () = &mut finishing, if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = looks.tick() => {
                let now = requests.begun.load(Ordering::Relaxed);
                let busy = now != requests.answered.load(Ordering::Relaxed);
                match now == begun && !busy {
                    true if ending => return,
                    true => {
                        ending = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    false => begun = now,
                }
            }
        }
    }
}

/// Counts a request as answered however it ends.
struct Counted(Arc<Requests>);

impl Counted {
    fn new(requests: Arc<Requests>) -> Self {
        requests.begun.fetch_add(1, Ordering::Relaxed);
        Self(requests)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// There is no such header in HTTP/2; a connection is ended in other ways.
fn without_connection<B>(mut reply: Response<B>) -> Response<B> {
    reply.headers_mut().remove(CONNECTION);
    reply
}
