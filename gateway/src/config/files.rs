//! Looks whether the files that a configuration names can be read.

use super::Config;
use super::problems::Problems;
use std::fs::File;
use std::path::Path;

/// Opens each, and reads none.
pub(super) fn check(config: &Config) -> Result<(), Problems> {
    let home = &config.home;
    let identity = home.identity.as_ref();
    let named: [(&str, Option<&Path>); 5] = [
        ("home.cacert", home.cacert.as_deref()),
        ("home.cert", identity.map(|(cert, _)| cert.as_path())),
        ("home.key", identity.map(|(_, key)| key.as_path())),
        (
            "home.password_file",
            home.user.as_ref().map(|(_, file)| file.as_path()),
        ),
        ("peer.secret_file", config.peer_secret_file.as_deref()),
    ];
    let mut problems = Problems::default();
    for (place, path) in named {
        if let Some(path) = path
            && let Err(error) = File::open(path)
        {
            problems.add(place, format!("{}: {error}", path.display()));
        }
    }
    problems.or(())
}
