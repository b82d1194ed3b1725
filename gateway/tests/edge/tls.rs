//! TLS on the public listener: certificates that change, and clients that show theirs.

use crate::fake::{TOKEN, lock_id};
use crate::fixture::{self, Server, no_budgets};
use crate::raw::get;
use holdfast_api::paths;
use holdfast_gateway::auth::{Auth, AuthMode, Roll};
use holdfast_gateway::http::EdgeSettings;
use holdfast_gateway::tls::{Inside, ServerFiles, ServerTls, names_of};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType, string::Ia5String,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for these names and its key, in PEM.
fn issue(authority: &Authority, names: &[SanType]) -> (String, String) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.subject_alt_names.extend_from_slice(names);
    let key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, authority).unwrap();
    (cert.pem(), key.serialize_pem())
}

fn uri(text: &str) -> SanType {
    SanType::URI(Ia5String::try_from(text).unwrap())
}

pub(crate) struct World {
    folder: TempDir,
    authority: Authority,
    tls: Arc<ServerTls>,
    pub(crate) server: Server,
}

impl World {
    pub(crate) fn start(auth: Arc<Auth>, client_cert_needed: Option<bool>) -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), authority());
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("ca"), authority.pem()).unwrap();
        write_identity(folder.path(), &issue(&authority, &[]));
        let files = ServerFiles {
            cert: at("cert"),
            key: at("key"),
            client_ca: client_cert_needed.map(|_| at("ca")),
            client_cert_needed: client_cert_needed == Some(true),
        };
        let tls = ServerTls::load(files, Inside::Both).unwrap();
        let settings = EdgeSettings::default();
        let server = fixture::start_with_tls(settings, auth, Some(Arc::clone(&tls)));
        Self {
            folder,
            authority,
            tls,
            server,
        }
    }

    /// Connects, offering this protocol and showing this certificate.
    async fn try_connect(
        &self,
        protocol: &str,
        identity: Option<&(String, String)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap();
        roots.add(root).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let cert = CertificateDer::from_pem_slice(cert.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![cert], key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.server.address).await?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    pub(crate) async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        self.try_connect(protocol, None).await.unwrap()
    }
}

fn write_identity(folder: &Path, (cert, key): &(String, String)) {
    std::fs::write(folder.join("cert"), cert).unwrap();
    std::fs::write(folder.join("key"), key).unwrap();
}

/// The status of a renewal over HTTP/1.1, by either way.
pub(crate) async fn renew(stream: &mut TlsStream<TcpStream>, name: &str) -> u16 {
    let lock_id = lock_id(name).to_text();
    let body = format!(r#"{{"lockId":"{lock_id}","fencingToken":{TOKEN}}}"#);
    let request = crate::raw::post(paths::RENEW, "", body.as_bytes());
    stream.write_all(&request).await.unwrap();
    read_status(stream).await
}

async fn read_status(stream: &mut TlsStream<TcpStream>) -> u16 {
    let mut reply = vec![0; 64 * 1024];
    let bytes = stream.read(&mut reply).await.unwrap();
    let text = String::from_utf8_lossy(&reply[..bytes]).into_owned();
    text.split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("{text:?}"))
        .parse()
        .unwrap()
}

#[tokio::test]
async fn http_1_is_spoken_over_tls_by_the_express_way_and_by_the_library() {
    let world = World::start(Auth::open(no_budgets()), None);
    let mut stream = world.connect("http/1.1").await;
    for name in ["warm", "cold", "warm"] {
        assert_eq!(renew(&mut stream, name).await, 200, "{name}");
    }
}

#[tokio::test]
async fn a_certificate_that_changes_counts_for_new_connections_and_a_bad_one_does_not() {
    let world = World::start(Auth::open(no_budgets()), None);
    let shown = |stream: &TlsStream<TcpStream>| {
        let shown = stream.get_ref().1.peer_certificates().unwrap();
        names_of(&shown[0]).len()
    };
    let mut old = world.connect("http/1.1").await;
    assert_eq!(shown(&old), 1);
    write_identity(
        world.folder.path(),
        &issue(&world.authority, &[uri("spiffe://new")]),
    );
    world.tls.reload().unwrap();
    assert_eq!(shown(&world.connect("http/1.1").await), 2);
    assert_eq!(renew(&mut old, "warm").await, 200);
    // The key of another certificate; half a file; nothing.
    let (cert, _) = issue(&world.authority, &[]);
    let (_, key) = issue(&world.authority, &[]);
    let half = cert[..cert.len() / 2].to_owned();
    for bad in [
        (cert.clone(), key.clone()),
        (half, key),
        (String::new(), String::new()),
    ] {
        write_identity(world.folder.path(), &bad);
        assert!(world.tls.reload().is_err());
        assert_eq!(shown(&world.connect("http/1.1").await), 2);
    }
}

/// A roll with one principal, whose certificate has this name.
fn roll(san: &str) -> Roll {
    let text = format!("[[principal]]\nname = \"p\"\nsan = [\"{san}\"]\nacquire = [\"warm\"]\n");
    Roll::parse(&text).unwrap()
}

#[tokio::test]
async fn a_certificate_shows_who_asks() {
    let auth = Auth::new(
        AuthMode::Certificates,
        roll("uri:spiffe://prod/billing"),
        no_budgets(),
    );
    let world = World::start(auth, Some(true));
    let known = issue(&world.authority, &[uri("spiffe://prod/billing")]);
    let unknown = issue(&world.authority, &[uri("spiffe://prod/other")]);
    // The same text, but a name of another kind.
    let spoofed = SanType::DnsName(Ia5String::try_from("spiffe://prod/billing").unwrap());
    let spoofed = issue(&world.authority, &[spoofed]);
    for (identity, name, status) in [
        (&known, "warm", 200),
        (&known, "cold", 403),
        (&unknown, "warm", 401),
        (&spoofed, "warm", 401),
    ] {
        let mut stream = world.try_connect("http/1.1", Some(identity)).await.unwrap();
        assert_eq!(renew(&mut stream, name).await, status, "{name}");
    }
    // One of another authority, and none, end with the handshake.
    let foreign = issue(&authority(), &[uri("spiffe://prod/billing")]);
    for identity in [Some(&foreign), None] {
        let refused = async {
            let mut stream = world.try_connect("http/1.1", identity).await?;
            stream.write_all(get(paths::OPENAPI).as_bytes()).await?;
            stream.read_u8().await
        };
        assert!(refused.await.is_err());
    }
}

#[tokio::test]
async fn a_client_that_does_not_speak_tls_is_cut_off_and_counted() {
    let world = World::start(Auth::open(no_budgets()), None);
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    stream
        .write_all(get(paths::OPENAPI).as_bytes())
        .await
        .unwrap();
    let mut reply = Vec::new();
    // An alert, and the end.
    stream.read_to_end(&mut reply).await.unwrap();
    assert!(!reply.starts_with(b"HTTP"));
    let line = "holdfast_tls_handshakes_failed_total 1";
    crate::admin::wait_for_metric(&world.server, line).await;
}
