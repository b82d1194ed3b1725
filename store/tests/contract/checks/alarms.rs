//! The NoSpace alarm.

use crate::fixture::{Fixture, LONG_TTL_S};
use crate::ops::{absent, all, delete, get, if_else, put, put_on};
use holdfast_store::{Alarm, Op, Reply, TxnOp};
use std::slice::from_ref;

pub(super) async fn without_space_direct_puts_and_grants_are_ambiguous_and_all_else_passes(
    f: Fixture,
) {
    let lease = f.long_lease().await;
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    let before = f.put_on(&a, lease).await;
    assert_eq!(alarms(&f).await, []);

    f.target.set_no_space(true).await;
    assert_eq!(alarms(&f).await, [Alarm::NoSpace]);
    let new_lease = f.unused_lease();
    for op in [
        Op::Txn(all([put(&a)])),
        Op::Txn(if_else([absent(&a)], [put(&a)], [get(&a)])),
        Op::Txn(if_else([absent(&b)], [get(&a)], [put(&a)])),
        Op::Txn(all([put_on(&a, new_lease)])),
        Op::LeaseGrant {
            lease: new_lease,
            ttl_s: LONG_TTL_S,
        },
    ] {
        // Ambiguous, because etcd answers the write that uses the space up so, too, and applies it.
        let error = f.call(op.clone()).await.unwrap_err();
        assert!(error.is_ambiguous(), "{op:?}: {error:?}");
    }
    assert_eq!(f.revision().await, before, "but these were not done");

    let nested = TxnOp::Txn(all([put(&b)]));
    let revision = f.txn(all([nested])).await.header.revision;
    assert_eq!(f.get(&b).await.unwrap().mod_revision, revision);
    f.txn(all([delete(&b)])).await;
    assert_eq!(f.keep_alive(&[lease]).await, [(lease, LONG_TTL_S.into())]);
    assert_eq!(f.lease_keys(lease).await.1, from_ref(&a));
    f.revoke(lease).await;
    assert!(!f.exists(&a).await);

    f.target.set_no_space(false).await;
    assert_eq!(alarms(&f).await, []);
    f.put(&a).await;
    f.long_lease().await;
}

async fn alarms(f: &Fixture) -> Vec<Alarm> {
    match f.call(Op::Alarms).await {
        Ok(Reply::Alarms { alarms }) => alarms,
        other => panic!("{other:?}"),
    }
}
