//! Ports that nobody else takes between the choice and the use.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Where ports are looked for: below Linux's range for outgoing connections, because there a
/// client that dials a port nobody listens on may be given that very port and reach itself.
const PORTS: Range<u16> = 20_000..32_000;

/// Lock files of the ports handed out, held until the process ends. A member that is down between
/// kill and restart keeps its port by them.
static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A loopback port on which nothing listens, and that no other process using the rig is given
/// before this one ends.
///
/// # Errors
/// When the lock files cannot be written or no port is left.
pub fn free_port() -> Result<u16> {
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("holdfast-rig-ports-{user}"));
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let (port, lock) = reserve(&folder)?;
    RESERVED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(lock);
    Ok(port)
}

/// The port is the caller's until the file is closed, in this process too.
fn reserve(folder: &Path) -> Result<(u16, File)> {
    for port in PORTS {
        let path = folder.join(port.to_string());
        let lock = File::create(&path).with_context(|| format!("{}", path.display()))?;
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok((port, lock));
        }
    }
    bail!("no free port between {} and {}", PORTS.start, PORTS.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_reserved_again_before_its_lock_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (first, lock) = reserve(folder.path()).unwrap();
        let (second, _lock) = reserve(folder.path()).unwrap();
        assert_ne!(first, second);
        drop(lock);
        assert!(reserve(folder.path()).unwrap().0 <= first);
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_reserved() {
        let folder = tempfile::tempdir().unwrap();
        let (port, lock) = reserve(folder.path()).unwrap();
        drop(lock);
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_ne!(reserve(folder.path()).unwrap().0, port);
    }
}
