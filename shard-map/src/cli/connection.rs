//! From flags to connections.

use super::Failure;
use super::args::ConnectionArgs;
use holdfast_store::etcd::{Credentials, EtcdConfig};
use holdfast_store::{
    EtcdStore, Get, KeyRange, KeyValue, Op, Reply, Store, StoreError, Txn, TxnOpReply, TxnReply,
};
use shard_map::records::keys;
use shard_map::{
    Endpoint, FilePath, ShardMap, TlsFiles, etcd_config, parse_credentials, read_credentials,
};
use std::path::Path;
use std::time::Duration;

/// How long one question may take: longer than an election.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The flags, checked and with their files read.
pub(crate) struct Connection<'a> {
    args: &'a ConnectionArgs,
    /// The TLS files, if any is given.
    pub(crate) tls: Option<TlsFiles>,
    /// The credentials file, if `--user` names one.
    pub(crate) credentials_file: Option<FilePath>,
    credentials: Option<Credentials>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(args: &'a ConnectionArgs) -> Result<Self, Failure> {
        let file = |path: &Option<_>| path.as_deref().map(absolute).transpose();
        let files = TlsFiles {
            ca_file: file(&args.tls.cacert)?,
            cert_file: file(&args.tls.cert)?,
            key_file: file(&args.tls.key)?,
        };
        let user = args.user.as_deref();
        let credentials_file = user.and_then(|user| user.strip_prefix('@'));
        let credentials_file = credentials_file
            .map(|file| absolute(Path::new(file)))
            .transpose()?;
        let credentials = match (&credentials_file, user) {
            (Some(file), _) => Some(read_credentials(file).map_err(usage)?),
            (None, Some(user)) => Some(parse_credentials(user).ok_or_else(|| {
                Failure::Usage("--user: expected is NAME:PASSWORD or @FILE".into())
            })?),
            (None, None) => None,
        };
        Ok(Self {
            args,
            tls: (files != TlsFiles::default()).then_some(files),
            credentials_file,
            credentials,
        })
    }

    /// Whether the user was given in full, which a map cannot refer to.
    pub(crate) fn has_bare_user(&self) -> bool {
        self.args.user.is_some() && self.credentials_file.is_none()
    }

    /// A connection to home.
    pub(crate) fn home(&self) -> Result<EtcdStore, Failure> {
        self.store(&self.args.home)
    }

    /// A connection to the cluster with these endpoints.
    pub(crate) fn store(&self, endpoints: &[Endpoint]) -> Result<EtcdStore, Failure> {
        EtcdStore::connect(self.config(endpoints)?).map_err(usage)
    }

    fn config(&self, endpoints: &[Endpoint]) -> Result<EtcdConfig, Failure> {
        etcd_config(endpoints, self.tls.as_ref(), self.credentials.clone()).map_err(usage)
    }

    /// The map in home.
    pub(crate) async fn read_map(&self) -> Result<ShardMap, Failure> {
        let home = self.home()?;
        let found = self.read_home(&home).await?;
        let Some(record) = found
            .iter()
            .find(|record| record.key == keys::map_current())
        else {
            return Err(Failure::Refused(if found.is_empty() {
                "home has no shard map\nCheck --home; to create a map: shard-map init --help".into()
            } else {
                "home has no shard map, but an init that has not ended\n\
                 Repeat that init to finish it."
                    .into()
            }));
        };
        ShardMap::from_json(&record.value).map_err(|error| {
            Failure::Refused(format!(
                "the map in home cannot be read: {error}\n\
                 If a later version wrote it, use that version's shard-map."
            ))
        })
    }

    /// The present map and the intention of an init, those that home has.
    pub(crate) async fn read_home(&self, home: &EtcdStore) -> Result<Vec<KeyValue>, Failure> {
        let keys = [keys::map_current(), keys::map_init()];
        let keys = keys.map(|key| Get::all(KeyRange::one(key)));
        let reply = read(home, keys).await.map_err(|error| {
            let endpoints: Vec<_> = self.args.home.iter().map(Endpoint::as_str).collect();
            Failure::Refused(format!(
                "home ({}) cannot be used: {error}\n\
                 Check --home, that etcd runs there, and --cacert, --cert, --key and --user.",
                endpoints.join(", ")
            ))
        })?;
        Ok(records(reply))
    }
}

/// A linearizable read.
pub(crate) async fn read(
    store: &EtcdStore,
    gets: impl IntoIterator<Item = Get>,
) -> Result<TxnReply, StoreError> {
    match store.call(Op::Txn(Txn::read(gets)), CALL_TIMEOUT).await? {
        Reply::Txn(reply) => Ok(reply),
        other => Err(StoreError::Ambiguous(format!(
            "not the reply to a read: {other:?}"
        ))),
    }
}

/// Everything that was read.
pub(crate) fn records(reply: TxnReply) -> Vec<KeyValue> {
    let kvs = |op| match op {
        TxnOpReply::Get(get) => get.kvs,
        _ => Vec::new(),
    };
    reply.ops.into_iter().flat_map(kvs).collect()
}

/// Files are named in the map, which is read elsewhere.
fn absolute(path: &Path) -> Result<FilePath, Failure> {
    let absolute = std::path::absolute(path).map_err(usage)?;
    let text = absolute
        .to_str()
        .ok_or_else(|| Failure::Usage(format!("{}: the path is not UTF-8", path.display())))?;
    FilePath::try_from(text.to_owned()).map_err(usage)
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}
