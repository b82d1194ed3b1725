//! The roll: the file with the principals. Pure.

use super::rights::Rights;
use super::token::TokenHash;
use crate::limits;
use crate::names::Principal;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The file, as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollFile {
    /// The principals, each a `[[principal]]`.
    #[serde(default)]
    pub principal: Vec<RollEntry>,
}

/// One principal, as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RollEntry {
    /// What it is called in records, logs and metrics.
    pub name: String,
    /// The SHA-256 of each of its tokens, in hexadecimal; several while one is being replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token_sha256: Vec<String>,
    /// Subject alternative names of its certificates, each with its kind: `dns:`, `uri:`, `ip:` or
    /// `email:`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub san: Vec<String>,
    /// Prefixes of the lock names that it may acquire.
    pub acquire: Vec<String>,
    /// Prefixes of those that it may inspect.
    pub inspect: Vec<String>,
    /// Prefixes of those that it may force-release.
    pub admin: Vec<String>,
}

/// A principal and what it may do.
#[derive(Debug)]
pub struct Entry {
    pub(super) principal: Principal,
    pub(super) rights: Arc<Rights>,
}

/// Everybody who is known.
#[derive(Debug)]
pub struct Roll {
    // By a part of the hash; the whole is compared by `TokenHash::is`.
    by_token: HashMap<u64, (TokenHash, Arc<Entry>)>,
    by_san: HashMap<Box<str>, Arc<Entry>>,
    names: HashSet<Box<str>>,
}

impl Roll {
    /// Reads the file.
    ///
    /// # Errors
    /// With every problem, none of which repeats what could be a token: somebody may have written
    /// one where its hash belongs. A roll without a principal is refused too: it is a file that
    /// is being written more often than a wish.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let file: RollFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.bytes()
                    .take(span.start)
                    .filter(|byte| *byte == b'\n')
                    .count()
                    + 1
            });
            vec![format!("line {line}: {}", what_is_wrong(&error))]
        })?;
        let mut roll = Self {
            by_token: HashMap::new(),
            by_san: HashMap::new(),
            names: HashSet::new(),
        };
        let mut problems = Vec::new();
        let count = file.principal.len();
        if count == 0 || count > limits::PRINCIPALS_MAX {
            let max = limits::PRINCIPALS_MAX;
            problems.push(format!("has {count} [[principal]]; allowed are 1 to {max}"));
        }
        for (at, written) in file
            .principal
            .iter()
            .take(limits::PRINCIPALS_MAX)
            .enumerate()
        {
            let mut complain = |text: String| {
                problems.push(format!("[[principal]] number {}: {text}", at + 1));
            };
            if !roll.names.insert(written.name.as_str().into()) {
                complain("name: another has it already".to_owned());
            }
            match read_entry(written) {
                Ok(entry) => roll.add(written, &Arc::new(entry), &mut complain),
                Err(problem) => complain(problem),
            }
        }
        match problems.is_empty() {
            true => Ok(roll),
            false => Err(problems),
        }
    }

    fn add(&mut self, written: &RollEntry, entry: &Arc<Entry>, complain: &mut impl FnMut(String)) {
        for (at, hex) in written.token_sha256.iter().enumerate() {
            let Some(hash) = TokenHash::parse(hex) else {
                complain(format!(
                    "token_sha256, item {}: must be the 64 hexadecimal digits that `gateway token` \
                     or `sha256sum` prints",
                    at + 1
                ));
                continue;
            };
            match self.by_token.entry(hash.place()) {
                Place::Vacant(place) => drop(place.insert((hash, Arc::clone(entry)))),
                Place::Occupied(_) => complain("token_sha256: it is there twice".to_owned()),
            }
        }
        for san in &written.san {
            match self.by_san.entry(san.as_str().into()) {
                Place::Vacant(place) if is_san(san) => drop(place.insert(Arc::clone(entry))),
                Place::Vacant(_) => complain(
                    "san: must begin with dns:, uri:, ip: or email:, in lower case".to_owned(),
                ),
                Place::Occupied(_) => complain("san: it is there twice".to_owned()),
            }
        }
    }

    /// Whether there is a principal of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whose token this is.
    pub(super) fn by_token(&self, token: &[u8]) -> Option<&Arc<Entry>> {
        let hash = TokenHash::of(token);
        let (known, entry) = self.by_token.get(&hash.place())?;
        known.is(hash).then_some(entry)
    }

    /// Whose certificate has this name.
    pub(super) fn by_san(&self, san: &str) -> Option<&Arc<Entry>> {
        self.by_san.get(san)
    }
}

