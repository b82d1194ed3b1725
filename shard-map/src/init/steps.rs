//! The transactions of `init`, and what their replies mean.

use crate::limits;
use crate::records::{Guard, Identity, Record, RecordError, keys};
use crate::{ClusterName, MapVersion, ShardId, ShardMap, ShardRanges};
use holdfast_store::{
    Compare, Get, GetReply, Key, KeyRange, KeyValue, Put, Revision, Txn, TxnOp, TxnOpReply,
    TxnReply,
};

/// What only a deployment writes to a cluster, beside its identity: without one, the cluster must
/// be free of it.
const DEPLOYMENT_PREFIXES: [&str; 5] = [
    "/holdfast/shards/",
    "/holdfast/groups/",
    "/holdfast/sessions/",
    "/holdfast/waiters/",
    "/locks/",
];

/// Whether a step was made, or someone else's change came between (and which).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    Made,
    Lost(String),
}

/// What a cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    /// etcd's id of the cluster.
    pub(super) etcd_id: u64,
    pub(super) identity: Option<Result<Identity, RecordError>>,
    /// A key that only a deployment writes.
    pub(super) leftover: Option<Key>,
}

impl Survey {
    /// From the reply to [`survey`].
    pub(super) fn from_reply(reply: TxnReply) -> Self {
        let etcd_id = reply.header.cluster_id;
        let mut found = gets(reply.ops).into_iter();
        let identity = found.next().and_then(|get| get.kvs.into_iter().next());
        let leftover = found.find_map(|get| get.kvs.into_iter().next());
        Self {
            etcd_id,
            identity: identity.map(|record| Identity::from_value(&record.key, &record.value)),
            leftover: leftover.map(|record| record.key),
        }
    }
}

/// Reads what [`Survey`] has.
pub(super) fn survey() -> Txn {
    let prefixes = DEPLOYMENT_PREFIXES.map(|prefix| Get {
        limit: 1,
        ..Get::keys(KeyRange::prefix(prefix))
    });
    Txn::read(
        [Get::all(KeyRange::one(keys::identity()))]
            .into_iter()
            .chain(prefixes),
    )
}

/// Reads what [`super::decide::HomeView`] has.
pub(super) fn read_home() -> Txn {
    let first = keys::map_history(MapVersion::FIRST);
    let keys = [keys::map_current(), first, keys::map_init()];
    Txn::read(keys.map(|key| Get::all(KeyRange::one(key))))
}

/// Writes the intention, if home has nothing of a map.
pub(super) fn declare(map: &ShardMap) -> Txn {
    let history = keys::map_history(MapVersion::FIRST);
    let absent = [keys::map_init(), keys::map_current(), history];
    Txn {
        compare: absent.map(|key| Compare::absent(KeyRange::one(key))).into(),
        then: vec![put(keys::map_init(), map.to_json())],
        or_else: vec![TxnOp::Get(Get::all(KeyRange::one(keys::map_init())))],
    }
}

/// The revision of the intention, if it is this map's: just written, or by an earlier attempt
/// whose reply was lost.
pub(super) fn declared(map: &ShardMap, reply: &TxnReply) -> Option<Revision> {
    if reply.succeeded {
        return Some(reply.header.revision);
    }
    let found = only_record(&reply.ops)?;
    (found.value == map.to_json()).then_some(found.mod_revision)
}

/// Writes a cluster's identity, if it has none and nothing of a deployment.
pub fn identify(identity: &Identity) -> Txn {
    let prefixes = DEPLOYMENT_PREFIXES.map(KeyRange::prefix);
    let ranges = [KeyRange::one(keys::identity())]
        .into_iter()
        .chain(prefixes);
    Txn {
        compare: ranges.map(Compare::absent).collect(),
        then: vec![put(keys::identity(), identity.to_value())],
        or_else: vec![TxnOp::Get(Get::all(KeyRange::one(keys::identity())))],
    }
}

/// The revision of the cluster's identity, if it is this one.
pub fn identified(identity: &Identity, reply: &TxnReply) -> Option<Revision> {
    if reply.succeeded {
        return Some(reply.header.revision);
    }
    let found = only_record(&reply.ops)?;
    let read = Identity::from_value(&found.key, &found.value).ok()?;
    let same = read.deployment == identity.deployment && read.cluster == identity.cluster;
    same.then_some(found.mod_revision)
}

/// Writes the first guards of these shards where none are, while the identity is as read.
pub(super) fn guards(shards: &ShardRanges, identity: Revision) -> Vec<Txn> {
    let shards: Vec<ShardId> = shards.iter().collect();
    let chunks = shards.chunks(limits::GUARDS_PER_TXN);
    let txn = |chunk: &[ShardId]| Txn {
        compare: vec![Compare::mod_revision(keys::identity(), identity)],
        then: chunk.iter().map(|&shard| guard(shard)).collect(),
        or_else: Vec::new(),
    };
    chunks.map(txn).collect()
}

fn guard(shard: ShardId) -> TxnOp {
    let key = keys::guard(shard);
    TxnOp::Txn(Txn {
        compare: vec![Compare::absent(KeyRange::one(key.clone()))],
        then: vec![put(key.clone(), Guard::first().to_value())],
        or_else: vec![TxnOp::Get(Get::all(KeyRange::one(key)))],
    })
}

/// Whether every guard of the transaction is now the first one.
pub(super) fn guarded(cluster: &ClusterName, reply: &TxnReply) -> Progress {
    if !reply.succeeded {
        return Progress::Lost(format!("cluster {cluster} has changed"));
    }
    for op in &reply.ops {
        let TxnOpReply::Txn {
            succeeded: false,
            ops,
        } = op
        else {
            continue;
        };
        let Some(found) = only_record(ops) else {
            return Progress::Lost(format!("cluster {cluster} answered without a guard"));
        };
        if Guard::from_value(&found.key, &found.value) != Ok(Guard::first()) {
            return Progress::Lost(format!(
                "cluster {cluster} has another guard at {:?} than the one that init writes",
                found.key
            ));
        }
    }
    Progress::Made
}

/// Publishes the map, if the intention is as read and no map is there.
pub(super) fn publish(map: &ShardMap, intent: Revision) -> Txn {
    let json = map.to_json();
    Txn {
        compare: vec![
            Compare::mod_revision(keys::map_init(), intent),
            Compare::absent(KeyRange::one(keys::map_current())),
        ],
        then: vec![
            put(keys::map_current(), json.clone()),
            put(keys::map_history(map.version()), json),
            TxnOp::Delete(KeyRange::one(keys::map_init())),
        ],
        or_else: Vec::new(),
    }
}

fn put(key: Key, value: Vec<u8>) -> TxnOp {
    TxnOp::Put(Put {
        key,
        value,
        lease: None,
    })
}

/// The reads of a reply, in order.
pub(super) fn gets(ops: Vec<TxnOpReply>) -> Vec<GetReply> {
    let get = |op| match op {
        TxnOpReply::Get(get) => Some(get),
        _ => None,
    };
    ops.into_iter().filter_map(get).collect()
}

fn only_record(ops: &[TxnOpReply]) -> Option<&KeyValue> {
    match ops {
        [TxnOpReply::Get(get)] => get.kvs.first(),
        _ => None,
    }
}
