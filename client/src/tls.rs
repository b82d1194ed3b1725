//! TLS towards targets that are `https`, with certificates that are read anew when their files have
//! changed: a client may run for longer than its certificate is valid.

use crate::target::Target;
use parking_lot::Mutex;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whom to believe and what to show, in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that servers' certificates are checked against; `None`: those that this
    /// machine trusts.
    pub cacert: Option<PathBuf>,
    /// What is shown to servers that ask for a certificate.
    pub identity: Option<IdentityFiles>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate, followed by those between it and the authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum BadTls {
    /// A file is not what it should be.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No file is named, and the machine has no list of authorities.
    #[error("this machine trusts no authority; name a file with those to trust ({0})")]
    NoAuthorities(String),
    /// The TLS library refuses all of it.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
}

/// Shakes hands with servers. Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

struct Shared {
    files: TlsFiles,
    present: Mutex<Present>,
}

/// What was read last, and from which state of the files.
struct Present {
    stamps: Stamps,
    connector: TlsConnector,
}

/// When each of the files was changed; `None`: it is not named, or not there.
type Stamps = [Option<SystemTime>; 3];

impl Tls {
    /// Reads the files. Blocks on the disk.
    ///
    /// # Errors
    /// When one cannot be read, is malformed, or the key is not the certificate's.
    pub fn load(files: &TlsFiles) -> Result<Self, BadTls> {
        // Stamps first: what is written between the two is read again.
        let stamps = files.stamps();
        let present = Mutex::new(Present {
            stamps,
            connector: files.connector()?,
        });
        let files = files.clone();
        Ok(Self {
            shared: Arc::new(Shared { files, present }),
        })
    }

    /// Shakes hands over a stream that leads to `target`. Before that it looks at the files, and
    /// reads them again if one has changed, which blocks on the disk; what cannot be used leaves
    /// what was read before.
    ///
    /// # Errors
    /// When the server's certificate is not for the target's host, or of no authority that is
    /// believed, or the server wants another one than is shown, or speaks no TLS.
    pub async fn connect(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(target.host().to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.present().connect(name, stream).await
    }

    fn present(&self) -> TlsConnector {
        let stamps = self.shared.files.stamps();
        let mut present = self.shared.present.lock();
        if present.stamps != stamps
            && let Ok(connector) = self.shared.files.connector()
        {
            *present = Present { stamps, connector };
        }
        present.connector.clone()
    }
}

impl TlsFiles {
    fn stamps(&self) -> Stamps {
        let identity = self.identity.as_ref();
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified());
        [
            self.cacert.as_ref(),
            identity.map(|identity| &identity.cert),
            identity.map(|identity| &identity.key),
        ]
        .map(|path| path.and_then(|path| changed(path).ok()))
    }

    fn connector(&self) -> Result<TlsConnector, BadTls> {
        let roots = match &self.cacert {
            Some(path) => authorities_in(path)?,
            None => authorities_of_machine()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(IdentityFiles { cert, key }) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error))?;
                builder
                    .with_client_auth_cert(certificates(cert)?, key)
                    .map_err(|error| bad(cert, format!("with its key: {error}")))?
            }
        };
        // What `Connection` speaks, for load balancers that would rather speak HTTP/2.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

fn bad(path: &Path, problem: impl fmt::Display) -> BadTls {
    BadTls::File {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read = read.map_err(|error| bad(path, error))?;
    match read.is_empty() {
        true => Err(bad(path, "no certificate in PEM")),
        false => Ok(read),
    }
}

fn authorities_in(path: &Path) -> Result<RootCertStore, BadTls> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| bad(path, error))?;
    }
    Ok(roots)
}

/// Single certificates that cannot be used are passed over: what a machine trusts is collected over
/// decades.
fn authorities_of_machine() -> Result<RootCertStore, BadTls> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good == 0 {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(BadTls::NoAuthorities(why.join("; ")));
    }
    Ok(roots)
}
