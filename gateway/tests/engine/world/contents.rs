//! What lies in the cluster, looked at and changed by hand.

use super::World;
use holdfast_store::{
    Get, Key, KeyRange, KeyValue, ModelTime, Op, Put, Reply, Txn, TxnOp, TxnOpReply,
};
use std::collections::BTreeMap;

/// A write of a key that hangs from no lease.
pub fn put(key: Key, value: Vec<u8>) -> Txn {
    let put = Put {
        key,
        value,
        lease: None,
    };
    Txn {
        then: vec![TxnOp::Put(put)],
        ..Txn::default()
    }
}

impl World {
    pub fn put(&mut self, key: Key, value: Vec<u8>) {
        self.write(put(key, value));
    }

    pub fn write(&mut self, txn: Txn) {
        self.model
            .apply(ModelTime::from_ms(self.now), &Op::Txn(txn))
            .unwrap();
    }

    pub fn by_hand(&mut self, op: &Op) {
        self.model.apply(ModelTime::from_ms(self.now), op).unwrap();
    }

    /// What the cluster has in this range.
    pub fn read(&mut self, range: KeyRange) -> Vec<KeyValue> {
        let op = Op::Txn(Txn::read([Get::all(range)]));
        match self.model.apply(ModelTime::from_ms(self.now), &op) {
            Ok(Reply::Txn(reply)) => match reply.ops.into_iter().next() {
                Some(TxnOpReply::Get(get)) => get.kvs,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub fn locks(&mut self) -> usize {
        self.read(KeyRange::prefix("/locks/")).len()
    }

    /// The keys of waiters.
    pub fn waiters(&mut self) -> usize {
        self.read(KeyRange::prefix("/holdfast/waiters/")).len()
    }

    /// How many groups each session has.
    pub fn groups_by_session(&mut self) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for kv in self.read(KeyRange::prefix("/holdfast/groups/")) {
            let key = kv.key.as_str().unwrap().to_owned();
            let session = key.split('/').nth(3).unwrap().to_owned();
            *count.entry(session).or_default() += 1;
        }
        count
    }

    /// Puts every group under a session that has ended, as if it had been claimed wrongly.
    pub fn give_groups_away(&mut self) {
        for kv in self.read(KeyRange::prefix("/holdfast/groups/")) {
            let group = kv.key.as_str().unwrap().rsplit('/').next().unwrap();
            let put = Put {
                key: format!("/holdfast/groups/{:016x}/{group}", 7).into(),
                value: kv.value,
                lease: kv.lease,
            };
            self.write(Txn {
                then: vec![
                    TxnOp::Delete(KeyRange::one(kv.key.clone())),
                    TxnOp::Put(put),
                ],
                ..Txn::default()
            });
        }
    }
}
