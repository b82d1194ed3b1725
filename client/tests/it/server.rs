//! A server that answers as a test tells it to.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::future::pending;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// How one request is answered.
pub(crate) enum Answer {
    /// With this status and body.
    Json(u16, Value),
    /// With this status, no body, and `Retry-After`.
    RetryAfter(u16, u64),
    /// With this status and body, and the connection is closed after it.
    LastJson(u16, Value),
    /// The connection is closed instead.
    Break,
    /// Never.
    Hang,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Its path.
    pub(crate) path: String,
    /// Its body.
    pub(crate) body: Value,
    /// Its `Authorization` header.
    pub(crate) authorization: Option<String>,
    /// Which connection it came over, counted from 0.
    pub(crate) connection: usize,
    /// Whether a certificate was shown on it.
    pub(crate) certificate: bool,
}

/// What a script is asked.
pub(crate) struct Asked<'a> {
    /// The request.
    pub(crate) seen: &'a Seen,
    /// How many requests for this path came before.
    pub(crate) nth: usize,
}

type Script = dyn Fn(Asked<'_>) -> Answer + Send + Sync;

/// Ends, with all its connections, when it is dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:port`, or `https`.
    pub(crate) url: String,
    seen: watch::Receiver<Vec<Seen>>,
    accepting: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(
        script: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(None, script).await
    }

    /// With TLS, where it is given.
    pub(crate) async fn start_with(
        tls: Option<TlsAcceptor>,
        script: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (seen, seen_so_far) = watch::channel(Vec::new());
        Self {
            url,
            seen: seen_so_far,
            accepting: tokio::spawn(accept(listener, tls, Arc::new(script), Arc::new(seen))),
        }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Waits until the requests so far satisfy the condition.
    pub(crate) async fn until(&self, condition: impl Fn(&[Seen]) -> bool) {
        let mut seen = self.seen.clone();
        seen.wait_for(|seen| condition(seen)).await.unwrap();
    }

    /// How many requests for `path` came so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        count(&self.seen.borrow(), path)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(crate) fn count(seen: &[Seen], path: &str) -> usize {
    seen.iter().filter(|one| one.path == path).count()
}

/// An address where nobody listens.
pub(crate) async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

type Log = watch::Sender<Vec<Seen>>;

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    script: Arc<Script>,
    log: Arc<Log>,
) {
    let mut connections = tokio::task::JoinSet::new();
    for connection in 0.. {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, script, log) = (tls.clone(), Arc::clone(&script), Arc::clone(&log));
        connections.spawn(async move {
            let Some(tls) = tls else {
                return serve(stream, (connection, false), script, log).await;
            };
            if let Ok(stream) = tls.accept(stream).await {
                let shown = stream.get_ref().1.peer_certificates().is_some();
                serve(stream, (connection, shown), script, log).await;
            }
        });
    }
}

/// Which connection, and whether a certificate was shown on it.
type Who = (usize, bool);

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    who: Who,
    script: Arc<Script>,
    log: Arc<Log>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (script, log) = (Arc::clone(&script), Arc::clone(&log));
        async move { answer(request, who, &*script, &log).await }
    });
    let http = hyper::server::conn::http1::Builder::new();
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    (connection, certificate): Who,
    script: &Script,
    log: &Log,
) -> io::Result<Response<Full<Bytes>>> {
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get("authorization");
    let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let seen = Seen {
        path,
        body: serde_json::from_slice(&body).unwrap(),
        authorization,
        connection,
        certificate,
    };
    let nth = count(&log.borrow(), &seen.path);
    let answer = script(Asked { seen: &seen, nth });
    log.send_modify(|log| log.push(seen));
    let response = Response::builder();
    let response = match answer {
        Answer::Json(status, body) => response.status(status).body(body.to_string().into()),
        Answer::LastJson(status, body) => response
            .status(status)
            .header("connection", "close")
            .body(body.to_string().into()),
        Answer::RetryAfter(status, secs) => response
            .status(status)
            .header("retry-after", secs)
            .body(Full::default()),
        Answer::Break => return Err(io::ErrorKind::ConnectionAborted.into()),
        Answer::Hang => pending().await,
    };
    Ok(response.unwrap())
}
