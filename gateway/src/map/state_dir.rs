//! The directory in which a gateway keeps its last good map.

use crate::files::shown;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use shard_map::ShardMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MAP_FILE: &str = "map.json";
const MAP_FILE_BEING_WRITTEN: &str = "map.json.tmp";
const LOCK_FILE: &str = "lock";

/// A directory that this process alone uses, from [`StateDir::open`] until it is dropped or the
/// process ends, however it ends.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Locked while it is open.
    _lock: File,
}

/// Why the directory cannot be used. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Another gateway uses it.
    #[error(
        "{path} is used by another gateway{process}; give each gateway a directory of its own",
        path = shown(path)
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// ` (process 4711)`, where it is known.
        process: String,
    },
    /// It cannot be created, read or written.
    #[error(
        "{path}: {error}; it must be a directory that the gateway may create or write to",
        path = shown(path)
    )]
    Io {
        /// The directory or a file in it.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

impl StateDir {
    /// Looks whether `path` could be opened, and changes nothing. Whether another gateway has it
    /// does not count: that may be the one which is to be started again.
    ///
    /// # Errors
    /// When it, or what it would be created in, is no directory that can be written to, or its lock
    /// file is somebody else's.
    pub fn check(path: &Path) -> Result<(), StateDirError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let failed = |path: &Path, error: io::Error| {
            let path = path.to_owned();
            Err(StateDirError::Io { path, error })
        };
        for place in path.ancestors() {
            match fs::metadata(place) {
                Ok(found) if found.is_dir() => {
                    if let Err(error) = access(place, Access::WRITE_OK | Access::EXEC_OK) {
                        return failed(place, error.into());
                    }
                    break;
                }
                Ok(_) => return failed(place, io::ErrorKind::NotADirectory.into()),
                // It would be created, in what it would be in.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return failed(place, error),
            }
        }
        let lock = path.join(LOCK_FILE);
        match access(&lock, Access::READ_OK | Access::WRITE_OK) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => failed(&lock, error.into()),
        }
    }

    /// Takes the directory, which is created if it does not exist.
    ///
    /// # Errors
    /// When another process has it, or it cannot be written to.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StateDirError> {
        let path = path.into();
        let failed = |path: &Path| {
            let path = path.to_owned();
            |error| StateDirError::Io { path, error }
        };
        fs::create_dir_all(&path).map_err(failed(&path))?;
        let lock_path = path.join(LOCK_FILE);
        let open = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path);
        let mut lock = open.map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let process = holder(&mut lock);
                return Err(StateDirError::InUse { path, process });
            }
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path)(error)),
        }
        let written = lock
            .set_len(0)
            .and_then(|()| write!(lock, "{}", std::process::id()));
        written.map_err(failed(&lock_path))?;
        Ok(Self { path, _lock: lock })
    }

    /// The map that was saved last; `None` if none ever was. Blocks on the disk.
    ///
    /// # Errors
    /// When there is a file, but not with a map.
    pub fn load(&self) -> Result<Option<ShardMap>, String> {
        let path = self.path.join(MAP_FILE);
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let map = ShardMap::from_json(&json);
        map.map(Some)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Saves a map. A crash at any moment leaves this map or the one before. Blocks on the disk.
    ///
    /// # Errors
    /// Names the file that could not be written.
    pub fn save(&self, map: &ShardMap) -> Result<(), String> {
        let path = self.path.join(MAP_FILE_BEING_WRITTEN);
        let named = |error: io::Error| format!("{}: {error}", path.display());
        let mut file = File::create(&path).map_err(named)?;
        file.write_all(&map.to_json()).map_err(named)?;
        // The data before the name: a rename may reach the disk first.
        file.sync_all().map_err(named)?;
        fs::rename(&path, self.path.join(MAP_FILE)).map_err(named)?;
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(named)
    }
}

/// The process that wrote its id into the lock file, in words.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.read_to_string(&mut text) {
        Ok(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!(" (process {text})")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;

    #[test]
    fn the_last_saved_map_is_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/there/yet");
        let state = StateDir::open(&path).unwrap();
        assert_eq!(state.load(), Ok(None));
        state.save(&map(7, 256, 1)).unwrap();
        state.save(&map(7, 256, 2)).unwrap();
        drop(state);
        let state = StateDir::open(&path).unwrap();
        assert_eq!(state.load(), Ok(Some(map(7, 256, 2))));
    }

    #[test]
    fn what_cannot_be_opened_is_found_without_taking_or_making_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/there/yet");
        StateDir::check(&path).unwrap();
        assert!(!folder.path().join("not").exists());
        let state = StateDir::open(&path).unwrap();
        StateDir::check(&path).unwrap();
        drop(state);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for wrong in [file.clone(), file.join("in/it")] {
            let told = StateDir::check(&wrong).unwrap_err().to_string();
            assert!(told.contains(file.to_str().unwrap()), "{told}");
            StateDir::open(&wrong).unwrap_err();
        }
    }

    #[test]
    fn a_directory_that_another_gateway_has_is_refused_and_the_gateway_named() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateDir::open(folder.path()).unwrap();
        let error = StateDir::open(folder.path()).unwrap_err().to_string();
        let process = format!("another gateway (process {})", std::process::id());
        assert!(error.contains(&process), "{error}");
        drop(first);
        assert!(StateDir::open(folder.path()).is_ok());
    }

    #[test]
    fn what_a_crash_left_half_written_does_not_hide_the_map_before() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        state.save(&map(7, 256, 1)).unwrap();
        fs::write(folder.path().join(MAP_FILE_BEING_WRITTEN), b"{\"ver").unwrap();
        assert_eq!(state.load(), Ok(Some(map(7, 256, 1))));
        state.save(&map(7, 256, 2)).unwrap();
        assert_eq!(state.load(), Ok(Some(map(7, 256, 2))));
    }

    #[test]
    fn a_file_that_is_no_map_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        fs::write(folder.path().join(MAP_FILE), b"{}").unwrap();
        let error = state.load().unwrap_err();
        assert!(error.contains("map.json: not a shard map"), "{error}");
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = StateDir::open(&file).unwrap_err().to_string();
        assert!(error.contains("must be a directory"), "{error}");
    }
}
