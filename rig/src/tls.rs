//! Certificates for tests.

use crate::options::TlsFiles;
use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::Path;

impl TlsFiles {
    /// Writes an authority of its own and one certificate for 127.0.0.1 and `localhost` into
    /// `folder`. The certificate's common name is `root`, which is what etcd takes a client's
    /// user from. Clients must show a certificate.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn generate(folder: &Path) -> Result<Self> {
        let authority = authority()?;
        let key = KeyPair::generate()?;
        let cert = member_params()?.signed_by(&key, &authority)?;
        let files = Self {
            ca: folder.join("ca.pem"),
            cert: folder.join("cert.pem"),
            key: folder.join("key.pem"),
            client_cert_required: true,
        };
        fs::write(&files.ca, authority.pem())?;
        fs::write(&files.cert, cert.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "Holdfast test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn member_params() -> Result<CertificateParams> {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "root");
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}
