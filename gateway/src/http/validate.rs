//! From what was sent to what is meant: wire types in, requests to the service out. Pure.

use super::Bounds;
use super::failure::Failure;
use crate::auth::{Right, Who};
use crate::limits;
use crate::lock_id::LockId;
use crate::names::{self, ClientId, LockName, RequestId, Token};
use crate::service::{Acquire, ForceRelease, Release, Renew};
use crate::time::Millis;
use holdfast_api::{AcquireRequest, ErrorCode, ForceReleaseRequest, ReleaseRequest, RenewRequest};
use std::collections::BTreeMap;

/// What an acquire means.
///
/// # Errors
/// When a field is out of its bounds, asks for what is not there yet, or names a lock on which the
/// caller has no right.
pub(super) fn acquire(
    sent: AcquireRequest<'_>,
    bounds: &Bounds,
    who: &Who,
) -> Result<Acquire, Failure> {
    let name = LockName::new(&sent.name)?;
    check_right(who, Right::Acquire, name.as_str())?;
    let ttl = check_ttl(sent.ttl_ms, bounds)?;
    let client_id = ClientId::new(&sent.client_id)?;
    let request_id = match &sent.request_id {
        Some(id) => Some(RequestId::new(id)?),
        None => None,
    };
    check_metadata(sent.metadata.as_ref())?;
    Ok(Acquire {
        name,
        ttl,
        wait: check_wait(sent.wait_ms, bounds)?,
        client_id,
        principal: who.principal(),
        request_id,
        metadata: sent.metadata,
    })
}

/// What a renewal means.
///
/// # Errors
/// As [`acquire`].
pub(super) fn renew(sent: &RenewRequest<'_>, bounds: &Bounds, who: &Who) -> Result<Renew, Failure> {
    Ok(Renew {
        lock_id: check_lock_id(&sent.lock_id, who)?,
        token: check_token(sent.fencing_token)?,
        ttl: match sent.ttl_ms {
            Some(ttl_ms) => Some(check_ttl(ttl_ms, bounds)?),
            None => None,
        },
        principal: who.principal(),
    })
}

/// What a release means.
///
/// # Errors
/// As [`acquire`].
pub(super) fn release(sent: &ReleaseRequest<'_>, who: &Who) -> Result<Release, Failure> {
    Ok(Release {
        lock_id: check_lock_id(&sent.lock_id, who)?,
        token: check_token(sent.fencing_token)?,
        principal: who.principal(),
    })
}

/// What a force-release means.
///
/// # Errors
/// When a field is out of its bounds, or the caller has not the right.
pub(super) fn force_release(
    sent: &ForceReleaseRequest<'_>,
    who: &Who,
) -> Result<ForceRelease, Failure> {
    let name = LockName::new(&sent.name)?;
    check_right(who, Right::Admin, name.as_str())?;
    names::check_text("reason", &sent.reason, limits::REASON_BYTES_MAX)?;
    Ok(ForceRelease {
        name,
        immediate: sent.immediate.unwrap_or(false),
    })
}

fn check_ttl(ttl_ms: u64, bounds: &Bounds) -> Result<Millis, Failure> {
    let ttl = Millis::from_ms(ttl_ms);
    if (bounds.ttl_min..=bounds.ttl_max).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Failure::invalid(format!(
        "ttlMs: allowed are {} to {} (milliseconds)",
        bounds.ttl_min.as_ms(),
        bounds.ttl_max.as_ms()
    )))
}

fn check_wait(wait_ms: Option<u64>, bounds: &Bounds) -> Result<Millis, Failure> {
    let wait = Millis::from_ms(wait_ms.unwrap_or(0));
    if wait > bounds.wait_max {
        let max_ms = bounds.wait_max.as_ms();
        return Err(Failure::invalid(format!(
            "waitMs: allowed are 0 to {max_ms} (milliseconds)"
        )));
    }
    Ok(wait)
}

fn check_metadata(metadata: Option<&BTreeMap<String, String>>) -> Result<(), Failure> {
    let entries = metadata.into_iter().flatten();
    let bytes: usize = entries.map(|(key, value)| key.len() + value.len()).sum();
    if bytes > limits::METADATA_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "metadata: has {bytes} bytes in its keys and values; allowed are {}",
            limits::METADATA_BYTES_MAX
        )));
    }
    Ok(())
}

/// A lock id names its lock, whoever made it up; so the right is asked for here too.
fn check_lock_id(lock_id: &str, who: &Who) -> Result<LockId, Failure> {
    let lock_id = LockId::parse(lock_id).ok_or_else(|| {
        let detail = "lockId: not a lock id; send it exactly as the acquire answered it";
        Failure::new(ErrorCode::InvalidLockId, detail)
    })?;
    check_right(who, Right::Acquire, lock_id.name())?;
    Ok(lock_id)
}

/// Whether the caller has this right on this name; or on every name that begins so, which is the same
/// question.
///
/// # Errors
/// When not.
pub(super) fn check_right(who: &Who, right: Right, name: &str) -> Result<(), Failure> {
    match who.may(right, name) {
        true => Ok(()),
        false => Err(Failure::forbidden(right)),
    }
}

fn check_token(token: u64) -> Result<Token, Failure> {
    if token < Token::END {
        return Ok(Token(token));
    }
    let end = Token::END;
    Err(Failure::invalid(format!(
        "fencingToken: allowed are whole numbers below {end}"
    )))
}
