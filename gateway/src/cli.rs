//! The command line.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use holdfast_manual::ManualArgs;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gateway dev                            try it: everything in one process
  gateway check --config gateway.toml    what would this configuration do?
  gateway serve --config gateway.toml    over real etcd clusters
  gateway token --principal billing --acquire billing/ --token-file billing.token >>principals.toml
                                         let somebody in

Exit codes:
  0  done, or stopped when told to
  1  the configuration is refused, the gateway could not start, or (ready) it is not ready
  2  wrong usage";

const ENVIRONMENT: &str = "\
Every key of the configuration can also be given as an environment variable, which wins over the
file: HOLDFAST_LISTEN for listen, HOLDFAST_HOME_ENDPOINTS for home.endpoints (a list, separated by
commas), and so on. Unknown keys and variables are refused. `gateway check` prints them all.

Paths that are not absolute, in the file and in variables, count from the directory in which the
command is started, wherever the configuration file is.";

const TOKENS: &str = "\
Examples:
  gateway token --principal billing --acquire billing/ --token-file billing.token >>principals.toml
  gateway token --principal ops --acquire '' --inspect '' --admin ''

The gateway wants in its configuration:
  [auth]
  mode = \"tokens\"
  principals_file = \"principals.toml\"

and clients send the token in a header:
  curl -H \"authorization: Bearer $(cat billing.token)\" --json ... http://.../api/v1/locks/acquire

The file is read anew when it changes. To replace a token, add the hash of a new one to
token_sha256, give the token to the clients, then remove the old hash. A hash is what
`printf %s TOKEN | sha256sum` prints, so any random string of yours can be a token.";

/// A gateway of Holdfast: locks over several etcd clusters, answered over HTTP.
#[derive(Debug, Parser)]
#[command(name = "gateway", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one process with embedded in-memory clusters; nothing to install, and the locks end
    /// with it
    Dev(DevArgs),
    /// Run a gateway over etcd
    #[command(after_help = ENVIRONMENT)]
    Serve(ConfigArgs),
    /// Validate a configuration and print it in full, or every problem, and exit 1
    #[command(after_help = ENVIRONMENT)]
    Check(ConfigArgs),
    /// Make a bearer token: prints the entry for the file with the principals, which has the
    /// token's hash
    #[command(after_help = TOKENS)]
    Token(TokenArgs),
    /// Ask a running gateway whether it is ready: exit 0 if it is, else 1 and why
    Ready(ReadyArgs),
    /// Write man pages and shell completions
    #[command(hide = true)]
    Manual(ManualArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Address of the lock API; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Address of metrics and health
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) admin_listen: SocketAddr,
    /// Also listen where others than this machine reach it: whoever does may take and end every lock
    #[arg(long)]
    pub(crate) insecure: bool,
    /// How many clusters to embed
    #[arg(long, value_name = "N", default_value = "3", value_parser = RangedU64ValueParser::<u8>::new().range(1..=16))]
    pub(crate) clusters: u8,
    /// What to log
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    pub(crate) log_filter: String,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file; without one the environment says everything
    #[arg(long, value_name = "FILE", env = "HOLDFAST_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Whose token it is
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// It may acquire, renew and release locks whose names begin so; '' means all
    #[arg(long, value_name = "PREFIX")]
    pub(crate) acquire: Vec<String>,
    /// It may see who holds locks whose names begin so
    #[arg(long, value_name = "PREFIX")]
    pub(crate) inspect: Vec<String>,
    /// It may force-release locks whose names begin so
    #[arg(long, value_name = "PREFIX")]
    pub(crate) admin: Vec<String>,
    /// Write the token into this new file, which only you can read, instead of to the standard
    /// error
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReadyArgs {
    /// Where the gateway's admin listener is
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9090",
        env = "HOLDFAST_ADMIN_LISTEN"
    )]
    pub(crate) admin_listen: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn dev_has_the_addresses_that_the_documents_name() {
        let cli = Cli::try_parse_from(["gateway", "dev"]).unwrap();
        let Command::Dev(args) = cli.command else {
            panic!("not dev");
        };
        assert_eq!(args.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(args.admin_listen.to_string(), "127.0.0.1:9090");
        assert_eq!(args.clusters, 3);
        assert!(Cli::try_parse_from(["gateway", "dev", "--clusters", "0"]).is_err());
    }
}
