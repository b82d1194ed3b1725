//! Looks whether the files that a configuration names can be read, and whether the roll is good.

use super::problems::Problems;
use super::{Auth, Config};
use crate::auth::Roll;
use crate::tls::{ClientTls, Inside, ServerTls};
use anyhow::Context as _;
use std::fs::File;
use std::path::Path;

/// Opens each, and reads the roll and the certificates.
pub(super) fn check(config: &Config) -> Result<(), Problems> {
    let home = &config.home;
    let identity = home.identity.as_ref();
    let principals = match &config.auth {
        Auth::None { .. } => None,
        Auth::Known { principals, .. } => Some(principals.as_path()),
    };
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
    if let Some(path) = principals
        && let Err(error) = read_roll(path)
    {
        problems.add("auth.principals_file", format!("{error:#}"));
    }
    check_tls(config, &mut problems);
    problems.or(())
}

fn check_tls(config: &Config, problems: &mut Problems) {
    let peer = config.peer_tls.as_ref();
    let servers = [
        ("tls", config.tls.as_ref(), Inside::Both),
        ("admin_tls", config.admin_tls.as_ref(), Inside::Http1),
        ("peer", peer.map(|(server, _)| server), Inside::Http1),
    ];
    for (place, files, inside) in servers {
        if let Some(files) = files
            && let Err(error) = ServerTls::load(files.clone(), inside)
        {
            problems.add(place, format!("{error:#}"));
        }
    }
    if let Some((_, files)) = peer
        && let Err(error) = ClientTls::load(files.clone())
    {
        problems.add("peer", format!("{error:#}"));
    }
}

/// Reads the roll.
///
/// # Errors
/// When there is none, or one with problems, all of which are told.
pub fn read_roll(path: &Path) -> anyhow::Result<Roll> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
    Roll::parse(&text).map_err(|problems| anyhow::anyhow!("{shown}: {}", problems.join("; ")))
}
