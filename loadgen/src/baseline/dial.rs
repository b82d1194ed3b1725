//! Connections to a server, through TLS or not.

use anyhow::Context as _;
use holdfast_client::Target;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// A connection.
pub(super) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// Opens connections.
#[derive(Clone, Default)]
pub(super) struct Dialer {
    tls: Option<TlsConnector>,
}

impl Dialer {
    /// Speaks TLS with those whose certificate is of an authority in this file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, or has no certificate.
    pub(super) fn new(cacert: Option<&Path>) -> anyhow::Result<Self> {
        let Some(file) = cacert else {
            return Ok(Self::default());
        };
        let mut roots = RootCertStore::empty();
        let read = CertificateDer::pem_file_iter(file);
        for certificate in read.with_context(|| format!("--cacert {}", file.display()))? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = Some(TlsConnector::from(Arc::new(config)));
        Ok(Self { tls })
    }

    /// Connects; the caller limits how long that may take.
    ///
    /// # Errors
    /// When the target cannot be reached, or shows no certificate that is believed.
    pub(super) async fn open(&self, target: &Target) -> anyhow::Result<Stream> {
        let stream = TcpStream::connect(target.address()).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return Ok(Either::Left(stream));
        };
        let name = ServerName::try_from(target.address().0.to_owned())?;
        Ok(Either::Right(tls.connect(name, stream).await?))
    }
}
