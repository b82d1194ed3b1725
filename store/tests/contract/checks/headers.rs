//! Who answered.

use crate::fixture::{Fixture, LONG_TTL_S};
use crate::ops::{all, get, put_on};
use holdfast_store::{Header, Op, Reply};

pub(super) async fn every_reply_says_who_answered_in_which_state(f: Fixture) {
    let lease = f.unused_lease();
    let key = f.key("a");
    let first = f.header().await;
    assert_ne!((first.cluster_id, first.member_id), (0, 0));
    assert!(first.raft_term > 0);
    let mut revision = first.revision;
    for (op, writes) in [
        (Op::Txn(all([get(&key)])), 0),
        (
            Op::LeaseGrant {
                lease,
                ttl_s: LONG_TTL_S,
            },
            0,
        ),
        (Op::Txn(all([put_on(&key, lease)])), 1),
        (Op::LeaseKeys { lease }, 0),
        (
            Op::KeepAlive {
                leases: vec![lease, f.unused_lease()],
            },
            0,
        ),
        (Op::LeaseRevoke { lease }, 1),
        (Op::LeaseKeys { lease }, 0),
    ] {
        revision.0 += writes;
        let reply = f.call(op).await.unwrap();
        for header in headers(&reply) {
            assert_eq!(header, Header { revision, ..first }, "{reply:?}");
        }
    }
}

fn headers(reply: &Reply) -> Vec<Header> {
    match reply {
        Reply::Txn(reply) => vec![reply.header],
        Reply::LeaseGranted { header, .. }
        | Reply::LeaseRevoked { header }
        | Reply::LeaseKeys { header, .. } => vec![*header],
        Reply::Alarms { .. } => vec![],
        Reply::KeepAlive(answers) => answers.iter().map(|answer| answer.header).collect(),
    }
}
