//! One transaction per lock, with the compares of a grant.

use crate::Side;
use anyhow::{Context as _, bail, ensure};
use holdfast_gateway::lock_id::{GroupId, LockId, Secret, SlotIndex};
use holdfast_gateway::names::LockName;
use holdfast_store::{
    Compare, Get, Key, KeyRange, LeaseId, Op, Put, Reply, Revision, Store, Txn, TxnOp, TxnOpReply,
    TxnReply,
};
use shard_map::records::keys;
use shard_map::{ShardCount, ShardId};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
const TTL_S: u32 = 1800;

/// A key that the transactions compare, and the lease that it hangs from.
struct Known {
    key: Key,
    revision: Revision,
    lease: LeaseId,
}

/// See the module.
pub(crate) struct OneByOne {
    store: Arc<dyn Store>,
    session: Known,
    /// By shard: the guard's revision, and the group.
    shards: Vec<(Revision, Known)>,
}

impl OneByOne {
    /// Makes the session's key and a group for each shard.
    pub(crate) async fn new(store: Arc<dyn Store>, shards: ShardCount) -> anyhow::Result<Self> {
        let session = make(&*store, "/alone/session".to_owned(), 1).await?;
        let mut known = Vec::new();
        for shard in shards.shards() {
            let key = format!("/alone/groups/0123456789abcdef/{:016x}", shard.0);
            let group = make(&*store, key, 2 + i64::from(shard.0)).await?;
            let guard = Get::keys(KeyRange::one(keys::guard(shard)));
            let reply = txn(&*store, Txn::read([guard])).await?;
            let Some(TxnOpReply::Get(get)) = reply.ops.into_iter().next() else {
                bail!("a reply of another kind");
            };
            let guard = get.kvs.first().context("the shard has a guard")?;
            known.push((guard.mod_revision, group));
        }
        Ok(Self {
            store,
            session,
            shards: known,
        })
    }
}

impl Side for OneByOne {
    async fn acquire(&self, shard: ShardId, name: &str) -> anyhow::Result<()> {
        let (guard_revision, group) = &self.shards[usize::try_from(shard.0)?];
        let lock = Key::from(format!("/locks/{name}"));
        let guard = keys::guard(shard);
        let waiters = KeyRange::prefix(Key::from(format!("/holdfast/waiters/{name}\0")));
        let grant = Txn {
            compare: vec![
                Compare::mod_revision(self.session.key.clone(), self.session.revision),
                Compare::absent(KeyRange::one(lock.clone())),
                Compare::absent(waiters.clone()),
                Compare::mod_revision(guard.clone(), *guard_revision),
                Compare::mod_revision(group.key.clone(), group.revision),
            ],
            then: vec![TxnOp::Put(Put {
                key: lock.clone(),
                value: record(name, group.lease)?,
                lease: Some(group.lease),
            })],
            or_else: vec![
                TxnOp::Get(Get::all(KeyRange::one(lock))),
                TxnOp::Get(Get::all(KeyRange::one(guard))),
                TxnOp::Get(Get::keys(KeyRange::one(group.key.clone()))),
                TxnOp::Get(Get {
                    limit: 1,
                    ..Get::keys(waiters)
                }),
            ],
        };
        ensure!(txn(&*self.store, grant).await?.succeeded, "not granted");
        Ok(())
    }
}

/// As large as a gateway's.
fn record(name: &str, lease: LeaseId) -> anyhow::Result<Vec<u8>> {
    let id = LockId::new(
        GroupId(1),
        SlotIndex(1),
        Secret(u128::MAX / 3),
        &LockName::new(name)?,
    );
    let record = format!(
        r#"{{"ownerClientId":"worker-7","leaseId":"{lease}","lockId":"{}","ttlMs":600000,"tokenBase":0}}"#,
        id.to_text()
    );
    Ok(record.into_bytes())
}

async fn make(store: &dyn Store, key: String, lease: i64) -> anyhow::Result<Known> {
    let (key, lease) = (Key::from(key), LeaseId(lease));
    let ttl_s = TTL_S;
    store.call(Op::LeaseGrant { lease, ttl_s }, TIMEOUT).await?;
    let put = Put {
        key: key.clone(),
        value: Vec::new(),
        lease: Some(lease),
    };
    let put = Txn {
        then: vec![TxnOp::Put(put)],
        ..Txn::default()
    };
    let revision = txn(store, put).await?.header.revision;
    Ok(Known {
        key,
        revision,
        lease,
    })
}

async fn txn(store: &dyn Store, txn: Txn) -> anyhow::Result<TxnReply> {
    match store.call(Op::Txn(txn), TIMEOUT).await? {
        Reply::Txn(reply) => Ok(reply),
        _ => bail!("a reply of another kind"),
    }
}
