//! The routes for one lock.
//!
//! A client's disconnect changes nothing on any of them: the service finishes what it has begun.

use super::edge::{Answer, Edge, json};
use super::failure::Failure;
use super::{reply, validate};
use crate::metrics::{LockCall, Outcome};
use crate::service::{AcquireOutcome, Locks, ReleaseOutcome, RenewOutcome};
use crate::time::Clock;
use holdfast_api::{AcquireRequest, ReleaseRequest, RenewRequest};
use http::StatusCode;

pub(super) async fn renew<L: Locks, C: Clock>(edge: &Edge<L, C>, body: &[u8]) -> Answer {
    let sent: RenewRequest<'_> = edge.parse(body)?;
    let renew = validate::renew(&sent, &edge.settings.bounds)?;
    let result = match edge.locks.try_renew(edge.clock.now(), &renew) {
        Some(result) => result.map(RenewOutcome::Renewed),
        None => edge.locks.renew(renew).await,
    };
    let (status, outcome) = match &result {
        Ok(RenewOutcome::Renewed(_)) => (StatusCode::OK, Outcome::Ok),
        Ok(RenewOutcome::Ended(_)) => (StatusCode::CONFLICT, Outcome::Ended),
        Err(error) => (StatusCode::OK, Outcome::Failed(error.code)),
    };
    edge.metrics.lock_calls(LockCall::Renew, outcome, 1);
    let renewed = result.map_err(Failure::from)?;
    let body = reply::renewed(renewed, edge.clock.unix_ms());
    json(status, &body, outcome)
}

pub(super) async fn acquire<L: Locks, C: Clock>(edge: &Edge<L, C>, body: &[u8]) -> Answer {
    let sent: AcquireRequest<'_> = edge.parse(body)?;
    let acquire = validate::acquire(sent, &edge.settings.bounds)?;
    let result = edge.locks.acquire(acquire).await;
    let outcome = match &result {
        Ok(AcquireOutcome::Granted(_)) => Outcome::Ok,
        Ok(AcquireOutcome::Refused { .. }) => Outcome::Refused,
        Err(error) => Outcome::Failed(error.code),
    };
    edge.metrics.lock_calls(LockCall::Acquire, outcome, 1);
    let acquired = result.map_err(Failure::from)?;
    let body = reply::acquired(&acquired, edge.clock.unix_ms());
    json(StatusCode::OK, &body, outcome)
}

pub(super) async fn release<L: Locks, C: Clock>(edge: &Edge<L, C>, body: &[u8]) -> Answer {
    let sent: ReleaseRequest<'_> = edge.parse(body)?;
    let release = validate::release(&sent)?;
    let result = edge.locks.release(release).await;
    let outcome = match &result {
        Ok(ReleaseOutcome::Released) => Outcome::Ok,
        Ok(ReleaseOutcome::TokenMismatch) => Outcome::Ended,
        Err(error) => Outcome::Failed(error.code),
    };
    edge.metrics.lock_calls(LockCall::Release, outcome, 1);
    match result.map_err(Failure::from)? {
        ReleaseOutcome::Released => Ok((reply::no_content(), outcome)),
        mismatch => json(StatusCode::CONFLICT, &reply::released(mismatch), outcome),
    }
}
