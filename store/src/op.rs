//! Operations and replies.

use crate::{Key, LeaseId, Revision, Txn, TxnReply};

/// What can be asked of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// An atomic transaction; a linearizable read when it only reads. Answered by
    /// [`Reply::Txn`].
    Txn(Txn),
    /// Grants a lease with a chosen id. Answered by [`Reply::LeaseGranted`].
    LeaseGrant {
        /// The id, chosen by the caller; not 0.
        lease: LeaseId,
        /// Time to live in seconds. etcd's smallest is 2 s at default settings; a smaller one is
        /// answered with what was granted.
        ttl_s: u32,
    },
    /// Revokes a lease and deletes its keys. Answered by [`Reply::LeaseRevoked`].
    LeaseRevoke {
        /// The lease.
        lease: LeaseId,
    },
    /// The keys that hang from a lease, as the leader has them: *not* linearizable. Answered by
    /// [`Reply::LeaseKeys`].
    LeaseKeys {
        /// The lease.
        lease: LeaseId,
    },
    /// One keepalive for each of these leases, sent together on a stream of their own, which is
    /// closed at the end: an answer can only belong to this burst. Answered by
    /// [`Reply::KeepAlive`] with whatever had come by the time limit.
    KeepAlive {
        /// Each at most once.
        leases: Vec<LeaseId>,
    },
    /// The alarms raised in the cluster. Answered by [`Reply::Alarms`].
    Alarms,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Op::Txn`].
    Txn(TxnReply),
    /// To [`Op::LeaseGrant`].
    LeaseGranted {
        /// Who answered.
        header: Header,
        /// The time to live that was granted, in seconds.
        ttl_s: i64,
    },
    /// To [`Op::LeaseRevoke`].
    LeaseRevoked {
        /// Who answered.
        header: Header,
    },
    /// To [`Op::LeaseKeys`].
    LeaseKeys {
        /// Who answered.
        header: Header,
        /// What is left of the lease in seconds; −1 when the lease does not exist (any more).
        ttl_s: i64,
        /// In no particular order.
        keys: Vec<Key>,
    },
    /// To [`Op::KeepAlive`]: the answers that came. A lease that is not listed got none, which
    /// says nothing about it.
    KeepAlive(Vec<KeepAliveAnswer>),
    /// To [`Op::Alarms`]. etcd 3.4 does not say who answered.
    Alarms {
        /// Each kind once.
        alarms: Vec<Alarm>,
    },
}

/// What etcd answered to one keepalive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAliveAnswer {
    /// Who answered.
    pub header: Header,
    /// Which lease.
    pub lease: LeaseId,
    /// Seconds to live from now on; 0 when that member does not know the lease.
    pub ttl_s: i64,
}

/// Who answered, and in which state of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// etcd's own id of the cluster.
    pub cluster_id: u64,
    /// The member that answered.
    pub member_id: u64,
    /// The revision of the key space at that member.
    pub revision: Revision,
    /// The Raft term at that member.
    pub raft_term: u64,
}

/// An alarm that etcd raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// The space quota is used up; direct puts and lease grants are refused.
    NoSpace,
    /// A member found its data corrupt.
    Corrupt,
}
