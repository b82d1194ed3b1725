//! A hold, as its client sees it.

use crate::{PartyClock, Real};

/// The number of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldNo(pub(crate) usize);

/// A client, and which incarnation of it: one that disappears never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client(pub usize, pub u64);

/// See the module.
#[derive(Debug)]
pub struct Hold {
    /// The number of the lock's name.
    pub name: usize,
    /// Whose it is.
    pub client: Client,
    /// Its fencing token.
    pub token: u64,
    /// When the client was first told of it.
    pub told_at: Real,
    clock: PartyClock,
    /// Until when it is promised, by the client's clock.
    until: u64,
    /// When the client was told so.
    until_told_at: Real,
    /// When the client gave it up: it sent a release, or forgot it.
    pub given_up_at: Option<Real>,
    /// When a release was answered.
    pub released_at: Option<Real>,
    /// When the client was told that it is over.
    pub ended_at: Option<Real>,
    /// When an operator was told that it is force-released.
    pub closed_at: Option<Real>,
}

impl Hold {
    pub(crate) fn new(
        name: usize,
        client: Client,
        token: u64,
        told_at: Real,
        clock: PartyClock,
    ) -> Self {
        Self {
            name,
            client,
            token,
            told_at,
            clock,
            until: 0,
            until_told_at: told_at,
            given_up_at: None,
            released_at: None,
            ended_at: None,
            closed_at: None,
        }
    }

    /// A promise counts from when the client sent its request, by its own clock, and a later one
    /// never shortens an earlier one.
    pub(crate) fn promise(&mut self, now: Real, sent: Real, ttl_ms: u64) {
        let until = self.clock.read(sent) + ttl_ms;
        if until > self.until {
            self.until = until;
            self.until_told_at = now;
        }
    }

    /// Whether the present promise was told before.
    pub(crate) fn last_told_before(&self, moment: Real) -> bool {
        self.until_told_at < moment
    }

    /// Whether the client has an unexpired promise.
    pub fn is_promised(&self, now: Real) -> bool {
        self.given_up_at.is_none() && self.ended_at.is_none() && self.clock.read(now) < self.until
    }

    /// How much is left of the promise, by the client's clock.
    pub fn left_ms(&self, now: Real) -> u64 {
        self.until.saturating_sub(self.clock.read(now))
    }
}
