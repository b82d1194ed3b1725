//! Lanes: why a batch that etcd has confirmed does nothing when it arrives a second time.
//!
//! The compares of a grant hold again once its lock is released, and the fence is the same for as
//! long as nothing is unknown. So each batch also compares, and rewrites, the key of a lane; a lane
//! carries one batch at a time. A late duplicate finds the lane's key changed. The keys hang from
//! the session's lease: after the session they are gone, and a duplicate fails for want of the
//! lease.

use crate::engine::Engine;
use crate::engine::records;
use holdfast_store::{Compare, Key, KeyRange, Put, Revision, Txn, TxnOp};

/// The way of one batch to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    number: u64,
    /// Of its key; absent before its first batch.
    revision: Revision,
}

/// The lanes of a session that carry nothing at the moment. Those whose batch has an unknown
/// outcome come back when it is known.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    free: Vec<Lane>,
    made: u64,
}

impl Lanes {
    pub(crate) fn take(&mut self) -> Lane {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            Lane {
                number: self.made,
                revision: Revision::ABSENT,
            }
        })
    }

    /// The lane's batch is over, and its key has this revision.
    pub(crate) fn give_back(&mut self, lane: Lane, revision: Revision) {
        self.free.push(Lane { revision, ..lane });
    }

    /// Nothing of the lane's batch happened.
    pub(crate) fn give_back_unused(&mut self, lane: Lane) {
        self.free.push(lane);
    }
}

impl Engine {
    pub(crate) fn lane_key(&self, lane: Lane) -> Option<Key> {
        let session = self.session.live()?.id;
        Some(records::lane_key(session, lane.number))
    }

    pub(crate) fn lane_compare(&self, lane: Lane) -> Option<Compare> {
        let key = self.lane_key(lane)?;
        Some(match lane.revision {
            Revision::ABSENT => Compare::absent(KeyRange::one(key)),
            revision => Compare::mod_revision(key, revision),
        })
    }

    /// What rewrites the lane's key; nested, because etcd's quota check looks at direct puts only.
    pub(crate) fn lane_put(&self, lane: Lane) -> Option<Txn> {
        let put = Put {
            key: self.lane_key(lane)?,
            value: Vec::new(),
            lease: Some(self.session.live()?.lease),
        };
        Some(Txn {
            then: vec![TxnOp::Put(put)],
            ..Txn::default()
        })
    }
}
