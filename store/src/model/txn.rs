//! One transaction.
//!
//! In etcd's order: the limits, the quota, all compares (the nested ones too, so they do not see
//! what the same transaction writes), the leases of the puts that will be done, the operations.

use super::keyspace::{KeySpace, Record, Write};
use super::leases::LeaseTable;
use super::{Model, check};
use crate::{
    Compare, Condition, DefiniteError, Get, KeyRange, LeaseId, Put, Relation, Revision, StoreError,
    Txn, TxnOp, TxnOpReply, TxnReply,
};
use std::cmp::Ordering;

pub(super) fn apply(model: &mut Model, txn: &Txn) -> Result<TxnReply, StoreError> {
    check::limits(txn)?;
    if model.no_space && has_direct_put(txn) {
        return Err(super::space_exceeded());
    }
    let branch = Branch::of(txn, &model.keys);
    branch.check_leases(&model.leases)?;

    let mut run = Run {
        write: model.keys.write(),
        leases: &mut model.leases,
    };
    let ops = run.branch(&branch);
    run.write.finish();
    Ok(TxnReply {
        header: model.header(),
        succeeded: branch.succeeded,
        ops,
    })
}

/// etcd's quota counts the puts of both branches, and none of a nested transaction.
fn has_direct_put(txn: &Txn) -> bool {
    let is_put = |op: &TxnOp| matches!(op, TxnOp::Put(_));
    txn.then.iter().chain(&txn.or_else).any(is_put)
}

/// What a transaction is going to do.
struct Branch<'a> {
    succeeded: bool,
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    Get(&'a Get),
    Put(&'a Put),
    Delete(&'a KeyRange),
    Txn(Branch<'a>),
}

impl<'a> Branch<'a> {
    fn of(txn: &'a Txn, keys: &KeySpace) -> Self {
        let succeeded = txn.compare.iter().all(|compare| holds(compare, keys));
        let ops = if succeeded { &txn.then } else { &txn.or_else };
        let step = |op: &'a TxnOp| match op {
            TxnOp::Get(get) => Step::Get(get),
            TxnOp::Put(put) => Step::Put(put),
            TxnOp::Delete(range) => Step::Delete(range),
            TxnOp::Txn(inner) => Step::Txn(Self::of(inner, keys)),
        };
        Self {
            succeeded,
            steps: ops.iter().map(step).collect(),
        }
    }

    /// A put on a lease that does not exist fails the whole transaction.
    fn check_leases(&self, leases: &LeaseTable) -> Result<(), DefiniteError> {
        for step in &self.steps {
            match step {
                Step::Txn(branch) => branch.check_leases(leases)?,
                Step::Put(put) => {
                    if lease_of(put).is_some_and(|lease| leases.get(lease).is_none()) {
                        return Err(DefiniteError::LeaseNotFound);
                    }
                }
                Step::Get(_) | Step::Delete(_) => {}
            }
        }
        Ok(())
    }
}

/// On the wire, lease 0 is no lease.
fn lease_of(put: &Put) -> Option<LeaseId> {
    put.lease.filter(|lease| lease.0 != 0)
}

fn holds(compare: &Compare, keys: &KeySpace) -> bool {
    let mut found = keys.in_range(&compare.range).peekable();
    if found.peek().is_none() {
        return condition_holds(&compare.condition, None);
    }
    found.all(|(_, record)| condition_holds(&compare.condition, Some(record)))
}

/// `None` is an absent key: everything about it is zero, and it has no value to compare with.
fn condition_holds(condition: &Condition, record: Option<&Record>) -> bool {
    let (relation, ordering) = match condition {
        Condition::CreateRevision(relation, revision) => {
            let created = record.map_or(Revision::ABSENT, |r| r.created);
            (relation, created.cmp(revision))
        }
        Condition::ModRevision(relation, revision) => {
            let modified = record.map_or(Revision::ABSENT, |r| r.modified);
            (relation, modified.cmp(revision))
        }
        Condition::Version(relation, version) => {
            (relation, record.map_or(0, |r| r.version).cmp(version))
        }
        Condition::Lease(relation, lease) => {
            let number = |lease: Option<LeaseId>| lease.map_or(0, |lease| lease.0);
            let found = number(record.and_then(|r| r.lease));
            (relation, found.cmp(&number(*lease)))
        }
        Condition::Value(relation, value) => match record {
            Some(record) => (relation, (*record.value).cmp(value.as_slice())),
            None => return false,
        },
    };
    match relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::NotEqual => ordering != Ordering::Equal,
        Relation::Greater => ordering == Ordering::Greater,
        Relation::Less => ordering == Ordering::Less,
    }
}

/// A transaction while its operations are done, one after the other; reads see what was written
/// before them.
struct Run<'a> {
    write: Write<'a>,
    leases: &'a mut LeaseTable,
}

impl Run<'_> {
    fn branch(&mut self, branch: &Branch<'_>) -> Vec<TxnOpReply> {
        branch.steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &Step<'_>) -> TxnOpReply {
        match step {
            Step::Get(get) => TxnOpReply::Get(self.write.keys().read(get)),
            Step::Put(put) => {
                self.put(put);
                TxnOpReply::Put
            }
            Step::Delete(range) => TxnOpReply::Delete(self.delete(range)),
            Step::Txn(branch) => TxnOpReply::Txn {
                succeeded: branch.succeeded,
                ops: self.branch(branch),
            },
        }
    }

    /// Returns how many keys there were.
    fn delete(&mut self, range: &KeyRange) -> i64 {
        let keys = self.write.keys().in_range(range);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            let deleted = self.write.delete(key);
            if let Some(lease) = deleted.and_then(|record| record.lease) {
                self.leases.detach(lease, key);
            }
        }
        keys.len().try_into().unwrap_or(i64::MAX)
    }

    fn put(&mut self, put: &Put) {
        let lease = lease_of(put);
        let old = self.write.put(&put.key, &put.value, lease);
        if old == lease {
            return;
        }
        if let Some(old) = old {
            self.leases.detach(old, &put.key);
        }
        if let Some(lease) = lease {
            self.leases.attach(lease, put.key.clone());
        }
    }
}
