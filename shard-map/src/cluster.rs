//! A cluster, as the map describes it.

use crate::limits;
use crate::{ClusterName, Invalid};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// One etcd cluster that carries shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// Its name, unique in the map.
    pub name: ClusterName,
    /// Where its members listen: at least one, and none that another cluster has.
    pub endpoints: Vec<Endpoint>,
    /// What connections to it use beside the system's certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// The file on each gateway's host that holds `NAME:PASSWORD` of its etcd user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<FilePath>,
    /// Its share of the shards, relative to the others'.
    pub weight: Weight,
}

impl Cluster {
    /// A cluster with one share of the shards, reached with the system's certificates and without
    /// credentials.
    pub fn new(name: ClusterName, endpoints: Vec<Endpoint>) -> Self {
        Self {
            name,
            endpoints,
            tls: None,
            credentials_file: None,
            weight: Weight::ONE,
        }
    }

    /// Checks what concerns this cluster alone.
    ///
    /// # Errors
    /// When it has no endpoints or too many, or TLS files that cannot work.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let endpoints_max = limits::ENDPOINTS_MAX;
        if !(1..=endpoints_max).contains(&self.endpoints.len()) {
            return Err(Invalid(format!(
                "has {} endpoints; allowed are 1 to {endpoints_max}",
                self.endpoints.len()
            )));
        }
        let Some(tls) = &self.tls else {
            return Ok(());
        };
        if tls.cert_file.is_some() != tls.key_file.is_some() {
            return Err(Invalid(
                "has only one of certFile and keyFile; a client certificate needs both".into(),
            ));
        }
        match self.endpoints.iter().find(|endpoint| !endpoint.is_tls()) {
            Some(plain) => Err(Invalid(format!(
                "has TLS files, but its endpoint {plain} is not https"
            ))),
            None => Ok(()),
        }
    }
}

/// Files on each gateway's host, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsFiles {
    /// The authorities that the cluster's certificates are checked against; the system's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<FilePath>,
    /// The client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<FilePath>,
    /// The key of that certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<FilePath>,
}

/// Where a member of a cluster listens: `http://host:port` or `https://host:port`, in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint(String);

impl Endpoint {
    /// As a URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether connections are encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// `host:port`: what two endpoints of one member have in common.
    pub fn authority(&self) -> &str {
        self.0
            .split_once("//")
            .map_or("", |(_, authority)| authority)
    }
}

impl FromStr for Endpoint {
    type Err = Invalid;
    fn from_str(url: &str) -> Result<Self, Invalid> {
        let refused = |problem: &str| {
            Err(Invalid(format!(
                "endpoint {url:?} {problem}; expected is http://HOST:PORT or https://HOST:PORT"
            )))
        };
        if url.len() > limits::ENDPOINT_BYTES_MAX {
            return refused("is too long");
        }
        let Ok(uri) = url.parse::<http::Uri>() else {
            return refused("is not a URL");
        };
        let Some(scheme @ ("http" | "https")) = uri.scheme_str() else {
            return refused("is neither http nor https");
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return refused("has no host");
        };
        if authority.as_str().contains('@') {
            return refused("has a user in it");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return refused("has a path or query");
        }
        // etcd's usual port is neither http's nor https's, so a missing one is a mistake.
        match uri.port_u16() {
            Some(port) if port > 0 && !host.is_empty() => Ok(Self(format!(
                "{scheme}://{}:{port}",
                host.to_ascii_lowercase()
            ))),
            _ => refused("names no port (etcd's is 2379)"),
        }
    }
}

impl TryFrom<String> for Endpoint {
    type Error = Invalid;
    fn try_from(url: String) -> Result<Self, Invalid> {
        url.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The path of a file on each gateway's host: absolute, because gateways are started anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePath(String);

impl FilePath {
    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TryFrom<String> for FilePath {
    type Error = Invalid;
    fn try_from(path: String) -> Result<Self, Invalid> {
        let good = Path::new(&path).is_absolute()
            && path.len() <= limits::PATH_BYTES_MAX
            && !path.chars().any(char::is_control);
        if good {
            Ok(Self(path))
        } else {
            Err(Invalid(format!("{path:?} is not an absolute path")))
        }
    }
}

impl From<FilePath> for String {
    fn from(path: FilePath) -> Self {
        path.0
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A cluster's share of the shards, relative to the others': 1 to [`limits::WEIGHT_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    /// The weight of a cluster when nobody says otherwise.
    pub const ONE: Self = Self(1);

    /// As a number, at least 1.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Weight {
    type Error = Invalid;
    fn try_from(weight: u32) -> Result<Self, Invalid> {
        if (1..=limits::WEIGHT_MAX).contains(&weight) {
            Ok(Self(weight))
        } else {
            Err(Invalid(format!(
                "weight {weight}; allowed are 1 to {}",
                limits::WEIGHT_MAX
            )))
        }
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_plain_url_with_a_port() {
        for (url, kept) in [
            ("http://127.0.0.1:2379", "http://127.0.0.1:2379"),
            (
                "https://Etcd-1.Example:2379/",
                "https://etcd-1.example:2379",
            ),
            ("http://[::1]:2379", "http://[::1]:2379"),
        ] {
            assert_eq!(url.parse::<Endpoint>().unwrap().as_str(), kept);
        }
        for bad in [
            "",
            "127.0.0.1:2379",
            "etcd-1",
            "http://etcd-1",
            "http://etcd-1:0",
            "http://etcd-1:65536",
            "http://:2379",
            "ftp://etcd-1:2379",
            "http://u:p@etcd-1:2379",
            "http://etcd-1:2379/v3",
            "http://etcd-1:2379?x=1",
            "http://etcd 1:2379",
        ] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_authority_is_the_same_with_and_without_tls() {
        let authority = |url: &str| url.parse::<Endpoint>().unwrap().authority().to_owned();
        assert_eq!(authority("http://a:1"), "a:1");
        assert_eq!(authority("https://a:1/"), "a:1");
    }

    #[test]
    fn file_paths_are_absolute() {
        assert!(FilePath::try_from("/etc/ca.pem".to_owned()).is_ok());
        for bad in ["", "ca.pem", "./ca.pem", "/etc/\0"] {
            assert!(FilePath::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn weights_are_1_to_a_million() {
        assert_eq!(Weight::try_from(1), Ok(Weight::ONE));
        assert!(Weight::try_from(1_000_000).is_ok());
        assert!(Weight::try_from(0).is_err());
        assert!(Weight::try_from(1_000_001).is_err());
    }
}