fn is_san(san: &str) -> bool {
    let lower = san
        .strip_prefix("dns:")
        .is_none_or(|name| name.to_ascii_lowercase() == name);
    let kinds = ["dns:", "uri:", "ip:", "email:"];
    lower
        && kinds
            .iter()
            .any(|kind| san.len() > kind.len() && san.starts_with(kind))
}

fn read_entry(written: &RollEntry) -> Result<Entry, String> {
    let principal = Principal::checked(&written.name).map_err(|invalid| invalid.to_string())?;
    let rights = Rights::new(&written.acquire, &written.inspect, &written.admin);
    let rights = rights.map_err(|right| {
        format!(
            "{}: allowed are up to {} prefixes of lock names",
            right.as_str(),
            limits::PREFIXES_MAX
        )
    })?;
    Ok(Entry {
        principal,
        rights: Arc::new(rights),
    })
}

/// The first line of what the parser says, which names keys; values stand in backquotes only where
/// they are of a wrong type.
fn what_is_wrong(error: &toml::de::Error) -> String {
    let message = error.message().lines().next().unwrap_or_default();
    match message.contains("invalid type") || message.contains("invalid value") {
        true => "a value is of a wrong type".to_owned(),
        false => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{BearerToken, Right};

    fn hash(bits: u8) -> String {
        BearerToken::from_random([bits; 32]).hash().to_hex()
    }

    #[test]
    fn a_principal_is_found_by_each_of_its_tokens_and_names() {
        let roll = format!(
            "[[principal]]\nname = \"billing\"\ntoken_sha256 = [\"{}\", \"{}\"]\n\
             acquire = [\"billing/\"]\n\
             [[principal]]\nname = \"ops\"\nsan = [\"uri:spiffe://prod/ops\"]\nadmin = [\"\"]\n",
            hash(1),
            hash(2)
        );
        let roll = Roll::parse(&roll).unwrap();
        for bits in [1, 2] {
            let token = BearerToken::from_random([bits; 32]);
            let entry = roll.by_token(token.reveal().as_bytes()).unwrap();
            assert_eq!(entry.principal.as_str(), "billing");
            assert!(entry.rights.may(Right::Acquire, "billing/1"));
            assert!(!entry.rights.may(Right::Inspect, "billing/1"));
        }
        assert!(roll.by_token(b"hft_other").is_none());
        let ops = roll.by_san("uri:spiffe://prod/ops").unwrap();
        assert!(ops.rights.may(Right::Admin, "billing/1"));
        assert!(roll.by_san("uri:spiffe://prod").is_none());
    }

    #[test]
    fn every_problem_of_a_roll_is_told_and_no_token_is_repeated() {
        let one = hash(1);
        for (text, told) in [
            ("", "has 0 [[principal]]"),
            ("[[principal]]\n", "name: is empty"),
            (
                "[[principal]]\nname = \"a\"\n[[principal]]\nname = \"a\"\n",
                "number 2: name: another",
            ),
            (
                "[[principal]]\nname = \"a\"\ntokens = [\"hft_secret\"]\n",
                "unknown field",
            ),
            (
                "[[principal]]\nname = \"a\"\ntoken_sha256 = \"hft_secret\"\n",
                "line 3: a value",
            ),
            (
                "[[principal]]\nname = \"a\"\ntoken_sha256 = [\"hft_secret\"]\n",
                "item 1: must be",
            ),
            (
                "[[principal]]\nname = \"a\"\nacquire = [\"a\\u0000\"]\n",
                "acquire: allowed",
            ),
            (
                "[[principal]]\nname = \"a\"\nsan = [\"dns:s\", \"dns:s\"]\n",
                "san: it is there twice",
            ),
            ("[[principal]\n", "line 1: "),
            (
                &format!("[[principal]]\nname = \"a\"\ntoken_sha256 = [\"{one}\", \"{one}\"]"),
                "twice",
            ),
        ] {
            let problems = Roll::parse(text).unwrap_err().join("\n");
            assert!(problems.contains(told), "{text}: {problems}");
            assert!(!problems.contains("secret"), "{problems}");
        }
    }
}
