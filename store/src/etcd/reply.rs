//! etcd's replies as ours.

use crate::{
    Alarm, GetReply, Header, Key, KeyValue, LeaseId, Reply, Revision, TxnOpReply, TxnReply,
};
use etcd_client::proto::{
    PbAlarmMember, PbAlarmResponse, PbKeyValue, PbLeaseGrantResponse, PbLeaseRevokeResponse,
    PbLeaseTimeToLiveResponse, PbRangeResponse, PbResponseHeader, PbResponseOp, PbTxnOpResponse,
    PbTxnResponse,
};

/// etcd answered, but not as its interface says. What was asked for has happened or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("etcd's reply has no {0}")]
pub(super) struct Malformed(&'static str);

type Result<T> = std::result::Result<T, Malformed>;

/// To a transaction; `has_extra_read` as in the request.
pub(super) fn txn(reply: PbTxnResponse, has_extra_read: bool) -> Result<Reply> {
    let header = header(reply.header)?;
    let mut ops = op_replies(reply.responses)?;
    if has_extra_read {
        ops.pop();
    }
    Ok(Reply::Txn(TxnReply {
        header,
        succeeded: reply.succeeded,
        ops,
    }))
}

fn op_replies(replies: Vec<PbResponseOp>) -> Result<Vec<TxnOpReply>> {
    let replies = replies.into_iter();
    replies
        .map(|reply| {
            Ok(match reply.response.ok_or(Malformed("operation reply"))? {
                PbTxnOpResponse::ResponseRange(range) => TxnOpReply::Get(get(range)),
                PbTxnOpResponse::ResponsePut(_) => TxnOpReply::Put,
                PbTxnOpResponse::ResponseDeleteRange(delete) => TxnOpReply::Delete(delete.deleted),
                PbTxnOpResponse::ResponseTxn(txn) => TxnOpReply::Txn {
                    succeeded: txn.succeeded,
                    ops: op_replies(txn.responses)?,
                },
            })
        })
        .collect()
}

fn get(reply: PbRangeResponse) -> GetReply {
    GetReply {
        kvs: reply.kvs.into_iter().map(key_value).collect(),
        count: reply.count,
    }
}

/// A key with its value.
pub(super) fn key_value(kv: PbKeyValue) -> KeyValue {
    KeyValue {
        key: Key::from(kv.key),
        value: kv.value,
        create_revision: Revision(kv.create_revision),
        mod_revision: Revision(kv.mod_revision),
        version: kv.version,
        lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
    }
}

/// Who answered.
pub(super) fn header(header: Option<PbResponseHeader>) -> Result<Header> {
    let header = header.ok_or(Malformed("header"))?;
    Ok(Header {
        cluster_id: header.cluster_id,
        member_id: header.member_id,
        revision: Revision(header.revision),
        raft_term: header.raft_term,
    })
}

/// To a grant.
pub(super) fn lease_granted(reply: PbLeaseGrantResponse) -> Result<Reply> {
    Ok(Reply::LeaseGranted {
        header: header(reply.header)?,
        ttl_s: reply.ttl,
    })
}

/// To a revoke.
pub(super) fn lease_revoked(reply: PbLeaseRevokeResponse) -> Result<Reply> {
    Ok(Reply::LeaseRevoked {
        header: header(reply.header)?,
    })
}

/// To a question for a lease's keys.
pub(super) fn lease_keys(reply: PbLeaseTimeToLiveResponse) -> Result<Reply> {
    Ok(Reply::LeaseKeys {
        header: header(reply.header)?,
        ttl_s: reply.ttl,
        keys: reply.keys.into_iter().map(Key::from).collect(),
    })
}

/// To a question for alarms: each kind once, whatever number of members raised it.
pub(super) fn alarms(reply: &PbAlarmResponse) -> Reply {
    let raised = |kind| reply.alarms.iter().any(|a: &PbAlarmMember| a.alarm == kind);
    let kinds = [
        (etcd_client::AlarmType::Nospace as i32, Alarm::NoSpace),
        (etcd_client::AlarmType::Corrupt as i32, Alarm::Corrupt),
    ];
    let alarms = kinds
        .iter()
        .filter(|(kind, _)| raised(*kind))
        .map(|(_, alarm)| *alarm)
        .collect();
    Reply::Alarms { alarms }
}
