//! `gateway dev`.

use crate::hostile;
use crate::raw::Client;
use anyhow::{Context, Result, ensure};
use holdfast_api::paths;
use holdfast_rig::{Process, ProcessSpec, free_port, wait_until};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

struct Dev {
    process: Process,
    address: SocketAddr,
}

async fn start() -> Result<Dev> {
    let (port, admin_port) = (free_port()?, free_port()?);
    let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["dev", "--clusters", "2"])
        .args([format!("--listen=127.0.0.1:{port}")])
        .args([format!("--admin-listen=127.0.0.1:{admin_port}")])
        .ready_when_get_answers_200(admin_port, "/readyz");
    Ok(Dev {
        process: Process::start(spec).await?,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    })
}

/// What `sh` prints when it runs these lines.
fn run_in_shell(lines: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", lines]).output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(complaints.is_empty(), "{complaints}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn the_lines_that_dev_prints_take_renew_and_release_a_lock() -> Result<()> {
    let dev = start().await?;
    let said = wait_until("dev to say what to try", PATIENCE, || async {
        let said = dev.process.log();
        ensure!(said.contains("Ctrl-C"), "{said}");
        Ok(said)
    })
    .await?;
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("hold=") || line.starts_with("curl "))
        .collect();
    let printed = run_in_shell(&lines.join("\n"))?;
    let printed: Vec<&str> = printed.lines().collect();
    let [hold, refusal, renewal, release] = printed[..] else {
        panic!("{printed:?}");
    };
    assert!(hold.starts_with(r#"{"lockId":"lock-"#), "{hold}");
    assert!(refusal.starts_with(r#"{"acquired":false"#), "{refusal}");
    assert!(renewal.starts_with(r#"{"renewed":true"#), "{renewal}");
    assert_eq!(release, "204");
    Ok(())
}

#[tokio::test]
async fn hostile_input_harms_no_real_gateway() -> Result<()> {
    let dev = start().await?;
    hostile::attack(dev.address).await;
    hostile::attack_slowly(dev.address).await;
    let mut client = Client::connect(dev.address).await;
    let body = r#"{"name":"after the attack","ttlMs":1000,"clientId":"c"}"#;
    let reply = client.post(paths::ACQUIRE, body).await;
    assert_eq!(reply.json()["acquired"], true);
    Ok(())
}

#[tokio::test]
async fn told_to_stop_it_ends_with_status_0() -> Result<()> {
    let mut dev = start().await?;
    let status = dev.process.terminate().await.context("SIGTERM")?;
    assert_eq!(status.code(), Some(0));
    Ok(())
}
