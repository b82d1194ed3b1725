//! etcd's limits on a transaction.
//!
//! A transaction that breaks one is refused before anything is looked at. The checks are as wide
//! and as narrow as etcd's own, of which some are odd: see [`Writes::add_inner`].

use crate::{DefiniteError, Key, KeyRange, Txn, TxnOp};
use std::collections::BTreeSet;

/// Operations of a transaction: the longest of its three lists, and of those inside.
const OPS_MAX: usize = 128;

/// etcd's largest request at default settings, in bytes. Only keys and values are counted here;
/// etcd also counts what its encoding adds.
const REQUEST_BYTES_MAX: usize = 1_572_864;

pub(super) fn limits(txn: &Txn) -> Result<(), DefiniteError> {
    let mut bytes = 0;
    counts(txn, OPS_MAX, &mut bytes)?;
    if bytes > REQUEST_BYTES_MAX {
        return Err(refused("request is too large"));
    }
    Writes::of(&txn.then)?;
    Writes::of(&txn.or_else)?;
    Ok(())
}

fn refused(why: &str) -> DefiniteError {
    DefiniteError::Invalid(why.to_owned())
}

/// Checks that `txn` has no more than `ops_max` operations and no empty key. Adds the length of
/// its keys and values to `bytes`.
fn counts(txn: &Txn, ops_max: usize, bytes: &mut usize) -> Result<(), DefiniteError> {
    let ops = txn.compare.len().max(txn.then.len()).max(txn.or_else.len());
    let Some(ops_left) = ops_max.checked_sub(ops) else {
        return Err(refused("too many operations in txn request"));
    };
    for compare in &txn.compare {
        *bytes += range_bytes(&compare.range)?;
    }
    for op in txn.then.iter().chain(&txn.or_else) {
        match op {
            TxnOp::Get(get) => *bytes += range_bytes(&get.range)?,
            TxnOp::Put(put) => *bytes += key_bytes(&put.key)? + put.value.len(),
            TxnOp::Delete(range) => *bytes += range_bytes(range)?,
            TxnOp::Txn(inner) => counts(inner, ops_left, bytes)?,
        }
    }
    Ok(())
}

fn range_bytes(range: &KeyRange) -> Result<usize, DefiniteError> {
    let end = range.end.as_ref().map_or(0, |end| end.as_bytes().len());
    Ok(key_bytes(&range.start)? + end)
}

fn key_bytes(key: &Key) -> Result<usize, DefiniteError> {
    match key.as_bytes().len() {
        0 => Err(refused("key is not provided")),
        bytes => Ok(bytes),
    }
}

/// What a branch may write, with everything inside it.
#[derive(Default)]
struct Writes<'a> {
    puts: BTreeSet<&'a Key>,
    deleted: BTreeSet<&'a Key>,
    deleted_ranges: Vec<(&'a Key, &'a Key)>,
}

impl<'a> Writes<'a> {
    /// Checks that no key is put twice, and none both put and deleted.
    fn of(ops: &'a [TxnOp]) -> Result<Self, DefiniteError> {
        let mut writes = Self::default();
        for op in ops {
            if let TxnOp::Delete(range) = op {
                writes.add_delete(range);
            }
        }
        for op in ops {
            if let TxnOp::Txn(inner) = op {
                writes.add_inner(inner)?;
            }
        }
        for op in ops {
            if let TxnOp::Put(put) = op {
                writes.add_put(&put.key)?;
            }
        }
        Ok(writes)
    }

    fn add_delete(&mut self, range: &'a KeyRange) {
        match &range.end {
            Some(end) if !end.as_bytes().is_empty() => {
                self.deleted_ranges.push((&range.start, end));
            }
            _ => {
                self.deleted.insert(&range.start);
            }
        }
    }

    fn add_put(&mut self, key: &'a Key) -> Result<(), DefiniteError> {
        if self.deletes(key) || !self.puts.insert(key) {
            return Err(refused("duplicate key given in txn request"));
        }
        Ok(())
    }

    /// As etcd does it: what the two branches of `txn` put may be the same keys, because only one
    /// of them is taken; puts are checked against the deletes of the transactions before this one,
    /// but its deletes not against the puts of those.
    fn add_inner(&mut self, txn: &'a Txn) -> Result<(), DefiniteError> {
        let mut then = Self::of(&txn.then)?;
        let mut or_else = Self::of(&txn.or_else)?;
        or_else.puts.retain(|key| !then.puts.contains(key));
        for key in then.puts.iter().chain(&or_else.puts) {
            self.add_put(key)?;
        }
        for branch in [&mut then, &mut or_else] {
            self.deleted.append(&mut branch.deleted);
            self.deleted_ranges.append(&mut branch.deleted_ranges);
        }
        Ok(())
    }

    fn deletes(&self, key: &Key) -> bool {
        let mut ranges = self.deleted_ranges.iter();
        self.deleted.contains(key) || ranges.any(|&(start, end)| start <= key && key < end)
    }
}
