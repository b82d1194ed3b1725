//! Where requests go.

use http::{HeaderValue, Uri};
use std::fmt;
use std::str::FromStr;

/// A gateway or a load balancer: `http://host[:port]` or `https://host[:port]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    scheme: Scheme,
    host: Box<str>,
    port: u16,
    authority: HeaderValue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Why a text is not a [`Target`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a target: wanted is http://host[:port] or https://host[:port]")]
pub struct BadTarget(String);

impl Target {
    /// Host and port.
    pub fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The host name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether TLS is spoken there.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Host and port as they were written: the `Host` header.
    pub fn authority(&self) -> HeaderValue {
        self.authority.clone()
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    /// Reads `http://host[:port]` or `https://host[:port]`; the ports are 80 and 443 where none is
    /// given.
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(bad()),
        };
        if uri.path() != "/" || uri.query().is_some() {
            return Err(bad());
        }
        let authority = uri.authority().ok_or_else(bad)?;
        if authority.as_str().contains('@') {
            return Err(bad());
        }
        let host = authority.host();
        Ok(Self {
            scheme,
            host: host.trim_matches(['[', ']']).into(),
            port: authority.port_u16().unwrap_or(scheme.port()),
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| bad())?,
        })
    }
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority.to_str().unwrap_or_default();
        write!(f, "{}://{authority}", self.scheme.as_str())
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
    fn a_target_is_a_scheme_and_an_authority() {
        for (text, address, https) in [
            ("http://127.0.0.1:8080", ("127.0.0.1", 8080), false),
            ("http://gateway/", ("gateway", 80), false),
            ("http://[::1]:8080", ("::1", 8080), false),
            ("https://gateway", ("gateway", 443), true),
            ("https://[::1]:8443/", ("::1", 8443), true),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.address(), target.is_https()), (address, https));
            assert_eq!(target.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn a_target_with_another_scheme_a_path_or_credentials_is_refused() {
        for text in [
            "",
            "127.0.0.1:8080",
            "ftp://gateway",
            "http://gateway/api",
            "http://gateway/?a",
            "http://user@gateway",
            "http://",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text:?}");
        }
    }
}
