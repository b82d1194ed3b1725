//! Watches that are cut off, dropped, or have much to say.

use crate::support::{AMPLE, cluster, create, member, store, txn, url};
use anyhow::ensure;
use futures::StreamExt;
use futures::stream::BoxStream;
use holdfast_rig::{Etcd, Link, wait_until};
use holdfast_store::{EtcdStore, KeyRange, Op, Put, Revision, Store, Txn, TxnOp, WatchEvent};

type Watch = BoxStream<'static, WatchEvent>;

async fn next(watch: &mut Watch) -> WatchEvent {
    let next = tokio::time::timeout(AMPLE, watch.next()).await;
    next.expect("an event").expect("not over")
}

/// A watch that has seen the creation of `key`.
async fn watch_of(store: &EtcdStore, key: &str) -> Watch {
    let created = txn(store, create(key), AMPLE).await.unwrap().header;
    let mut watch = store.watch(KeyRange::one(key), Some(created.revision));
    let event = next(&mut watch).await;
    assert!(matches!(&event, WatchEvent::Put(kv) if kv.key == key.into()));
    watch
}

async fn assert_ends(mut watch: Watch) -> String {
    let WatchEvent::Ended(why) = next(&mut watch).await else {
        panic!("nothing else was to come");
    };
    assert_eq!(watch.next().await, None);
    why
}

async fn wait_for_watchers(member: &Etcd, count: usize) {
    wait_until("watchers", AMPLE, || async {
        let metrics = member.metrics().await?;
        let expected = format!("etcd_debugging_mvcc_watcher_total {count}");
        ensure!(metrics.lines().any(|line| line == expected), "other count");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_dropped_watch_is_cancelled() {
    let member = member().await;
    let store = store(&[member.endpoint()], 0);
    let first = watch_of(&store, "first").await;
    let second = watch_of(&store, "second").await;
    wait_for_watchers(&member, 2).await;
    drop(first);
    wait_for_watchers(&member, 1).await;
    drop(second);
    wait_for_watchers(&member, 0).await;
}

#[tokio::test]
async fn a_watch_ends_with_its_member_and_the_next_one_goes_to_another() {
    let mut cluster = cluster().await;
    let follower = (cluster.wait_leader().await.unwrap() + 1) % 3;
    let store = store(&cluster.endpoints(), follower);
    let watch = watch_of(&store, "first").await;
    cluster.member(follower).kill().unwrap();
    assert_ends(watch).await;
    drop(watch_of(&store, "second").await);
}

#[tokio::test]
async fn a_watch_at_a_member_that_loses_its_leader_ends() {
    let mut cluster = cluster().await;
    let store = store(&cluster.endpoints()[..1], 0);
    let watch = watch_of(&store, "key").await;
    cluster.member(1).kill().unwrap();
    cluster.member(2).kill().unwrap();
    let why = assert_ends(watch).await;
    assert!(why.contains("no leader"), "{why}");
}

#[tokio::test]
async fn a_watch_that_hears_nothing_any_more_ends() {
    let member = member().await;
    let link = Link::to(member.client_port()).await.unwrap();
    let mut config = holdfast_store::etcd::EtcdConfig::new([url(&link)]);
    config.ping_interval = std::time::Duration::from_millis(200);
    config.ping_timeout = std::time::Duration::from_millis(200);
    let store = EtcdStore::connect(config).unwrap();
    let watch = watch_of(&store, "key").await;
    link.hold_all();
    assert_ends(watch).await;
}

#[tokio::test]
async fn a_watch_of_a_compacted_revision_ends() {
    let member = member().await;
    let store = store(&[member.endpoint()], 0);
    txn(&store, create("first"), AMPLE).await.unwrap();
    let last = txn(&store, create("second"), AMPLE).await.unwrap().header;
    let revision = last.revision.0.to_string();
    member.etcdctl(&["compaction", &revision]).await.unwrap();
    let watch = store.watch(KeyRange::one("first"), Some(Revision(1)));
    let why = assert_ends(watch).await;
    assert!(why.contains("compacted"), "{why}");
}

#[tokio::test]
async fn more_than_grpc_allows_by_default_arrives_whole_and_in_order() {
    let member = member().await;
    let store = store(&[member.endpoint()], 0);
    // Written one by one, and read by a watch that begins later, in one batch of some 6 MiB.
    let keys: Vec<_> = (0..12).map(|n| format!("/large/{n:02}")).collect();
    for key in &keys {
        let put = Put {
            key: key.as_str().into(),
            value: vec![7; 512 * 1024],
            lease: None,
        };
        let large = Txn {
            then: vec![TxnOp::Put(put)],
            ..Txn::default()
        };
        txn(&store, Op::Txn(large), AMPLE).await.unwrap();
    }
    let mut watch = store.watch(KeyRange::prefix("/large/"), Some(Revision(1)));
    for key in &keys {
        let event = next(&mut watch).await;
        assert!(matches!(&event, WatchEvent::Put(kv) if kv.key == key.as_str().into()));
    }
}
