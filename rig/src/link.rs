//! A way to a process that can lose what passes over it.

use anyhow::Result;
use std::io;
use std::net::Ipv4Addr;
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
    flow: watch::Sender<Flow>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Both,
    RequestsOnly,
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
            Direction::Reply => self == Self::Both,
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
        let (flow, seen) = watch::channel(Flow::Both);
        let accepting = tokio::spawn(accept(listener, target_port, seen));
        Ok(Self {
            port,
            flow,
            accepting,
        })
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Carries both ways, beginning with what was held back.
    pub fn open(&self) {
        self.flow.send_replace(Flow::Both);
    }

    /// Holds replies back; requests arrive.
    pub fn hold_replies(&self) {
        self.flow.send_replace(Flow::RequestsOnly);
    }

    /// Holds both back, as a network that loses all packets. Connections stay.
    pub fn hold_all(&self) {
        self.flow.send_replace(Flow::Nothing);
    }

    /// Closes all connections, with what was held back in them, and each that comes.
    pub fn close(&self) {
        self.flow.send_replace(Flow::Closed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target_port: u16, flow: watch::Receiver<Flow>) {
    // Owned by this task, so that its end closes the connections.
    let mut connections = JoinSet::new();
    loop {
        // An accept that fails (no file descriptor left) shows as a client without an answer.
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        if *flow.borrow() != Flow::Closed {
            connections.spawn(carry(client, target_port, flow.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until an end of it closes or the link does.
async fn carry(client: TcpStream, target_port: u16, mut flow: watch::Receiver<Flow>) {
    let requests_flow = flow.clone();
    let replies_flow = flow.clone();
    let both_ways = async move {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target_port)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::try_join!(
            pump(from_client, to_server, Direction::Request, requests_flow),
            pump(from_server, to_client, Direction::Reply, replies_flow),
        )
    };
    tokio::select! {
        // An error is a connection that broke; both ends see it as such.
        _ = both_ways => {}
        _ = flow.wait_for(|flow| *flow == Flow::Closed) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    mut flow: watch::Receiver<Flow>,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if flow.wait_for(|flow| flow.passes(direction)).await.is_err() || count == 0 {
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
}
