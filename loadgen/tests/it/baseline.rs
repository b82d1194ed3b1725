use crate::gateway::{Fault, Gateway};
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

/// Needs two cores. The gateway is this process.
const SHORT: &str = "--locks 250 --batch 20 --connections 3 --runs 2 --duration 50ms --warm-up 1ms";

async fn baseline(url: &str, args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["baseline", "--target", url, "--server-pid"])
        .arg(std::process::id().to_string())
        .args(args.split_whitespace())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn both_servers_are_measured_in_turn_and_nothing_is_left_held() {
    let gateway = Gateway::new(Fault::None);
    let listener = gateway.listen().await;
    let output = baseline(&listener.url, SHORT).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let cases: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["work"].as_str().unwrap(),
                row["server"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        cases,
        [
            ("single", "bare"),
            ("single", "gateway"),
            ("batch", "bare"),
            ("batch", "gateway")
        ]
    );
    for row in rows {
        let items = if row["work"] == "batch" { 20.0 } else { 1.0 };
        let runs = row["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            let requests = run["requestsPerSec"].as_f64().unwrap();
            assert!(requests > 0.0, "{row}");
            let renewals = run["renewalsPerSec"].as_f64().unwrap();
            assert!((renewals / requests - items).abs() < 1e-6, "{row}");
        }
    }
    assert_eq!(gateway.held(), 0);
}

#[tokio::test]
async fn the_table_is_printed_on_demand_and_the_locks_are_kept_on_demand() {
    let gateway = Gateway::new(Fault::None);
    let listener = gateway.listen().await;
    let output = baseline(&listener.url, &format!("{SHORT} --keep --output table")).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for line in ["single, bare", "batch of 20, gateway", "CPU ns/request"] {
        assert!(table.contains(line), "{table}");
    }
    assert_eq!(gateway.held(), 250);
}

#[tokio::test]
async fn an_answer_that_is_no_success_ends_the_measurement() {
    let listener = Gateway::new(Fault::Flaky).listen().await;
    let output = baseline(&listener.url, SHORT).await;
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(said.contains("Single on the Gateway server"), "{said}");
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused_by_name() {
    for (args, named) in [
        ("--locks 0", "--locks"),
        ("--locks 10 --batch 11", "--batch"),
        ("--server-core 1 --client-core 1", "--server-core"),
        ("--duration 0s", "--duration"),
    ] {
        let output = baseline("http://127.0.0.1:1", args).await;
        assert_eq!(output.status.code(), Some(2), "{args}");
        let said = text(&output.stderr);
        assert!(said.contains(named), "{said}");
    }
}
