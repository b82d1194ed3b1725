//! A client: it follows the HTTP contract, counts by its own clock, and has its habits.

mod answers;
mod moves;

use crate::clock::{PartyClock, Real};
use crate::world::RequestNo;
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::names::Token;
use holdfast_judge::HoldNo;

/// A hold that a client has.
#[derive(Debug, Clone)]
pub(crate) struct Mine {
    pub(crate) no: HoldNo,
    pub(crate) name: usize,
    pub(crate) lock_id: LockId,
    pub(crate) token: Token,
    pub(crate) ttl_ms: u64,
    pub(crate) request_id: Option<u64>,
    /// When it has had enough.
    pub(crate) until: Real,
}

/// What a client is about.
#[derive(Debug, Clone)]
pub(crate) enum Doing {
    /// It thinks of what to do next.
    Idle,
    Acquiring {
        name: usize,
        ttl_ms: u64,
        request_id: Option<u64>,
        /// How long it waits in line, each time.
        wait_ms: u64,
        tries_left: u32,
    },
    Holding(Box<Mine>),
    Releasing {
        mine: Box<Mine>,
        tries_left: u32,
    },
    /// It renews what it has released.
    Haunting {
        mine: Box<Mine>,
        times_left: u32,
    },
    /// It does nothing any more.
    Quiet,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) clock: PartyClock,
    /// A client that disappears never comes back; another takes its place.
    pub(crate) incarnation: u64,
    pub(crate) doing: Doing,
    /// The request whose answer it waits for.
    pub(crate) waiting: Option<RequestNo>,
    /// The gateway that it asks.
    pub(crate) gateway: usize,
    pub(crate) paused_until: Real,
    /// Wake-ups that were planned before the last one are void.
    pub(crate) plan: u64,
}

impl Client {
    pub(crate) fn new(clock: PartyClock) -> Self {
        Self {
            clock,
            incarnation: 0,
            doing: Doing::Idle,
            waiting: None,
            gateway: 0,
            paused_until: 0,
            plan: 0,
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.doing, Doing::Quiet)
    }

    /// What it is about.
    pub(crate) fn name(&self) -> Option<usize> {
        match &self.doing {
            Doing::Acquiring { name, .. } => Some(*name),
            Doing::Holding(mine) => Some(mine.name),
            Doing::Releasing { mine, .. } | Doing::Haunting { mine, .. } => Some(mine.name),
            Doing::Idle | Doing::Quiet => None,
        }
    }
}
