//! Carrying out what a [`Driver`] decides, over stores.

use super::driver::{Driver, Moving, Seen, Surveys};
use super::gateways::SessionEnd;
use super::home::{Home, HomeError, read_home};
use super::record::RunState;
use super::survey::{Survey, survey};
use crate::{ClusterName, MapError, ShardId};
use futures::future::join_all;
use holdfast_store::{Op, Reply, Store, StoreError, Txn, TxnReply};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long one call may take: longer than an election.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The store of a cluster of the map; `None`: there is none here (yet).
pub type StoreOf<'a> = dyn Fn(&ClusterName) -> Option<Arc<dyn Store>> + Send + Sync + 'a;

/// What one turn of a driver came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// No rollout runs, or it does not go on.
    Idle,
    /// Something was written, by this driver or meanwhile by another; there may be more to do at once.
    Wrote,
    /// Nothing can be done before something moves.
    Waits,
    /// Nothing can be done before a cluster answers.
    Blind,
    /// The rollout has ended.
    Ended,
}

/// Why a turn came to nothing; the next one begins anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// Home did not answer.
    #[error("home: {0}")]
    Store(#[from] StoreError),
    /// Home has something unreadable.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The next map is none.
    #[error("the next map is none: {0}")]
    Map(#[from] MapError),
}

/// One turn: looks at home and at the shards whose turn it is, and takes every step that is due. It
/// may be dropped at any point, and several drivers may run at once.
///
/// `driver` is kept from turn to turn; `instance` is this gateway's, and only the elected one goes
/// beyond looking at home.
///
/// # Errors
/// When home cannot be read or written.
pub async fn take_turn(
    driver: &mut Option<Driver>,
    instance: &str,
    home: &dyn Store,
    store_of: &StoreOf<'_>,
    now_unix_ms: u64,
) -> Result<Turn, TurnError> {
    let seen = Home::from_reply(call(home, read_home()).await?)?;
    let elected = seen.driver.as_deref() == Some(instance);
    let running = seen
        .rollout
        .as_ref()
        .filter(|it| it.state == RunState::Running);
    let Some(rollout) = running.filter(|_| elected) else {
        *driver = None;
        return Ok(Turn::Idle);
    };
    let driver = match driver {
        Some(driver) if driver.is_for(&seen.map) => driver,
        other => other.insert(Driver::new(&seen.map)),
    };
    let window = driver.window(&seen.map, rollout);
    // First where they leave, then where they go: see `Groups`.
    let left = survey_all(&window, |moving| &moving.from, store_of).await;
    let goals = survey_all(&window, |moving| &moving.to, store_of).await;
    let read = Seen {
        gateways: &seen.gateways,
        left: &left,
        goals: &goals,
        now_unix_ms,
    };
    let decision = driver.decide(&seen.map, rollout, &read);

    if decision.stale {
        return Ok(Turn::Waits);
    }
    if let Some(problem) = decision.broken {
        if !still_so(&window, &left, store_of).await {
            return Ok(Turn::Wrote);
        }
        tracing::error!(problem, "the rollout has failed");
        let failed = super::Rollout {
            state: RunState::Failed,
            problem: Some(problem),
            ..rollout.clone()
        };
        call(home, seen.set(&failed)).await?;
        return Ok(Turn::Idle);
    }
    if decision.all_done {
        let ended = call(home, seen.end(rollout, now_unix_ms)?).await?.succeeded;
        return Ok(if ended { Turn::Ended } else { Turn::Wrote });
    }
    if decision.canary_done {
        let paused = super::Rollout {
            state: RunState::Paused,
            canary: None,
            ..rollout.clone()
        };
        call(home, seen.set(&paused)).await?;
        return Ok(Turn::Idle);
    }
    let unread = !decision.unread.is_empty();
    for end in &decision.ends {
        let SessionEnd { cluster, session } = end;
        tracing::warn!(%cluster, session, "a gateway cannot come where its groups have to go; its session is ended");
    }
    let guards = decision.writes.iter().map(|it| (&it.cluster, it.txn()));
    let ends = decision.ends.iter().map(|it| (&it.cluster, it.txn()));
    let writes = guards.chain(ends).filter_map(|(cluster, txn)| {
        let store = store_of(cluster)?;
        // An unknown outcome is found out by the next look.
        Some(async move { call(&*store, txn).await.is_ok() })
    });
    let wrote = join_all(writes).await.contains(&true);
    let more = driver.window(&seen.map, rollout) != window && !unread;
    Ok(match (wrote || more, unread) {
        (true, _) => Turn::Wrote,
        (false, true) => Turn::Blind,
        (false, false) => Turn::Waits,
    })
}

/// Whether the clusters that are left still have the guards that were read there. If so, they had them
/// also when the goals were read. If not, another driver has gone on in between, or a write of an earlier
/// turn has arrived: reads of two such moments may contradict each other, and mean nothing.
async fn still_so(window: &[Moving], left: &Surveys, store_of: &StoreOf<'_>) -> bool {
    let now = survey_all(window, |moving| &moving.from, store_of).await;
    window.iter().all(|Moving { shard, from, .. }| {
        let same = |was: &Survey| {
            let now = now.get(from);
            now.is_some_and(|now| now.guard(*shard) == was.guard(*shard))
        };
        left.get(from).is_none_or(same)
    })
}

/// Reads the window's shards in the clusters that `side` names.
async fn survey_all<'a>(
    window: &'a [Moving],
    side: impl Fn(&'a Moving) -> &'a ClusterName,
    store_of: &StoreOf<'_>,
) -> Surveys {
    let mut shards: BTreeMap<&ClusterName, Vec<ShardId>> = BTreeMap::new();
    for moving in window {
        shards.entry(side(moving)).or_default().push(moving.shard);
    }
    let asked = shards.into_iter().filter_map(|(name, shards)| {
        let store = store_of(name)?;
        Some(async move {
            let reply = call(&*store, survey(&shards)).await.ok()?;
            Some((name.clone(), Survey::from_reply(reply)))
        })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn call(store: &dyn Store, txn: Txn) -> Result<TxnReply, StoreError> {
    match store.call(Op::Txn(txn), CALL_TIMEOUT).await? {
        Reply::Txn(reply) => Ok(reply),
        other => Err(StoreError::Ambiguous(format!(
            "not the reply to a transaction: {other:?}"
        ))),
    }
}
