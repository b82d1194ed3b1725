//! Kinds of calls, by what is in them.

use holdfast_store::{Op, Txn, TxnOp};

/// Whether this is a batch that grants a lock.
pub fn is_grant(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => put.key.as_bytes().starts_with(b"/locks/"),
            _ => false,
        })
    })
}

/// Whether this is a batch that puts a waiter.
pub fn is_join(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => put.key.as_bytes().starts_with(b"/holdfast/waiters/"),
            _ => false,
        })
    })
}

/// Whether this is a batch that closes a record.
pub fn is_close(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => String::from_utf8_lossy(&put.value).contains("\"closed\":"),
            _ => false,
        })
    })
}

/// Whether this is a batch that deletes a lock's record.
pub fn is_delete(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Delete(range) => range.start.as_bytes().starts_with(b"/locks/"),
            _ => false,
        })
    })
}

fn has_nested(op: &Op, test: impl Fn(&Txn) -> bool) -> bool {
    fn any(txn: &Txn, test: &dyn Fn(&Txn) -> bool) -> bool {
        txn.then.iter().any(|op| match op {
            TxnOp::Txn(inner) => test(inner) || any(inner, test),
            _ => false,
        })
    }
    matches!(op, Op::Txn(txn) if any(txn, &test))
}
