//! Which etcd versions can be relied upon.

use std::fmt;
use std::str::FromStr;

/// The version of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtcdVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl EtcdVersion {
    /// Whether it is one that Holdfast relies upon: 3.5 from 3.5.14 on, and 3.6. In older ones a
    /// leader that was demoted goes on answering queries about leases.
    pub fn is_supported(self) -> bool {
        self.major == 3 && (self.minor > 5 || (self.minor == 5 && self.patch >= 14))
    }
}

impl FromStr for EtcdVersion {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '.').map(|part| {
            let digits = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..digits].parse::<u16>()
        });
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => Ok(Self {
                major,
                minor,
                patch,
            }),
            _ => Err(format!("{text:?} is not a version of etcd")),
        }
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_supported_begins_with_3_5_14() {
        for (version, supported) in [
            ("3.4.23", false),
            ("3.5.13", false),
            ("3.5.14", true),
            ("3.5.16", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", false),
        ] {
            let version: EtcdVersion = version.parse().unwrap();
            assert_eq!(version.is_supported(), supported, "{version}");
        }
        assert!("three".parse::<EtcdVersion>().is_err());
        assert!("3.5".parse::<EtcdVersion>().is_err());
    }
}
