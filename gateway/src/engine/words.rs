//! What the engines of one gateway say to each other while a group moves between their clusters.
//!
//! The engine of the cluster that the group leaves has the say (`moves.rs`); that of the other prepares
//! the place and takes the group over (`arrivals.rs`). Words arrive once and in order, or not at all:
//! what is asked is asked again or given up, and a group that nobody says anything of any more is
//! looked for in the cluster that it comes from.

use crate::engine::records::SourceRecord;
use crate::engine::step::Left;
use crate::engine::table::{Group, Stay};
use crate::lock_id::{GroupId, SlotIndex};
use holdfast_store::{Key, LeaseId};
use shard_map::ShardId;
use std::fmt;
use std::sync::Arc;

/// A word from one engine to another. Opaque: the shell carries it.
#[derive(Debug)]
pub struct Word(pub(crate) Said);

#[derive(Debug)]
pub(crate) enum Said {
    /// Grant a fresh lease for this group. Answered by [`Said::Prepared`].
    Prepare(Place),
    Prepared(GroupId, LeaseId),
    /// No group of the shard is taken here at the moment.
    NotYet(GroupId),
    /// Put the group's key on that lease. Answered by [`Said::Received`].
    Receive(GroupId, LeaseId),
    Received(GroupId, LeaseId),
    /// Put these records on that lease. Answered by [`Said::Copied`], with the proof of the lease.
    Copy(GroupId, LeaseId, Vec<CopyOf>),
    Copied(GroupId, LeaseId, Arc<Stay>),
    /// The place on that lease is none.
    Failed(GroupId, LeaseId),
    /// The group's key in the source is gone: it is yours.
    Take(GroupId, LeaseId),
    /// Nobody in this gateway has the say over this move any more.
    Orphaned(GroupId, LeaseId),
    /// Revoke this lease for good, and what hangs from it. Answered by [`Said::Revoked`].
    Revoke(GroupId, LeaseId),
    Revoked(GroupId, LeaseId),
    /// Does your cluster have a key of this group, of any session? Answered by [`Said::There`].
    IsThere(GroupId),
    There(GroupId, bool),
}

/// Where a group is to arrive.
pub(crate) struct Place {
    pub(crate) group: Arc<Group>,
    pub(crate) shard: ShardId,
    /// The cluster and the lease that it comes from.
    pub(crate) from: SourceRecord,
    /// The shard's guard there.
    pub(crate) left: Left,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("group", &self.group.id)
            .finish_non_exhaustive()
    }
}

/// A record as it is to be in the other cluster.
pub(crate) struct CopyOf {
    pub(crate) slot: SlotIndex,
    pub(crate) key: Key,
    pub(crate) value: Vec<u8>,
}

impl fmt::Debug for CopyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOf")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}
