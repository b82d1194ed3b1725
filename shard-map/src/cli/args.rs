//! What can be typed.

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_console::TlsArgs;
use holdfast_manual::ManualArgs;
use shard_map::{ClusterName, Endpoint, Invalid, ShardId, ShardRanges, Weight, limits};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Initialises a Holdfast deployment, shows its shard map, and moves shards between clusters.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Not available yet: rebase.\n\
        Exit codes: 0 done, 2 usage, 3 refused by a check (the text says what to do), 4 failed part-way (what is done \
        stays; init is repeated, a rollout is resumed)."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Creates the shard map of a deployment and prepares its clusters.
    ///
    /// The number of shards is for good: it decides where every lock name lives. Clusters can be added,
    /// removed and weighed anew at any time later.
    ///
    /// Before anything is written, every endpoint is asked which etcd cluster it belongs to, and
    /// clusters that are in use are refused. The command can be repeated: it goes on where it was
    /// interrupted, and does nothing when all is done.
    Init(InitArgs),
    /// Shows the map: its clusters and the shards that live on each.
    Show(ShowArgs),
    /// Shows where lock names live: shard, cluster, and the shard's guard there.
    Lookup(LookupArgs),
    /// Plans a change of clusters or of where shards live, and writes it to a file. Nothing else is
    /// changed.
    ///
    /// Each cluster gets its share of the shards by weight, with the fewest moves that give it. Several
    /// changes can be planned at once.
    Plan(PlanArgs),
    /// Carries a plan out: checks, then tells the gateways, which move the shards while their locks are
    /// held.
    ///
    /// The command only writes the intention to home. It may end, or be killed, at any time.
    Apply(ApplyArgs),
    /// Shows what the map and a rollout are at.
    ///
    /// Exit codes: 0 settled, 5 moving, 6 paused, 4 failed.
    Status(StatusArgs),
    /// Stops a rollout where it is. Locks are served as always.
    Pause(RolloutArgs),
    /// Goes on with a rollout that is paused or has failed.
    Resume(RolloutArgs),
    /// Takes a rollout back: every shard returns to where it was.
    Rollback(RolloutArgs),
    /// Reads every record of every cluster, and says whether it lies where the guards say. Changes
    /// nothing.
    Verify(RolloutArgs),
    /// Shows who changed the map, when, why, and how long it took.
    History(RolloutArgs),
    #[command(hide = true, disable_help_flag = true)]
    Rebase(Anything),
    /// Writes man pages and shell completions.
    #[command(hide = true)]
    Manual(ManualArgs),
}

impl Command {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Show(_) => "show",
            Self::Lookup(_) => "lookup",
            Self::Plan(_) => "plan",
            Self::Apply(_) => "apply",
            Self::Status(_) => "status",
            Self::Pause(_) => "pause",
            Self::Resume(_) => "resume",
            Self::Rollback(_) => "rollback",
            Self::Verify(_) => "verify",
            Self::History(_) => "history",
            Self::Rebase(_) => "rebase",
            Self::Manual(_) => "manual",
        }
    }
}

/// The arguments of `init`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example, two clusters of which the first is also home:\n  \
    shard-map init --home http://127.0.0.1:2379 --shards 256 \\\n    \
    --cluster a=http://127.0.0.1:2379 --cluster b=http://127.0.0.1:2479\n\n\
    With TLS and a user; gateways will look for the same files:\n  \
    shard-map init --home https://etcd-1:2379 \\\n    \
    --cacert /etc/holdfast/ca.pem --user @/etc/holdfast/etcd-user \\\n    \
    --cluster a=https://etcd-1:2379,https://etcd-2:2379"
)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Number of shards, 1 to 65536. Cannot be changed later.
    #[arg(long, value_name = "N", default_value_t = limits::SHARDS_DEFAULT)]
    pub(crate) shards: u32,
    /// A cluster that carries shards, and where its members listen. Once per cluster; home may be
    /// one of them.
    #[arg(long = "cluster", value_name = "NAME=URL[,URL]", required = true)]
    pub(crate) clusters: Vec<Named<Endpoints>>,
    /// A cluster's share of the shards relative to the others' (1 if not given).
    #[arg(long = "weight", value_name = "NAME=N")]
    pub(crate) weights: Vec<Named<WeightArg>>,
}

/// The arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    shard-map show --home http://127.0.0.1:2379\n  \
    HOLDFAST_HOME=http://127.0.0.1:2379 shard-map show -o json")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// The arguments of `lookup`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    shard-map lookup --home http://127.0.0.1:2379 process_order:42 process_order:43")]
pub(crate) struct LookupArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Lock names.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}

