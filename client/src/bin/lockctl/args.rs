//! What can be typed.

use crate::limits;
use clap::{Args, Parser, Subcommand};
use holdfast_client::{AccessFiles, IdentityFiles, Target, TlsFiles};
use holdfast_console::{Format, TlsArgs};
use holdfast_manual::ManualArgs;
use humantime::Duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples, with HOLDFAST_TARGET=http://127.0.0.1:8080 in the environment:
  lockctl run nightly-report -- ./report.sh      one at a time, on any number of machines
  lockctl show nightly-report                    who holds it
  lockctl list billing/                          what is held under this prefix
  lockctl force-release nightly-report --reason 'worker-7 hangs'

Exit codes of all but run:
  0  done
  2  wrong usage
  3  no: someone else holds the name (acquire), the hold is over (renew), the token is not the
     hold's (release), nobody holds the name (force-release)
  4  it may not be done, or nobody answered and nothing is known; the text says which

`lockctl run --help` has those of run.";

const RUN: &str = "\
The command finds the lock's name in HOLDFAST_LOCK and the fencing token in HOLDFAST_TOKEN, for the
resource to compare.

When no renewal is answered, SIGTERM is sent --grace before the hold ends, and SIGKILL when it ends,
so that the command is gone before anybody else can hold the lock. When the gateway says that the
hold is over, SIGTERM is sent at once and SIGKILL --grace later.

SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on, to the command and to what it
has started. In the foreground of a terminal they go to the command alone, without those that the
terminal has sent it already. Nobody can pass on SIGKILL: if lockctl is killed so, the command runs
on, and only the fencing token keeps it out.

Examples:
  lockctl run nightly-report -- ./report.sh --all
  lockctl run nightly-report --ttl 1m --wait 10m -- sh -c 'psql -v fence=$HOLDFAST_TOKEN -f night.sql'

Exit codes: the command's own; 128+N if signal N ended it, or lockctl before it began;
  2    wrong usage
  121  not run: someone else holds the lock
  122  the lock was lost, and the command was ended
  125  not run: it may not be done, or nobody answered and nothing is known
  126  the command cannot be started
  127  there is no such command";

const HOLDS: &str = "\
Example:
  lockctl acquire nightly-report --ttl 1m --hold night.hold
  lockctl renew --hold night.hold
  lockctl release --hold night.hold

The file has the lock's id, and whoever has that can renew and release the lock.";

/// Takes, shows and ends locks, and runs commands under them.
#[derive(Debug, Parser)]
#[command(name = "lockctl", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while the lock is held
    #[command(after_help = RUN)]
    Run(Box<RunArgs>),
    /// Take a lock
    #[command(after_help = HOLDS)]
    Acquire(Box<AcquireArgs>),
    /// Renew a hold
    #[command(after_help = HOLDS)]
    Renew(RenewArgs),
    /// Give a hold back
    #[command(after_help = HOLDS)]
    Release(ReleaseArgs),
    /// Show who holds locks
    Show(ShowArgs),
    /// List the locks that are held
    List(ListArgs),
    /// End somebody's hold, with a reason for the audit log
    #[command(after_help = "Example:\n  \
        lockctl force-release nightly-report --reason 'worker-7 hangs in NFS, ticket 1234'")]
    ForceRelease(ForceArgs),
    /// Write man pages and shell completions
    #[command(hide = true)]
    Manual(ManualArgs),
}

/// How gateways are reached.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// Gateways or load balancers; the next one is asked when one does not answer
    #[arg(
        long,
        env = "HOLDFAST_TARGET",
        value_name = "URL[,URL]",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) target: Vec<Target>,
    /// A file with the bearer token to send
    #[arg(long, env = "HOLDFAST_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    /// How long it is asked again while nobody answers, or the answer is that nothing is known
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) patience: Duration,
}

impl ConnectionArgs {
    pub(crate) fn access(&self) -> AccessFiles {
        let TlsArgs { cacert, cert, key } = self.tls.clone();
        let identity = cert.zip(key);
        AccessFiles {
            token: self.token_file.clone(),
            tls: TlsFiles {
                cacert,
                identity: identity.map(|(cert, key)| IdentityFiles { cert, key }),
            },
        }
    }
}

