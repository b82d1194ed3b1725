//! What clients name: locks, themselves, their requests. Validated where they are made.

use crate::limits;
use compact_str::CompactString;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// Why a piece of client input is refused; the text says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field, as it is called on the wire.
    pub field: &'static str,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

/// What is locked: UTF-8, 1 to 512 bytes, no control characters, compared byte for byte.
///
/// Up to 24 bytes are held inline: a renewal that compares the name of a slot then misses the
/// cache once, not twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(CompactString);

/// Who asks: 1 to 256 bytes of UTF-8, chosen by the client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientId(Box<str>);

/// One request of a client: 1 to 128 bytes of UTF-8, chosen by the client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

/// Who is behind the credentials of a request: 1 to 256 bytes of UTF-8, named by the
/// configuration.
#[derive(Clone)]
pub struct Principal {
    // Shared: a renewal carries a copy, and must not allocate.
    name: Arc<str>,
    tag: PrincipalTag,
}

/// What a principal is recognised by where its name would take too much room: 64 bits of the
/// SHA-256 of the name, or none.
///
/// Names are given by the configuration, not by those who bear them, so nobody can look for two
/// with the same tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PrincipalTag(u64);

impl LockName {
    /// Checks a name.
    ///
    /// # Errors
    /// When it is empty, longer than [`limits::NAME_BYTES_MAX`], or has control characters.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        Self::check(name)?;
        Ok(Self(name.into()))
    }

    /// The check of [`LockName::new`], without a copy.
    ///
    /// # Errors
    /// As [`LockName::new`].
    pub fn check(name: &str) -> Result<(), Invalid> {
        check_text("name", name, limits::NAME_BYTES_MAX)
    }
}

impl ClientId {
    /// Checks a client id.
    ///
    /// # Errors
    /// When it is empty, longer than [`limits::CLIENT_ID_BYTES_MAX`], or has control characters.
    pub fn new(id: &str) -> Result<Self, Invalid> {
        check_text("clientId", id, limits::CLIENT_ID_BYTES_MAX)?;
        Ok(Self(id.into()))
    }
}

impl RequestId {
    /// Checks a request id.
    ///
    /// # Errors
    /// When it is empty, longer than [`limits::REQUEST_ID_BYTES_MAX`], or has control characters.
    pub fn new(id: &str) -> Result<Self, Invalid> {
        check_text("requestId", id, limits::REQUEST_ID_BYTES_MAX)?;
        Ok(Self(id.into()))
    }
}

impl Principal {
    /// A principal, as the authentication names it.
    pub fn new(name: &str) -> Self {
        Self {
            tag: PrincipalTag::of_name(name),
            name: name.into(),
        }
    }

    /// Checks a name that the configuration gives.
    ///
    /// # Errors
    /// When it is empty, longer than [`limits::PRINCIPAL_BYTES_MAX`], or has control characters.
    pub fn checked(name: &str) -> Result<Self, Invalid> {
        check_text("name", name, limits::PRINCIPAL_BYTES_MAX)?;
        Ok(Self::new(name))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The same, in memory of its own: threads that copy one at the same time wait for each other.
    pub fn unshared(&self) -> Self {
        Self {
            name: Arc::from(&*self.name),
            tag: self.tag,
        }
    }

    /// Whether what `owner` holds is this one's to renew and release.
    ///
    /// A hold that was taken where nobody proves who they are belongs to whoever has its lock id;
    /// and where nobody does, everybody may do everything. So switching the authentication on or
    /// off, gateway by gateway, loses no hold.
    pub fn may_touch(asker: Option<&Self>, owner: Option<&str>) -> bool {
        match (asker, owner) {
            (Some(asker), Some(owner)) => *asker.name == *owner,
            _ => true,
        }
    }
}

impl PrincipalTag {
    /// Nobody in particular.
    pub const NONE: Self = Self(0);

    /// The tag of this principal.
    pub fn of(principal: Option<&Principal>) -> Self {
        principal.map_or(Self::NONE, |principal| principal.tag)
    }

    /// The tag of the principal of this name.
    pub fn of_name(name: &str) -> Self {
        let digest = Sha256::digest(name.as_bytes());
        let bytes = digest.first_chunk().copied().unwrap_or_default();
        Self(u64::from_be_bytes(bytes).max(1))
    }

    /// As [`Principal::may_touch`], where the owner is known by its tag.
    pub fn may_touch(self, owner: Self) -> bool {
        self == owner || self == Self::NONE || owner == Self::NONE
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Principal {}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.name)
    }
}

pub(crate) fn check_text(field: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    let problem = if text.is_empty() {
        format!("is empty; allowed are 1 to {bytes_max} bytes of UTF-8")
    } else if text.len() > bytes_max {
        format!(
            "has {} bytes; allowed are 1 to {bytes_max} bytes of UTF-8",
            text.len()
        )
    } else if text.chars().any(char::is_control) {
        "has a control character; allowed is any other UTF-8".to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid { field, problem })
}

macro_rules! text {
    ($($name:ident),*) => {$(
        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
    )*};
}
text!(LockName, ClientId, RequestId);

/// The fencing token of a grant: per name strictly increasing, below 2^53 so that a JSON number
/// carries it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u64);

impl Token {
    /// The first number that is too large for a token.
    pub const END: u64 = 1 << 53;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_its_principals_alone_and_nobodys_hold_is_everybodys() {
        let (one, other) = (Principal::new("billing"), Principal::new("shipping"));
        for (asker, owner, may) in [
            (Some(&one), Some(&one), true),
            (Some(&one), Some(&other), false),
            (Some(&one), None, true),
            (None, Some(&one), true),
            (None, None, true),
        ] {
            let name = owner.map(Principal::as_str);
            assert_eq!(Principal::may_touch(asker, name), may);
            let tag = PrincipalTag::of(owner);
            assert_eq!(PrincipalTag::of(asker).may_touch(tag), may);
        }
    }

    #[test]
    fn names_are_utf8_of_1_to_512_bytes_without_control_characters() {
        let longest = "n".repeat(limits::NAME_BYTES_MAX);
        for good in [
            "a",
            "process_order:42",
            "ünï/%2F cödé",
            " ",
            longest.as_str(),
        ] {
            assert!(LockName::new(good).is_ok(), "{good:?}");
        }
        let too_long = "n".repeat(limits::NAME_BYTES_MAX + 1);
        for bad in ["", "a\0b", "tab\t", "\u{7f}", "\u{85}", too_long.as_str()] {
            assert!(LockName::new(bad).is_err(), "{bad:?}");
        }
    }
}
