//! Gateways that speak TLS with each other.

use crate::fixture::{SECRET, World};
use holdfast_api::ErrorCode;
use holdfast_gateway::service::RenewOutcome;
use holdfast_gateway::tls::{ClientFiles, ClientTls, Inside, ServerFiles, ServerTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::Path;
use std::sync::Arc;

/// An authority of its own, and a certificate for gateways on this machine.
fn server(folder: &Path) -> Arc<ServerTls> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let cert = params.signed_by(&key, &authority).unwrap();
    let at = |name: &str| folder.join(name);
    std::fs::write(at("ca.pem"), authority.pem()).unwrap();
    std::fs::write(at("cert.pem"), cert.pem()).unwrap();
    std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
    let files = ServerFiles {
        cert: at("cert.pem"),
        key: at("key.pem"),
        client_ca: Some(at("ca.pem")),
        client_cert_needed: true,
    };
    ServerTls::load(files, Inside::Http1).unwrap()
}

/// Believes the authority in one folder, and shows the certificate in another.
fn client(believed: &Path, own: &Path) -> Arc<ClientTls> {
    let files = ClientFiles {
        cacert: believed.join("ca.pem"),
        cert: own.join("cert.pem"),
        key: own.join("key.pem"),
    };
    ClientTls::load(files).unwrap()
}

#[tokio::test]
async fn requests_are_forwarded_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new().await;
    world.server_tls = Some(server(folder.path()));
    world.client_tls = Some(client(folder.path(), folder.path()));
    let (owner, other) = (world.gateway(SECRET).await, world.gateway(SECRET).await);
    let hold = owner.hold("n").await;
    let renewed = other.renew(&hold).await;
    assert!(
        matches!(renewed, Ok(RenewOutcome::Renewed(_))),
        "{renewed:?}"
    );
}

#[tokio::test]
async fn gateways_with_certificates_of_different_authorities_do_not_hear_each_other() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut world = World::new().await;
    world.server_tls = Some(server(one.path()));
    world.client_tls = Some(client(one.path(), one.path()));
    let owner = world.gateway(SECRET).await;
    let hold = owner.hold("n").await;
    world.server_tls = Some(server(other.path()));
    // One that does not believe the owner, and one that the owner does not believe.
    for believed in [other.path(), one.path()] {
        world.client_tls = Some(client(believed, other.path()));
        let stranger = world.gateway(SECRET).await;
        let error = stranger.renew(&hold).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::OwnerUnreachable);
    }
}
