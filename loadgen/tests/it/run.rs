use crate::gateway::{Fault, Gateway};
use serde_json::Value;
use std::process::{Output, Stdio};
use tokio::process::{Child, Command};

const RUN: &str = "--locks 60 --renew-every 500ms --duration 2s --connections 8 --seed 7";

struct Run {
    child: Child,
    folder: tempfile::TempDir,
}

struct Ended {
    code: i32,
    report: Option<Value>,
    stdout: String,
    stderr: String,
}

fn start(targets: &str, args: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "--target", targets])
        .args(args.split_whitespace())
        .arg("--out")
        .arg(folder.path().join("report.json"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    Run { child, folder }
}

impl Run {
    async fn end(self) -> Ended {
        let output: Output = self.child.wait_with_output().await.unwrap();
        let json = std::fs::read(self.folder.path().join("report.json"));
        Ended {
            code: output.status.code().unwrap(),
            report: json.ok().map(|json| serde_json::from_slice(&json).unwrap()),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// The report of a run that ended with this exit code.
    fn report(&self, code: i32) -> &Value {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self.report.as_ref().unwrap()
    }
}

fn outcome(report: &Value, phase: &str, op: &str, outcome: &str) -> u64 {
    let outcomes = &report["phases"][phase]["ops"][op]["outcomes"];
    outcomes[outcome].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn a_run_through_lost_replies_and_503s_is_clean_and_leaves_nothing_held() {
    for more in [
        "",
        "--batch 7 --acquire-batch 5 --threads 2",
        "--churn 20 --rate 200",
    ] {
        let gateway = Gateway::new(Fault::Flaky);
        let listener = gateway.listen().await;
        let ended = start(&listener.url, &format!("{RUN} {more}")).end().await;
        let report = ended.report(0);
        assert!(report["unknown"].as_u64().unwrap() > 0, "{more}");
        assert!(report["retries"].as_u64().unwrap() > 0, "{more}");
        assert!(outcome(report, "hold", "renew", "renewed") > 60, "{more}");
        assert!(report["phases"]["hold"]["ops"]["renew"]["latencyMs"]["p99"].as_f64() > Some(0.0));
        assert_eq!(report["config"]["locks"], 60);
        assert_eq!(report["notReleased"], 0);
        assert_eq!(gateway.held(), 0, "{more}");
        assert!(ended.stdout.contains("clean"), "{}", ended.stdout);
    }
}

#[tokio::test]
async fn a_gateway_that_repeats_tokens_is_found_with_the_locks_history() {
    let listener = Gateway::new(Fault::OneToken).listen().await;
    let ended = start(&listener.url, &format!("{RUN} --churn 50"))
        .end()
        .await;
    let findings = &ended.report(1)["findings"];
    assert!(findings["counts"]["token_not_grown"].as_u64().unwrap() > 0);
    let sample = &findings["samples"][0];
    assert_eq!(sample["kind"], "token_not_grown");
    let history = sample["history"].as_array().unwrap();
    assert_eq!(history.last().unwrap()["op"], "acquire");
    assert!(ended.stdout.contains("token_not_grown"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_gateway_that_grants_held_locks_is_found() {
    let listener = Gateway::new(Fault::GrantHeld).listen().await;
    let ended = start(&listener.url, &format!("{RUN} --contend 2"))
        .end()
        .await;
    let counts = &ended.report(1)["findings"]["counts"];
    assert!(counts["overlap"].as_u64().unwrap() > 0, "{counts}");
}

#[tokio::test]
async fn locks_survive_the_end_of_one_of_two_gateways() {
    let gateway = Gateway::new(Fault::None);
    let first = gateway.listen().await;
    let second = gateway.listen().await;
    let targets = format!("{},{}", first.url, second.url);
    let run = start(&targets, RUN);
    gateway.renewals_more(30).await;
    drop(first);
    let ended = run.end().await;
    let report = ended.report(0);
    assert!(report["connects"].as_u64().unwrap() > 8);
    assert_eq!(gateway.held(), 0);
}

#[tokio::test]
async fn an_interrupt_ends_the_run_early_with_releases_and_a_report() {
    let gateway = Gateway::new(Fault::None);
    let listener = gateway.listen().await;
    let run = start(
        &listener.url,
        "--locks 20 --renew-every 500ms --duration 1h",
    );
    gateway.renewals_more(30).await;
    let pid = run.child.id().unwrap().try_into().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = run.end().await;
    assert_eq!(ended.report(0)["interrupted"], true);
    assert_eq!(gateway.held(), 0);
}

#[tokio::test]
async fn locks_may_be_kept() {
    let gateway = Gateway::new(Fault::None);
    let listener = gateway.listen().await;
    let args = "--locks 20 --duration 100ms --keep";
    start(&listener.url, args).end().await.report(0);
    assert_eq!(gateway.held(), 20);
}

#[tokio::test]
async fn the_bearer_token_is_sent() {
    let gateway = Gateway::new(Fault::None);
    let listener = gateway.listen().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret\n").unwrap();
    let args = format!(
        "--locks 1 --duration 1ms --token-file {}",
        file.path().display()
    );
    start(&listener.url, &args).end().await.report(0);
    let sent = gateway.authorization.lock().clone();
    assert_eq!(sent.as_deref(), Some("Bearer secret"));
}

#[tokio::test]
async fn what_cannot_run_says_why_and_exits_with_4() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nowhere.local_addr().unwrap());
    drop(nowhere);
    let ended = start(&url, RUN).end().await;
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("no target can be reached"),
        "{}",
        ended.stderr
    );

    let listener = Gateway::new(Fault::Unauthenticated).listen().await;
    let ended = start(&listener.url, RUN).end().await;
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stderr.contains("who?"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_wrong_argument_exits_with_2() {
    for args in [
        "--locks 0",
        "--locks 1 --batch 99999",
        "--locks x",
        "--locks 1 --out no/such/report.json",
        "--locks 1 --out /",
    ] {
        let ended = start("http://127.0.0.1:1", args).end().await;
        assert_eq!(ended.code, 2, "{}", ended.stderr);
    }
    let ended = start("ftp://127.0.0.1:1", "--locks 1").end().await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
}
