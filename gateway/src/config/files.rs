//! Reads the files that a configuration names. A gateway that starts reads them by the same
//! functions, so that what it would refuse is found without starting it.

use super::problems::Problems;
use super::{Auth, Config, Home};
use crate::auth::Roll;
use crate::files::{read, read_text, shown};
use crate::map::StateDir;
use crate::peer::PeerSecret;
use crate::tls::{ClientTls, Inside, ServerTls};
use anyhow::Context as _;
use holdfast_store::EtcdStore;
use holdfast_store::etcd::{Credentials, EtcdConfig, EtcdTls, TlsIdentity};
use std::path::Path;

/// Reads each, and looks at the state directory without taking or making it.
pub(super) fn check(config: &Config) -> Result<(), Problems> {
    let mut problems = Problems::default();
    let mut note = |place: &str, outcome: anyhow::Result<()>| {
        if let Err(error) = outcome {
            problems.add(place, format!("{error:#}"));
        }
    };
    note(
        "state_dir",
        StateDir::check(&config.state_dir).map_err(Into::into),
    );
    if let Some(path) = &config.peer_secret_file {
        note("peer.secret_file", read_peer_secret(path).map(drop));
    }
    if let Auth::Known { principals, .. } = &config.auth {
        note("auth.principals_file", read_roll(principals).map(drop));
    }
    check_home(&config.home, &mut problems);
    check_tls(config, &mut problems);
    problems.or(())
}

/// Files that cannot be read are told by their keys; then whether what is in them fits.
fn check_home(home: &Home, problems: &mut Problems) {
    let identity = home.identity.as_ref();
    let named: [(&str, Option<&Path>); 4] = [
        ("home.cacert", home.cacert.as_deref()),
        ("home.cert", identity.map(|(cert, _)| cert.as_path())),
        ("home.key", identity.map(|(_, key)| key.as_path())),
        (
            "home.password_file",
            home.user.as_ref().map(|(_, file)| file.as_path()),
        ),
    ];
    let mut all_read = true;
    for (place, path) in named {
        if let Some(path) = path
            && let Err(error) = read(path)
        {
            problems.add(place, format!("{error:#}"));
            all_read = false;
        }
    }
    if all_read && let Err(error) = home_store(home) {
        problems.add("home", format!("{error:#}"));
    }
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
    let text = read_text(path)?;
    Roll::parse(&text)
        .map_err(|problems| anyhow::anyhow!("{}: {}", shown(path), problems.join("; ")))
}

/// Reads the secret of the deployment's gateways.
///
/// # Errors
/// When it cannot be read or is too short.
pub(crate) fn read_peer_secret(path: &Path) -> anyhow::Result<PeerSecret> {
    PeerSecret::from_file(&read(path)?).with_context(|| shown(path))
}

/// The store of home, which connects to nothing yet.
///
/// # Errors
/// When a file cannot be read, or what is in it does not fit.
pub(crate) fn home_store(home: &Home) -> anyhow::Result<EtcdStore> {
    let mut config = EtcdConfig::new(home.endpoints.iter().cloned());
    if home.cacert.is_some() || home.identity.is_some() {
        let identity = home.identity.as_ref().map(|(cert, key)| {
            anyhow::Ok(TlsIdentity {
                cert_pem: read(cert)?,
                key_pem: read(key)?,
            })
        });
        config.tls = Some(EtcdTls {
            ca_pem: home.cacert.as_deref().map(read).transpose()?,
            identity: identity.transpose()?,
            domain_name: None,
        });
    }
    if let Some((user, password_file)) = &home.user {
        let password = read_text(password_file)?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        config.credentials = Some(Credentials {
            user: user.clone(),
            password,
        });
    }
    Ok(EtcdStore::connect(config)?)
}
