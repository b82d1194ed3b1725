//! The routes for many locks.
//!
//! Each item stands alone: one that cannot be answered has an error in its place. Only a body
//! that is malformed JSON, or has a field of a wrong type, is refused as a whole. What is not
//! answered in time is said to be unknown, or not done where it was not begun.
//!
//! A client's disconnect drops what is still waiting for its turn; the service finishes the rest.

use super::edge::{Answer, Edge, json};
use super::failure::Failure;
use super::single::place_in_line;
use super::{reply, usual, validate};
use crate::auth::{Share, Who};
use crate::limits;
use crate::metrics::{LockCall, Outcome};
use crate::service::{Locks, RenewOutcome, ServiceError};
use crate::time::{Clock, Millis};
use futures::future::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use holdfast_api::{
    AcquireBatch, AcquireResult, BatchReply, ItemError, ReleaseBatch, ReleaseResult, RenewBatch,
};
use http::StatusCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The answer to an item, once there is one.
type Item<T> = Option<Result<T, Failure>>;

pub(super) async fn renew<L: Locks, C: Clock>(edge: &Edge<L, C>, who: &Who, body: &[u8]) -> Answer {
    let sent = match usual::renewals(body) {
        Some(sent) => sent,
        None => edge.parse::<RenewBatch<'_>>(body)?,
    };
    check_count("renewals", sent.renewals.len())?;
    let mut items = Vec::with_capacity(sent.renewals.len());
    let mut slow = Vec::new();
    for stride in sent.renewals.chunks(limits::BATCH_STRIDE_ITEMS) {
        let now = edge.clock.now();
        for sent in stride {
            let renew = validate::renew(sent, &edge.settings.bounds, who);
            items.push(match paid(who, Share::Upkeep, renew) {
                Err(failure) => Some(Err(failure)),
                Ok(renew) => match edge.locks.try_renew(now, &renew) {
                    Some(result) => Some(told(result.map(RenewOutcome::Renewed))),
                    None => {
                        slow.push((items.len(), renew));
                        None
                    }
                },
            });
        }
        tokio::task::yield_now().await;
    }
    run(&mut items, slow, limits::ANSWER_MAX, |renew| {
        edge.locks.renew(renew)
    })
    .await;
    let unix_ms = edge.clock.unix_ms();
    let reply = conclude(edge, LockCall::Renew, items, |results| {
        let stretched = |told: Result<_, _>| told.map(|told| edge.pressure.stretch_renewal(told));
        reply::renewals_json(results.map(stretched), unix_ms)
    });
    Ok((reply, Outcome::Ok))
}

pub(super) async fn acquire<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Answer {
    let sent: AcquireBatch<'_> = edge.parse(body)?;
    check_count("acquisitions", sent.acquisitions.len())?;
    let sent = sent.acquisitions.into_iter();
    let (mut items, todo) = sort(sent.map(|sent| {
        let acquire = validate::acquire(sent, &edge.settings.bounds, who);
        let acquire = paid(who, Share::Acquires, acquire)?;
        Ok((place_in_line(who, &acquire)?, acquire))
    }));
    let waits = todo.iter().map(|(_, (_, acquire))| acquire.wait);
    let time = limits::ANSWER_MAX + waits.max().unwrap_or(Millis::ZERO);
    run(&mut items, todo, time, |(place, acquire)| async move {
        let answer = edge.locks.acquire(acquire).await;
        drop(place);
        answer
    })
    .await;
    let unix_ms = edge.clock.unix_ms();
    let results = conclude(edge, LockCall::Acquire, items, |results| {
        let told = |told| match told {
            Ok(outcome) => {
                let outcome = edge.pressure.stretch_acquire(outcome);
                AcquireResult::Answered(reply::acquired(&outcome, unix_ms))
            }
            Err(error) => AcquireResult::Failed { error },
        };
        results.map(told).collect()
    });
    json(StatusCode::OK, &BatchReply { results }, Outcome::Ok)
}

