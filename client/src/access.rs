//! What a client shows to gateways, and whom it believes: bearer token and TLS.

use crate::target::Target;
use crate::tls::{BadTls, Tls, TlsFiles};
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use std::path::{Path, PathBuf};

/// What goes with every connection and request.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The value of the `Authorization` header.
    pub authorization: Option<HeaderValue>,
    /// Needed for targets that are `https`: without it nothing is sent to them.
    pub tls: Option<Tls>,
}

/// The files that an [`Access`] is made of, as command-line tools are given them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessFiles {
    /// A bearer token; white space around it does not count.
    pub token: Option<PathBuf>,
    /// Certificates and keys.
    pub tls: TlsFiles,
}

/// Why there is no [`Access`].
#[derive(Debug, thiserror::Error)]
pub enum BadAccess {
    /// The token's file cannot be read.
    #[error("{}: {problem}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        problem: std::io::Error,
    },
    /// The token cannot stand in a header.
    #[error("{}: no header can have the characters of this bearer token", .path.display())]
    TokenCharacters {
        /// The file.
        path: PathBuf,
    },
    /// Certificates or keys are not what they should be.
    #[error(transparent)]
    Tls(#[from] BadTls),
    /// Somebody may believe that TLS is spoken.
    #[error("certificates are given, and no target begins with https://")]
    TlsWithoutUse,
}

impl AccessFiles {
    /// Reads the files. Certificates and keys that are replaced later count for connections that
    /// begin then, a token for the next [`Access`]. Blocks on the disk.
    ///
    /// # Errors
    /// When a file is not what it should be, or there are TLS files and nobody to speak TLS with.
    pub fn load(&self, targets: &[Target]) -> Result<Access, BadAccess> {
        let token = self.token.as_deref().map(read_token).transpose()?;
        let tls = match targets.iter().any(Target::is_https) {
            true => Some(Tls::load(&self.tls)?),
            false if self.tls != TlsFiles::default() => return Err(BadAccess::TlsWithoutUse),
            false => None,
        };
        Ok(Access {
            authorization: token,
            tls,
        })
    }
}

/// The `Authorization` header of a bearer token. It is not shown by `Debug`.
///
/// # Errors
/// When the token has characters that no header can have.
pub fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_token(path: &Path) -> Result<HeaderValue, BadAccess> {
    let text = std::fs::read_to_string(path).map_err(|problem| BadAccess::Token {
        path: path.to_owned(),
        problem,
    })?;
    bearer(text.trim()).map_err(|_| BadAccess::TokenCharacters {
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(urls: &[&str]) -> Vec<Target> {
        urls.iter().map(|url| url.parse().unwrap()).collect()
    }

    #[test]
    fn a_token_is_read_without_the_line_that_it_stands_on_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hft_secret\n").unwrap();
        let files = AccessFiles {
            token: Some(file.path().to_owned()),
            ..AccessFiles::default()
        };
        let access = files.load(&targets(&["http://a"])).unwrap();
        assert_eq!(access.authorization.as_ref().unwrap(), "Bearer hft_secret");
        assert!(!format!("{access:?}").contains("secret"));
        std::fs::write(file.path(), "hft\nsecret").unwrap();
        let refused = files.load(&targets(&["http://a"])).unwrap_err();
        assert!(matches!(refused, BadAccess::TokenCharacters { .. }));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let files = AccessFiles {
            token: Some("no/such/token".into()),
            ..AccessFiles::default()
        };
        let refused = files.load(&targets(&["http://a"])).unwrap_err();
        assert!(refused.to_string().starts_with("no/such/token: "));
    }

    #[test]
    fn certificates_that_nobody_would_look_at_are_refused() {
        let files = AccessFiles {
            tls: TlsFiles {
                cacert: Some("ca.pem".into()),
                ..TlsFiles::default()
            },
            ..AccessFiles::default()
        };
        let refused = files.load(&targets(&["http://a"])).unwrap_err();
        assert!(matches!(refused, BadAccess::TlsWithoutUse));
        let refused = files
            .load(&targets(&["http://a", "https://b"]))
            .unwrap_err();
        assert!(refused.to_string().starts_with("ca.pem: "), "{refused}");
    }

    #[test]
    fn without_https_there_is_no_tls() {
        let access = AccessFiles::default().load(&targets(&["http://a"]));
        assert!(access.unwrap().tls.is_none());
    }
}
