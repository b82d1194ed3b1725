//! One client's connection, as the edge sees it: who is at its other end.

use super::Edge;
use crate::auth::{Caller, Certificate};
use std::net::IpAddr;
use std::sync::Arc;

/// What requests of one connection share.
pub struct Client<'a, L, C> {
    pub(super) edge: &'a Edge<L, C>,
    pub(super) caller: Caller,
}

impl<'a, L, C> Client<'a, L, C> {
    /// The client at the other end of a connection, at this address, which showed this
    /// certificate.
    pub fn new(edge: &'a Edge<L, C>, address: IpAddr, certificate: Option<Certificate>) -> Self {
        Self {
            edge,
            caller: Caller::new(Arc::clone(&edge.auth), address, certificate),
        }
    }
}
