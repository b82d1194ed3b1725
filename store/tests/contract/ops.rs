//! Short names for what the checks write most.

use holdfast_store::{
    Compare, Condition, Get, GetReply, Key, KeyRange, LeaseId, Put, Txn, TxnOp, TxnOpReply,
};

pub(crate) fn put(key: &Key) -> TxnOp {
    put_value(key, b"value")
}

pub(crate) fn put_value(key: &Key, value: &[u8]) -> TxnOp {
    TxnOp::Put(Put {
        key: key.clone(),
        value: value.to_vec(),
        lease: None,
    })
}

pub(crate) fn put_on(key: &Key, lease: LeaseId) -> TxnOp {
    TxnOp::Put(Put {
        key: key.clone(),
        value: b"value".to_vec(),
        lease: Some(lease),
    })
}

pub(crate) fn get(key: &Key) -> TxnOp {
    TxnOp::Get(Get::all(KeyRange::one(key.clone())))
}

pub(crate) fn delete(key: &Key) -> TxnOp {
    TxnOp::Delete(KeyRange::one(key.clone()))
}

pub(crate) fn delete_between(start: &Key, end: &Key) -> TxnOp {
    TxnOp::Delete(KeyRange::between(start.clone(), end.clone()))
}

pub(crate) fn when(key: &Key, condition: Condition) -> Compare {
    Compare {
        range: KeyRange::one(key.clone()),
        condition,
    }
}

pub(crate) fn absent(key: &Key) -> Compare {
    Compare::absent(KeyRange::one(key.clone()))
}

/// An unconditional transaction.
pub(crate) fn all(then: impl Into<Vec<TxnOp>>) -> Txn {
    Txn {
        then: then.into(),
        ..Txn::default()
    }
}

pub(crate) fn if_else(
    compare: impl Into<Vec<Compare>>,
    then: impl Into<Vec<TxnOp>>,
    or_else: impl Into<Vec<TxnOp>>,
) -> Txn {
    Txn {
        compare: compare.into(),
        then: then.into(),
        or_else: or_else.into(),
    }
}

/// What a get inside a transaction read.
pub(crate) fn read(reply: &TxnOpReply) -> &GetReply {
    match reply {
        TxnOpReply::Get(read) => read,
        other => panic!("not the reply to a get: {other:?}"),
    }
}
