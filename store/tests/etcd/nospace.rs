//! A cluster that runs out of space.

use crate::support::{AMPLE, exists, is_ambiguous, member_with, store, txn};
use futures::future::join_all;
use holdfast_rig::EtcdOptions;
use holdfast_store::{EtcdStore, Op, Put, Txn, TxnOp};

const QUOTA_BYTES: u64 = 16 * 1024 * 1024;
const VALUE_BYTES: usize = 100_000;
/// Calls at once: enough for some to be under way when the space ends.
const CALLS: usize = 16;

/// Writes until everything is refused, and says how many writes were answered with an error and
/// are there all the same.
async fn fill(store: &EtcdStore) -> usize {
    let mut applied = 0;
    for round in 0.. {
        let keys: Vec<_> = (0..CALLS).map(|n| format!("/{round}/{n}")).collect();
        let calls = keys.iter().map(|key| {
            let put = Put {
                key: key.as_str().into(),
                value: vec![1; VALUE_BYTES],
                lease: None,
            };
            let large = Txn {
                then: vec![TxnOp::Put(put)],
                ..Txn::default()
            };
            txn(store, Op::Txn(large), AMPLE)
        });
        let mut refused = 0;
        for (key, result) in keys.iter().zip(join_all(calls).await) {
            if result.is_ok() {
                continue;
            }
            assert!(is_ambiguous(&result), "{result:?}");
            if exists(store, key).await {
                applied += 1;
            } else {
                refused += 1;
            }
        }
        if refused == CALLS {
            break;
        }
    }
    applied
}

#[tokio::test]
async fn a_write_that_is_answered_with_no_space_may_have_been_applied() {
    // The space may happen to end between two rounds, and then shows nothing.
    for _ in 0..5 {
        let options = EtcdOptions {
            quota_backend_bytes: Some(QUOTA_BYTES),
            ..EtcdOptions::default()
        };
        let member = member_with(options).await;
        if fill(&store(&[member.endpoint()], 0)).await > 0 {
            return;
        }
    }
    panic!("etcd refuses what it does not apply: a lack of space can be a definite error");
}
