//! A way to a process that can lose what passes over it.

use anyhow::Result;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How many bytes one read may bring.
const READ_BYTES: usize = 64 * 1024;

/// A loopback port whose connections lead to another loopback port, for as long as they may.
///
/// Give a client [`port`](Self::port) instead of the process's own. What is held back is not lost:
/// it arrives when the link carries again, also if the client has closed the connection by then.
/// That makes "applied after the caller gave up". Dropping the link closes everything.
#[derive(Debug)]
pub struct Link {
    port: u16,
    way: Way,
    accepting: JoinHandle<()>,
}

/// What a [`Link`] does to its connections, without a port of its own: a [`Fork`](crate::Fork)
/// has one for each caller. A clone is the same way.
#[derive(Debug, Clone)]
pub struct Way {
    target_port: u16,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    flow: Flow,
    delay: Duration,
    /// Connections from before the last of these are closed.
    dropped: u64,
    /// Connections from before the last of these have lost their server.
    halved: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Both,
    RequestsOnly,
    RepliesOnly,
    Nothing,
    Closed,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Request,
    Reply,
}

impl Flow {
    fn passes(self, direction: Direction) -> bool {
        match direction {
            Direction::Request => matches!(self, Self::Both | Self::RequestsOnly),
            Direction::Reply => matches!(self, Self::Both | Self::RepliesOnly),
        }
    }
}

