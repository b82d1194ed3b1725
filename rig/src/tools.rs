//! Where the programs are.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The path of a program under the workspace's `.tools/` folder, such as `etcd-3.5/bin/etcd`.
///
/// # Errors
/// When it is not there; the error says how to get it.
pub fn tool(relative: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.tools")
        .join(relative);
    if !path.is_file() {
        bail!("{relative} is missing in .tools/: run `make tools`");
    }
    Ok(path)
}
