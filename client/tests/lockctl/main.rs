//! The `lockctl` command against `gateway dev`.

use anyhow::{Context as _, Result, ensure};
use holdfast_rig::{Process, ProcessSpec, free_port, wait_until};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway with everything in one process.
struct Dev {
    _process: Process,
    url: String,
}

impl Dev {
    async fn start() -> Result<Self> {
        let (port, admin_port) = (free_port()?, free_port()?);
        let spec = ProcessSpec::new(gateway()?)
            .args(["dev".to_owned()])
            .args([format!("--listen=127.0.0.1:{port}")])
            .args([format!("--admin-listen=127.0.0.1:{admin_port}")])
            .ready_when_get_answers_200(admin_port, "/readyz");
        Ok(Self {
            _process: Process::start(spec).await?,
            url: format!("http://127.0.0.1:{port}"),
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockctl"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOLDFAST_TARGET", &self.url)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, args: &[&str]) -> Result<Ran> {
        Ok(Ran(self.command(args).output().await?))
    }
}

/// In the folder of this program, which cargo builds the others into too.
fn gateway() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.ancestors().nth(2).context("no folder")?;
    let gateway = folder.join("gateway");
    ensure!(
        gateway.is_file(),
        "gateway is missing in {}: run `cargo build --workspace --bins`",
        folder.display()
    );
    Ok(gateway)
}

struct Ran(Output);

impl Ran {
    #[track_caller]
    fn exits(&self, code: i32) -> &Self {
        let said = String::from_utf8_lossy(&self.0.stderr);
        assert_eq!(self.0.status.code(), Some(code), "{said}");
        self
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.0.stdout).context("no JSON")
    }
}

#[tokio::test]
async fn a_lock_is_taken_shown_listed_ended_by_force_and_free() -> Result<()> {
    let dev = Dev::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("hold");
    let file = file.to_str().context("no text")?;
    let wanted = [
        "acquire",
        "job/1",
        "--ttl",
        "5m",
        "--client-id",
        "c",
        "--metadata",
        "host=h",
    ];
    let acquired = dev.run(&[&wanted[..], &["--hold", file]].concat()).await?;
    let token = acquired.exits(0).json()?["fencingToken"].clone();
    dev.run(&["acquire", "job/1"]).await?.exits(3);
    dev.run(&["renew", "--hold", file]).await?.exits(0);

    let shown = dev
        .run(&["show", "job/1", "job/2"])
        .await?
        .exits(0)
        .json()?;
    assert_eq!(
        (
            &shown[0]["held"],
            &shown[0]["clientId"],
            &shown[0]["fencingToken"]
        ),
        (&json!(true), &json!("c"), &token)
    );
    assert_eq!(shown[0]["metadata"], json!({ "host": "h" }));
    assert_eq!(
        (&shown[1]["name"], &shown[1]["held"]),
        (&json!("job/2"), &json!(false))
    );
    let listed = dev.run(&["list", "job/"]).await?.exits(0).json()?;
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(listed[0]["name"], "job/1");

    let force = [
        "force-release",
        "job/1",
        "--reason",
        "a test",
        "--immediate",
    ];
    let forced = dev.run(&force).await?.exits(0).json()?;
    assert_eq!(forced["fencingToken"], token);
    let renewed = dev.run(&["renew", "--hold", file]).await?;
    assert_eq!(renewed.exits(3).json()?["reason"], "stolen");
    dev.run(&["release", "--hold", file]).await?.exits(0);
    dev.run(&force).await?.exits(3);
    Ok(())
}

#[tokio::test]
async fn pages_are_put_together_up_to_the_limit() -> Result<()> {
    let dev = Dev::start().await?;
    for number in 0..5 {
        let name = format!("page/{number}");
        dev.run(&["acquire", &name, "--ttl", "5m"]).await?.exits(0);
    }
    let all = dev.run(&["list", "page/", "-o", "table"]).await?;
    let text = String::from_utf8(all.exits(0).0.stdout.clone())?;
    assert_eq!(text.lines().count(), 6, "{text}");
    let some = dev.run(&["list", "page/", "--limit", "3"]).await?;
    assert_eq!(some.exits(0).json()?.as_array().map(Vec::len), Some(3));
    assert!(String::from_utf8_lossy(&some.0.stderr).contains("more than 3"));
    Ok(())
}

#[tokio::test]
async fn a_command_under_a_lock_keeps_others_out_and_ends_when_the_lock_is_ended_by_force()
-> Result<()> {
    let dev = Dev::start().await?;
    let folder = tempfile::tempdir()?;
    let begun = folder.path().join("begun");
    let script = format!(
        "touch '{}'; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); sleep 0.05; done",
        begun.display()
    );
    // Renewed every second.
    let args = ["run", "n", "--ttl", "3s", "--", "sh", "-c", &script];
    let running = dev.command(&args).spawn()?;
    wait_until("the command to begin", PATIENCE, || async {
        ensure!(begun.exists(), "not yet");
        Ok(())
    })
    .await?;
    dev.run(&["run", "n", "--", "true"]).await?.exits(121);
    let force = ["force-release", "n", "--reason", "a test"];
    dev.run(&force).await?.exits(0);
    let ran = Ran(running.wait_with_output().await?);
    ran.exits(122);
    Ok(())
}
