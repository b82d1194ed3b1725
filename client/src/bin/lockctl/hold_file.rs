//! A hold in a file, between `acquire` and `release`.

use crate::failure::Failure;
use crate::json;
use holdfast_client::{BootClock, Clock as _, Granted, LockId, Token};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A hold as it is printed and written. Times count from when it was printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoldText<'a> {
    acquired: bool,
    name: &'a str,
    /// A bearer secret: absent where it stands in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lock_id: Option<&'a str>,
    pub(crate) fencing_token: u64,
    pub(crate) ttl_ms: u64,
    renew_after_ms: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already_held: bool,
}

impl<'a> HoldText<'a> {
    pub(crate) fn new(name: &'a str, granted: &'a Granted) -> Self {
        let now = BootClock.now();
        let ms = |at: holdfast_client::Instant| {
            u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX)
        };
        Self {
            acquired: true,
            name,
            lock_id: Some(granted.lock_id.as_str()),
            fencing_token: granted.token.0,
            ttl_ms: ms(granted.promise.until),
            renew_after_ms: ms(granted.promise.renew_at),
            already_held: granted.already_held,
        }
    }
}

/// What of it is read: the reply of a gateway will do too.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Held {
    lock_id: String,
    fencing_token: u64,
    /// Absent in a gateway's reply.
    name: Option<String>,
}

impl Held {
    /// Reads a file, or the standard input.
    ///
    /// # Errors
    /// When it cannot be read, or no hold is in it.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let read = match path.as_os_str() == "-" {
            true => std::io::stdin().read_to_string(&mut text).map(drop),
            false => std::fs::read_to_string(path).map(|read| text = read),
        };
        read.map_err(|error| about(path, error))?;
        Self::parse(&text).ok_or_else(|| {
            about(
                path,
                "no hold: wanted is what `lockctl acquire` writes, or prints as JSON",
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn lock_id(&self) -> LockId {
        LockId::new(self.lock_id.as_str())
    }

    pub(crate) fn token(&self) -> Token {
        Token(self.fencing_token)
    }
}

/// A file for a hold, made before the hold is there: a lock whose id is lost can only time out.
pub(crate) struct NewFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl NewFile {
    /// Makes it beside what it is to replace: an earlier hold of this name, or nothing. Only the user can
    /// read it.
    ///
    /// # Errors
    /// When there is no such folder, nothing may be written there, or something else is there already.
    pub(crate) fn create(path: &Path, name: &str) -> Result<Self, Failure> {
        if let Ok(there) = std::fs::read(path) {
            let held = std::str::from_utf8(&there).ok().and_then(Held::parse);
            match held.map(|held| held.name) {
                _ if there.is_empty() => {}
                Some(Some(of)) if of == name => {}
                Some(Some(of)) => {
                    let problem =
                        format!("has the hold of {of}: release that, or name another file");
                    return Err(about(path, problem));
                }
                _ => {
                    return Err(about(
                        path,
                        "is there and has no hold of this name: name another file",
                    ));
                }
            }
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(|error| about(path, error))?,
        })
    }

    /// Writes the hold, in the place of what is there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn keep(mut self, hold: &HoldText<'_>) -> Result<(), Failure> {
        let written = self.file.write_all(json(hold).as_bytes());
        written.map_err(|error| about(&self.path, error))?;
        let kept = self.file.persist(&self.path);
        kept.map(drop)
            .map_err(|error| about(&self.path, error.error))
    }
}

fn about(path: &Path, problem: impl Display) -> Failure {
    Failure::Usage(format!("--hold {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_client::{Instant, Promise};
    use std::os::unix::fs::PermissionsExt as _;

    fn granted() -> Granted {
        Granted {
            lock_id: LockId::new("lock-AQ"),
            token: Token(7),
            promise: Promise {
                until: Instant::ZERO,
                renew_at: Instant::ZERO,
            },
            already_held: false,
        }
    }

    #[test]
    fn a_hold_is_read_back_from_a_file_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hold");
        let granted = granted();
        // The second time it takes the place of an older one.
        for _ in 0..2 {
            let file = NewFile::create(&path, "n").unwrap();
            file.keep(&HoldText::new("n", &granted)).unwrap();
        }
        let held = Held::read(&path).unwrap();
        assert_eq!(
            (held.lock_id(), held.token()),
            (granted.lock_id, granted.token)
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_nothing_came_into_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hold");
        std::fs::write(&path, "").unwrap();
        drop(NewFile::create(&path, "n").unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(NewFile::create(&folder.path().join("no/hold"), "n").is_err());
    }

    #[test]
    fn a_file_with_anything_but_an_earlier_hold_of_the_name_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hold");
        let of_another = json(&HoldText::new("m", &granted()));
        for (text, problem) in [
            ("#!/bin/sh".as_bytes(), "has no hold of"),
            (b"\xff", "has no hold of"),
            (of_another.as_bytes(), "the hold of m"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refused = NewFile::create(&path, "n").err().unwrap();
            assert!(refused.to_string().contains(problem), "{refused}");
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_hold_is_refused_by_name() {
        let file = NamedTempFile::new().unwrap();
        for text in ["", "{}", r#"{"acquired":false,"reason":"held"}"#] {
            std::fs::write(file.path(), text).unwrap();
            let refused = Held::read(file.path()).unwrap_err();
            assert!(refused.to_string().contains("no hold"), "{refused}");
        }
        assert!(Held::read(Path::new("no/such")).is_err());
    }
}
