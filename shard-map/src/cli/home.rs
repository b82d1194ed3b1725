//! Home, as the commands about rollouts see it.

use super::Failure;
use super::connection::{Connection, read, records};
use super::plan::unreachable;
use futures::future::join_all;
use holdfast_store::{
    EtcdStore, Get, KeyRange, Op, Reply, Store, StoreError, Txn, TxnOpReply, TxnReply,
};
use shard_map::records::keys;
use shard_map::rollout::{Home, HomeError, read_home, read_version};
use shard_map::{Cluster, ClusterName, MapVersion, ShardMap};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one question may take: longer than an election.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to home, for several questions.
pub(super) struct HomeLink {
    store: EtcdStore,
}

impl HomeLink {
    pub(super) fn new(connection: &Connection<'_>) -> Result<Self, Failure> {
        let store = connection.home()?;
        Ok(Self { store })
    }

    /// Home as it is now.
    pub(super) async fn look(&self) -> Result<Home, Failure> {
        let reply = self.ask(read_home()).await?;
        Home::from_reply(reply).map_err(|error| {
            Failure::Refused(match error {
                HomeError::NoMap => {
                    "home has no shard map\nCheck --home; to create a map: shard-map init --help"
                        .into()
                }
                error => {
                    format!("{error}\nIf a later version wrote it, use that version's shard-map.")
                }
            })
        })
    }

    /// The map that had this version.
    pub(super) async fn map_of(&self, version: MapVersion) -> Result<ShardMap, Failure> {
        let found = records(self.ask(read_version(version)).await?);
        let json = found
            .first()
            .map_or(&[][..], |record| record.value.as_slice());
        ShardMap::from_json(json).map_err(|error| {
            Failure::Refused(format!(
                "home's map {version} cannot be read from its history: {error}"
            ))
        })
    }

    pub(super) async fn ask(&self, txn: Txn) -> Result<TxnReply, Failure> {
        call(&self.store, txn).await.map_err(|error| {
            Failure::Refused(format!(
                "home cannot be used: {error}\n\
                 Check --home, that etcd runs there, and --cacert, --cert, --key and --user."
            ))
        })
    }

    /// A write that succeeds only if home is as read. `false`: it is not.
    pub(super) async fn write(&self, txn: Txn) -> Result<bool, Failure> {
        match call(&self.store, txn).await {
            Ok(reply) => Ok(reply.succeeded),
            Err(error @ StoreError::Definite(_)) => {
                Err(Failure::Refused(format!("home cannot be written: {error}")))
            }
            Err(error) => Err(Failure::PartWay(format!(
                "home did not answer, and may or may not have done it: {error}\nSee: shard-map status"
            ))),
        }
    }
}

/// Connections to the clusters of a map.
pub(super) struct ClusterLinks(BTreeMap<ClusterName, EtcdStore>);

impl ClusterLinks {
    pub(super) fn new(connection: &Connection<'_>, clusters: &[Cluster]) -> Result<Self, Failure> {
        let one =
            |cluster: &Cluster| Ok((cluster.name.clone(), connection.store(&cluster.endpoints)?));
        clusters.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ClusterName, &EtcdStore)> {
        self.0.iter()
    }

    pub(super) fn get(&self, name: &ClusterName) -> Option<&EtcdStore> {
        self.0.get(name)
    }

    /// The same question to each cluster. The first that does not answer is named.
    pub(super) async fn ask_each(
        &self,
        txn: &Txn,
    ) -> Result<BTreeMap<ClusterName, TxnReply>, Failure> {
        let asked = self.0.iter().map(|(name, store)| async move {
            let reply = call(store, txn.clone()).await;
            Ok((
                name.clone(),
                reply.map_err(|error| unreachable(name, &error))?,
            ))
        });
        join_all(asked).await.into_iter().collect()
    }
}

pub(super) async fn call(store: &EtcdStore, txn: Txn) -> Result<TxnReply, StoreError> {
    match store.call(Op::Txn(txn), CALL_TIMEOUT).await? {
        Reply::Txn(reply) => Ok(reply),
        other => Err(StoreError::Ambiguous(format!(
            "not the reply to a transaction: {other:?}"
        ))),
    }
}

/// How many locks are held in a cluster.
pub(super) async fn locks_in(store: &EtcdStore) -> Result<u64, StoreError> {
    let count = Get {
        limit: 1,
        ..Get::keys(keys::locks())
    };
    let reply = read(store, [count]).await?;
    Ok(match reply.ops.first() {
        Some(TxnOpReply::Get(get)) => u64::try_from(get.count).unwrap_or(0),
        _ => 0,
    })
}

/// The keys of a range, all of them, read in pages; each with its value if `values`.
pub(super) async fn read_pages(
    store: &EtcdStore,
    range: KeyRange,
    values: bool,
) -> Result<Vec<holdfast_store::KeyValue>, StoreError> {
    let (mut found, mut rest) = (Vec::new(), range);
    loop {
        let get = Get {
            limit: PAGE,
            keys_only: !values,
            range: rest.clone(),
        };
        let page = records(read(store, [get]).await?);
        let full = i64::try_from(page.len()).is_ok_and(|read| read == PAGE);
        let last = page.last().map(|record| record.key.as_bytes().to_vec());
        found.extend(page);
        match (last, full) {
            (Some(mut after), true) => {
                after.push(0);
                rest = KeyRange {
                    start: after.into(),
                    end: rest.end,
                };
            }
            _ => return Ok(found),
        }
    }
}

/// Keys read at one time: some megabytes at most.
const PAGE: i64 = 5_000;
