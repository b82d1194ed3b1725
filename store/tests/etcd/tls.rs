//! TLS, with an authority made for the test.

use crate::support::{AMPLE, BRIEF, create, is_ambiguous, is_unreachable, member_with, txn};
use holdfast_rig::{Etcd, EtcdOptions, Link, TlsFiles};
use holdfast_store::EtcdStore;
use holdfast_store::etcd::{EtcdConfig, EtcdTls, TlsIdentity};
use std::time::Duration;
use tempfile::TempDir;

struct Setup {
    member: Etcd,
    files: TlsFiles,
    _folder: TempDir,
}

/// A member that demands client certificates.
async fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles::generate(folder.path()).unwrap();
    let member = member_with(EtcdOptions {
        tls: Some(files.clone()),
        ..EtcdOptions::default()
    })
    .await;
    Setup {
        member,
        files,
        _folder: folder,
    }
}

fn tls(files: &TlsFiles) -> EtcdTls {
    EtcdTls {
        ca_pem: Some(std::fs::read(&files.ca).unwrap()),
        identity: Some(TlsIdentity {
            cert_pem: std::fs::read(&files.cert).unwrap(),
            key_pem: std::fs::read(&files.key).unwrap(),
        }),
        domain_name: None,
    }
}

fn store(url: String, tls: EtcdTls) -> EtcdStore {
    let mut config = EtcdConfig::new([url]);
    config.tls = Some(tls);
    EtcdStore::connect(config).unwrap()
}

#[tokio::test]
async fn a_member_is_used_over_tls_with_a_client_certificate() {
    let s = setup().await;
    let by_host = tls(&s.files);
    let by_name = EtcdTls {
        domain_name: Some("localhost".to_owned()),
        ..tls(&s.files)
    };
    for (key, tls) in [("by-host", by_host), ("by-name", by_name)] {
        let store = store(s.member.endpoint(), tls);
        txn(&store, create(key), AMPLE).await.unwrap();
    }
}

#[tokio::test]
async fn a_member_that_cannot_prove_who_it_is_gets_nothing() {
    let s = setup().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = TlsFiles::generate(elsewhere.path()).unwrap();
    let other_authority = EtcdTls {
        ca_pem: tls(&stranger).ca_pem,
        ..tls(&s.files)
    };
    let other_name = EtcdTls {
        domain_name: Some("etcd.example".to_owned()),
        ..tls(&s.files)
    };
    for tls in [other_authority, other_name] {
        let result = txn(&store(s.member.endpoint(), tls), create("key"), AMPLE).await;
        assert!(is_unreachable(&result), "{result:?}");
        let text = result.unwrap_err().to_string();
        assert!(text.contains("certificate"), "{text}");
    }
}

#[tokio::test]
async fn a_client_that_cannot_prove_who_it_is_is_refused() {
    let s = setup().await;
    let without = EtcdTls {
        identity: None,
        ..tls(&s.files)
    };
    let store = store(s.member.endpoint(), without);
    let result = txn(&store, create("key"), AMPLE).await;
    // The server's alert may come before or after the request has left.
    assert!(
        is_unreachable(&result) || is_ambiguous(&result),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_unreachable_within_the_connect_timeout() {
    let s = setup().await;
    let link = Link::to(s.member.client_port()).await.unwrap();
    link.hold_all();
    let mut config = EtcdConfig::new([format!("https://127.0.0.1:{}", link.port())]);
    config.tls = Some(tls(&s.files));
    config.connect_timeout = Duration::from_millis(50);
    let store = EtcdStore::connect(config).unwrap();
    let result = txn(&store, create("key"), AMPLE).await;
    assert!(is_unreachable(&result), "{result:?}");
    link.open();
    txn(&store, create("key"), AMPLE).await.unwrap();
}

#[tokio::test]
async fn calls_shorter_than_a_connection_attempt_move_on_to_the_next_member() {
    let s = setup().await;
    let link = Link::to(s.member.client_port()).await.unwrap();
    link.hold_all();
    let held = format!("https://127.0.0.1:{}", link.port());
    let mut config = EtcdConfig::new([held, s.member.endpoint()]);
    config.tls = Some(tls(&s.files));
    config.connect_timeout = AMPLE;
    let store = EtcdStore::connect(config).unwrap();
    let result = txn(&store, create("key"), BRIEF).await;
    assert!(is_unreachable(&result), "{result:?}");
    txn(&store, create("key"), AMPLE).await.unwrap();
}
