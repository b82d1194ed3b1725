//! The configuration as it is written.

use super::{Auth, Config, LogFormat};
use crate::auth::PerSecond;
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub(super) listen: Option<String>,
    pub(super) admin_listen: Option<String>,
    pub(super) peer_listen: Option<String>,
    pub(super) peer_url: Option<String>,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) worker_threads: Option<u64>,
    pub(super) home: RawHome,
    pub(super) tls: RawTls,
    pub(super) admin_tls: RawAdminTls,
    pub(super) auth: RawAuth,
    pub(super) peer: RawPeer,
    pub(super) limits: RawLimits,
    pub(super) etcd: RawEtcd,
    pub(super) http: RawHttp,
    pub(super) shutdown: RawShutdown,
    pub(super) log: RawLog,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHome {
    pub(super) endpoints: Vec<String>,
    pub(super) cacert: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTls {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAdminTls {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAuth {
    pub(super) mode: Option<String>,
    pub(super) principals_file: Option<PathBuf>,
    pub(super) insecure: Option<bool>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPeer {
    pub(super) secret_file: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) cacert: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    pub(super) ttl_ms_min: Option<u64>,
    pub(super) ttl_ms_max: Option<u64>,
    pub(super) wait_ms_max: Option<u64>,
    pub(super) connections_max: Option<u64>,
    pub(super) address_connections_max: Option<u64>,
    pub(super) principal_locks_max: Option<u64>,
    pub(super) principal_acquires_per_s: Option<u64>,
    pub(super) principal_renewals_per_s: Option<u64>,
    pub(super) principal_waits_max: Option<u64>,
    pub(super) address_acquires_per_s: Option<u64>,
    pub(super) address_renewals_per_s: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawEtcd {
    pub(super) session_ttl_ms: Option<u64>,
    pub(super) group_ttl_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHttp {
    pub(super) header_timeout_ms: Option<u64>,
    pub(super) body_timeout_ms: Option<u64>,
    pub(super) idle_timeout_ms: Option<u64>,
    pub(super) write_timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawShutdown {
    pub(super) drain_ms: Option<u64>,
    pub(super) hand_over_ms: Option<u64>,
    pub(super) finish_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLog {
    pub(super) format: Option<String>,
    pub(super) filter: Option<String>,
}

impl Raw {
    /// What one would write to get `config`.
    pub(super) fn of(config: &Config) -> Self {
        let (mode, principals_file, insecure) = match &config.auth {
            Auth::None { insecure } => ("none", None, Some(*insecure)),
            Auth::Known { mode, principals } => (mode.as_str(), Some(principals.clone()), None),
        };
        let (bounds, timeouts) = (config.edge.bounds, config.edge.timeouts);
        let rate = |rate: PerSecond| Some(rate.map_or(0, |rate| rate.get().into()));
        let ms = |time: Millis| Some(time.as_ms());
        let (tls, admin_tls) = (config.tls.as_ref(), config.admin_tls.as_ref());
        let peer_tls = config.peer_tls.as_ref();
        let (cert, key) = config.home.identity.clone().unzip();
        let (user, password_file) = config.home.user.clone().unzip();
        Self {
            listen: Some(config.listen.to_string()),
            admin_listen: Some(config.admin_listen.to_string()),
            peer_listen: Some(config.peer_listen.to_string()),
            peer_url: config.peer_url.clone(),
            state_dir: Some(config.state_dir.clone()),
            worker_threads: Some(config.worker_threads as u64),
            home: RawHome {
                endpoints: config.home.endpoints.clone(),
                cacert: config.home.cacert.clone(),
                cert,
                key,
                user,
                password_file,
            },
            tls: RawTls {
                cert: tls.map(|tls| tls.cert.clone()),
                key: tls.map(|tls| tls.key.clone()),
                client_ca: tls.and_then(|tls| tls.client_ca.clone()),
            },
            admin_tls: RawAdminTls {
                cert: admin_tls.map(|tls| tls.cert.clone()),
                key: admin_tls.map(|tls| tls.key.clone()),
            },
            auth: RawAuth {
                mode: Some(mode.to_owned()),
                principals_file,
                insecure,
            },
            peer: RawPeer {
                secret_file: config.peer_secret_file.clone(),
                cert: peer_tls.map(|(server, _)| server.cert.clone()),
                key: peer_tls.map(|(server, _)| server.key.clone()),
                cacert: peer_tls.map(|(_, client)| client.cacert.clone()),
            },
            limits: RawLimits {
                ttl_ms_min: ms(bounds.ttl_min),
                ttl_ms_max: ms(bounds.ttl_max),
                wait_ms_max: ms(bounds.wait_max),
                connections_max: Some(u64::from(config.edge.connections_max.0)),
                address_connections_max: Some(
                    config.edge.address_connections_max.unwrap_or(0).into(),
                ),
                principal_locks_max: rate(config.principal_locks_max),
                principal_acquires_per_s: rate(config.principal_rates.acquires),
                principal_renewals_per_s: rate(config.principal_rates.upkeep),
                principal_waits_max: rate(config.principal_rates.waits),
                address_acquires_per_s: rate(config.address_rates.acquires),
                address_renewals_per_s: rate(config.address_rates.upkeep),
            },
            etcd: RawEtcd {
                session_ttl_ms: ms(config.session_ttl),
                group_ttl_ms: ms(config.group_ttl),
            },
            http: RawHttp {
                header_timeout_ms: ms(timeouts.header),
                body_timeout_ms: ms(timeouts.body),
                idle_timeout_ms: ms(timeouts.idle),
                write_timeout_ms: ms(timeouts.write),
            },
            shutdown: RawShutdown {
                drain_ms: ms(config.stop.drain),
                hand_over_ms: ms(config.stop.hand_over),
                finish_ms: ms(config.stop.finish),
            },
            log: RawLog {
                format: Some(
                    match config.log.format {
                        LogFormat::Auto => "auto",
                        LogFormat::Text => "text",
                        LogFormat::Json => "json",
                    }
                    .to_owned(),
                ),
                filter: Some(config.log.filter.clone()),
            },
        }
    }
}
