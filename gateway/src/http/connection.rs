//! One client connection, from its acceptance to its end.

use super::Timeouts;
use super::express::Express;
use super::guard::{Guard, Written};
use super::reply::Reply;
use crate::lifecycle::{Lifecycle, Phase};
use crate::limits;
use futures::future::FutureExt as _;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves a connection until the client ends it, or the process is in phase `last`: then what is
/// under way is finished. In [`Phase::Done`] it is cut off.
///
/// `answer` gets every request that `express` does not answer at once, and the guard's own ones
/// for what it refused ([`fault_of`](super::guard::fault_of)).
pub(crate) async fn serve<S, X, A, F>(
    stream: S,
    timeouts: Timeouts,
    lifecycle: &Lifecycle,
    last: Phase,
    express: &X,
    answer: A,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    X: Express,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Reply>,
{
    let written = Written::default();
    let service = service_fn(|request| {
        let written = written.clone();
        let told = move |body| written.told(body);
        answer(request).map(|reply| Ok::<_, Infallible>(reply.map(told)))
    });
    let guard = Guard::new(stream, timeouts, express, written.clone());
    let connection = http1::Builder::new()
        // The guard keeps the time for headers, by rules of its own.
        .header_read_timeout(None)
        .max_buf_size(limits::CONNECTION_BUFFER_BYTES_MAX)
        // Almost every reply is so small that copying it behind its head is the shorter way.
        .writev(false)
        .serve_connection(TokioIo::new(guard), service);
    let mut connection = pin!(connection);
    let mut finishing = Signal::new(lifecycle.reached(last));
    let mut done = Signal::new(lifecycle.reached(Phase::Done));
    std::future::poll_fn(|cx| {
        let phase = lifecycle.phase();
        if finishing.seen(phase >= last, cx) {
            connection.as_mut().graceful_shutdown();
        }
        if done.seen(phase >= Phase::Done, cx) {
            return Poll::Ready(());
        }
        // How a connection broke is of no interest: every answer was given or is lost.
        connection.as_mut().poll(cx).map(|_| ())
    })
    .await;
}

/// Wakes this task once something has happened elsewhere.
///
/// It is polled for its waker once, and again only when the event is known to have happened:
/// polling such a future takes a lock that all connections share, and a task's waker is always
/// the same.
struct Signal<F> {
    event: Pin<Box<F>>,
    state: SignalState,
}

#[derive(PartialEq, Eq)]
enum SignalState {
    New,
    Registered,
    Seen,
}

impl<F: Future<Output = ()>> Signal<F> {
    fn new(event: F) -> Self {
        Self {
            event: Box::pin(event),
            state: SignalState::New,
        }
    }

    /// True once, when the event has happened.
    fn seen(&mut self, happened: bool, cx: &mut Context<'_>) -> bool {
        match self.state {
            SignalState::Seen => return false,
            SignalState::Registered if !happened => return false,
            SignalState::New if self.event.as_mut().poll(cx).is_pending() && !happened => {
                self.state = SignalState::Registered;
                return false;
            }
            SignalState::New | SignalState::Registered => {}
        }
        self.state = SignalState::Seen;
        true
    }
}
