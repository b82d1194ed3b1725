//! Every key, its type, and the environment variable that overrides it.

/// What a key's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A whole number, not negative.
    Whole,
    /// `true` or `false`.
    Flag,
    /// A list of strings; in a variable, separated by commas.
    List,
}

/// A key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its place in the file, such as `home.endpoints`.
    pub path: &'static str,
    /// What its value is.
    pub kind: Kind,
}

/// Every key there is.
pub const KEYS: &[Key] = &[
    key("listen", Kind::Text),
    key("admin_listen", Kind::Text),
    key("peer_listen", Kind::Text),
    key("peer_url", Kind::Text),
    key("state_dir", Kind::Text),
    key("worker_threads", Kind::Whole),
    key("home.endpoints", Kind::List),
    key("home.cacert", Kind::Text),
    key("home.cert", Kind::Text),
    key("home.key", Kind::Text),
    key("home.user", Kind::Text),
    key("home.password_file", Kind::Text),
    key("tls.cert", Kind::Text),
    key("tls.key", Kind::Text),
    key("tls.client_ca", Kind::Text),
    key("admin_tls.cert", Kind::Text),
    key("admin_tls.key", Kind::Text),
    key("auth.mode", Kind::Text),
    key("auth.principals_file", Kind::Text),
    key("auth.insecure", Kind::Flag),
    key("peer.secret_file", Kind::Text),
    key("peer.cert", Kind::Text),
    key("peer.key", Kind::Text),
    key("peer.cacert", Kind::Text),
    key("limits.ttl_ms_min", Kind::Whole),
    key("limits.ttl_ms_max", Kind::Whole),
    key("limits.wait_ms_max", Kind::Whole),
    key("limits.connections_max", Kind::Whole),
    key("limits.address_connections_max", Kind::Whole),
    key("limits.principal_locks_max", Kind::Whole),
    key("limits.principal_acquires_per_s", Kind::Whole),
    key("limits.principal_renewals_per_s", Kind::Whole),
    key("limits.principal_waits_max", Kind::Whole),
    key("limits.address_acquires_per_s", Kind::Whole),
    key("limits.address_renewals_per_s", Kind::Whole),
    key("etcd.session_ttl_ms", Kind::Whole),
    key("etcd.group_ttl_ms", Kind::Whole),
    key("http.header_timeout_ms", Kind::Whole),
    key("http.body_timeout_ms", Kind::Whole),
    key("http.idle_timeout_ms", Kind::Whole),
    key("http.write_timeout_ms", Kind::Whole),
    key("shutdown.drain_ms", Kind::Whole),
    key("shutdown.hand_over_ms", Kind::Whole),
    key("shutdown.finish_ms", Kind::Whole),
    key("log.format", Kind::Text),
    key("log.filter", Kind::Text),
];

/// Variables of the same family that are no keys: `shard-map` reads the first two (the first is
/// also taken for `home.endpoints` when nothing else gives them), the command line the third;
/// `lockctl` reads two and gives two to what it runs.
pub(super) const OTHER_VARIABLES: [&str; 7] = [
    HOME_VARIABLE,
    "HOLDFAST_USER",
    "HOLDFAST_CONFIG",
    "HOLDFAST_TARGET",
    "HOLDFAST_TOKEN_FILE",
    "HOLDFAST_LOCK",
    "HOLDFAST_TOKEN",
];

/// Where `shard-map` finds home.
pub(super) const HOME_VARIABLE: &str = "HOLDFAST_HOME";

/// What the names of all variables begin with.
pub(super) const PREFIX: &str = "HOLDFAST_";

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind }
}

impl Key {
    /// The environment variable that overrides it.
    pub fn variable(self) -> String {
        format!("{PREFIX}{}", self.path.replace('.', "_").to_uppercase())
    }
}

impl Kind {
    /// As it is called in error texts.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Whole => "a whole number",
            Self::Flag => "true or false",
            Self::List => "a list of strings",
        }
    }

    /// Whether `value` is of this kind.
    pub(super) fn admits(self, value: &toml::Value) -> bool {
        match self {
            Self::Text => value.is_str(),
            Self::Whole => value.as_integer().is_some_and(|number| number >= 0),
            Self::Flag => value.is_bool(),
            Self::List => value
                .as_array()
                .is_some_and(|list| list.iter().all(toml::Value::is_str)),
        }
    }

    /// Reads a variable.
    pub(super) fn read(self, text: &str) -> Option<toml::Value> {
        let list = || text.split(',').map(|part| part.trim().into()).collect();
        match self {
            Self::Text => Some(toml::Value::String(text.to_owned())),
            Self::Whole => text.parse().ok().map(toml::Value::Integer),
            Self::Flag => text.parse().ok().map(toml::Value::Boolean),
            Self::List => Some(toml::Value::Array(list())),
        }
        .filter(|value| self.admits(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_has_a_variable_of_its_own() {
        let variables: BTreeSet<String> = KEYS.iter().map(|key| key.variable()).collect();
        assert_eq!(variables.len(), KEYS.len());
        assert!(variables.contains("HOLDFAST_HOME_ENDPOINTS"));
        for other in OTHER_VARIABLES {
            assert!(!variables.contains(other));
        }
    }
}
