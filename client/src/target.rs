//! Where requests go.

use http::{HeaderValue, Uri};
use std::fmt;
use std::str::FromStr;

/// A gateway or a load balancer: `http://host[:port]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    host: Box<str>,
    port: u16,
    authority: HeaderValue,
}

/// Why a text is not a [`Target`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a target: wanted is http://host[:port]")]
pub struct BadTarget(String);

impl Target {
    /// Host and port.
    pub fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(crate) fn authority(&self) -> HeaderValue {
        self.authority.clone()
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    /// Reads `http://host[:port]`. TLS is not spoken: `https` is refused.
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        if uri.scheme_str() != Some("http") || uri.path() != "/" || uri.query().is_some() {
            return Err(bad());
        }
        let authority = uri.authority().ok_or_else(bad)?;
        if authority.as_str().contains('@') {
            return Err(bad());
        }
        let host = authority.host();
        Ok(Self {
            host: host.trim_matches(['[', ']']).into(),
            port: authority.port_u16().unwrap_or(80),
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| bad())?,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority.to_str().unwrap_or_default())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_plain_http_authority() {
        for (text, address) in [
            ("http://127.0.0.1:8080", ("127.0.0.1", 8080)),
            ("http://gateway/", ("gateway", 80)),
            ("http://[::1]:8080", ("::1", 8080)),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.address(), address);
            assert_eq!(target.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn a_target_with_tls_a_path_or_credentials_is_refused() {
        for text in [
            "",
            "127.0.0.1:8080",
            "https://gateway",
            "http://gateway/api",
            "http://gateway/?a",
            "http://user@gateway",
            "http://",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text:?}");
        }
    }
}
