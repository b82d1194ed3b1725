//! Transactions: compares, then one of two branches, all of it atomic.

use crate::{Header, Key, KeyRange, LeaseId, Revision};

/// One etcd transaction: if every compare holds `then` is done, else `or_else`. A transaction
/// that only reads is a linearizable read.
///
/// etcd's limits: the longest of the three lists, plus the deepest nested transaction's, is at
/// most 128; no key is written twice, not even in branches that exclude each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// All of them must hold.
    pub compare: Vec<Compare>,
    /// Done when they hold.
    pub then: Vec<TxnOp>,
    /// Done when one of them does not.
    pub or_else: Vec<TxnOp>,
}

impl Txn {
    /// A linearizable read of all these ranges at one revision.
    pub fn read(gets: impl IntoIterator<Item = Get>) -> Self {
        Self {
            then: gets.into_iter().map(TxnOp::Get).collect(),
            ..Self::default()
        }
    }
}

/// A condition on a key, or on every key of a range.
///
/// On an absent key, revisions, version and lease compare as zero and a value compare fails; on a
/// range the condition must hold for every key in it, and an empty range is as an absent key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// What is looked at.
    pub range: KeyRange,
    /// What must hold.
    pub condition: Condition,
}

impl Compare {
    /// The key does not exist (or no key of the range).
    pub fn absent(range: KeyRange) -> Self {
        Self {
            range,
            condition: Condition::CreateRevision(Relation::Equal, Revision::ABSENT),
        }
    }

    /// The key was last written at `revision`.
    pub fn mod_revision(key: impl Into<Key>, revision: Revision) -> Self {
        Self {
            range: KeyRange::one(key),
            condition: Condition::ModRevision(Relation::Equal, revision),
        }
    }
}

/// What a [`Compare`] compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The revision at which the key was created.
    CreateRevision(Relation, Revision),
    /// The revision at which it was last written.
    ModRevision(Relation, Revision),
    /// How often it was written since it was created.
    Version(Relation, i64),
    /// Its value.
    Value(Relation, Vec<u8>),
    /// The lease it hangs from; `None` is no lease.
    Lease(Relation, Option<LeaseId>),
}

/// How the two sides of a compare must relate: what etcd has `relation` what is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The same.
    Equal,
    /// Not the same.
    NotEqual,
    /// etcd's is greater.
    Greater,
    /// etcd's is less.
    Less,
}

/// One operation of a transaction's branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOp {
    /// Reads a range.
    Get(Get),
    /// Writes a key.
    Put(Put),
    /// Deletes every key of a range.
    Delete(KeyRange),
    /// A transaction inside.
    Txn(Txn),
}

/// Reads a range, in key order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// What to read.
    pub range: KeyRange,
    /// Leave the values out (revisions and lease are still told).
    pub keys_only: bool,
    /// At most so many keys; 0 is all.
    pub limit: i64,
}

impl Get {
    /// Keys and values.
    pub fn all(range: KeyRange) -> Self {
        Self {
            range,
            keys_only: false,
            limit: 0,
        }
    }

    /// Keys, their revisions and leases, without values.
    pub fn keys(range: KeyRange) -> Self {
        Self {
            range,
            keys_only: true,
            limit: 0,
        }
    }
}

/// Writes a key; `lease` replaces the lease it hung from (`None`: hangs from none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// Its new value.
    pub value: Vec<u8>,
    /// What it hangs from.
    pub lease: Option<LeaseId>,
}

/// A key and what etcd knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// Its value; empty where only keys were asked for.
    pub value: Vec<u8>,
    /// The revision at which it was created.
    pub create_revision: Revision,
    /// The revision at which it was last written.
    pub mod_revision: Revision,
    /// How often it was written since.
    pub version: i64,
    /// The lease it hangs from.
    pub lease: Option<LeaseId>,
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnReply {
    /// Its revision is that of every key the transaction wrote.
    pub header: Header,
    /// Whether the compares held.
    pub succeeded: bool,
    /// One per operation of the branch that was taken, in order.
    pub ops: Vec<TxnOpReply>,
}

/// What one operation of a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOpReply {
    /// What was read.
    Get(GetReply),
    /// Written.
    Put,
    /// So many keys were deleted.
    Delete(i64),
    /// The transaction inside.
    Txn {
        /// Whether its compares held.
        succeeded: bool,
        /// One per operation of the branch that was taken.
        ops: Vec<TxnOpReply>,
    },
}

/// What a [`Get`] read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetReply {
    /// In key order.
    pub kvs: Vec<KeyValue>,
    /// How many keys the range has, whatever the limit.
    pub count: i64,
}
