//! `gateway token`: makes a bearer token and the entry of the roll that knows its hash.

use crate::cli::TokenArgs;
use anyhow::Context as _;
use holdfast_gateway::auth::{BearerToken, Roll, RollEntry, RollFile};
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Makes a token, gives it away (into a file that only its owner reads, or to the standard error),
/// and returns the entry for the roll.
///
/// # Errors
/// When the arguments make no good entry, or the file is there already.
pub(crate) fn run(args: TokenArgs) -> anyhow::Result<String> {
    let mut bits = [0; 32];
    SysRng
        .try_fill_bytes(&mut bits)
        .context("the system gives no random numbers")?;
    let token = BearerToken::from_random(bits);
    let stanza = stanza(&args, &token)?;
    match &args.token_file {
        Some(file) => write_new(file, token.reveal())?,
        None => {
            let mut stderr = std::io::stderr().lock();
            writeln!(stderr, "The token, shown this once:\n{}\n", token.reveal())?;
        }
    }
    Ok(stanza)
}

fn stanza(args: &TokenArgs, token: &BearerToken) -> anyhow::Result<String> {
    let entry = RollEntry {
        name: args.principal.clone(),
        token_sha256: vec![token.hash().to_hex()],
        san: Vec::new(),
        acquire: args.acquire.clone(),
        inspect: args.inspect.clone(),
        admin: args.admin.clone(),
    };
    let text = toml::to_string(&RollFile {
        principal: vec![entry],
    })?;
    Roll::parse(&text).map_err(|problems| anyhow::anyhow!("{}", problems.join("; ")))?;
    Ok(text)
}

fn write_new(file: &Path, token: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut opened = options
        .open(file)
        .with_context(|| file.display().to_string())?;
    writeln!(opened, "{token}")?;
    Ok(())
}
