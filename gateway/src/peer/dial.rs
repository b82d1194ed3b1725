//! The task of one link: it feeds [`Link`] requests, frames and time, and carries out its steps.

use crate::limits;
use crate::logs::Throttle;
use crate::peer::connection::{Connection, framed};
use crate::peer::handshake::{PeerSecret, Side, shake};
use crate::peer::link::{Link, Step};
use crate::peer::listen::{PATH, PROTOCOL};
use crate::peer::peers::Links;
use crate::peer::wire::Frame;
use crate::service::{Forward, ForwardOutcome};
use crate::time::Clock;
use crate::tls::ClientTls;
use anyhow::Context;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Weak};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Requests that are taken over in one turn, so that they can share a frame.
const ASKS_AT_ONCE_MAX: usize = limits::CALLS_PER_FRAME_MAX;

/// What a link is to do.
pub(super) enum Asked {
    /// Forward a request and tell the asker what came of it.
    Forward(Arc<str>, Box<Forward>, oneshot::Sender<ForwardOutcome>),
    /// Tell the peer something.
    Tell(Frame),
}

/// The connection, as far as there is one.
enum Line {
    None,
    Dialing(JoinHandle<anyhow::Result<Connection>>),
    Open(Box<Connection>),
}

/// What happens to it.
enum Event {
    Dialed(anyhow::Result<Connection>),
    Heard(Frame),
    Closed,
}

impl Line {
    async fn next(&mut self) -> Event {
        match self {
            Self::None => std::future::pending().await,
            Self::Dialing(dialing) => Event::Dialed(match dialing.await {
                Ok(dialed) => dialed,
                Err(error) => Err(error.into()),
            }),
            Self::Open(connection) => connection.next().await.map_or(Event::Closed, Event::Heard),
        }
    }

    fn hang_up(&mut self) {
        if let Self::Dialing(dialing) = std::mem::replace(self, Self::None) {
            dialing.abort();
        }
    }
}

/// See the module.
pub(super) struct LinkTask<C> {
    url: Arc<str>,
    secret: PeerSecret,
    tls: Option<Arc<ClientTls>>,
    clock: Arc<C>,
    links: Weak<Links>,
    link: Link<oneshot::Sender<ForwardOutcome>>,
    steps: Vec<Step<oneshot::Sender<ForwardOutcome>>>,
    line: Line,
    failures: Throttle,
}

impl<C: Clock> LinkTask<C> {
    pub(super) fn new(
        url: Arc<str>,
        secret: PeerSecret,
        tls: Option<Arc<ClientTls>>,
        clock: Arc<C>,
        links: Weak<Links>,
    ) -> Self {
        Self {
            url,
            secret,
            tls,
            clock,
            links,
            link: Link::default(),
            steps: Vec::new(),
            line: Line::None,
            failures: Throttle::default(),
        }
    }

