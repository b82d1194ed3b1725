//! A proxy in front of an etcd member that understands what passes: gRPC calls, one by one.
//!
//! A [`Link`](crate::Link) can lose bytes. A [`Door`] can let etcd carry a write out and lose the
//! answer, say things that etcd did not say, and keep a call to send it again later: a [`Trick`],
//! played on the calls that a [`Rule`] picks. Everything else passes unchanged. TLS is not spoken.

mod call;
mod kept;
mod messages;
mod rules;

pub use kept::Repeated;
pub use rules::{Call, Rule, Trick};

use crate::ports::free_port;
use anyhow::Result;
use bytes::Bytes;
use h2::client::SendRequest;
use kept::Kept;
use rules::Rules;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// See the module. Dropping it closes everything.
#[derive(Debug)]
pub struct Door {
    port: u16,
    inside: Inside,
    accepting: JoinHandle<()>,
}

/// What all connections share.
#[derive(Debug, Clone)]
struct Inside {
    target_port: Arc<AtomicU16>,
    rules: Arc<Mutex<Rules>>,
    kept: Arc<Mutex<Kept>>,
}

impl Inside {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn target_port(&self) -> u16 {
        self.target_port.load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// A door to the member that listens on `target_port`, without rules.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn to(target_port: u16) -> Result<Self> {
        let port = free_port()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let inside = Inside {
            target_port: Arc::new(AtomicU16::new(target_port)),
            rules: Arc::default(),
            kept: Arc::default(),
        };
        let accepting = tokio::spawn(accept(listener, inside.clone()));
        Ok(Self {
            port,
            inside,
            accepting,
        })
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections that come from now on lead to the member that listens on this port.
    pub fn lead_to(&self, target_port: u16) {
        self.inside
            .target_port
            .store(target_port, Ordering::Relaxed);
    }

    /// From now on plays this too.
    pub fn play(&self, rule: Rule) {
        self.inside.rules().add(rule);
    }

    /// Plays nothing any more. What is being held goes on.
    pub fn play_nothing(&self) {
        self.inside.rules().clear();
    }

    /// How often a trick was played so far.
    #[must_use]
    pub fn played(&self, trick: Trick) -> u64 {
        self.inside.rules().played(trick)
    }

    /// Sends transactions and lease revokes that have passed once more, as late duplicates of
    /// them: those of this kind whose message contains these bytes, at most `most`, the oldest
    /// first. Says how etcd answered each.
    ///
    /// # Errors
    /// When etcd cannot be reached.
    pub async fn repeat(&self, call: Call, containing: &[u8], most: usize) -> Result<Repeated> {
        let requests = self.inside.kept().find(call, containing, most);
        let repeated = kept::send(self.inside.target_port(), requests).await?;
        self.inside.kept().count(call, repeated);
        Ok(repeated)
    }

    /// How often everything was done so far.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, u64> {
        let played = self.inside.rules().all_played();
        let repeated = self.inside.kept().all_repeated();
        played.into_iter().chain(repeated).collect()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, inside: Inside) {
    // Owned by this task, so that its end closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let inside = inside.clone();
        connections.spawn(async move {
            // An error is a connection that broke; both ends see it as such.
            let _ = connection(client, inside).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// A connection to the member, and the task that drives it.
async fn connect(target_port: u16) -> Result<(SendRequest<Bytes>, JoinHandle<()>)> {
    let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, target_port)).await?;
    tcp.set_nodelay(true)?;
    let (sender, connection) = h2::client::handshake(tcp).await?;
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, driver))
}

/// Serves one connection of a client, with one of its own to the member. The end of either is the
/// end of both, but calls that are held back are still sent.
async fn connection(client: TcpStream, inside: Inside) -> Result<()> {
    client.set_nodelay(true)?;
    let (sender, mut driver) = connect(inside.target_port()).await?;
    let mut client = h2::server::handshake(client).await?;
    loop {
        let accepted = tokio::select! {
            accepted = client.accept() => accepted,
            _ = &mut driver => return Ok(()),
        };
        let Some(accepted) = accepted else {
            return Ok(());
        };
        let (request, respond) = accepted?;
        let (sender, inside) = (sender.clone(), inside.clone());
        tokio::spawn(call::carry(request, respond, sender, inside));
    }
}
