//! The model as a [`Store`]: a clock and a lock around it.

use super::{Model, ModelTime};
use crate::{KeyRange, Op, Reply, Revision, Store, StoreError, WatchEvent};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A cluster in the memory of this process, for `gateway dev` and for tests. What is in it ends
/// with its last clone.
///
/// Leases end by themselves without a task of its own: every call first lets the time pass, and
/// every watch that waits also waits for [`Model::next_expiry`], so an expiry is seen when someone
/// looks, and at the latest when a watcher should hear of it.
///
/// A call takes effect when its future is first polled and answers at once; the time limit plays no
/// part. Watches that wait need a Tokio runtime with its timer.
#[derive(Clone)]
pub struct ModelStore {
    shared: Arc<Shared>,
}

struct Shared {
    model: Mutex<Model>,
    clock: Box<dyn Fn() -> ModelTime + Send + Sync>,
    /// Told when the keys have changed, or the next expiry has become earlier.
    changed: watch::Sender<()>,
}

impl ModelStore {
    /// A store over `model`. `clock` reads the time; it should not go back, and should run as fast
    /// as Tokio's.
    pub fn new(model: Model, clock: impl Fn() -> ModelTime + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                model: Mutex::new(model),
                clock: Box::new(clock),
                changed: watch::Sender::new(()),
            }),
        }
    }

    /// Lets `look` see or change the model as it is at this time. Nothing else happens meanwhile.
    pub fn with_model<T>(&self, look: impl FnOnce(&mut Model) -> T) -> T {
        self.shared.with_model(|model, _| look(model))
    }
}

impl Store for ModelStore {
    fn call(&self, op: Op, _timeout: Duration) -> BoxFuture<'static, Result<Reply, StoreError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.with_model(|model, now| model.apply(now, &op)) }.boxed()
    }

    fn watch(&self, range: KeyRange, from: Option<Revision>) -> BoxStream<'static, WatchEvent> {
        let latest = self.with_model(|model| model.header().revision);
        // On the wire, revision 0 means from now on, too.
        let from = from.filter(|from| *from != Revision::ABSENT);
        let watcher = Watcher {
            changed: self.shared.changed.subscribe(),
            shared: Arc::clone(&self.shared),
            range,
            next: from.unwrap_or(Revision(latest.0 + 1)),
            events: VecDeque::new(),
            ended: false,
        };
        stream::unfold(watcher, |mut watcher| async {
            let event = watcher.next().await?;
            Some((event, watcher))
        })
        .boxed()
    }
}

impl Shared {
    fn with_model<T>(&self, look: impl FnOnce(&mut Model, ModelTime) -> T) -> T {
        let mut model = self.model.lock();
        let revision = model.header().revision;
        let now = (self.clock)();
        model.advance(now);
        let expiry = model.next_expiry();
        let seen = look(&mut model, now);
        let expires_earlier = match (expiry, model.next_expiry()) {
            (Some(before), Some(after)) => after < before,
            (before, after) => before.is_none() && after.is_some(),
        };
        if expires_earlier || model.header().revision != revision {
            self.changed.send_replace(());
        }
        seen
    }
}

struct Watcher {
    shared: Arc<Shared>,
    changed: watch::Receiver<()>,
    range: KeyRange,
    /// The first revision that was not looked at.
    next: Revision,
    /// Seen, but not told yet.
    events: VecDeque<WatchEvent>,
    ended: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            // Marked before looking: a change between the look and the wait is not slept through.
            self.changed.mark_unchanged();
            let until_expiry = self.look();
            if self.events.is_empty() {
                self.wait(until_expiry).await;
            }
        }
    }

    /// Fetches what has happened; returns how long it is until the next lease ends.
    fn look(&mut self) -> Option<Duration> {
        let Self {
            shared,
            range,
            next,
            events,
            ended,
            ..
        } = self;
        shared.with_model(|model, now| {
            match model.events_from(*next, range) {
                Ok(found) => events.extend(found),
                Err(compacted) => {
                    events.push_back(WatchEvent::Ended(compacted.to_string()));
                    *ended = true;
                }
            }
            // A watch from the future begins there.
            *next = (*next).max(Revision(model.header().revision.0 + 1));
            let expiry = model.next_expiry()?;
            Some(Duration::from_millis(expiry.ms_since(now)))
        })
    }

    async fn wait(&mut self, until_expiry: Option<Duration>) {
        let changed = self.changed.changed();
        match until_expiry {
            None => changed.map(drop).await,
            Some(limit) => tokio::time::timeout(limit, changed).map(drop).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseId, Put, Txn, TxnOp};
    use tokio::time::Instant;

    const LIMIT: Duration = Duration::from_secs(1);

    /// A store that runs on Tokio's paused clock.
    #[expect(clippy::disallowed_methods, reason = "reads Tokio's paused clock")]
    fn store() -> ModelStore {
        let start = Instant::now();
        ModelStore::new(Model::new(1, 1), move || {
            let ms = Instant::now().duration_since(start).as_millis();
            ModelTime::from_ms(ms.try_into().unwrap())
        })
    }

    fn put(key: &str, lease: Option<LeaseId>) -> Op {
        Op::Txn(Txn {
            then: vec![TxnOp::Put(Put {
                key: key.into(),
                value: Vec::new(),
                lease,
            })],
            ..Txn::default()
        })
    }

    fn grant(lease: i64, ttl_s: u32) -> Op {
        Op::LeaseGrant {
            lease: LeaseId(lease),
            ttl_s,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_watch_sees_a_lease_end_with_nobody_calling() {
        let store = store();
        let mut watch = store.watch(KeyRange::one("a"), None);
        let waiting = tokio::spawn(async move { (watch.next().await, watch.next().await) });
        tokio::task::yield_now().await;
        for op in [grant(1, 60), grant(2, 5), put("a", Some(LeaseId(2)))] {
            store.call(op, LIMIT).await.unwrap();
        }
        let (first, second) = waiting.await.unwrap();
        assert!(matches!(first, Some(WatchEvent::Put(_))), "{first:?}");
        assert_eq!(second, Some(WatchEvent::Delete("a".into(), Revision(3))));
        assert_eq!(
            store.with_model(|model| model.now()),
            ModelTime::from_ms(5_000)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_falls_behind_the_history_ends() {
        let store = store();
        let mut watch = store.watch(KeyRange::one("a"), None);
        store.with_model(|model| model.set_history_events_max(2));
        for _ in 0..4 {
            store.call(put("a", None), LIMIT).await.unwrap();
        }
        assert!(matches!(watch.next().await, Some(WatchEvent::Ended(_))));
        assert_eq!(watch.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_future_that_was_never_polled_did_nothing() {
        let store = store();
        drop(store.call(put("a", None), LIMIT));
        assert_eq!(store.with_model(|model| model.get(&"a".into())), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clone_is_the_same_cluster() {
        let store = store();
        store.clone().call(put("a", None), LIMIT).await.unwrap();
        assert!(store.with_model(|model| model.get(&"a".into())).is_some());
    }
}
