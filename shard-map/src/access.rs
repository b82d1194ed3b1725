//! How a cluster is reached: the files that the map refers to, read.

use crate::{Cluster, Endpoint, FilePath, TlsFiles};
use holdfast_store::etcd::{Credentials, EtcdConfig, EtcdTls, TlsIdentity};
use std::path::PathBuf;

/// Why a cluster's files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A file that cannot be read.
    #[error("{path}: {problem}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        problem: String,
    },
    /// A credentials file that does not hold `NAME:PASSWORD`.
    #[error("{path}: expected is one line, NAME:PASSWORD", path = path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
    },
}

impl Cluster {
    /// The cluster's connection settings, with the files that the map refers to read from this
    /// host. Settings beside endpoints, TLS and credentials have their defaults. Blocks on the disk.
    ///
    /// # Errors
    /// When a file is not there or is not what it should be.
    pub fn etcd_config(&self) -> Result<EtcdConfig, AccessError> {
        let credentials = self.credentials_file.as_ref();
        let credentials = credentials.map(read_credentials).transpose()?;
        etcd_config(&self.endpoints, self.tls.as_ref(), credentials)
    }
}

/// Connection settings for these endpoints; the TLS files are read from this host. Blocks on the
/// disk.
///
/// # Errors
/// When a file cannot be read.
pub fn etcd_config(
    endpoints: &[Endpoint],
    tls: Option<&TlsFiles>,
    credentials: Option<Credentials>,
) -> Result<EtcdConfig, AccessError> {
    let read = |file: &Option<FilePath>| file.as_ref().map(read_file).transpose();
    let tls = match tls {
        None => None,
        Some(files) => {
            let identity = read(&files.cert_file)?.zip(read(&files.key_file)?);
            Some(EtcdTls {
                ca_pem: read(&files.ca_file)?,
                identity: identity.map(|(cert_pem, key_pem)| TlsIdentity { cert_pem, key_pem }),
                domain_name: None,
            })
        }
    };
    Ok(EtcdConfig {
        tls,
        credentials,
        ..EtcdConfig::new(endpoints.iter().map(Endpoint::as_str))
    })
}

/// The etcd user in a credentials file: one line, `NAME:PASSWORD`.
///
/// # Errors
/// When the file cannot be read, or does not hold that.
pub fn read_credentials(file: &FilePath) -> Result<Credentials, AccessError> {
    let text = String::from_utf8(read_file(file)?).ok();
    let parsed = text.as_deref().and_then(parse_credentials);
    parsed.ok_or_else(|| AccessError::Credentials {
        path: file.as_path().to_owned(),
    })
}

/// The etcd user in `NAME:PASSWORD`, which may end with a line break; `None` if it is not that.
pub fn parse_credentials(text: &str) -> Option<Credentials> {
    let line = text.strip_suffix('\n').unwrap_or(text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let (user, password) = line.split_once(':')?;
    let good = !user.is_empty() && !password.is_empty() && !line.contains('\n');
    good.then(|| Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

fn read_file(file: &FilePath) -> Result<Vec<u8>, AccessError> {
    std::fs::read(file.as_path()).map_err(|error| AccessError::Read {
        path: file.as_path().to_owned(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weight;

    #[test]
    fn credentials_are_one_line_with_a_colon() {
        for good in ["root:p:w", "root:p:w\n", "root:p:w\r\n"] {
            let read = parse_credentials(good).unwrap();
            assert_eq!(
                (read.user.as_str(), read.password.as_str()),
                ("root", "p:w")
            );
        }
        for bad in ["", "root", "root:", ":pw", "root:pw\nmore\n", "\n"] {
            assert!(parse_credentials(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_files_that_the_map_refers_to_are_read_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = folder.path().join(name).to_str().unwrap().to_owned();
            FilePath::try_from(path).unwrap()
        };
        std::fs::write(path("ca.pem").as_path(), "CA").unwrap();
        std::fs::write(path("user").as_path(), "root:pw\n").unwrap();
        let mut cluster = Cluster {
            name: "a".parse().unwrap(),
            endpoints: vec!["https://a:2379".parse().unwrap()],
            tls: Some(TlsFiles {
                ca_file: Some(path("ca.pem")),
                ..TlsFiles::default()
            }),
            credentials_file: Some(path("user")),
            weight: Weight::ONE,
        };
        let config = cluster.etcd_config().unwrap();
        assert_eq!(config.endpoints, ["https://a:2379"]);
        assert_eq!(config.tls.unwrap().ca_pem.unwrap(), b"CA");
        assert_eq!(config.credentials.unwrap().user, "root");

        cluster.credentials_file = Some(path("gone"));
        let error = cluster.etcd_config().unwrap_err().to_string();
        assert!(error.contains("gone"), "{error}");
    }
}
