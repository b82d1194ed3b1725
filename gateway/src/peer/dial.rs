//! The task of one link: it feeds [`Link`] requests, frames and time, and carries out its steps.

use crate::limits;
use crate::peer::handshake::{self, Frames, PeerSecret, Side};
use crate::peer::link::{Link, Step};
use crate::peer::listen::{PATH, PROTOCOL};
use crate::peer::peers::Links;
use crate::peer::wire::Frame;
use crate::service::{Forward, ForwardOutcome};
use crate::time::{Clock, Instant};
use anyhow::Context;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Weak};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Requests that are taken over in one turn, so that they can share a frame.
const ASKS_AT_ONCE_MAX: usize = limits::CALLS_PER_FRAME_MAX;

/// A request that is to be forwarded.
pub(super) struct Asked {
    pub(super) cluster: Arc<str>,
    pub(super) forward: Forward,
    pub(super) asker: oneshot::Sender<ForwardOutcome>,
}

type Connection = Frames<TokioIo<Upgraded>>;

/// What happens to a connection.
enum Event {
    Dialed(Box<Connection>),
    Heard(Frame),
    Broken(String),
}

/// See the module.
pub(super) struct LinkTask<C> {
    url: Arc<str>,
    secret: PeerSecret,
    clock: Arc<C>,
    links: Weak<Links>,
    link: Link<oneshot::Sender<ForwardOutcome>>,
    steps: Vec<Step<oneshot::Sender<ForwardOutcome>>>,
    /// Events of the present connection; another replaces the channel, so that what is left of
    /// an old one is not heard.
    events: mpsc::Receiver<Event>,
    /// Where to write; its capacity is bounded by what may be pending.
    writer: Option<mpsc::UnboundedSender<Frame>>,
    tasks: Vec<JoinHandle<()>>,
}

impl<C: Clock> LinkTask<C> {
    pub(super) fn new(
        url: Arc<str>,
        secret: PeerSecret,
        clock: Arc<C>,
        links: Weak<Links>,
    ) -> Self {
        Self {
            url,
            secret,
            clock,
            links,
            link: Link::default(),
            steps: Vec::new(),
            events: mpsc::channel(1).1,
            writer: None,
            tasks: Vec::new(),
        }
    }

    /// Runs until nothing was asked for long, or the gateway ends.
    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<Asked>) {
        let mut asks = Vec::new();
        loop {
            let wakeup = self.link.next_wakeup();
            let wait = match wakeup {
                Some(wakeup) => wakeup.since(self.clock.now()),
                None => limits::PEER_IDLE,
            };
            tokio::select! {
                count = asked.recv_many(&mut asks, ASKS_AT_ONCE_MAX) => {
                    if count == 0 {
                        break;
                    }
                }
                Some(event) = self.events.recv() => self.happened(event),
                () = tokio::time::sleep(wait.to_std()) => {
                    if wakeup.is_none() {
                        self.forget(&mut asked);
                    }
                }
            }
            let now = self.clock.now();
            for Asked {
                cluster,
                forward,
                asker,
            } in asks.drain(..)
            {
                self.link
                    .forward(now, &cluster, &forward, asker, &mut self.steps);
            }
            self.link.tick(now, &mut self.steps);
            self.link.flush(&mut self.steps);
            self.carry_out(now);
        }
        self.hang_up();
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
            Event::Dialed(connection) => {
                self.connected(*connection);
                self.link.dialed(now, &mut self.steps);
            }
            Event::Heard(frame) => self.link.heard(now, frame, &mut self.steps),
            Event::Broken(why) => {
                tracing::debug!(peer = %self.url, why, "no connection to another gateway");
                self.writer = None;
                self.link.broken(now, &mut self.steps);
            }
        }
    }

    fn carry_out(&mut self, now: Instant) {
        while !self.steps.is_empty() {
            for step in std::mem::take(&mut self.steps) {
                match step {
                    Step::Dial => self.dial(),
                    Step::HangUp => {
                        tracing::info!(peer = %self.url, "another gateway does not answer");
                        self.hang_up();
                    }
                    // The asker may have gone; the call is carried out all the same.
                    Step::Answer(asker, outcome) => drop(asker.send(outcome)),
                    Step::Send(frame) => {
                        let sent = self.writer.as_ref().map(|writer| writer.send(frame));
                        if !matches!(sent, Some(Ok(()))) {
                            self.hang_up();
                            self.link.broken(now, &mut self.steps);
                        }
                    }
                }
            }
        }
    }

    fn dial(&mut self) {
        self.hang_up();
        let (events, heard) = mpsc::channel(64);
        self.events = heard;
        let (url, secret) = (Arc::clone(&self.url), self.secret.clone());
        self.tasks.push(tokio::spawn(async move {
            let dialing = dial(&url, &secret);
            let timeout = limits::PEER_HANDSHAKE_TIMEOUT.to_std();
            let connection = match tokio::time::timeout(timeout, dialing).await {
                Ok(connection) => connection,
                Err(_) => Err(anyhow::anyhow!("no answer in time")),
            };
            let event = match connection {
                Ok(connection) => Event::Dialed(Box::new(connection)),
                Err(error) => Event::Broken(format!("{error:#}")),
            };
            // The link may have given up.
            let _ = events.send(event).await;
        }));
    }

    fn connected(&mut self, connection: Connection) {
        let (sink, stream) = connection.split();
        let (events, heard) = mpsc::channel(64);
        let (writer, frames) = mpsc::unbounded_channel();
        self.events = heard;
        self.writer = Some(writer);
        self.tasks.clear();
        self.tasks.push(tokio::spawn(read(stream, events)));
        self.tasks.push(tokio::spawn(write(sink, frames)));
    }

    fn hang_up(&mut self) {
        self.writer = None;
        self.events = mpsc::channel(1).1;
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

async fn read(mut stream: SplitStream<Connection>, events: mpsc::Sender<Event>) {
    let why = loop {
        let frame = match stream.next().await {
            Some(Ok(bytes)) => Frame::decode(&bytes),
            Some(Err(error)) => break error.to_string(),
            None => break "it was closed".to_owned(),
        };
        let Some(frame) = frame else {
            break "bytes that are no frame".to_owned();
        };
        if events.send(Event::Heard(frame)).await.is_err() {
            return;
        }
    };
    let _ = events.send(Event::Broken(why)).await;
}

/// Writes until the link drops the channel or the connection breaks, which the reader notices too.
async fn write(mut sink: SplitSink<Connection, Bytes>, mut frames: mpsc::UnboundedReceiver<Frame>) {
    while let Some(frame) = frames.recv().await {
        if sink.send(frame.encode()).await.is_err() {
            return;
        }
    }
}

/// Connects to the gateway at `url` and shakes hands.
async fn dial(url: &str, secret: &PeerSecret) -> anyhow::Result<Connection> {
    let uri: Uri = url.parse()?;
    let host = uri.host().context("no host")?;
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await?;
    // Frames are small, and each waits for nothing.
    stream.set_nodelay(true)?;
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
    let mut frames = handshake::frames(TokioIo::new(hyper::upgrade::on(reply).await?));
    handshake::shake(&mut frames, Side::Dialer, secret).await?;
    Ok(frames)
}
