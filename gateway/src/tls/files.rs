//! From PEM files to what rustls wants.

use super::Inside;
use crate::files::shown;
use anyhow::Context as _;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// What a listener shows, and whom it believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The certificate, followed by those between it and the authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities of clients' certificates; `None`: clients are asked for none.
    pub client_ca: Option<PathBuf>,
    /// A client without a certificate is refused.
    pub client_cert_needed: bool,
}

/// Whom those believe who dial, and what they show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities of servers' certificates.
    pub cacert: PathBuf,
    /// The certificate, followed by those between it and the authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl ServerFiles {
    /// Every file.
    pub fn paths(&self) -> Vec<PathBuf> {
        let own = [self.cert.clone(), self.key.clone()];
        own.into_iter().chain(self.client_ca.clone()).collect()
    }

    pub(super) fn load(&self, inside: Inside) -> anyhow::Result<ServerConfig> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let roots = Arc::new(roots(authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match self.client_cert_needed {
                    true => verifier,
                    false => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build()?)
            }
        };
        let mut config = builder
            .with_single_cert(certificates(&self.cert)?, key(&self.key)?)
            .with_context(|| format!("{} and its key", shown(&self.cert)))?;
        config.alpn_protocols = match inside {
            Inside::Both => vec![HTTP_2.to_vec(), HTTP_1.to_vec()],
            Inside::Http1 => vec![HTTP_1.to_vec()],
        };
        Ok(config)
    }
}

impl ClientFiles {
    /// Every file.
    pub fn paths(&self) -> Vec<PathBuf> {
        vec![self.cacert.clone(), self.cert.clone(), self.key.clone()]
    }

    pub(super) fn load(&self) -> anyhow::Result<ClientConfig> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots(&self.cacert)?)
            .with_client_auth_cert(certificates(&self.cert)?, key(&self.key)?)
            .with_context(|| format!("{} and its key", shown(&self.cert)))?;
        Ok(config)
    }
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let read = read.with_context(|| format!("{}: no PEM", shown(file)))?;
    anyhow::ensure!(!read.is_empty(), "{}: no certificate", shown(file));
    Ok(read)
}

fn key(file: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(file)
        .with_context(|| format!("{}: no private key in PEM", shown(file)))
}

fn roots(file: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .with_context(|| format!("{}: no authority", shown(file)))?;
    }
    Ok(roots)
}
