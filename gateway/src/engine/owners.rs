//! Who owns which group in a cluster, as the last linearizable read showed it, and what to do with
//! a request about one. Shared with the threads that forward.
//!
//! It is a hint: whoever is asked by it says himself whether he is the owner.

use crate::engine::records::SessionId;
use crate::engine::table::{FastRenewal, Table};
use crate::engine::tickets::Trouble;
use crate::limits;
use crate::lock_id::{GroupId, LockId};
use crate::service::{Forward, ForwardOutcome, RenewOutcome};
use crate::time::Instant;
use dashmap::DashMap;
use std::collections::HashMap;
use std::sync::Arc;

/// A live session of another gateway that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The session that the group's key names.
    pub session: SessionId,
    /// Where its gateway listens to others.
    pub peer_url: Arc<str>,
}

/// Whose a group is that is not this gateway's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owned {
    /// A live session's that can be asked.
    By(Arc<Owner>),
    /// A live session's that cannot be asked: its record is not readable, or says that it is
    /// reached where this gateway is.
    Silent,
    /// Its session is gone, and nobody has claimed it yet.
    Unclaimed,
}

/// The groups of other gateways in one cluster.
#[derive(Debug, Default)]
pub struct Owners {
    groups: DashMap<GroupId, Owned>,
}

/// Where a request about a hold goes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Course {
    /// To this gateway's engine: the group is its own, or nothing is known of it.
    Engine,
    /// To the owner.
    Owner(Arc<Owner>),
    /// Nowhere: the group's owner is gone and its heir is not known yet.
    Unclaimed,
}

impl Owners {
    /// Where a request about this lock goes first. Memory only.
    pub fn course(&self, table: &Table, id: &LockId) -> Course {
        let group = id.group();
        if table.has(group) {
            return Course::Engine;
        }
        match self.groups.get(&group).as_deref() {
            Some(Owned::By(owner)) => Course::Owner(Arc::clone(owner)),
            Some(Owned::Unclaimed) => Course::Unclaimed,
            Some(Owned::Silent) | None => Course::Engine,
        }
    }

    pub(crate) fn of(&self, group: GroupId) -> Option<Owned> {
        self.groups.get(&group).map(|owned| owned.clone())
    }

    /// What a linearizable read showed. Groups beyond the limit are not remembered: a request
    /// about one is looked up when it comes.
    pub(crate) fn replace(&self, mut seen: HashMap<GroupId, Owned>) {
        self.groups.retain(|group, owned| match seen.remove(group) {
            Some(new) => {
                *owned = new;
                true
            }
            None => false,
        });
        for (group, owned) in seen {
            if self.groups.len() >= limits::FOREIGN_GROUPS_MAX {
                break;
            }
            self.groups.insert(group, owned);
        }
    }

    pub(crate) fn remove(&self, group: GroupId) {
        self.groups.remove(&group);
    }
}

impl Table {
    /// Begins to answer what another gateway has forwarded. `None`: only the engine can answer, as
    /// [`crate::engine::Input::Forwarded`].
    pub fn serve_forwarded(&self, now: Instant, forward: &Forward) -> Option<ForwardOutcome> {
        if !self.has(forward.lock_id().group()) {
            return Some(ForwardOutcome::NotTheirs);
        }
        let Forward::Renew(renew) = forward else {
            return None;
        };
        match self.renew(now, renew) {
            (FastRenewal::Renewed(told), _) => {
                Some(ForwardOutcome::Renew(RenewOutcome::Renewed(told)))
            }
            (FastRenewal::Unproven, Some(cluster)) => Some(ForwardOutcome::Failed(
                Trouble::Unproven.to_error(&cluster.name),
            )),
            (FastRenewal::Loading, Some(cluster)) => Some(ForwardOutcome::Failed(
                Trouble::Loading.to_error(&cluster.name),
            )),
            _ => None,
        }
    }
}