impl Link {
    /// A link to `target_port` that carries both ways.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn to(target_port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let way = Way::to(target_port);
        let accepting = tokio::spawn(accept(listener, way.clone()));
        Ok(Self {
            port,
            way,
            accepting,
        })
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl std::ops::Deref for Link {
    type Target = Way;

    fn deref(&self) -> &Way {
        &self.way
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Way {
    /// A way to `target_port` that carries both ways.
    #[must_use]
    pub(crate) fn to(target_port: u16) -> Self {
        let (state, _) = watch::channel(State {
            flow: Flow::Both,
            delay: Duration::ZERO,
            dropped: 0,
            halved: 0,
        });
        Self {
            target_port,
            state: Arc::new(state),
        }
    }

    /// Carries both ways without delay, beginning with what was held back.
    pub fn open(&self) {
        self.state.send_modify(|state| state.delay = Duration::ZERO);
        self.flow(Flow::Both);
    }

    /// Holds replies back; requests arrive.
    pub fn hold_replies(&self) {
        self.flow(Flow::RequestsOnly);
    }

    /// Holds requests back; replies arrive.
    pub fn hold_requests(&self) {
        self.flow(Flow::RepliesOnly);
    }

    /// Holds both back, as a network that loses all packets. Connections stay.
    pub fn hold_all(&self) {
        self.flow(Flow::Nothing);
    }

    /// Closes all connections, with what was held back in them, and each that comes.
    pub fn close(&self) {
        self.flow(Flow::Closed);
    }

    /// From now on carries everything so much later.
    pub fn delay(&self, by: Duration) {
        self.state.send_modify(|state| state.delay = by);
    }

    /// Closes the connections there are, with what was held back in them. Those that come are
    /// carried as before.
    pub fn drop_connections(&self) {
        self.state.send_modify(|state| state.dropped += 1);
    }

    /// Closes the connections there are towards the server alone: their clients go on seeing an
    /// open connection on which nothing is ever answered. Those that come are carried as before.
    pub fn half_open(&self) {
        self.state.send_modify(|state| state.halved += 1);
    }

    fn flow(&self, flow: Flow) {
        self.state.send_modify(|state| state.flow = flow);
    }

    /// One connection, until an end of it closes or the way does.
    pub(crate) async fn carry(self, client: TcpStream) {
        let mut seen = self.state.subscribe();
        let born = *seen.borrow();
        if born.flow == Flow::Closed {
            return;
        }
        let is_over = |state: &State| state.flow == Flow::Closed || state.dropped > born.dropped;
        let both_ways = both_ways(client, self.target_port, seen.clone(), born.halved);
        tokio::select! {
            // An error is a connection that broke; both ends see it as such.
            _ = both_ways => {}
            _ = seen.wait_for(is_over) => {}
        }
    }
}

async fn accept(listener: TcpListener, way: Way) {
    // Owned by this task, so that its end closes the connections.
    let mut connections = JoinSet::new();
    loop {
        // An accept that fails (no file descriptor left) shows as a client without an answer.
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        connections.spawn(way.clone().carry(client));
        while connections.try_join_next().is_some() {}
    }
}

async fn both_ways(
    client: TcpStream,
    target_port: u16,
    mut state: watch::Receiver<State>,
    halved: u64,
) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target_port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let carried = {
        // The server's end is closed when this is over, the client's is not.
        let (mut from_server, mut to_server) = server.into_split();
        let requests = pump(
            &mut from_client,
            &mut to_server,
            Direction::Request,
            state.clone(),
        );
        let replies = pump(
            &mut from_server,
            &mut to_client,
            Direction::Reply,
            state.clone(),
        );
        let both = async { tokio::try_join!(requests, replies).map(drop) };
        tokio::select! {
            carried = both => Some(carried),
            _ = state.wait_for(|state| state.halved > halved) => None,
        }
    };
    match carried {
        Some(result) => result,
        // What the client still sends goes nowhere.
        None => tokio::io::copy(&mut from_client, &mut tokio::io::sink())
            .await
            .map(drop),
    }
}

async fn pump(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    direction: Direction,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        let delay = state.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let passes = state.wait_for(|state| state.flow.passes(direction));
        if passes.await.is_err() || count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    /// A server of one connection: says what it received, answers what it is told to.
    struct Server {
        port: u16,
        received: mpsc::UnboundedReceiver<u8>,
        answers: mpsc::UnboundedSender<u8>,
    }

    async fn server() -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, received) = mpsc::unbounded_channel();
        let (answers, mut told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            loop {
                tokio::select! {
                    byte = stream.read_u8() => match byte {
                        Ok(byte) => seen.send(byte).unwrap(),
                        Err(_) => return,
                    },
                    Some(byte) = told.recv() => stream.write_u8(byte).await.unwrap(),
                }
            }
        });
        Server {
            port,
            received,
            answers,
        }
    }

    async fn connect(link: &Link) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, link.port()))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn an_open_link_carries_both_ways() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut client = connect(&link).await;
        client.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        server.answers.send(2).unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_held_reply_comes_when_the_link_opens() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut client = connect(&link).await;
        link.hold_replies();
        server.answers.send(2).unwrap();
        client.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        // The request has arrived after the reply was sent; the reply has not.
        assert!(
            client
                .try_read(&mut [0])
                .is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
        );
        link.open();
        assert_eq!(client.read_u8().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_held_request_arrives_after_its_client_is_gone() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut client = connect(&link).await;
        client.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        link.hold_all();
        client.write_u8(2).await.unwrap();
        drop(client);
        assert!(server.received.try_recv().is_err());
        link.open();
        assert_eq!(server.received.recv().await, Some(2));
    }

    #[tokio::test]
    async fn a_closed_link_ends_connections_and_refuses_more_until_it_opens() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut early = connect(&link).await;
        early.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        link.close();
        assert!(early.read_u8().await.is_err());
        assert!(connect(&link).await.read_u8().await.is_err());
        assert_eq!(server.received.recv().await, None);
    }

    #[tokio::test]
    async fn held_requests_wait_while_replies_arrive() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut client = connect(&link).await;
        client.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        link.hold_requests();
        client.write_u8(2).await.unwrap();
        server.answers.send(3).unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 3);
        assert!(server.received.try_recv().is_err());
        link.open();
        assert_eq!(server.received.recv().await, Some(2));
    }

    #[tokio::test]
    async fn a_dropped_connection_is_gone_with_what_was_held_and_the_next_one_is_carried() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut early = connect(&link).await;
        early.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        link.hold_all();
        early.write_u8(2).await.unwrap();
        link.drop_connections();
        assert!(early.read_u8().await.is_err());
        assert_eq!(server.received.recv().await, None);
    }

    #[tokio::test]
    async fn of_a_half_open_connection_the_server_sees_the_end_and_the_client_nothing() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        let mut early = connect(&link).await;
        early.write_u8(1).await.unwrap();
        assert_eq!(server.received.recv().await, Some(1));
        link.half_open();
        assert_eq!(server.received.recv().await, None);
        early.write_u8(2).await.unwrap();
        assert!(
            early
                .try_read(&mut [0])
                .is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
        );
        link.drop_connections();
        assert!(early.read_u8().await.is_err());
    }

    #[tokio::test]
    async fn a_delayed_link_carries_later() {
        let mut server = server().await;
        let link = Link::to(server.port).await.unwrap();
        link.delay(Duration::from_millis(500));
        let mut client = connect(&link).await;
        client.write_u8(1).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), server.received.recv());
        assert!(early.await.is_err());
        assert_eq!(server.received.recv().await, Some(1));
    }
}
