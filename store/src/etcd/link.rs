//! One connection to one endpoint.
//!
//! A [`Link`] is connected before it is used and never connects again: an error of a later
//! connect attempt says that the link had been closed, and that nothing was sent. A lazily
//! reconnecting channel would leave open, at a timeout, whether the request was sent or still
//! waited for a connection.

use super::auth::TokenCell;
use super::config::{ConfigError, EtcdConfig, EtcdTls};
use super::flight::Abandoned;
use futures::future::BoxFuture;
use http::HeaderValue;
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::error::Error;
use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tower::{BoxError, Service};

/// etcd's port, for URLs without one.
const DEFAULT_PORT: u16 = 2379;
/// The largest reply that is accepted, against a server gone mad: a lease group's records are
/// about 1 MiB, etcd's own limit for a request is 1.5 MiB.
pub(super) const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where and how to connect.
#[derive(Debug, Clone)]
pub(super) struct Target {
    url: String,
    host: String,
    port: u16,
    endpoint: Endpoint,
    timeout: Duration,
    require_leader: bool,
}

/// Why there is no connection; nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectFailure(pub(super) String);

/// An open connection, or one that was open once.
#[derive(Clone)]
pub(super) struct Link {
    /// For streams and calls that etcd's client does not offer.
    pub(super) wire: Wire,
    /// Without token, to obtain one.
    pub(super) bare: Channel,
    /// etcd's client on top of `wire`.
    pub(super) client: etcd_client::Client,
    /// The part of it for transactions, with our limit for replies.
    pub(super) kv: etcd_client::KvClient,
}

/// A channel that adds the token and the demand for a leader to every request.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    channel: Channel,
    token: TokenCell,
    require_leader: bool,
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

    /// As configured.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Connects, TLS included.
    pub(super) async fn connect(self, token: TokenCell) -> Result<Link, ConnectFailure> {
        match tokio::time::timeout(self.timeout, self.open()).await {
            Ok(Ok(channel)) => self.link(channel, token).await,
            Ok(Err(problem)) => Err(ConnectFailure(format!("{}: {problem}", self.url))),
            Err(_) => Err(ConnectFailure(format!(
                "{}: no connection within {:?}",
                self.url, self.timeout
            ))),
        }
    }

    async fn open(&self) -> Result<Channel, String> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut once = Some(TokioIo::new(tcp));
        let connector = tower::service_fn(move |_: Uri| {
            let io = once.take();
            async move { io.ok_or(LinkClosed) }
        });
        self.endpoint
            .connect_with_connector(connector)
            .await
            .map_err(|error| with_causes(&error))
    }

    async fn link(&self, bare: Channel, token: TokenCell) -> Result<Link, ConnectFailure> {
        let wire = Wire {
            channel: bare.clone(),
            token,
            require_leader: self.require_leader,
        };
        let boxed = tower::util::BoxCloneSyncService::new(wire.clone());
        let client = etcd_client::Client::from_channel(etcd_client::Channel::Custom(boxed), None)
            .await
            .map_err(|error| ConnectFailure(format!("{}: {error}", self.url)))?;
        let kv = client
            .kv_client()
            .max_decoding_message_size(REPLY_BYTES_MAX);
        Ok(Link {
            wire,
            bare,
            client,
            kv,
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

/// The connection was closed; a link does not connect again.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct LinkClosed;

/// An error with what caused it, which `Display` leaves out.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link(..)")
    }
}

impl From<Abandoned> for ConnectFailure {
    fn from(_: Abandoned) -> Self {
        Self("connecting was abandoned".to_owned())
    }
}

impl Service<http::Request<Body>> for Wire {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        if let Some(token) = self.token.get() {
            headers.insert("token", token);
        }
        if self.require_leader {
            headers.insert("hasleader", HeaderValue::from_static("true"));
        }
        let response = self.channel.call(request);
        Box::pin(async move { response.await.map_err(Into::into) })
    }
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
        ] {
            let error = target(url, None).unwrap_err().to_string();
            assert!(error.contains(problem), "{url}: {error}");
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
