//! One port for several callers, with a way of its own for each.

use crate::caller::Callers;
use crate::link::Way;
use anyhow::Result;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A loopback port that leads to a target, over the [`Way`] of whoever calls.
///
/// Processes that are all told the same address (an endpoint in the shard map, a peer's URL) can
/// be cut off from it one by one. A caller is known by its process id; connections of a process
/// that is not in the list of [`Callers`] are closed.
#[derive(Debug)]
pub struct Fork {
    port: u16,
    ways: Arc<Ways>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Ways {
    target_port: u16,
    by_caller: Mutex<BTreeMap<String, Way>>,
}

impl Ways {
    fn of(&self, caller: &str) -> Way {
        let mut ways = self
            .by_caller
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let way = ways.entry(caller.to_owned());
        way.or_insert_with(|| Way::to(self.target_port)).clone()
    }
}

impl Fork {
    /// A fork on `port` (0: any free one) whose ways lead to `target_port` and carry both ways.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn open(port: u16, target_port: u16, callers: Callers) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let ways = Arc::new(Ways {
            target_port,
            by_caller: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&ways), callers));
        Ok(Self {
            port,
            ways,
            accepting,
        })
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The way of this caller.
    #[must_use]
    pub fn way(&self, caller: &str) -> Way {
        self.ways.of(caller)
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, ways: Arc<Ways>, callers: Callers) {
    // Owned by this task, so that its end closes the connections.
    let mut connections = JoinSet::new();
    loop {
        // An accept that fails (no file descriptor left) shows as a client without an answer.
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let (ways, callers) = (Arc::clone(&ways), callers.clone());
        connections.spawn(async move {
            if let Some(caller) = caller_of(&client, callers).await {
                ways.of(&caller).carry(client).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Looking through /proc reads files, which must not hold up the runtime.
async fn caller_of(client: &TcpStream, callers: Callers) -> Option<String> {
    let (peer, local) = (client.peer_addr().ok()?, client.local_addr().ok()?);
    let looking = tokio::task::spawn_blocking(move || callers.of_connection(peer, local));
    looking.await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A server that says one byte to everyone.
    async fn server() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_u8(7).await.unwrap();
            }
        });
        port
    }

    async fn hear(fork: &Fork) -> std::io::Result<u8> {
        let address = (Ipv4Addr::LOCALHOST, fork.port());
        TcpStream::connect(address).await?.read_u8().await
    }

    #[tokio::test]
    async fn a_caller_is_cut_off_by_its_own_way_alone() {
        let callers = Callers::default();
        callers.set("me", Some(std::process::id()));
        let fork = Fork::open(0, server().await, callers).await.unwrap();
        fork.way("somebody else").close();
        assert_eq!(hear(&fork).await.unwrap(), 7);
        fork.way("me").close();
        assert!(hear(&fork).await.is_err());
    }

    #[tokio::test]
    async fn an_unknown_process_is_not_let_through() {
        let callers = Callers::default();
        let fork = Fork::open(0, server().await, callers).await.unwrap();
        assert!(hear(&fork).await.is_err());
    }
}
