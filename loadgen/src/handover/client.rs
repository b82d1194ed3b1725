//! One client of the lock: a connection of its own, one request at a time.

use anyhow::{Context as _, ensure};
use holdfast_api::{AcquireReply, AcquireRequest, ReleaseRequest, paths};
use holdfast_client::{Connection, Target};

const TTL_MS: u64 = 30_000;
const WAIT_MS: u64 = 20_000;

/// See the module.
pub(super) struct Client {
    connection: Connection,
    name: String,
    id: String,
}

/// What a client was told when it got the lock.
pub(super) struct Hold {
    handle: String,
    token: u64,
}

impl Client {
    /// A client of the lock `name` at this gateway.
    pub(super) async fn connect(
        target: &Target,
        name: &str,
        number: usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            connection: Connection::open(target, None).await?,
            name: name.to_owned(),
            id: format!("client-{number}"),
        })
    }

    /// Acquires the lock, which nobody holds.
    pub(super) async fn acquire(&mut self) -> anyhow::Result<Hold> {
        let (hold, waited_ms) = self.ask(0).await?;
        ensure!(waited_ms.is_none(), "an acquire has waited for a free lock");
        Ok(hold)
    }

    /// Waits for the lock, which somebody holds.
    pub(super) async fn wait(&mut self) -> anyhow::Result<Hold> {
        let (hold, waited_ms) = self.ask(WAIT_MS).await?;
        ensure!(
            waited_ms.is_some(),
            "the lock was granted before it was released"
        );
        Ok(hold)
    }

    async fn ask(&mut self, wait_ms: u64) -> anyhow::Result<(Hold, Option<u64>)> {
        let request = AcquireRequest {
            name: self.name.as_str().into(),
            ttl_ms: TTL_MS,
            client_id: self.id.as_str().into(),
            wait_ms: Some(wait_ms),
            metadata: None,
            request_id: None,
        };
        let body = serde_json::to_vec(&request)?;
        let reply = self.connection.post(paths::ACQUIRE, body.into()).await?;
        let status = reply.status;
        ensure!(status == 200, "an acquire is answered {status}");
        let reply: AcquireReply = serde_json::from_slice(&reply.body)?;
        ensure!(reply.acquired, "an acquire is refused");
        let handle = reply.lock_id.context("a grant without a handle")?;
        let hold = Hold {
            handle,
            token: reply.fencing_token.context("a grant without a token")?,
        };
        Ok((hold, reply.waited_ms))
    }

    /// Gives the lock back.
    pub(super) async fn release(&mut self, hold: &Hold) -> anyhow::Result<()> {
        let request = ReleaseRequest {
            lock_id: hold.handle.as_str().into(),
            fencing_token: hold.token,
        };
        let body = serde_json::to_vec(&request)?;
        let reply = self.connection.post(paths::RELEASE, body.into()).await?;
        let status = reply.status;
        ensure!(status == 204, "a release is answered {status}");
        Ok(())
    }
}
