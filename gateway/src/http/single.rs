//! The routes for one lock.
//!
//! A client's disconnect changes nothing on any of them: the service finishes what it has begun. Only
//! whoever waits in line leaves it so.

use super::edge::{Answer, Edge, json};
use super::failure::Failure;
use super::{reply, usual, validate};
use crate::auth::{Share, WaitPlace, Who};
use crate::metrics::{LockCall, Outcome};
use crate::service::{Acquire, Locks, ReleaseOutcome, Renew, RenewOutcome, Renewed, ServiceError};
use crate::time::{Clock, Millis};
use holdfast_api::{AcquireRequest, ReleaseRequest};
use http::StatusCode;

/// A renewal is answered from memory where that can be done.
pub(super) async fn renew<L: Locks, C: Clock>(edge: &Edge<L, C>, who: &Who, body: &[u8]) -> Answer {
    match renew_from_memory(edge, who, body)? {
        Ok(answer) => answer,
        Err(renew) => answer_renewal(edge, Box::pin(edge.locks.renew(*renew)).await),
    }
}

/// The answer, or what only the service can answer. Not a part of [`renew`] itself, whose future
/// would be as large as the lock id that it held.
fn renew_from_memory<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Result<Result<Answer, Box<Renew>>, Failure> {
    let sent = match usual::renewal(body) {
        Some(sent) => sent,
        None => edge.parse(body)?,
    };
    let renew = validate::renew(&sent, &edge.settings.bounds, who)?;
    who.spend(Share::Upkeep)?;
    Ok(match edge.locks.try_renew(edge.clock.now(), &renew) {
        Some(result) => Ok(answer_renewal(edge, result.map(RenewOutcome::Renewed))),
        None => Err(Box::new(renew)),
    })
}

/// The answer to a renewal in the usual form that is good and can be given from memory.
///
/// It is paid for last, as one that is left to the library is paid for there. A hold is then renewed
/// whose client is told to slow down, which harms nobody.
pub(super) fn renew_at_once<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Option<Renewed> {
    let sent = usual::renewal(body)?;
    let renew = validate::renew(&sent, &edge.settings.bounds, who).ok()?;
    let told = edge.locks.try_renew(edge.clock.now(), &renew)?.ok()?;
    who.spend(Share::Upkeep).ok()?;
    Some(edge.pressure.stretch(told))
}

fn answer_renewal<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    result: Result<RenewOutcome, ServiceError>,
) -> Answer {
    let outcome = count(edge, LockCall::Renew, &result);
    let unix_ms = edge.clock.unix_ms();
    match edge
        .pressure
        .stretch_renewal(result.map_err(Failure::from)?)
    {
        RenewOutcome::Renewed(told) => Ok((reply::renewed_json(told, unix_ms), outcome)),
        ended => {
            let body = reply::renewed(ended, unix_ms);
            json(StatusCode::CONFLICT, &body, outcome)
        }
    }
}

pub(super) async fn acquire<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Answer {
    let sent: AcquireRequest<'_> = edge.parse(body)?;
    let acquire = validate::acquire(sent, &edge.settings.bounds, who)?;
    who.spend(Share::Acquires)?;
    let place = place_in_line(who, &acquire)?;
    let result = edge.locks.acquire(acquire).await;
    drop(place);
    let outcome = count(edge, LockCall::Acquire, &result);
    let acquired = edge
        .pressure
        .stretch_acquire(result.map_err(Failure::from)?);
    let body = reply::acquired(&acquired, edge.clock.unix_ms());
    json(StatusCode::OK, &body, outcome)
}

/// Whoever may wait takes one of its principal's places in line, for as long as it is not answered.
pub(super) fn place_in_line(who: &Who, acquire: &Acquire) -> Result<Option<WaitPlace>, Failure> {
    match acquire.wait > Millis::ZERO {
        true => Ok(Some(who.wait()?)),
        false => Ok(None),
    }
}

pub(super) async fn release<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Answer {
    let sent: ReleaseRequest<'_> = edge.parse(body)?;
    let release = validate::release(&sent, who)?;
    who.spend(Share::Upkeep)?;
    let result = edge.locks.release(release).await;
    let outcome = count(edge, LockCall::Release, &result);
    match result.map_err(Failure::from)? {
        ReleaseOutcome::Released => Ok((reply::no_content(), outcome)),
        mismatch => json(StatusCode::CONFLICT, &reply::released(mismatch), outcome),
    }
}

/// Counts the answer to one call about a lock.
fn count<L, C, T>(edge: &Edge<L, C>, call: LockCall, result: &Result<T, ServiceError>) -> Outcome
where
    Outcome: for<'a> From<&'a T>,
{
    let outcome = match result {
        Ok(outcome) => outcome.into(),
        Err(error) => Outcome::Failed(error.code),
    };
    edge.metrics.lock_calls(call, outcome, 1);
    outcome
}
