//! The certificates of a command that connects to others.

use clap::Args;
use std::path::PathBuf;

/// Whom to believe, and what to show.
#[derive(Debug, Clone, Args)]
pub struct TlsArgs {
    /// Certificate authorities that servers' certificates are checked against, PEM [default: those
    /// that this machine trusts]
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}
