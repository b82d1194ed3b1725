//! What a principal may do, by lock name. Pure.

use crate::limits;

/// What somebody may do with a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Acquire it, and renew and release the own hold.
    Acquire,
    /// See who holds it.
    Inspect,
    /// End somebody else's hold.
    Admin,
}

/// The prefixes of the lock names on which a principal has each right. The empty prefix is every
/// name; no prefix is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    acquire: Vec<Box<str>>,
    inspect: Vec<Box<str>>,
    admin: Vec<Box<str>>,
}

impl Right {
    /// As the roll calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Inspect => "inspect",
            Self::Admin => "admin",
        }
    }
}

impl Rights {
    /// Rights on the names that begin so.
    ///
    /// # Errors
    /// With the right that has more prefixes than [`limits::PREFIXES_MAX`], or one that no name
    /// can begin with.
    pub fn new(acquire: &[String], inspect: &[String], admin: &[String]) -> Result<Self, Right> {
        let checked = |right, prefixes: &[String]| {
            let good = |prefix: &String| {
                prefix.len() <= limits::NAME_BYTES_MAX && !prefix.chars().any(char::is_control)
            };
            if prefixes.len() > limits::PREFIXES_MAX || !prefixes.iter().all(good) {
                return Err(right);
            }
            Ok(prefixes
                .iter()
                .map(|prefix| prefix.as_str().into())
                .collect())
        };
        Ok(Self {
            acquire: checked(Right::Acquire, acquire)?,
            inspect: checked(Right::Inspect, inspect)?,
            admin: checked(Right::Admin, admin)?,
        })
    }

    /// Whether it has this right on this name.
    pub fn may(&self, right: Right, name: &str) -> bool {
        self.prefixes(right)
            .iter()
            .any(|prefix| name.starts_with(&**prefix))
    }

    fn prefixes(&self, right: Right) -> &[Box<str>] {
        match right {
            Right::Acquire => &self.acquire,
            Right::Inspect => &self.inspect,
            Right::Admin => &self.admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(all: &[&str]) -> Vec<String> {
        all.iter().map(|prefix| (*prefix).to_owned()).collect()
    }

    #[test]
    fn a_right_reaches_as_far_as_its_prefixes() {
        let rights = Rights::new(&prefixes(&["billing/", "x"]), &prefixes(&[""]), &[]).unwrap();
        for (right, name, may) in [
            (Right::Acquire, "billing/1", true),
            (Right::Acquire, "billing/", true),
            (Right::Acquire, "x", true),
            (Right::Acquire, "xy", true),
            (Right::Acquire, "billing", false),
            (Right::Acquire, "Billing/1", false),
            (Right::Inspect, "anything", true),
            (Right::Admin, "billing/1", false),
        ] {
            assert_eq!(rights.may(right, name), may, "{right:?} {name}");
        }
    }

    #[test]
    fn prefixes_that_no_name_can_begin_with_and_too_many_are_refused() {
        let many = vec![String::new(); limits::PREFIXES_MAX + 1];
        let long = vec!["n".repeat(limits::NAME_BYTES_MAX + 1)];
        assert_eq!(Rights::new(&many, &[], &[]), Err(Right::Acquire));
        assert_eq!(Rights::new(&[], &long, &[]), Err(Right::Inspect));
        assert_eq!(
            Rights::new(&[], &[], &prefixes(&["a\0"])),
            Err(Right::Admin)
        );
    }
}
