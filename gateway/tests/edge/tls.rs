//! TLS on the public listener: both versions of HTTP, certificates that change, clients that show
//! theirs, and those who misbehave.

use crate::fake::{TOKEN, lock_id};
use crate::fixture::{self, Server};
use crate::raw::get;
use bytes::Bytes;
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

struct World {
    folder: TempDir,
    authority: Authority,
    tls: Arc<ServerTls>,
    server: Server,
}

impl World {
    fn start(auth: Arc<Auth>, client_cert_needed: Option<bool>) -> Self {
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

    async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        self.try_connect(protocol, None).await.unwrap()
    }
}

fn write_identity(folder: &Path, (cert, key): &(String, String)) {
    std::fs::write(folder.join("cert"), cert).unwrap();
    std::fs::write(folder.join("key"), key).unwrap();
}

/// The status of a renewal over HTTP/1.1, by either way.
async fn renew(stream: &mut TlsStream<TcpStream>, name: &str) -> u16 {
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

type Http2 = h2::client::SendRequest<Bytes>;

async fn http2(world: &World) -> (Http2, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = world.connect("h2").await;
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    (requests, tokio::spawn(connection))
}

fn request(method: &str, path: &str) -> http::Request<()> {
    let uri = format!("https://127.0.0.1{path}");
    let json = "application/json";
    let builder = http::Request::builder().method(method).uri(uri);
    builder.header("content-type", json).body(()).unwrap()
}

#[tokio::test]
async fn http_1_is_spoken_over_tls_by_the_express_way_and_by_the_library() {
    let world = World::start(Auth::open(), None);
    let mut stream = world.connect("http/1.1").await;
    for name in ["warm", "cold", "warm"] {
        assert_eq!(renew(&mut stream, name).await, 200, "{name}");
    }
}

#[tokio::test]
async fn http_2_is_spoken_over_tls_with_many_requests_at_once() {
    let world = World::start(Auth::open(), None);
    let (requests, _connection) = http2(&world).await;
    let mut replies = Vec::new();
    for name in ["warm", "cold", "expired", "stolen"]
        .iter()
        .cycle()
        .take(40)
    {
        let mut requests = requests.clone().ready().await.unwrap();
        let (reply, mut body) = requests
            .send_request(request("POST", paths::RENEW), false)
            .unwrap();
        let lock_id = lock_id(name).to_text();
        let text = format!(r#"{{"lockId":"{lock_id}","fencingToken":{TOKEN}}}"#);
        body.send_data(text.into(), true).unwrap();
        replies.push((name, reply));
    }
    for (name, reply) in replies {
        let reply = reply.await.unwrap();
        let expected = if matches!(*name, "expired" | "stolen") {
            409
        } else {
            200
        };
        assert_eq!(reply.status().as_u16(), expected, "{name}");
        assert!(reply.headers().get("connection").is_none());
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The reason in the first GOAWAY among these frames.
fn goodbye(mut frames: &[u8]) -> Option<u32> {
    while let Some((head, rest)) = frames.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, rest) = rest.split_at_checked(length)?;
        if head[3] == 7 {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        frames = rest;
    }
    None
}

#[tokio::test]
async fn requests_that_are_taken_back_at_once_end_their_connection_and_no_other() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let world = World::start(Auth::open(), None);
    let mut stream = world.connect("h2").await;
    // GET https://h/openapi.json, in the static table and two literals.
    let headers = b"\x82\x87\x04\x0d/openapi.json\x01\x01h".to_vec();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, &[]));
    for stream in (1..20_000).step_by(2) {
        sent.extend(frame(1, 0x5, stream, &headers));
        sent.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    // It may be cut off before it has sent or read everything.
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let mut heard = Vec::new();
    let _ = tokio::join!(writer.write_all(&sent), reader.read_to_end(&mut heard));
    assert_eq!(goodbye(&heard), Some(ENHANCE_YOUR_CALM));
    let mut other = world.connect("http/1.1").await;
    assert_eq!(renew(&mut other, "warm").await, 200);
}

#[tokio::test]
async fn headers_over_http_2_are_bounded() {
    let world = World::start(Auth::open(), None);
    let (requests, _connection) = http2(&world).await;
    let mut large = request("GET", paths::OPENAPI);
    let value = http::HeaderValue::from_str(&"a".repeat(100 * 1024)).unwrap();
    large.headers_mut().insert("x-large", value);
    let mut ready = requests.clone().ready().await.unwrap();
    let (reply, _) = ready.send_request(large, true).unwrap();
    assert!(!reply.await.is_ok_and(|reply| reply.status().is_success()));
}

#[tokio::test]
async fn a_certificate_that_changes_counts_for_new_connections_and_a_bad_one_does_not() {
    let world = World::start(Auth::open(), None);
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
    let auth = Auth::new(AuthMode::Certificates, roll("uri:spiffe://prod/billing"));
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
    let world = World::start(Auth::open(), None);
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
