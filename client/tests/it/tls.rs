use crate::server::{Answer, Server};
use holdfast_client::{
    AccessFiles, Cause, Client, ClientConfig, Error, IdentityFiles, LockId, TlsFiles, Token,
    TransportConfig,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for this host, and its key.
fn issue(authority: &Authority, host: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let cert = params.signed_by(&key, authority).unwrap();
    (cert.pem(), key.serialize_pem())
}

/// A server with a certificate for `host`, that wants one of its clients.
async fn server(authority: &Authority, host: &str) -> Server {
    let (cert, key) = issue(authority, host);
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let renewed = json!({ "renewed": true, "expiresAt": "", "ttlMs": 29700, "renewAfterMs": 9700 });
    let answer = move |_: crate::server::Asked<'_>| Answer::Json(200, renewed.clone());
    Server::start_with(Some(TlsAcceptor::from(Arc::new(config))), answer).await
}

/// A folder with an authority, and a client's certificate and key.
fn files(authority: &Authority) -> (TempDir, AccessFiles) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_files(folder.path(), authority);
    let files = access(&at("ca"), Some((&at("cert"), &at("key"))));
    (folder, files)
}

fn write_files(folder: &Path, authority: &Authority) {
    let (cert, key) = issue(authority, "client");
    std::fs::write(folder.join("ca"), authority.pem()).unwrap();
    std::fs::write(folder.join("cert"), cert).unwrap();
    std::fs::write(folder.join("key"), key).unwrap();
}

fn access(cacert: &Path, identity: Option<(&Path, &Path)>) -> AccessFiles {
    AccessFiles {
        token: None,
        tls: TlsFiles {
            cacert: Some(cacert.to_owned()),
            identity: identity.map(|(cert, key)| IdentityFiles {
                cert: cert.to_owned(),
                key: key.to_owned(),
            }),
        },
    }
}

async fn renew(server: &Server, files: &AccessFiles) -> Result<(), Error> {
    renew_at(&server.url, files).await
}

async fn renew_at(url: &str, files: &AccessFiles) -> Result<(), Error> {
    let targets = vec![url.parse().unwrap()];
    let mut transport = TransportConfig::new(targets.clone());
    transport.access = files.load(&targets).unwrap();
    let client = Client::new(ClientConfig::new("worker-7", transport));
    let id = LockId::new("lock-AQ");
    client.renew(&id, Token(7), None).await.map(drop)
}

#[track_caller]
fn not_sent(outcome: Result<(), Error>) -> String {
    match outcome {
        Err(Error::Unknown {
            cause: Cause::NotSent(why),
            ..
        }) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_of_a_believed_authority_is_asked_and_shown_the_clients_certificate() {
    let authority = authority();
    let server = server(&authority, "127.0.0.1").await;
    let (_folder, files) = files(&authority);
    assert_eq!(renew(&server, &files).await, Ok(()));
    assert!(server.seen()[0].certificate);
}

#[tokio::test]
async fn a_certificate_that_was_replaced_counts_for_the_next_connection() {
    let (one, other) = (authority(), authority());
    let server = server(&one, "127.0.0.1").await;
    let (folder, files) = files(&other);
    let targets = vec![server.url.parse().unwrap()];
    let mut transport = TransportConfig::new(targets.clone());
    transport.access = files.load(&targets).unwrap();
    let client = Client::new(ClientConfig::new("worker-7", transport));
    let (id, token) = (LockId::new("lock-AQ"), Token(7));
    not_sent(client.renew(&id, token, None).await.map(drop));
    // With something that is of no use the old ones go on; then come good ones.
    std::fs::write(folder.path().join("ca"), "no PEM").unwrap();
    not_sent(client.renew(&id, token, None).await.map(drop));
    write_files(folder.path(), &one);
    assert!(client.renew(&id, token, None).await.is_ok());
    assert!(server.seen()[0].certificate);
}

#[tokio::test]
async fn a_server_of_another_authority_or_for_another_host_is_told_nothing() {
    let (one, other) = (authority(), authority());
    let (_folder, files) = files(&one);
    let stranger = server(&other, "127.0.0.1").await;
    let why = not_sent(renew(&stranger, &files).await);
    assert!(why.contains("invalid peer certificate"), "{why}");
    let elsewhere = server(&one, "gateway.example").await;
    let why = not_sent(renew(&elsewhere, &files).await);
    assert!(why.contains("not valid for name"), "{why}");
    assert!(stranger.seen().is_empty() && elsewhere.seen().is_empty());
}

#[tokio::test]
async fn without_the_certificate_that_the_server_wants_nothing_is_known() {
    let authority = authority();
    let server = server(&authority, "127.0.0.1").await;
    let (folder, _) = files(&authority);
    let outcome = renew(&server, &access(&folder.path().join("ca"), None)).await;
    assert!(outcome.unwrap_err().is_unknown());
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn without_tls_nothing_is_sent_to_an_https_target() {
    let server = server(&authority(), "127.0.0.1").await;
    let targets = vec![server.url.parse().unwrap()];
    let config = ClientConfig::new("worker-7", TransportConfig::new(targets));
    let (client, id) = (Client::new(config), LockId::new("lock-AQ"));
    let why = not_sent(client.release(&id, Token(7)).await);
    assert!(why.contains("not set up for TLS"), "{why}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn with_the_wrong_scheme_the_error_asks_for_the_other() {
    let authority = authority();
    let (_folder, files) = files(&authority);
    let plain = Server::start(|_| Answer::RetryAfter(503, 0)).await;
    let why = not_sent(renew_at(&plain.url.replace("http:", "https:"), &files).await);
    assert!(why.contains("is it http?"), "{why}");
    let with_tls = server(&authority, "127.0.0.1").await;
    let without = AccessFiles::default();
    match renew_at(&with_tls.url.replace("https:", "http:"), &without).await {
        Err(Error::Unknown {
            cause: Cause::Broken(why),
            ..
        }) => assert!(why.contains("is the scheme of the target right?"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(plain.seen().is_empty() && with_tls.seen().is_empty());
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let authority = authority();
    let (folder, files) = files(&authority);
    let targets = ["https://127.0.0.1:1".parse().unwrap()];
    assert!(files.load(&targets).is_ok());
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("key"), issue(&authority, "client").1).unwrap();
    let refused = files.load(&targets).unwrap_err().to_string();
    assert!(refused.contains("cert: with its key: "), "{refused}");
    std::fs::write(at("ca"), "no PEM").unwrap();
    let refused = files.load(&targets).unwrap_err().to_string();
    assert!(refused.contains("ca: no certificate"), "{refused}");
}
