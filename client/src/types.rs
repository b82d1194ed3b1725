//! What a hold consists of.

use crate::clock::Instant;
use std::fmt;
use std::time::Duration;

/// The handle of a hold: opaque, and a bearer secret, so it is not printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LockId(Box<str>);

impl LockId {
    /// A lock id, as a gateway gave it.
    pub fn new(id: impl Into<Box<str>>) -> Self {
        Self(id.into())
    }

    /// As it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockId(..)")
    }
}

/// The fencing token of a hold. Per name strictly increasing; give it to the resource with every
/// write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u64);

/// A promise, counted on the client's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The hold lasts until here: the moment the request was sent, plus what it waited, plus the
    /// time to live of the reply. Never later than the gateway's own deadline.
    pub until: Instant,
    /// When to renew.
    pub renew_at: Instant,
}

impl Promise {
    /// The promise of a reply to a request that was sent at `sent` and queued for `waited`.
    pub fn new(sent: Instant, waited: Duration, ttl: Duration, renew_after: Duration) -> Self {
        let begin = sent + waited;
        Self {
            until: begin + ttl,
            renew_at: begin + renew_after.min(ttl),
        }
    }
}

/// A granted lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The handle.
    pub lock_id: LockId,
    /// The fencing token.
    pub token: Token,
    /// How long it lasts.
    pub promise: Promise,
    /// The client held it already and got the same hold back.
    pub already_held: bool,
}
