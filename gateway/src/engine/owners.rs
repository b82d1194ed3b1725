//! Who owns which group in a cluster, as the last linearizable read showed it. Shared with the
//! threads that forward.
//!
//! It is a hint: whoever is asked by it says himself whether he is the owner.

use crate::engine::records::SessionId;
use crate::limits;
use crate::lock_id::GroupId;
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

impl Owners {
    pub(crate) fn of(&self, group: GroupId) -> Option<Owned> {
        self.groups.get(&group).map(|owned| owned.clone())
    }

    /// Whether another session of the cluster owns the group.
    pub(crate) fn has(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group)
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
