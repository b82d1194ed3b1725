//! Follows changes of keys.

use super::attempts::{Attempts, Connection};
use super::call::conclude;
use super::failure::{self, Failure};
use super::link::REPLY_BYTES_MAX;
use super::pool::{Lane, Pool};
use super::reply;
use crate::{DefiniteError, Key, KeyRange, Revision, StoreError, WatchEvent};
use etcd_client::proto::{PbEvent, PbWatchResponse};
use etcd_client::{EventType, WatchOptions, WatchStream};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use std::time::Duration;

/// The longest wait for etcd to confirm a watch; it takes it a round trip.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A confirmed watch.
struct Following {
    pool: Arc<Pool>,
    connection: Connection,
    messages: WatchStream,
}

/// The changes of the keys in `range` from `from` on. Begins when it is first polled, and cancels
/// the watch when it is dropped.
pub(super) fn watch(
    pool: Arc<Pool>,
    range: KeyRange,
    from: Option<Revision>,
) -> BoxStream<'static, WatchEvent> {
    let begin = async move {
        let mut attempts = Attempts::default();
        let opening = open(&pool, &range, from, &mut attempts);
        match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
            Ok(Ok(following)) => follow(following).boxed(),
            Ok(Err(error)) => ended(error.to_string()).boxed(),
            Err(_) => {
                pool.gave_up(&attempts);
                ended(format!("not confirmed within {OPEN_TIMEOUT:?}")).boxed()
            }
        }
    };
    stream::once(begin).flatten().boxed()
}

fn ended(why: String) -> impl stream::Stream<Item = WatchEvent> {
    stream::iter([WatchEvent::Ended(why)])
}

async fn open(
    pool: &Arc<Pool>,
    range: &KeyRange,
    from: Option<Revision>,
    attempts: &mut Attempts,
) -> Result<Following, StoreError> {
    loop {
        let connection = pool.acquire(Lane::Watches, attempts).await?;
        match create(&connection, range, from).await {
            Ok(messages) => {
                pool.answered(&connection);
                return Ok(Following {
                    pool: Arc::clone(pool),
                    connection,
                    messages,
                });
            }
            Err(failure) => {
                if let Some(error) = conclude(pool, &connection, failure, attempts) {
                    return Err(error);
                }
            }
        }
    }
}

async fn create(
    connection: &Connection,
    range: &KeyRange,
    from: Option<Revision>,
) -> Result<WatchStream, Failure> {
    // Large revisions come in pieces, so that none exceeds the limit for a reply.
    let mut options = WatchOptions::new().with_fragment();
    if let Some(end) = &range.end {
        options = options.with_range(end.as_bytes());
    }
    if let Some(from) = from {
        options = options.with_start_revision(from.0);
    }
    let client = connection.link.client.watch_client();
    let mut client = client.max_decoding_message_size(REPLY_BYTES_MAX);
    let opened = client.watch(range.start.as_bytes(), Some(options)).await;
    let mut messages = opened.map_err(|error| failure::of_client_error(&error))?;
    let first = messages.message().await;
    match first.map_err(|error| failure::of_client_error(&error))? {
        Some(created) if created.canceled() => Err(refused(created.cancel_reason())),
        Some(_) => Ok(messages),
        None => Err(Failure::Unknown("the watch ended at once".to_owned())),
    }
}

/// A watch is refused in words: the gRPC status that a call would have got, as text.
fn refused(reason: &str) -> Failure {
    let is_about = |text: &str| reason.contains(text);
    let is_about_token = is_about("invalid auth token")
        || is_about("revision of auth store is old")
        || is_about("user name is empty");
    let reason = reason.to_owned();
    if is_about_token {
        Failure::Token(reason)
    } else if is_about("permission denied") {
        Failure::Answered(DefiniteError::Denied(reason).into())
    } else {
        Failure::Answered(DefiniteError::Invalid(reason).into())
    }
}

fn follow(following: Following) -> impl stream::Stream<Item = WatchEvent> {
    let batches = stream::unfold(Some(following), |following| async {
        let mut following = following?;
        let (events, is_over) = match following.messages.message().await {
            Ok(Some(message)) => events(message.0),
            Ok(None) => (vec![WatchEvent::Ended("closed by etcd".to_owned())], true),
            Err(error) => (vec![WatchEvent::Ended(following.broken(&error))], true),
        };
        Some((stream::iter(events), (!is_over).then_some(following)))
    });
    batches.flatten()
}

impl Following {
    fn broken(&self, error: &etcd_client::Error) -> String {
        let failure = failure::of_client_error(error);
        let attempts = &mut Attempts::default();
        match conclude(&self.pool, &self.connection, failure, attempts) {
            Some(error) => error.to_string(),
            None => attempts.unreachable().to_string(),
        }
    }
}

/// A message's events, and whether it is the last one.
fn events(message: PbWatchResponse) -> (Vec<WatchEvent>, bool) {
    let mut events: Vec<_> = message.events.into_iter().filter_map(event).collect();
    if message.canceled {
        events.push(WatchEvent::Ended(match message.compact_revision {
            0 => message.cancel_reason,
            compacted => format!("compacted up to revision {compacted}"),
        }));
    }
    (events, message.canceled)
}

fn event(event: PbEvent) -> Option<WatchEvent> {
    let kv = event.kv?;
    Some(if event.r#type == EventType::Delete as i32 {
        WatchEvent::Delete(Key::from(kv.key), Revision(kv.mod_revision))
    } else {
        WatchEvent::Put(reply::key_value(kv))
    })
}
