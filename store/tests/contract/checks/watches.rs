//! Watches: hints, but in order.

use crate::fixture::Fixture;
use crate::ops::{all, delete, put, put_value};
use holdfast_store::{Key, KeyRange, Revision, WatchEvent};

pub(super) async fn a_watch_tells_puts_and_deletes_in_order(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    let first = f.put(&a).await;
    let mut watch = f.watch(Some(first));
    let second = f.txn(all([put(&b), delete(&a)])).await.header.revision;
    let third = f.txn(all([put_value(&b, b"new")])).await.header.revision;
    let events = watch.take(3).await;
    let expected = [
        (true, a.clone(), first),
        (true, b.clone(), second),
        (false, a, second),
    ];
    assert_eq!(events, expected);

    let Some(WatchEvent::Put(kv)) = watch.next().await else {
        panic!("a put");
    };
    assert_eq!(Some(kv.clone()), f.get(&b).await);
    assert_eq!((kv.mod_revision, kv.create_revision), (third, second));
}

pub(super) async fn a_watch_begins_with_the_asked_revision(f: Fixture) {
    let keys = f.keys(3);
    let mut revisions = Vec::new();
    for key in &keys {
        revisions.push(f.put(key).await);
    }
    let expected = |from: usize| -> Vec<(bool, Key, Revision)> {
        let events = keys.iter().cloned().zip(revisions.iter().copied());
        events.skip(from).map(|(key, at)| (true, key, at)).collect()
    };
    assert_eq!(f.watch(Some(revisions[0])).take(3).await, expected(0));
    assert_eq!(f.watch(Some(revisions[2])).take(1).await, expected(2));

    let mut from_the_future = f.watch(Some(Revision(revisions[2].0 + 2)));
    f.put(&keys[0]).await;
    let last = f.put(&keys[1]).await;
    assert_eq!(
        from_the_future.take(1).await,
        [(true, keys[1].clone(), last)]
    );
}

pub(super) async fn a_watch_tells_nothing_of_other_keys(f: Fixture) {
    let [mine, longer] = ["mine", "mine2"].map(|name| f.key(name));
    let before = f.put(&longer).await;
    let mut watch = f.watch_range(KeyRange::one(mine.clone()), Some(before));
    f.put(&longer).await;
    let last = f.put(&mine).await;
    assert_eq!(watch.take(1).await, [(true, mine, last)]);
}

pub(super) async fn a_watch_from_now_on_tells_nothing_of_the_past(f: Fixture) {
    let a = f.key("a");
    let before = f.put(&a).await;
    let mut watch = f.watch(None);
    // It may begin a moment after it is first polled, so the key is put until that is heard.
    let put_again = async {
        loop {
            f.put(&a).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        events = watch.take(1) => assert!(events[0].2 > before, "{events:?}"),
        () = put_again => {}
    }
}

pub(super) async fn a_watch_tells_the_end_of_a_lease_key_by_key(f: Fixture) {
    let lease = f.long_lease().await;
    let keys = f.keys(3);
    let mut put = Revision::ABSENT;
    for key in keys.iter().rev() {
        put = f.put_on(key, lease).await;
    }
    let mut watch = f.watch(Some(Revision(put.0 + 1)));
    let end = f.revoke(lease).await.revision;
    let expected: Vec<_> = keys.into_iter().map(|key| (false, key, end)).collect();
    assert_eq!(watch.take(3).await, expected);
}

pub(super) async fn a_watch_from_a_compacted_revision_ends(f: Fixture) {
    let a = f.key("a");
    let first = f.put(&a).await;
    f.put(&a).await;
    let last = f.put(&a).await;
    f.target.compact(last).await;

    let mut lost = f.watch(Some(first));
    let end = lost.next().await;
    assert!(matches!(end, Some(WatchEvent::Ended(_))), "{end:?}");
    assert_eq!(lost.next().await, None);
    assert_eq!(f.watch(Some(last)).take(1).await, [(true, a, last)]);
}

pub(super) async fn the_end_of_a_key_is_told_whether_it_comes_or_was_before(f: Fixture) {
    let [key, other] = ["key", "other"].map(|name| f.key(name));
    let put_at = f.put(&key).await;
    let from = Revision(put_at.0 + 1);
    // Something else happens, so that etcd is past the asked revision.
    f.put(&other).await;
    let comes = f.gone(&key, from);
    let (gone, ()) = tokio::join!(tokio::spawn(comes), async {
        f.txn(all([delete(&key)])).await;
    });
    gone.unwrap();
    f.gone(&key, from).await;
    f.put(&key).await;
    f.gone(&key, from).await;
}

pub(super) async fn what_was_deleted_before_the_asked_revision_is_awaited_anew(f: Fixture) {
    let key = f.key("key");
    f.put(&key).await;
    f.txn(all([delete(&key)])).await;
    let put_at = f.put(&key).await;
    let mut gone = f.gone(&key, Revision(put_at.0 + 1));
    // What another watch hears is told after the key is watched.
    for _ in 0..3 {
        assert!(futures::poll!(&mut gone).is_pending());
        let put_again = f.put(&key).await;
        f.watch(Some(put_again)).take(1).await;
    }
    f.txn(all([delete(&key)])).await;
    gone.await;
}
