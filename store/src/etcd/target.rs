//! An endpoint's address and settings, checked.

use super::config::{ConfigError, EtcdConfig, EtcdTls};
use super::failure::with_causes;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::Duration;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};

/// etcd's port, for URLs without one.
const DEFAULT_PORT: u16 = 2379;

/// Where and how to connect.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As configured.
    pub(super) url: String,
    pub(super) host: String,
    pub(super) port: u16,
    /// HTTP/2 and TLS settings.
    pub(super) endpoint: Endpoint,
    /// For connecting.
    pub(super) timeout: Duration,
    pub(super) require_leader: bool,
}

impl Target {
    /// Checks an endpoint's URL and the TLS settings.
    pub(super) fn new(url: &str, config: &EtcdConfig) -> Result<Self, ConfigError> {
        let wrong = |problem: String| ConfigError::Endpoint {
            url: url.to_owned(),
            problem,
        };
        let uri: Uri = url.parse().map_err(|_| wrong("is not a URL".to_owned()))?;
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(wrong("has no host".to_owned()));
        }
        if uri
            .authority()
            .is_some_and(|all| all.as_str().contains('@'))
        {
            return Err(ConfigError::Endpoint {
                url: host.to_owned(),
                problem: "names a user; credentials are configured apart".to_owned(),
            });
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("has a path; only host and port are used".to_owned()));
        }
        let mut endpoint = Endpoint::from(uri.clone())
            .http2_keep_alive_interval(config.ping_interval)
            .keep_alive_timeout(config.ping_timeout)
            // etcd counts pings on an idle connection as abuse and closes it.
            .keep_alive_while_idle(false);
        match (uri.scheme_str(), &config.tls) {
            (Some("http"), None) => {}
            (Some("http"), Some(_)) => {
                return Err(wrong("is http, but TLS is configured".to_owned()));
            }
            (Some("https"), tls) => {
                let tls = tls_config(tls.as_ref()).map_err(&wrong)?;
                endpoint = endpoint
                    .tls_config(tls)
                    .map_err(|error| wrong(with_causes(&error)))?;
            }
            _ => return Err(wrong("does not begin with http:// or https://".to_owned())),
        }
        Ok(Self {
            url: url.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(DEFAULT_PORT),
            endpoint,
            timeout: config.connect_timeout,
            require_leader: config.require_leader,
        })
    }
}

fn tls_config(tls: Option<&EtcdTls>) -> Result<ClientTlsConfig, String> {
    let mut config = ClientTlsConfig::new();
    config = match tls.and_then(|tls| tls.ca_pem.as_ref()) {
        Some(ca) => {
            check_ca(ca)?;
            config.ca_certificate(Certificate::from_pem(ca))
        }
        None => config.with_native_roots(),
    };
    if let Some(own) = tls.and_then(|tls| tls.identity.as_ref()) {
        config = config.identity(Identity::from_pem(&own.cert_pem, &own.key_pem));
    }
    if let Some(name) = tls.and_then(|tls| tls.domain_name.as_ref()) {
        config = config.domain_name(name);
    }
    Ok(config)
}

/// tonic passes over what it cannot read, and would trust nobody.
fn check_ca(pem: &[u8]) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("the CA is not PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("the CA is not a certificate: {error}"))?;
    }
    if roots.is_empty() {
        return Err("the CA has no certificate".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::config::TlsIdentity;

    fn target(url: &str, tls: Option<EtcdTls>) -> Result<Target, ConfigError> {
        let config = EtcdConfig {
            tls,
            ..EtcdConfig::new([url])
        };
        Target::new(url, &config)
    }

    #[test]
    fn an_endpoint_is_a_url_with_host_and_perhaps_port() {
        for (url, host, port) in [
            ("http://127.0.0.1:2379", "127.0.0.1", 2379),
            ("http://etcd-1.example", "etcd-1.example", 2379),
            ("http://[::1]:4001/", "::1", 4001),
            ("https://etcd:1", "etcd", 1),
        ] {
            let target = target(url, None).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for (url, problem) in [
            ("", "is not a URL"),
            ("127.0.0.1:2379", "does not begin with"),
            ("ftp://etcd:1", "does not begin with"),
            ("http://etcd:1/v3", "has a path"),
            ("/run/etcd", "has no host"),
            ("http://root:secret@etcd:1", "names a user"),
        ] {
            let error = target(url, None).unwrap_err().to_string();
            assert!(error.contains(problem), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn tls_settings_that_cannot_apply_are_refused() {
        assert!(target("http://etcd:1", Some(EtcdTls::default())).is_err());
        let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for ca in ["", "nonsense", no_certificate] {
            let tls = EtcdTls {
                ca_pem: Some(ca.into()),
                ..EtcdTls::default()
            };
            assert!(target("https://etcd:1", Some(tls)).is_err(), "{ca:?}");
        }
        let tls = EtcdTls {
            identity: Some(TlsIdentity {
                cert_pem: no_certificate.into(),
                key_pem: "nonsense".into(),
            }),
            ..EtcdTls::default()
        };
        assert!(target("https://etcd:1", Some(tls)).is_err());
    }
}
