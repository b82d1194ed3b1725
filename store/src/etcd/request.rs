//! Our transactions as etcd's.

use crate::{Compare, Condition, Get, KeyRange, Put, Relation, Txn, TxnOp};
use etcd_client as etcd;

/// A transaction as it is sent.
pub(super) struct Request {
    /// For etcd's client.
    pub(super) txn: etcd::Txn,
    /// A read was added that nobody asked for; its reply is to be left out.
    pub(super) has_extra_read: bool,
}

impl Request {
    /// For the whole transaction.
    ///
    /// One without any operation gets a read: etcd would answer its compares from the member's
    /// own state, however old, as it does with serializable reads.
    pub(super) fn new(txn: &Txn) -> Self {
        let has_extra_read = txn.then.is_empty() && txn.or_else.is_empty();
        let extra = has_extra_read.then(|| extra_read(txn));
        let then = ops(&txn.then).chain(extra.clone());
        let or_else = ops(&txn.or_else).chain(extra);
        Self {
            txn: etcd::Txn::new()
                .when(compares(&txn.compare))
                .and_then(then.collect::<Vec<_>>())
                .or_else(or_else.collect::<Vec<_>>()),
            has_extra_read,
        }
    }
}

/// Reads what is compared, which needs no permission beyond the compare's own.
fn extra_read(txn: &Txn) -> etcd::TxnOp {
    let options = etcd::GetOptions::new().with_count_only();
    match txn.compare.first() {
        Some(compare) => etcd::TxnOp::get(
            compare.range.start.as_bytes(),
            Some(in_range(options, &compare.range)),
        ),
        None => etcd::TxnOp::get([0], Some(options)),
    }
}

fn nested(txn: &Txn) -> etcd::Txn {
    etcd::Txn::new()
        .when(compares(&txn.compare))
        .and_then(ops(&txn.then).collect::<Vec<_>>())
        .or_else(ops(&txn.or_else).collect::<Vec<_>>())
}

fn compares(compares: &[Compare]) -> Vec<etcd::Compare> {
    compares.iter().map(compare).collect()
}

fn ops(ops: &[TxnOp]) -> impl Iterator<Item = etcd::TxnOp> {
    ops.iter().map(|op| match op {
        TxnOp::Get(get) => read(get),
        TxnOp::Put(put) => write(put),
        TxnOp::Delete(range) => delete(range),
        TxnOp::Txn(txn) => etcd::TxnOp::txn(nested(txn)),
    })
}

fn compare(compare: &Compare) -> etcd::Compare {
    let key = compare.range.start.as_bytes();
    let made = match &compare.condition {
        Condition::CreateRevision(relation, revision) => {
            etcd::Compare::create_revision(key, operator(*relation), revision.0)
        }
        Condition::ModRevision(relation, revision) => {
            etcd::Compare::mod_revision(key, operator(*relation), revision.0)
        }
        Condition::Version(relation, version) => {
            etcd::Compare::version(key, operator(*relation), *version)
        }
        Condition::Value(relation, value) => {
            etcd::Compare::value(key, operator(*relation), value.as_slice())
        }
        Condition::Lease(relation, lease) => {
            etcd::Compare::lease(key, operator(*relation), lease.map_or(0, |lease| lease.0))
        }
    };
    match &compare.range.end {
        Some(end) => made.with_range(end.as_bytes()),
        None => made,
    }
}

fn operator(relation: Relation) -> etcd::CompareOp {
    match relation {
        Relation::Equal => etcd::CompareOp::Equal,
        Relation::NotEqual => etcd::CompareOp::NotEqual,
        Relation::Greater => etcd::CompareOp::Greater,
        Relation::Less => etcd::CompareOp::Less,
    }
}

fn read(get: &Get) -> etcd::TxnOp {
    let mut options = etcd::GetOptions::new().with_limit(get.limit);
    if get.keys_only {
        options = options.with_keys_only();
    }
    etcd::TxnOp::get(
        get.range.start.as_bytes(),
        Some(in_range(options, &get.range)),
    )
}

fn in_range(options: etcd::GetOptions, range: &KeyRange) -> etcd::GetOptions {
    match &range.end {
        Some(end) => options.with_range(end.as_bytes()),
        None => options,
    }
}

fn write(put: &Put) -> etcd::TxnOp {
    let options = put
        .lease
        .map(|lease| etcd::PutOptions::new().with_lease(lease.0));
    etcd::TxnOp::put(put.key.as_bytes(), put.value.as_slice(), options)
}

fn delete(range: &KeyRange) -> etcd::TxnOp {
    let options = range
        .end
        .as_ref()
        .map(|end| etcd::DeleteOptions::new().with_range(end.as_bytes()));
    etcd::TxnOp::delete(range.start.as_bytes(), options)
}
