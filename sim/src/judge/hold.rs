//! A hold, as its client sees it.

use crate::clock::{PartyClock, Real};

/// The number of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HoldNo(pub(crate) usize);

/// See the module.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) name: usize,
    /// Which incarnation of which client.
    pub(crate) client: (usize, u64),
    pub(crate) token: u64,
    /// When the client was first told of it.
    pub(crate) told_at: Real,
    clock: PartyClock,
    /// Until when it is promised, by the client's clock.
    until: u64,
    /// When the client was told so.
    until_told_at: Real,
    pub(crate) given_up_at: Option<Real>,
    /// When a release was answered.
    pub(crate) released_at: Option<Real>,
    /// When the client was told that it is over.
    pub(crate) ended_at: Option<Real>,
}

impl Hold {
    pub(crate) fn new(
        name: usize,
        client: (usize, u64),
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
    pub(crate) fn is_promised(&self, now: Real) -> bool {
        self.given_up_at.is_none() && self.ended_at.is_none() && self.clock.read(now) < self.until
    }

    /// How much is left of the promise, by the client's clock.
    pub(crate) fn left_ms(&self, now: Real) -> u64 {
        self.until.saturating_sub(self.clock.read(now))
    }
}
