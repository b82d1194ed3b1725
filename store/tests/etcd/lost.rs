//! Requests and replies that are lost on the way.

use crate::support::{
    AMPLE, BRIEF, create, exists, is_ambiguous, is_unreachable, member, read, store, txn, url,
};
use holdfast_rig::{Etcd, Link, wait_until};
use holdfast_store::EtcdStore;
use std::net::Ipv4Addr;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

struct Setup {
    _member: Etcd,
    link: Link,
    /// Over the link.
    store: EtcdStore,
    /// Past the link.
    observer: EtcdStore,
}

/// A member, behind a link over which one call has succeeded.
async fn behind_a_link() -> Setup {
    let member = member().await;
    let link = Link::to(member.client_port()).await.unwrap();
    let store = store(&[url(&link)], 0);
    let observer = crate::support::store(&[member.endpoint()], 0);
    txn(&store, create("first"), AMPLE).await.unwrap();
    Setup {
        _member: member,
        link,
        store,
        observer,
    }
}

#[tokio::test]
async fn a_lost_reply_is_ambiguous_and_the_write_is_there() {
    let s = behind_a_link().await;
    s.link.hold_replies();
    let result = txn(&s.store, create("second"), BRIEF).await;
    assert!(is_ambiguous(&result), "{result:?}");
    assert!(exists(&s.observer, "second").await);
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_call_is_ambiguous_without_waiting_for_the_time_limit() {
    let s = behind_a_link().await;
    s.link.hold_replies();
    let call = {
        let store = s.store.clone();
        tokio::spawn(async move { txn(&store, create("second"), 100 * AMPLE).await })
    };
    wait_until("the write", AMPLE, || async {
        anyhow::ensure!(exists(&s.observer, "second").await, "not there yet");
        Ok(())
    })
    .await
    .unwrap();
    s.link.close();
    let result = tokio::time::timeout(AMPLE, call).await.unwrap().unwrap();
    assert!(is_ambiguous(&result), "{result:?}");

    let refused = txn(&s.store, create("third"), AMPLE).await;
    assert!(is_unreachable(&refused), "{refused:?}");
    s.link.open();
    txn(&s.store, read("second"), AMPLE).await.unwrap();
}

/// A port whose first connection stays mute for ever, as behind a firewall that has forgotten it;
/// the others lead to `target_port`.
async fn first_connection_mute(target_port: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let _mute = listener.accept().await.unwrap();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target_port)).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    port
}

#[tokio::test]
async fn a_connection_that_never_answers_is_not_used_again() {
    let member = member().await;
    let port = first_connection_mute(member.client_port()).await;
    let store = store(&[format!("http://127.0.0.1:{port}")], 0);
    let result = txn(&store, read("key"), BRIEF).await;
    assert!(is_ambiguous(&result), "{result:?}");
    for _ in 0..4 {
        txn(&store, read("key"), AMPLE).await.unwrap();
    }
}

#[tokio::test]
async fn dropping_a_call_leaves_the_store_usable() {
    let s = behind_a_link().await;
    s.link.hold_all();
    for n in 0..10 {
        let key = format!("dropped-{n}");
        let mut call = Box::pin(txn(&s.store, create(&key), AMPLE));
        assert!(futures::poll!(&mut call).is_pending());
        drop(call);
    }
    s.link.open();
    txn(&s.store, create("second"), AMPLE).await.unwrap();
}
