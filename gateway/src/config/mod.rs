//! The configuration: a file and the environment in, validated values out.
//!
//! `source` merges the two (the environment wins) and refuses what is no key; `raw` is what was
//! written, `validate` (with `edge` and `security`) turns it into [`Config`] and gives every default
//! with its reason; `files` reads what it names. Every step collects all problems
//! it finds.

mod check;
mod edge;
mod files;
mod keys;
mod problems;
mod raw;
mod security;
mod source;
mod validate;

pub use files::read_roll;
pub(crate) use files::{home_store, read_peer_secret};
pub use keys::{KEYS, Key, Kind};
pub use problems::{Problem, Problems};

use crate::auth::{AuthMode, Rates};
use crate::files::shown;
use crate::http::EdgeSettings;
use crate::lifecycle::StopPlan;
use crate::time::Millis;
use crate::tls::{ClientFiles, ServerFiles};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// A configuration that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The public listener.
    pub listen: SocketAddr,
    /// The admin listener.
    pub admin_listen: SocketAddr,
    /// The listener for other gateways.
    pub peer_listen: SocketAddr,
    /// Where other gateways reach this one, without a slash at the end. `None`: at the address
    /// that `peer_listen` gets, whose port is any free one.
    pub peer_url: Option<String>,
    /// Keeps the last good shard map. One directory per gateway.
    pub state_dir: PathBuf,
    /// Threads that serve requests; as many others run the engines.
    pub worker_threads: usize,
    /// The cluster that holds the shard map.
    pub home: Home,
    /// TLS on the public listener.
    pub tls: Option<ServerFiles>,
    /// TLS on the admin listener.
    pub admin_tls: Option<ServerFiles>,
    /// TLS between gateways.
    pub peer_tls: Option<(ServerFiles, ClientFiles)>,
    /// How clients prove who they are.
    pub auth: Auth,
    /// Holds what gateways prove each other who they are with.
    pub peer_secret_file: Option<PathBuf>,
    /// What clients may ask for, and how long the edge waits for them.
    pub edge: EdgeSettings,
    /// How many locks each principal may have at this gateway; `None`: any number.
    pub principal_locks_max: Option<NonZeroU32>,
    /// What each principal may ask for in a second.
    pub principal_rates: Rates,
    /// What each address may.
    pub address_rates: Rates,
    /// A session's TTL, in whole seconds.
    pub session_ttl: Millis,
    /// A group lease's TTL, in whole seconds, at least 1.5 × the longest TTL of a lock.
    pub group_ttl: Millis,
    /// How long the phases of a stop may last.
    pub stop: StopPlan,
    /// What is logged, and how.
    pub log: Log,
}

/// The etcd cluster that holds the shard map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// URLs of its members, all `http` or all `https`; at least one.
    pub endpoints: Vec<String>,
    /// The authorities that its members' certificates are checked against; `None`: the system's.
    pub cacert: Option<PathBuf>,
    /// This gateway's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The etcd user and the file with its password.
    pub user: Option<(String, PathBuf)>,
}

/// How clients prove who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Not at all: whoever reaches the listener may do everything.
    None {
        /// Also where others than this machine reach it.
        insecure: bool,
    },
    /// As somebody on the roll.
    Known {
        /// Which credentials count.
        mode: AuthMode,
        /// The file with the roll.
        principals: PathBuf,
    },
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// Which lines, such as `info` or `holdfast_gateway=debug,info`.
    pub filter: String,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Config {
    /// Reads `file` (if there is one) and the environment variables `env`, and validates them.
    ///
    /// # Errors
    /// With every problem that was found.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Problems> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Problems::of(Problem::new(shown(path), error.to_string())))?,
            None => String::new(),
        };
        let config = Self::read(&text, env)?;
        files::check(&config)?;
        Ok(config)
    }

    /// As [`Config::load`], from the text of the file, without a look at other files.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read(text: &str, env: impl Iterator<Item = (String, String)>) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let raw = source::merge(text, env, &mut problems);
        let config = validate::validate(raw, &mut problems);
        problems.or(config)
    }

    /// The configuration in full, as TOML. Secrets are in files, so there are none in it.
    pub fn to_toml(&self) -> String {
        // Strings, numbers, flags and lists of strings always have a form in TOML.
        toml::to_string(&raw::Raw::of(self)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
