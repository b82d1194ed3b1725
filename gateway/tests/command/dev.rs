//! `gateway dev`.

use crate::hostile;
use crate::raw::Client;
use anyhow::{Context, Result, ensure};
use holdfast_api::paths;
use holdfast_rig::{Process, ProcessSpec, free_port, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

struct Dev {
    process: Process,
    address: SocketAddr,
}

async fn start() -> Result<Dev> {
    start_at("127.0.0.1", &[]).await
}

async fn start_at(host: &str, more: &[&str]) -> Result<Dev> {
    let (port, admin_port) = (free_port()?, free_port()?);
    let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["dev", "--clusters", "2"])
        .args([format!("--listen={host}:{port}")])
        .args([format!("--admin-listen=127.0.0.1:{admin_port}")])
        .args(more.iter().map(|arg| (*arg).to_owned()))
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

/// The answer to this query about locks.
async fn look(client: &mut Client, query: &str) -> Value {
    let reply = client.get(&format!("{}?{query}", paths::LOCKS)).await;
    assert_eq!(reply.status, 200, "{query}");
    reply.json()
}

#[tokio::test]
async fn locks_are_shown_in_pages_over_all_clusters_and_ended_by_force() -> Result<()> {
    let dev = start().await?;
    let mut client = Client::connect(dev.address).await;
    let mut holds = Vec::new();
    for name in 0..7 {
        let body = json!({
            "name": format!("job/{name}"), "ttlMs": 20_000, "clientId": "c",
            "metadata": { "host": "h" },
        });
        // It is ready when one of its clusters is.
        let hold = wait_until("every cluster to grant", PATIENCE, || async {
            let mut client = Client::connect(dev.address).await;
            let reply = client.post(paths::ACQUIRE, &body.to_string()).await;
            ensure!(reply.status == 200, "{}", reply.status);
            Ok(reply.json())
        });
        holds.push(hold.await?);
    }
    let mut shown = Vec::new();
    let mut cursor = String::new();
    let mut pages = 0;
    loop {
        let page = look(&mut client, &format!("prefix=job%2F&limit=3{cursor}")).await;
        pages += 1;
        shown.extend(page["locks"].as_array().context("locks")?.clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    let clusters: BTreeSet<_> = shown
        .iter()
        .map(|lock| lock["cluster"].to_string())
        .collect();
    assert_eq!(clusters.len(), 2, "seven names lie on both clusters");
    for (name, (lock, hold)) in shown.iter().zip(&holds).enumerate() {
        assert_eq!(lock["name"], format!("job/{name}"));
        assert_eq!(lock["fencingToken"], hold["fencingToken"]);
        assert_eq!((&lock["held"], &lock["waiters"]), (&json!(true), &json!(0)));
        assert_eq!(
            (&lock["clientId"], &lock["metadata"]["host"]),
            (&json!("c"), &json!("h"))
        );
        assert!(lock["heldForMs"].as_u64().is_some_and(|ms| ms < 20_000));
        assert!(lock.get("lockId").is_none());
    }
    let force = json!({ "name": "job/3", "reason": "a test", "immediate": true });
    let ended = client
        .post(paths::FORCE_RELEASE, &force.to_string())
        .await
        .json();
    assert_eq!(
        (&ended["released"], &ended["fencingToken"]),
        (&json!(true), &holds[3]["fencingToken"])
    );
    let renewal = json!({ "lockId": holds[3]["lockId"], "fencingToken": holds[3]["fencingToken"] });
    let renewed = client.post(paths::RENEW, &renewal.to_string()).await;
    assert_eq!(
        (renewed.status, renewed.json()["reason"].as_str()),
        (409, Some("stolen"))
    );
    let free = look(&mut client, "name=job%2F3").await;
    assert_eq!(free["held"], false);
    assert_eq!(
        look(&mut client, "prefix=job").await["locks"]
            .as_array()
            .map(Vec::len),
        Some(6)
    );
    let audited = dev.process.log();
    assert!(
        audited.contains("holdfast_audit") && audited.contains("a test"),
        "{audited}"
    );
    Ok(())
}

#[tokio::test]
async fn told_to_be_insecure_it_starts_anywhere_and_its_first_map_is_no_warning() -> Result<()> {
    let dev = start_at("0.0.0.0", &["--insecure", "--log-filter=info"]).await?;
    let said = dev.process.log();
    let line = |text: &str| {
        let line = said.lines().find(|line| line.contains(text));
        line.with_context(|| format!("no line with {text:?} in {said}"))
    };
    ensure!(line("insecure: ")?.contains("WARN"), "{said}");
    ensure!(line("runs its first map")?.contains("INFO"), "{said}");
    ensure!(!said.contains("another map"), "{said}");
    Ok(())
}

#[tokio::test]
async fn told_to_stop_it_ends_with_status_0() -> Result<()> {
    let mut dev = start().await?;
    let status = dev.process.terminate().await.context("SIGTERM")?;
    assert_eq!(status.code(), Some(0));
    Ok(())
}