pub(super) async fn release<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Answer {
    let sent: ReleaseBatch<'_> = edge.parse(body)?;
    check_count("releases", sent.releases.len())?;
    let (mut items, todo) = sort(
        sent.releases
            .iter()
            .map(|sent| paid(who, Share::Upkeep, validate::release(sent, who))),
    );
    run(&mut items, todo, limits::ANSWER_MAX, |release| {
        edge.locks.release(release)
    })
    .await;
    let results = conclude(edge, LockCall::Release, items, |results| {
        let told = |told| match told {
            Ok(outcome) => ReleaseResult::Answered(reply::released(outcome)),
            Err(error) => ReleaseResult::Failed { error },
        };
        results.map(told).collect()
    });
    json(StatusCode::OK, &BatchReply { results }, Outcome::Ok)
}

fn check_count(field: &str, count: usize) -> Result<(), Failure> {
    if count > limits::BATCH_ITEMS_MAX {
        let max = limits::BATCH_ITEMS_MAX;
        return Err(Failure::invalid(format!(
            "{field}: has {count} items; allowed are up to {max}"
        )));
    }
    Ok(())
}

/// Takes what is good out of the caller's budget, item by item.
fn paid<T>(who: &Who, share: Share, checked: Result<T, Failure>) -> Result<T, Failure> {
    let valid = checked?;
    who.spend(share)?;
    Ok(valid)
}

fn told<T>(result: Result<T, ServiceError>) -> Result<T, Failure> {
    result.map_err(Failure::from)
}

/// Answers what is invalid, and lists what is left to do with its place.
fn sort<T, R>(
    checked: impl Iterator<Item = Result<T, Failure>>,
) -> (Vec<Item<R>>, Vec<(usize, T)>) {
    let mut todo = Vec::new();
    let items = checked
        .enumerate()
        .map(|(at, checked)| match checked {
            Ok(valid) => {
                todo.push((at, valid));
                None
            }
            Err(failure) => Some(Err(failure)),
        })
        .collect();
    (items, todo)
}

/// Does what is left to do, so many at once, until all is answered or the time is up.
async fn run<T, R, F>(
    items: &mut [Item<R>],
    todo: Vec<(usize, T)>,
    time: Millis,
    call: impl Fn(T) -> F,
) where
    F: Future<Output = Result<R, ServiceError>>,
{
    if todo.is_empty() {
        return;
    }
    let places: Vec<usize> = todo.iter().map(|(at, _)| *at).collect();
    let begun = AtomicUsize::new(0);
    let mut answers = stream::iter(todo)
        .map(|(at, item)| {
            begun.fetch_add(1, Ordering::Relaxed);
            call(item).map(move |result| (at, told(result)))
        })
        .buffer_unordered(limits::BATCH_CONCURRENCY_MAX);
    let all = async {
        while let Some((at, result)) = answers.next().await {
            items[at] = Some(result);
        }
    };
    if tokio::time::timeout(time.to_std(), all).await.is_ok() {
        return;
    }
    let (begun, waiting) = places.split_at(begun.load(Ordering::Relaxed));
    for at in begun {
        items[*at].get_or_insert_with(|| Err(Failure::unknown()));
    }
    for at in waiting {
        items[*at] = Some(Err(Failure::overloaded(
            "not begun in time; ask again, in smaller batches",
        )));
    }
}

/// Gives the results, in the order of the items, to `write`, and counts how they went.
fn conclude<L, C, T, R>(
    edge: &Edge<L, C>,
    call: LockCall,
    items: Vec<Item<T>>,
    write: impl FnOnce(&mut dyn ExactSizeIterator<Item = Result<T, ItemError>>) -> R,
) -> R
where
    Outcome: for<'a> From<&'a T>,
{
    let mut tally = Tally::default();
    let mut results = items.into_iter().map(|item| {
        // [`run`] leaves none without an answer.
        let told = item.unwrap_or_else(|| Err(Failure::unknown()));
        tally.add(match &told {
            Ok(outcome) => outcome.into(),
            Err(failure) => Outcome::Failed(failure.code),
        });
        told.map_err(Failure::into_item)
    });
    let written = write(&mut results);
    drop(results);
    tally.count(edge, call);
    written
}

/// How the items went.
#[derive(Default)]
struct Tally(Vec<(Outcome, u64)>);

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        match self.0.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, count)) => *count += 1,
            None => self.0.push((outcome, 1)),
        }
    }

    fn count<L, C>(self, edge: &Edge<L, C>, call: LockCall) {
        for (outcome, count) in self.0 {
            edge.metrics.lock_calls(call, outcome, count);
        }
    }
}
