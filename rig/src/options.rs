//! Which etcd to start, and how.

use crate::tools::tool;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// The etcd versions in `.tools/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdVersion {
    /// 3.4.23, for single-member tests.
    V3_4,
    /// 3.5, at least 3.5.14.
    V3_5,
}

impl EtcdVersion {
    /// Both, for tests that run on each.
    pub const ALL: [Self; 2] = [Self::V3_4, Self::V3_5];

    pub(crate) fn program(self, name: &str) -> Result<PathBuf> {
        let folder = match self {
            Self::V3_4 => "etcd-3.4",
            Self::V3_5 => "etcd-3.5",
        };
        tool(&format!("{folder}/bin/{name}"))
    }
}

/// The TLS files of a member's client port, and of `etcdctl` when it talks to it.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate authority of servers and clients, PEM.
    pub ca: PathBuf,
    /// The certificate, PEM. It must be for 127.0.0.1, and for use as server and as client.
    pub cert: PathBuf,
    /// The certificate's private key, PEM.
    pub key: PathBuf,
    /// Whether clients must show a certificate.
    pub client_cert_required: bool,
}

/// Settings of a member. The default is etcd's own for everything.
#[derive(Debug, Clone, Default)]
pub struct EtcdOptions {
    /// How long an authentication token is good, in whole seconds.
    pub auth_token_ttl: Option<Duration>,
    /// The size of the data from which on writes are refused (NOSPACE), in bytes.
    pub quota_backend_bytes: Option<u64>,
    /// Serve clients with TLS only.
    pub tls: Option<TlsFiles>,
    /// Skip syncing to disk where the version can (3.5). Faster, and a killed process loses
    /// nothing by it, a killed machine does.
    pub unsafe_no_fsync: bool,
    /// Members reach each other over ways of their own, which
    /// [`EtcdCluster::peer_way`](crate::EtcdCluster::peer_way) gives.
    pub peer_ways: bool,
    /// Further flags, after all others.
    pub extra_args: Vec<String>,
}

impl EtcdOptions {
    /// The server flags of these settings.
    pub(crate) fn args(&self, version: EtcdVersion) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(ttl) = self.auth_token_ttl {
            args.push(format!("--auth-token-ttl={}", ttl.as_secs()));
        }
        if let Some(bytes) = self.quota_backend_bytes {
            args.push(format!("--quota-backend-bytes={bytes}"));
        }
        if let Some(tls) = &self.tls {
            args.push(format!("--cert-file={}", tls.cert.display()));
            args.push(format!("--key-file={}", tls.key.display()));
            args.push(format!("--trusted-ca-file={}", tls.ca.display()));
            args.push(format!("--client-cert-auth={}", tls.client_cert_required));
        }
        if self.unsafe_no_fsync && version != EtcdVersion::V3_4 {
            args.push("--unsafe-no-fsync".to_owned());
        }
        args.extend(self.extra_args.iter().cloned());
        args
    }

    /// The flags by which `etcdctl` reaches a member with these settings.
    pub(crate) fn etcdctl_args(&self) -> Vec<String> {
        self.tls.as_ref().map_or_else(Vec::new, |tls| {
            vec![
                format!("--cacert={}", tls.ca.display()),
                format!("--cert={}", tls.cert.display()),
                format!("--key={}", tls.key.display()),
            ]
        })
    }

    pub(crate) fn client_scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}
