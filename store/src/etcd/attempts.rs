//! What one call has tried so far, and what it is waiting for.

use super::endpoints::{EndpointIndex, Tried};
use super::flight::Generation;
use super::link::Link;
use super::pool::Lane;
use crate::DefiniteError;
use std::sync::Arc;

/// The course of one call.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Endpoints that were of no use.
    pub(super) tried: Tried,
    /// How many connections were found closed.
    pub(super) closed: usize,
    /// Another token was obtained for this call.
    pub(super) reauthenticated: bool,
    /// Why the last endpoint was of no use.
    pub(super) last: Option<String>,
    /// What the call waits for.
    pub(super) waiting: Waiting,
}

/// What a call waits for; what it waited for in vain when its time is over.
#[derive(Debug, Default)]
pub(super) enum Waiting {
    /// No endpoint in particular.
    #[default]
    Nothing,
    /// A connection to this one, or a token from it. Nothing was sent.
    Endpoint(EndpointIndex),
    /// The reply over this one. The operation may have been sent.
    Reply(Connection),
}

/// An open connection, with a token that was good when it was obtained.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) link: Arc<Link>,
    pub(super) endpoint: EndpointIndex,
    pub(super) lane: Lane,
    pub(super) turn: usize,
    /// Of the link.
    pub(super) generation: Generation,
    /// Of the token.
    pub(super) token: Generation,
}

impl Attempts {
    /// The call's end when nothing was sent.
    pub(super) fn unreachable(&self) -> DefiniteError {
        let last = self.last.as_deref();
        let text = last.unwrap_or("no connection within the time limit");
        DefiniteError::Unreachable(text.to_owned())
    }
}
