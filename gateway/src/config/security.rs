//! Who may in, and how connections are protected. Pure.

use super::Auth;
use super::check::both;
use super::problems::Problems;
use super::raw::{RawAdminTls, RawAuth, RawPeer, RawTls};
use crate::auth::AuthMode;
use crate::tls::{ClientFiles, ServerFiles};
use std::net::SocketAddr;

/// Clients are asked for certificates where those count. `auth` is `None` when it is not known how
/// clients are to prove who they are; then nothing can be said against `client_ca`.
pub(super) fn tls(
    raw: RawTls,
    auth: Option<&Auth>,
    problems: &mut Problems,
) -> Option<ServerFiles> {
    let own = both(("tls.cert", "tls.key"), (raw.cert, raw.key), problems);
    let (wanted, needed) = match auth? {
        Auth::None { .. } => (false, false),
        Auth::Known { mode, .. } => mode.client_certificates(),
    };
    if wanted && raw.client_ca.is_none() {
        let text = "is needed: the authorities of the clients' certificates, for this auth.mode";
        problems.add("tls.client_ca", text);
    }
    if raw.client_ca.is_some() && !wanted {
        let text = "is of use only with auth.mode = \"mtls\" or \"tokens_or_mtls\"";
        problems.add("tls.client_ca", text);
    }
    if own.is_none() && (wanted || raw.client_ca.is_some()) {
        problems.add(
            "tls.cert",
            "is needed, with tls.key: certificates are shown over TLS",
        );
    }
    let (cert, key) = own?;
    Some(ServerFiles {
        cert,
        key,
        client_ca: raw.client_ca,
        client_cert_needed: needed,
    })
}

pub(super) fn admin_tls(raw: RawAdminTls, problems: &mut Problems) -> Option<ServerFiles> {
    let places = ("admin_tls.cert", "admin_tls.key");
    let (cert, key) = both(places, (raw.cert, raw.key), problems)?;
    Some(ServerFiles {
        cert,
        key,
        client_ca: None,
        client_cert_needed: false,
    })
}

/// Each gateway shows its certificate where it listens and where it dials, and checks those of the
/// others.
pub(super) fn peer_tls(
    raw: &RawPeer,
    problems: &mut Problems,
) -> Option<(ServerFiles, ClientFiles)> {
    let own = (raw.cert.clone(), raw.key.clone());
    let own = both(("peer.cert", "peer.key"), own, problems);
    let places = ("peer.cert", "peer.cacert");
    let ((cert, key), cacert) = both(places, (own, raw.cacert.clone()), problems)?;
    let server = ServerFiles {
        cert: cert.clone(),
        key: key.clone(),
        client_ca: Some(cacert.clone()),
        client_cert_needed: true,
    };
    Some((server, ClientFiles { cacert, cert, key }))
}

/// Whether there is to be TLS between gateways, be it complete or not.
pub(super) fn names_certificates(raw: &RawPeer) -> bool {
    raw.cert.is_some() || raw.key.is_some() || raw.cacert.is_some()
}

/// There is no default: that nobody proves who they are must be said. `None` if nothing was that is
/// known.
pub(super) fn auth(raw: RawAuth, listen: SocketAddr, problems: &mut Problems) -> Option<Auth> {
    let insecure = raw.insecure.unwrap_or(false);
    let mode = raw.mode.as_deref();
    if let Some(mode) = mode.and_then(AuthMode::of) {
        if insecure {
            problems.add("auth.insecure", "is of use only with auth.mode = \"none\"");
        }
        if raw.principals_file.is_none() {
            let text = "is needed: the file with the principals; `gateway token --help` shows one";
            problems.add("auth.principals_file", text);
        }
        let principals = raw.principals_file.unwrap_or_default();
        return Some(Auth::Known { mode, principals });
    }
    if raw.principals_file.is_some() && mode == Some("none") {
        let text = "is of no use with this auth.mode";
        problems.add("auth.principals_file", text);
    }
    match mode {
        Some("none") if insecure || listen.ip().is_loopback() => {}
        Some("none") => problems.add(
            "auth.mode",
            "\"none\" is allowed only with `listen` on loopback, or with auth.insecure = true",
        ),
        Some(_) => problems.add(
            "auth.mode",
            "allowed are \"none\", \"tokens\", \"mtls\" and \"tokens_or_mtls\"",
        ),
        None => problems.add(
            "auth.mode",
            "is needed: \"tokens\"; or \"none\", which lets everybody who reaches `listen` do \
             everything",
        ),
    }
    (mode == Some("none")).then_some(Auth::None { insecure })
}