/// How the result is printed.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// How the result is printed [default: a table on a terminal, JSON elsewhere]
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

impl OutputArgs {
    pub(crate) fn format(&self) -> Format {
        Format::of(self.output, &std::io::stdout())
    }
}

/// What to acquire.
#[derive(Debug, Args)]
pub(crate) struct WantedArgs {
    /// What to lock: 1 to 512 bytes
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// How long the hold lasts without a renewal
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) ttl: Duration,
    /// How long to queue for the lock; after every 30s of it, at the end of the line again
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) wait: Duration,
    /// Who asks, as it is shown to those who inspect the lock [default: this machine, the process,
    /// and a random number]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Shown to those who inspect the lock; 1 KiB in all
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<Pair>,
}

/// What `run` is told.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedArgs,
    /// The time between SIGTERM and SIGKILL when the lock is lost; at most half of the TTL
    /// [default: 5s, or a third of the TTL if that is less]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// The time between SIGTERM and SIGKILL.
    ///
    /// # Errors
    /// With a text that says what is allowed.
    pub(crate) fn grace(&self) -> Result<std::time::Duration, String> {
        let ttl = *self.wanted.ttl;
        let Some(grace) = self.grace else {
            return Ok(limits::GRACE.min(ttl / limits::GRACE_SHARE));
        };
        let max = ttl / limits::GRACE_SHARE_MAX;
        match *grace <= max {
            true => Ok(*grace),
            false => Err(format!("--grace {grace}: at most half of --ttl is allowed")),
        }
    }
}

/// What `acquire` is told.
#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedArgs,
    /// With the client id and request id of an earlier acquire, its hold is given back [default:
    /// random]
    #[arg(long, value_name = "ID", requires = "client_id")]
    pub(crate) request_id: Option<String>,
    /// A file for the hold, which only you can read; else it is printed. An earlier hold of the same name is
    /// replaced, anything else is left as it is
    #[arg(long, value_name = "FILE")]
    pub(crate) hold: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `renew` is told.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// What acquire has written or printed as JSON; - is the standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) hold: PathBuf,
    /// How long the hold is to last from now on [default: as it was acquired]
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `release` is told.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// What acquire has written or printed as JSON; - is the standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) hold: PathBuf,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `show` is told.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Names of locks
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `list` is told.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How their names begin
    #[arg(value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `force-release` is told.
#[derive(Debug, Args)]
pub(crate) struct ForceArgs {
    /// Whose holder is to lose it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// For the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// The name is free at once, not when the last promise to the holder has ended; until then only
    /// the fencing token keeps the holder out
    #[arg(long)]
    pub(crate) immediate: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `KEY=VALUE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for Pair {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once('=').ok_or("expected is KEY=VALUE")?;
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::time::Duration;

    fn run(args: &str) -> Result<RunArgs, clap::Error> {
        let all = "lockctl run --target http://127.0.0.1:1 n ".to_owned() + args;
        match Cli::try_parse_from(all.split_whitespace())?.command {
            Command::Run(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_dashes_is_the_command_with_all_its_options() {
        let args = run("--ttl 1m -- psql --ttl x -- y").unwrap();
        assert_eq!(args.command, ["psql", "--ttl", "x", "--", "y"]);
        assert!(run("").is_err() && run("--").is_err() && run("psql").is_err());
    }

    #[test]
    fn the_grace_leaves_time_for_renewals() {
        for (text, expected) in [
            ("-- c", Ok(5_000)),
            ("--ttl 6s -- c", Ok(2_000)),
            ("--grace 15s -- c", Ok(15_000)),
            ("--grace 0s -- c", Ok(0)),
            ("--grace 15001ms -- c", Err(())),
        ] {
            let grace = run(text).unwrap().grace();
            assert_eq!(
                grace.map_err(drop),
                expected.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn metadata_are_pairs() {
        let args = run("--metadata a=b=c --metadata d= -- c").unwrap();
        let pair = |key: &str, value: &str| Pair {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        assert_eq!(args.wanted.metadata, [pair("a", "b=c"), pair("d", "")]);
        assert!(run("--metadata a -- c").is_err());
    }
}
