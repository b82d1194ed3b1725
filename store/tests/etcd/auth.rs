//! Users, and tokens that etcd does not accept any more.

use crate::support::{AMPLE, create, member, member_of, member_with, read, store, txn};
use anyhow::ensure;
use etcd_client::{Client, ConnectOptions, Permission};
use futures::StreamExt;
use holdfast_rig::{Etcd, EtcdOptions, EtcdVersion, wait_until};
use holdfast_store::etcd::{Credentials, EtcdConfig};
use holdfast_store::{
    DefiniteError, EtcdStore, KeyRange, LeaseId, Op, Revision, Store, StoreError, WatchEvent,
};
use std::time::Duration;

const PASSWORD: &str = "secret";

/// Creates `root` and a user `reader`, who may read `/open/` and nothing else, and turns
/// authentication on. Gives a client of root's.
async fn turn_on(member: &Etcd) -> Client {
    let endpoints = [member.endpoint()];
    let mut admin = Client::connect(&endpoints, None).await.unwrap();
    let may_read = Permission::read("/open/").with_prefix();
    admin.user_add("root", PASSWORD, None).await.unwrap();
    admin.user_grant_role("root", "root").await.unwrap();
    admin.user_add("reader", PASSWORD, None).await.unwrap();
    admin.role_add("reader").await.unwrap();
    admin
        .role_grant_permission("reader", may_read)
        .await
        .unwrap();
    admin.user_grant_role("reader", "reader").await.unwrap();
    admin.auth_enable().await.unwrap();
    let options = ConnectOptions::new()
        .with_user("root", PASSWORD)
        .with_auto_token_refresh(true);
    Client::connect(&endpoints, Some(options)).await.unwrap()
}

fn store_of(member: &Etcd, user: &str, password: &str) -> EtcdStore {
    let mut config = EtcdConfig::new([member.endpoint()]);
    config.credentials = Some(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    });
    EtcdStore::connect(config).unwrap()
}

fn is_denied<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Definite(DefiniteError::Denied(_))))
}

/// Every kind of operation, about a lease and a key of its own.
fn every_operation(id: i64) -> [Op; 7] {
    let lease = LeaseId(id);
    [
        Op::LeaseGrant { lease, ttl_s: 60 },
        create(&format!("key-{id}")),
        read("key"),
        Op::KeepAlive {
            leases: vec![lease],
        },
        Op::LeaseKeys { lease },
        Op::LeaseRevoke { lease },
        Op::Alarms,
    ]
}

async fn assert_works(store: &EtcdStore, op: &Op) {
    let result = store.call(op.clone(), AMPLE).await;
    assert!(result.is_ok(), "{op:?}: {result:?}");
}

/// The first thing that a watch says.
async fn first_event(store: &EtcdStore, prefix: &str) -> Option<WatchEvent> {
    let mut events = store.watch(KeyRange::prefix(prefix), Some(Revision(2)));
    events.next().await
}

#[tokio::test]
async fn a_user_is_used_as_soon_as_authentication_is_turned_on() {
    let member = member().await;
    let store = store_of(&member, "root", PASSWORD);
    for op in every_operation(1) {
        assert_works(&store, &op).await;
    }
    turn_on(&member).await;
    for op in every_operation(2) {
        assert_works(&store, &op).await;
    }
}

#[tokio::test]
async fn a_forgotten_token_is_renewed_whatever_is_asked_first() {
    for version in EtcdVersion::ALL {
        let member = member_of(version, EtcdOptions::default()).await;
        let mut admin = turn_on(&member).await;
        let store = store_of(&member, "root", PASSWORD);
        for op in every_operation(1) {
            // A password that is set, even to what it was, ends the user's tokens.
            let changed = admin.user_change_password("root", PASSWORD).await;
            changed.unwrap();
            assert_works(&store, &op).await;
        }
        admin.user_change_password("root", PASSWORD).await.unwrap();
        let event = first_event(&store, "key-").await;
        assert!(matches!(event, Some(WatchEvent::Put(_))), "{event:?}");
    }
}

#[tokio::test]
async fn a_restarted_member_that_knows_no_tokens_gets_another_one() {
    let mut member = member().await;
    turn_on(&member).await;
    let store = store_of(&member, "root", PASSWORD);
    assert_works(&store, &create("first")).await;
    member.restart().await.unwrap();
    // The first call may be sent before the end of the connection has been seen.
    let result = txn(&store, read("first"), AMPLE).await;
    assert!(
        !matches!(&result, Err(StoreError::Definite(_))),
        "{result:?}"
    );
    assert_works(&store, &create("second")).await;
}

#[tokio::test]
async fn an_expired_token_is_renewed() {
    let mut member = member_with(EtcdOptions {
        auth_token_ttl: Some(Duration::from_secs(1)),
        extra_args: vec!["--log-level=debug".to_owned()],
        ..EtcdOptions::default()
    })
    .await;
    turn_on(&member).await;
    let store = store_of(&member, "reader", PASSWORD);
    assert_works(&store, &read("/open/key")).await;
    let log = member.process();
    wait_until("the token's end", AMPLE, || async {
        let mut ends = log.log();
        ends.retain(|c| !c.is_whitespace());
        let end = r#""deletedasimpletoken","user-name":"reader""#;
        ensure!(ends.contains(end), "the log does not say so");
        Ok(())
    })
    .await
    .unwrap();
    assert_works(&store, &read("/open/key")).await;
}

#[tokio::test]
async fn a_signed_token_is_renewed_when_users_change() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 64]).unwrap();
    let tokens = format!(
        "--auth-token=jwt,priv-key={},sign-method=HS256,ttl=10m",
        key.display()
    );
    let options = EtcdOptions {
        extra_args: vec![tokens],
        ..EtcdOptions::default()
    };
    for version in EtcdVersion::ALL {
        let member = member_of(version, options.clone()).await;
        let mut admin = turn_on(&member).await;
        let store = store_of(&member, "root", PASSWORD);
        for (n, op) in every_operation(1).into_iter().enumerate() {
            let user = format!("user-{n}");
            admin.refresh_token().await.unwrap();
            admin.user_add(user, PASSWORD, None).await.unwrap();
            assert_works(&store, &op).await;
        }
        admin.refresh_token().await.unwrap();
        admin.user_add("another", PASSWORD, None).await.unwrap();
        let event = first_event(&store, "key-").await;
        assert!(matches!(event, Some(WatchEvent::Put(_))), "{event:?}");
    }
}

#[tokio::test]
async fn wrong_credentials_and_missing_permissions_are_denied() {
    let member = member().await;
    turn_on(&member).await;

    let nobody = store(&[member.endpoint()], 0);
    let wrong_password = store_of(&member, "root", "guess");
    let unknown_user = store_of(&member, "stranger", PASSWORD);
    for store in [&nobody, &wrong_password, &unknown_user] {
        let result = txn(store, create("key"), AMPLE).await;
        assert!(is_denied(&result), "{result:?}");
        let event = first_event(store, "key").await;
        assert!(matches!(event, Some(WatchEvent::Ended(_))), "{event:?}");
    }

    let reader = store_of(&member, "reader", PASSWORD);
    assert_works(&reader, &read("/open/key")).await;
    for op in [read("/closed/key"), create("/open/key")] {
        let result = txn(&reader, op, AMPLE).await;
        assert!(is_denied(&result), "{result:?}");
    }
    let event = first_event(&reader, "/closed/").await;
    assert!(matches!(event, Some(WatchEvent::Ended(_))), "{event:?}");
}
