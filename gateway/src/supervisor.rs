//! What this process tells systemd, if that started it (`Type=notify`, `WatchdogSec=`). Where
//! nobody listens, nothing is told.
//!
//! The protocol is the `sd-notify` crate's: datagrams to the socket that `NOTIFY_SOCKET` names.

use crate::admin::readiness;
use crate::lifecycle::Lifecycle;
use crate::limits;
use crate::service::Locks;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Tells that the gateway is ready as soon as `/readyz` says so. Feeds the watchdog from now on, if
/// there is one, as long as the present runtime and `engines` run what they are given.
pub(crate) fn start<L: Locks>(locks: Arc<L>, lifecycle: Lifecycle, engines: Handle) {
    if let Some(patience) = sd_notify::watchdog_enabled() {
        tokio::spawn(feed(patience, engines, || tell(&[NotifyState::Watchdog])));
    }
    tell(&[NotifyState::Status("waiting for a shard map and a cluster")]);
    tokio::spawn(async move {
        once_ready(&*locks, &lifecycle).await;
        tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
    });
}

/// Tells that the gateway is about to stop.
pub(crate) fn stopping() {
    let status = "draining, then handing its locks over";
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Never returns once the gateway has been told to stop.
async fn once_ready<L: Locks>(locks: &L, lifecycle: &Lifecycle) {
    while readiness(lifecycle.phase(), &locks.clusters()).is_err() {
        tokio::time::sleep(limits::LOOK_AGAIN.to_std()).await;
    }
}

/// Calls `alive` three times within `patience`, each time after `engines` has run a task. A runtime
/// whose threads all hang ends the calls, until it goes on.
async fn feed(patience: Duration, engines: Handle, alive: impl Fn()) {
    let mut due = tokio::time::interval(patience / 3);
    loop {
        due.tick().await;
        if engines.spawn(async {}).await.is_err() {
            return; // that runtime has ended, and this one is about to
        }
        alive();
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told what state this gateway is in");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use tokio::runtime::Builder;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn counted() -> (Arc<AtomicU32>, impl Fn()) {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        (calls, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_is_fed_three_times_within_its_patience() {
        let (calls, alive) = counted();
        let feeding = feed(PATIENCE, Handle::current(), alive);
        let fed = tokio::time::timeout(PATIENCE - Duration::from_secs(1), feeding).await;
        assert!(fed.is_err(), "it goes on");
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn engines_that_hang_feed_no_watchdog() {
        let engines = Builder::new_multi_thread().worker_threads(1).build();
        let engines = engines.unwrap();
        let (let_go, held) = mpsc::channel::<()>();
        engines.spawn(async move { held.recv() });
        let (calls, alive) = counted();
        let feeding = feed(PATIENCE, engines.handle().clone(), alive);
        assert!(tokio::time::timeout(PATIENCE, feeding).await.is_err());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        drop(let_go);
        engines.shutdown_background();
    }
}
