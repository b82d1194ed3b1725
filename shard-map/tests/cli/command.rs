//! Running the command.

use anyhow::{Context, Result};
use holdfast_rig::{Etcd, EtcdOptions, EtcdVersion};
use serde_json::Value;
use std::process::{Output, Stdio};

/// An etcd that may lose its data with the machine.
pub(crate) async fn etcd(version: EtcdVersion) -> Result<Etcd> {
    let options = EtcdOptions {
        unsafe_no_fsync: true,
        ..EtcdOptions::default()
    };
    Etcd::start_with(version, options).await
}

/// Runs `shard-map` with these arguments and nothing in its environment.
pub(crate) async fn shard_map(args: &[&str]) -> Result<Ran> {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_shard-map"))
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(Ran(output))
}

/// The command with one home.
pub(crate) struct Home(String);

impl Home {
    pub(crate) fn of(etcd: &Etcd) -> Self {
        Self(etcd.endpoint())
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Result<Ran> {
        let (command, rest) = (args[0], &args[1..]);
        shard_map(&[&[command, "--home", &self.0], rest].concat()).await
    }

    pub(crate) async fn init(&self, clusters: &[(&str, &Etcd)], shards: &str) -> Result<Ran> {
        self.init_with(clusters, &["--shards", shards]).await
    }

    pub(crate) async fn init_with(&self, clusters: &[(&str, &Etcd)], more: &[&str]) -> Result<Ran> {
        let named = |(name, etcd): &(&str, &Etcd)| format!("--cluster={name}={}", etcd.endpoint());
        let clusters: Vec<String> = clusters.iter().map(named).collect();
        let clusters = clusters.iter().map(String::as_str);
        let args: Vec<&str> = ["init"]
            .into_iter()
            .chain(clusters)
            .chain(more.iter().copied())
            .collect();
        self.run(&args).await
    }
}

/// What came of it.
pub(crate) struct Ran(Output);

impl Ran {
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.0.status.code(),
            Some(code),
            "{}{}",
            self.stdout(),
            self.stderr()
        );
        self
    }

    /// On standard output.
    #[track_caller]
    pub(crate) fn prints(&self, expected: &str) -> &Self {
        assert!(self.stdout().contains(expected), "{}", self.stdout());
        self
    }

    /// On standard error, with nothing on standard output.
    #[track_caller]
    pub(crate) fn says(&self, expected: &str) -> &Self {
        assert!(self.stderr().contains(expected), "{}", self.stderr());
        assert_eq!(self.stdout(), "");
        self
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.0.stdout).with_context(|| self.stdout())
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}