/// The arguments of `plan`.
#[derive(Debug, Args)]
#[command(
    group(clap::ArgGroup::new("wish").required(true).multiple(true)
        .args(["add", "remove", "moves", "weights", "endpoints", "undo"])),
    after_help = "Examples:\n  \
    shard-map plan --home http://127.0.0.1:2379 --add c=http://127.0.0.1:2579 --out plan.json\n  \
    shard-map plan --home http://127.0.0.1:2379 --remove a --out plan.json\n\n\
    Clusters that are added, or given other endpoints, get the TLS files and the user of this command line \
    (--cacert, --cert, --key, --user @FILE), as with init."
)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// A cluster to add. Its weight is 1 unless --weight says otherwise.
    #[arg(long, value_name = "NAME=URL[,URL]")]
    pub(crate) add: Vec<Named<Endpoints>>,
    /// A cluster to remove, once its shards have moved to the others.
    #[arg(long, value_name = "NAME")]
    pub(crate) remove: Vec<ClusterName>,
    /// A shard to move by hand.
    #[arg(long = "move", value_name = "SHARD=NAME")]
    pub(crate) moves: Vec<MoveArg>,
    /// A cluster's share of the shards relative to the others'.
    #[arg(long = "weight", value_name = "NAME=N")]
    pub(crate) weights: Vec<Named<WeightArg>>,
    /// Where a cluster's members listen from now on: all of them. Moves nothing.
    #[arg(long, value_name = "NAME=URL[,URL]")]
    pub(crate) endpoints: Vec<Named<Endpoints>>,
    /// Plan the way back from this plan, which was applied.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["add", "remove", "moves", "weights", "endpoints"])]
    pub(crate) undo: Option<PathBuf>,
    /// Where the plan is written.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// The arguments of `apply`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    shard-map apply --home http://127.0.0.1:2379 plan.json --wait --reason 'new disks'")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// The plan file.
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Make every check, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Shards that may move at one time.
    #[arg(long, value_name = "N", default_value_t = limits::MAX_MOVING_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MAX_MOVING_MAX)))]
    pub(crate) max_moving: u32,
    /// Move these shards first, then pause.
    #[arg(long, value_name = "SHARDS")]
    pub(crate) canary: Option<ShardRanges>,
    /// Watch until the rollout ends, pauses or fails. Ctrl-C ends the watching only.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Why; for the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    /// Who; for the history.
    #[arg(long, value_name = "NAME", env = "USER", default_value = "unknown")]
    pub(crate) who: String,
}

/// The arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Go on showing it until the rollout ends, pauses or fails. Ctrl-C ends the watching only.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// The arguments of what needs no more than home.
#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// `SHARD=NAME`
#[derive(Debug, Clone)]
pub(crate) struct MoveArg {
    pub(crate) shard: ShardId,
    pub(crate) cluster: ClusterName,
}

impl FromStr for MoveArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (shard, cluster) = text.split_once('=').ok_or("expected is SHARD=NAME")?;
        let number = shard
            .parse()
            .map_err(|_| format!("{shard:?} is not a shard"))?;
        Ok(Self {
            shard: ShardId(number),
            cluster: cluster
                .parse()
                .map_err(|error: Invalid| error.to_string())?,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Anything {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _ignored: Vec<OsString>,
}

/// How home, and with it every cluster, is reached.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The etcd cluster that holds the shard map.
    #[arg(
        long,
        env = "HOLDFAST_HOME",
        value_name = "URL[,URL]",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) home: Vec<Endpoint>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// etcd user: NAME:PASSWORD, or @FILE with one such line.
    #[arg(
        long,
        env = "HOLDFAST_USER",
        hide_env_values = true,
        value_name = "NAME:PASSWORD|@FILE"
    )]
    pub(crate) user: Option<String>,
    /// How the result is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// `NAME=VALUE` about a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Named<T> {
    pub(crate) name: ClusterName,
    pub(crate) value: T,
}

impl<T: FromStr<Err = Invalid>> FromStr for Named<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected is NAME=...")?;
        Ok(Self {
            name: name.parse().map_err(|error: Invalid| error.to_string())?,
            value: value.parse().map_err(|error: Invalid| error.to_string())?,
        })
    }
}

/// `URL[,URL]`
#[derive(Debug, Clone)]
pub(crate) struct Endpoints(pub(crate) Vec<Endpoint>);

impl FromStr for Endpoints {
    type Err = Invalid;
    fn from_str(urls: &str) -> Result<Self, Invalid> {
        let endpoints: Result<_, _> = urls.split(',').map(str::parse).collect();
        endpoints.map(Self)
    }
}

/// A weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightArg(pub(crate) Weight);

impl FromStr for WeightArg {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        // What is not a number at all is as wrong as the weight 0, and gets its text.
        Weight::try_from(text.parse().unwrap_or(0)).map(Self)
    }
}
