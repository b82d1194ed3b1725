//! Tokens that `gateway token` makes.

use super::secrets::Secrets;
use anyhow::{Result, ensure};
use holdfast_rig::{Process, ProcessSpec};
use http::HeaderValue;
use std::fs;
use std::path::Path;

/// Who may in, and somebody who may not.
pub(super) struct Credentials {
    /// The file with the principals.
    pub(super) roll: String,
    /// What clients show, one for each principal.
    pub(super) bearers: Vec<HeaderValue>,
    /// As good a token, of nobody who is in the file.
    pub(super) unknown: HeaderValue,
    tokens: Vec<String>,
}

impl Credentials {
    /// Those of two principals, who may do everything.
    pub(super) async fn make(programs: &Path) -> Result<Self> {
        let (mut roll, mut tokens) = (String::new(), Vec::new());
        for principal in ["one", "other"] {
            let (entry, token) = make_token(programs, principal).await?;
            roll.push_str(&entry);
            tokens.push(token);
        }
        let bearers = tokens.iter().map(|token| bearer(token));
        let bearers = bearers.collect::<Result<_>>()?;
        let (_, unknown) = make_token(programs, "unknown").await?;
        let unknown_bearer = bearer(&unknown)?;
        tokens.push(unknown);
        Ok(Self {
            roll,
            bearers,
            unknown: unknown_bearer,
            tokens,
        })
    }

    /// What must be in no log.
    pub(super) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        self.tokens.iter().for_each(|token| secrets.token(token));
        secrets
    }
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The entry for the file, and the token.
async fn make_token(programs: &Path, principal: &str) -> Result<(String, String)> {
    let spec = ProcessSpec::new(programs.join("gateway")).args([
        "token",
        "--principal",
        principal,
        "--acquire",
        "",
        "--token-file",
        "token",
    ]);
    let mut process = Process::start(spec).await?;
    let status = process.wait_end().await?;
    let entry = process.log();
    ensure!(status.success(), "gateway token: {entry}");
    let token = fs::read_to_string(process.dir().join("token"))?;
    Ok((entry, token.trim().to_owned()))
}