    /// Runs until nothing was asked for long, or the gateway ends.
    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<Asked>) {
        let mut asks = Vec::new();
        // Whether there may be more to be asked than was taken at once.
        let mut more = false;
        loop {
            let now = self.clock.now();
            // While nothing may leave, what is asked waits where it is: taking each call by itself
            // would wake this task, and set a timer, per call rather than per frame.
            let rest = self
                .link
                .rests_until()
                .filter(|until| now < *until && !more);
            let wakeup = rest.or_else(|| self.link.next_wakeup());
            let wait = match wakeup {
                Some(wakeup) => wakeup.since(now),
                None => limits::PEER_IDLE,
            };
            tokio::select! {
                count = asked.recv_many(&mut asks, ASKS_AT_ONCE_MAX), if rest.is_none() => {
                    if count == 0 {
                        break;
                    }
                    more = count == ASKS_AT_ONCE_MAX;
                }
                event = self.line.next() => self.happened(event),
                () = tokio::time::sleep(wait.to_std()) => {
                    if wakeup.is_none() {
                        self.forget(&mut asked);
                    }
                }
            }
            let now = self.clock.now();
            for asked in asks.drain(..) {
                match asked {
                    Asked::Forward(cluster, forward, asker) => {
                        self.link
                            .forward(now, &cluster, &forward, asker, &mut self.steps);
                    }
                    Asked::Tell(frame) => self.link.tell(now, frame, &mut self.steps),
                }
            }
            self.link.tick(now, &mut self.steps);
            self.link.flush(now, &mut self.steps);
            self.carry_out();
        }
        self.line.hang_up();
    }

    /// Takes no more requests; those that came meanwhile are still served.
    fn forget(&mut self, asked: &mut mpsc::Receiver<Asked>) {
        if let Some(links) = self.links.upgrade() {
            links.remove(&self.url);
        }
        asked.close();
    }

    fn happened(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Dialed(Ok(connection)) => {
                self.line = Line::Open(Box::new(connection));
                self.link.dialed(now, &mut self.steps);
            }
            Event::Heard(frame) => self.link.heard(now, frame, &mut self.steps),
            Event::Dialed(Err(error)) => {
                let error = format!("{error:#}");
                if let Some(count) = self.failures.log(now) {
                    tracing::warn!(
                        peer = %self.url, error, count, "no connection to another gateway"
                    );
                }
                self.line = Line::None;
                self.link.broken(now, &mut self.steps);
            }
            Event::Closed => {
                self.line = Line::None;
                self.link.broken(now, &mut self.steps);
            }
        }
    }

    fn carry_out(&mut self) {
        for step in self.steps.drain(..) {
            match step {
                Step::Dial => {
                    self.line.hang_up();
                    let (url, secret) = (Arc::clone(&self.url), self.secret.clone());
                    self.line =
                        Line::Dialing(tokio::spawn(dial_in_time(url, secret, self.tls.clone())));
                }
                Step::HangUp => {
                    tracing::info!(peer = %self.url, "another gateway does not answer");
                    self.line.hang_up();
                }
                Step::Send(frame) => {
                    if let Line::Open(connection) = &mut self.line {
                        connection.send(&frame);
                    }
                }
                // The asker may have gone; the call is carried out all the same.
                Step::Answer(asker, outcome) => drop(asker.send(outcome)),
            }
        }
    }
}

async fn dial_in_time(
    url: Arc<str>,
    secret: PeerSecret,
    tls: Option<Arc<ClientTls>>,
) -> anyhow::Result<Connection> {
    let timeout = limits::PEER_HANDSHAKE_TIMEOUT.to_std();
    tokio::time::timeout(timeout, dial(&url, &secret, tls.as_deref()))
        .await
        .context("no answer in time")?
}

/// Connects to the gateway at `url` and shakes hands.
async fn dial(
    url: &str,
    secret: &PeerSecret,
    tls: Option<&ClientTls>,
) -> anyhow::Result<Connection> {
    let uri: Uri = url.parse()?;
    let host = uri.host().context("no host")?;
    let host = host.trim_matches(['[', ']']);
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    // Frames are small, and each waits for nothing.
    stream.set_nodelay(true)?;
    match tls {
        // A gateway with TLS speaks to none without: who listens there is anybody's guess.
        Some(tls) => greet(&uri, tls.connect(host, stream).await?, secret).await,
        None if is_tls => {
            anyhow::bail!("it speaks TLS; peer.cert, peer.key and peer.cacert are needed")
        }
        None => greet(&uri, stream, secret).await,
    }
}

/// Asks for frames instead of HTTP, and shakes hands.
async fn greet<S>(uri: &Uri, stream: S, secret: &PeerSecret) -> anyhow::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection.with_upgrades());
    let request = Request::get(PATH)
        .header(
            HOST,
            uri.authority().map_or("", |authority| authority.as_str()),
        )
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL)
        .body(Empty::<Bytes>::new())?;
    let reply = sender.send_request(request).await?;
    anyhow::ensure!(
        reply.status() == StatusCode::SWITCHING_PROTOCOLS,
        "answered {}: is peer_url the peer listener of a gateway?",
        reply.status()
    );
    let mut bytes = framed(TokioIo::new(hyper::upgrade::on(reply).await?));
    shake(&mut bytes, Side::Dialer, secret).await?;
    Ok(Connection::new(bytes))
}
