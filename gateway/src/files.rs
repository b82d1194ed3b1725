//! Files that an operator names. A path that is not absolute counts from the working directory, and
//! errors show the whole of it: which file was tried must not be a guess.

use anyhow::Context as _;
use std::path::Path;

/// The whole path, for errors.
pub(crate) fn shown(path: &Path) -> String {
    // An empty path, or one in a working directory that is gone, is shown as it is written.
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.display().to_string()
}

/// What is in the file.
///
/// # Errors
/// When it cannot be read; the error names the file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| shown(path))
}

/// As [`read`], for a file of text.
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| shown(path))
}
