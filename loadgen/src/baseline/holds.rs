//! The locks that are renewed: acquired before, released after.

use super::BaselineArgs;
use super::wire::Deck;
use crate::limits::{
    BASELINE_ASKERS, BASELINE_BATCH, BASELINE_TRIES, CONNECT_TIMEOUT, LOCKS_PER_CLIENT, TIMEOUT_MAX,
};
use anyhow::{Context as _, bail};
use bytes::Bytes;
use holdfast_api::{AcquireBatch, AcquireRequest, ReleaseBatch, ReleaseRequest, paths};
use holdfast_client::backoff::Backoff;
use holdfast_client::{
    Access, BootClock, Clock as _, Connection, Error, Granted, RawReply, Target, wire,
};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::task::JoinSet;

/// What is held, in a random order.
pub(super) struct Holds {
    gateway: Gateway,
    granted: Vec<Granted>,
}

/// Who is asked, and how.
#[derive(Clone)]
struct Gateway {
    target: Target,
    access: Access,
}

impl Holds {
    /// Acquires all of them. The seed decides their order, and is a part of their names, because
    /// another run's locks may still be held.
    ///
    /// # Errors
    /// When any of them cannot be had.
    pub(super) async fn acquire(
        args: &BaselineArgs,
        access: &Access,
        seed: u32,
    ) -> anyhow::Result<Self> {
        let gateway = Gateway {
            target: args.target.clone(),
            access: access.clone(),
        };
        let ttl_ms = u64::try_from(args.ttl.as_millis())?;
        let wanted: Vec<_> = (0..args.locks)
            .map(|index| Wanted {
                name: format!("{}-{seed:08x}-{index}", args.name_prefix),
                client_id: format!("{}-{}", args.name_prefix, index / LOCKS_PER_CLIENT),
                ttl_ms,
            })
            .collect();
        let mut granted = in_batches(&gateway, wanted, acquire).await?;
        granted.shuffle(&mut StdRng::seed_from_u64(u64::from(seed)));
        Ok(Self { gateway, granted })
    }

    /// Their renewals.
    pub(super) fn deck(&self) -> Deck {
        let mut deck = Deck::default();
        for granted in &self.granted {
            deck.push(granted.lock_id.as_str(), granted.token.0);
        }
        deck
    }

    /// Releases all of them.
    ///
    /// # Errors
    /// When that is not answered with success.
    pub(super) async fn release(self) -> anyhow::Result<()> {
        in_batches(&self.gateway, self.granted, release).await?;
        Ok(())
    }
}

struct Wanted {
    name: String,
    client_id: String,
    ttl_ms: u64,
}

/// One result per item.
type Results<R> = Result<Vec<Result<R, Error>>, Error>;

/// What a batch of items is asked with.
struct Question<R> {
    path: &'static str,
    body: Bytes,
    /// Reads the reply to so many items.
    read: fn(&RawReply, usize) -> Results<R>,
}

type Ask<T, R> = fn(&[T]) -> Question<R>;

fn acquire(items: &[Wanted]) -> Question<Granted> {
    let acquisitions = items.iter().map(|item| AcquireRequest {
        name: Cow::Borrowed(&item.name),
        ttl_ms: item.ttl_ms,
        client_id: Cow::Borrowed(&item.client_id),
        wait_ms: None,
        metadata: None,
        request_id: None,
    });
    let body = wire::encode(&AcquireBatch {
        acquisitions: acquisitions.collect(),
    });
    Question {
        path: paths::ACQUIRE_BATCH,
        body,
        read: |reply, count| wire::acquire_batch(reply, BootClock.now(), count),
    }
}

fn release(items: &[Granted]) -> Question<()> {
    let releases = items.iter().map(|item| ReleaseRequest {
        lock_id: Cow::Borrowed(item.lock_id.as_str()),
        fencing_token: item.token.0,
    });
    let body = wire::encode(&ReleaseBatch {
        releases: releases.collect(),
    });
    Question {
        path: paths::RELEASE_BATCH,
        body,
        read: wire::release_batch,
    }
}

/// Asks for all items over several connections. Each batch is repeated until all of it succeeds.
async fn in_batches<T, R>(
    gateway: &Gateway,
    items: Vec<T>,
    ask: Ask<T, R>,
) -> anyhow::Result<Vec<R>>
where
    T: Send + Sync + 'static,
    R: Send + 'static,
{
    let items = Arc::new(items);
    let mut askers = JoinSet::new();
    for asker in 0..BASELINE_ASKERS {
        let (gateway, items) = (gateway.clone(), Arc::clone(&items));
        askers.spawn(async move {
            let mut done = Vec::new();
            let mut connection = None;
            for items in items
                .chunks(BASELINE_BATCH)
                .skip(asker)
                .step_by(BASELINE_ASKERS)
            {
                done.extend(insist(&gateway, &mut connection, items, ask).await?);
            }
            anyhow::Ok(done)
        });
    }
    let mut done = Vec::new();
    while let Some(asked) = askers.join_next().await {
        done.extend(asked??);
    }
    Ok(done)
}

/// Repeating an acquire or a release is safe: both have the same effect as once.
async fn insist<T, R>(
    gateway: &Gateway,
    connection: &mut Option<Connection>,
    items: &[T],
    ask: Ask<T, R>,
) -> anyhow::Result<Vec<R>> {
    let mut backoff = Backoff::new(0);
    let mut last = None;
    for _ in 0..BASELINE_TRIES {
        match once(gateway, connection, items, ask).await {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
        *connection = None;
        tokio::time::sleep(backoff.pause(None)).await;
    }
    match last {
        Some(error) => Err(error.context("the locks cannot be had, or not be released")),
        None => bail!("nothing was tried"),
    }
}

async fn once<T, R>(
    gateway: &Gateway,
    connection: &mut Option<Connection>,
    items: &[T],
    ask: Ask<T, R>,
) -> anyhow::Result<Vec<R>> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => {
            let opening = Connection::open_with(&gateway.target, &gateway.access);
            tokio::time::timeout(CONNECT_TIMEOUT, opening).await??
        }
    };
    let Question { path, body, read } = ask(items);
    let posted = tokio::time::timeout(TIMEOUT_MAX, open.post(path, body)).await;
    let reply = posted.context("no answer in time")??;
    let results = read(&reply, items.len())?;
    let done = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    if open.is_usable() {
        *connection = Some(open);
    }
    Ok(done)
}
