//! How a cluster is reached.

use std::fmt;
use std::time::Duration;

/// How to reach a cluster. [`EtcdConfig::new`] gives every setting its default.
#[derive(Debug, Clone)]
pub struct EtcdConfig {
    /// The members' client URLs, `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// Which of `endpoints` to begin with, modulo their number. Default 0; give every gateway its
    /// own number, so that they spread over the members.
    pub first_endpoint: usize,
    /// For `https` endpoints. Default `None`: the system's certificate authorities, no client
    /// certificate.
    pub tls: Option<EtcdTls>,
    /// Default `None`: etcd is used without authentication.
    pub credentials: Option<Credentials>,
    /// TCP connections per endpoint for calls, at least 1. Keepalives and watches have one more
    /// each, so that a burst of transactions does not delay them. Default 2: a second connection
    /// keeps a large reply from holding up every other call; more made no difference in
    /// measurements.
    pub connections: usize,
    /// The longest wait for a connection, TLS included. Default 1 s: far above any round trip, and
    /// short enough that a renewal round of 3 s still gets to a second member.
    pub connect_timeout: Duration,
    /// How often an open but silent connection is asked for a sign of life, while something is
    /// outstanding on it. Default 6 s: etcd closes connections that ask more often than every
    /// 5 s (`--grpc-keepalive-min-time`).
    pub ping_interval: Duration,
    /// How long to wait for that sign. Default 3 s: together with the interval a dead watch is
    /// noticed within 9 s, the lifetime of a session.
    pub ping_timeout: Duration,
    /// Refuse members that see no leader, and end streams to them. Default true: a member that is
    /// cut off would otherwise hold calls until they time out, with unknown outcome.
    pub require_leader: bool,
}

impl EtcdConfig {
    /// The defaults, for these endpoints.
    pub fn new<S: Into<String>>(endpoints: impl IntoIterator<Item = S>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            first_endpoint: 0,
            tls: None,
            credentials: None,
            connections: 2,
            connect_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(6),
            ping_timeout: Duration::from_secs(3),
            require_leader: true,
        }
    }
}

/// TLS settings.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// Certificate authorities that may sign for the members, PEM. `None`: the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// The certificate (chain) and the key to show to the members, PEM.
    pub identity: Option<TlsIdentity>,
    /// The name that the members' certificates must be for. `None`: each endpoint's host.
    pub domain_name: Option<String>,
}

/// A client certificate and its key.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The certificate, and those that lead to the authority, PEM.
    pub cert_pem: Vec<u8>,
    /// The private key, PEM.
    pub key_pem: Vec<u8>,
}

/// An etcd user.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
}

// Keys and passwords are not for logs, hence no derived output.
impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls")
            .field("ca", &self.ca_pem.is_some())
            .field("identity", &self.identity.is_some())
            .field("domain_name", &self.domain_name)
            .finish()
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity(..)")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to connect to.
    #[error("no etcd endpoints are given")]
    NoEndpoints,
    /// An endpoint's URL, or the TLS settings as they apply to it.
    #[error("etcd endpoint {url:?}: {problem}")]
    Endpoint {
        /// As configured.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There must be a connection for calls.
    #[error("at least one connection per etcd endpoint is needed")]
    NoConnections,
}
