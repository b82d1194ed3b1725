//! Follows changes of keys.

use super::attempts::{Attempts, Connection};
use super::call::{call, conclude};
use super::failure::{self, Failure};
use super::link::REPLY_BYTES_MAX;
use super::pool::{Lane, Pool};
use super::reply;
use crate::{
    DefiniteError, Get, Key, KeyRange, Op, Reply, Revision, StoreError, Txn, TxnOpReply,
    WatchEvent, until_deleted,
};
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
    /// That of the cluster when the watch began.
    began_at: Revision,
}

/// The changes of the keys in `range` from `from` on. Begins when it is first polled, and cancels
/// the watch when it is dropped.
pub(super) fn watch(
    pool: Arc<Pool>,
    range: KeyRange,
    from: Option<Revision>,
) -> BoxStream<'static, WatchEvent> {
    let begin = async move {
        match begin(pool, &range, from).await {
            Ok(following) => follow(following).boxed(),
            Err(why) => stream::iter([WatchEvent::Ended(why)]).boxed(),
        }
    };
    stream::once(begin).flatten().boxed()
}

/// See [`Store::gone`](crate::Store::gone). A watch from `from` on would tell it too, but etcd sees to
/// watches that begin in its past only ten times a second, and in a busy cluster each of them does. So
/// the key is watched from now on, and what that may have missed is read.
pub(super) async fn gone(pool: Arc<Pool>, key: Key, from: Revision) {
    let range = KeyRange::one(key);
    let Ok(following) = begin(Arc::clone(&pool), &range, None).await else {
        return;
    };
    if following.began_at >= from && was_gone(&pool, range, from).await {
        return;
    }
    until_deleted(follow(following).boxed(), from).await;
}

/// Whether the key was deleted at `from` or later, as far as a read can tell.
async fn was_gone(pool: &Pool, range: KeyRange, from: Revision) -> bool {
    let read = Op::Txn(Txn::read([Get::keys(range)]));
    let op = match call(pool, &read, OPEN_TIMEOUT).await {
        Ok(Reply::Txn(reply)) => reply.ops.into_iter().next(),
        // Nothing can be told.
        _ => return true,
    };
    match op {
        Some(TxnOpReply::Get(get)) => match get.kvs.first() {
            // It was put anew.
            Some(kv) => kv.create_revision >= from,
            None => true,
        },
        _ => true,
    }
}

async fn begin(
    pool: Arc<Pool>,
    range: &KeyRange,
    from: Option<Revision>,
) -> Result<Following, String> {
    let mut attempts = Attempts::default();
    let opening = open(&pool, range, from, &mut attempts);
    match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(_) => {
            pool.gave_up(&attempts);
            Err(format!("not confirmed within {OPEN_TIMEOUT:?}"))
        }
    }
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
            Ok((messages, began_at)) => {
                pool.answered(&connection);
                return Ok(Following {
                    pool: Arc::clone(pool),
                    connection,
                    messages,
                    began_at,
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
) -> Result<(WatchStream, Revision), Failure> {
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
        Some(created) => match reply::header(created.0.header) {
            Ok(header) => Ok((messages, header.revision)),
            Err(malformed) => Err(Failure::Unknown(malformed.to_string())),
        },
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
