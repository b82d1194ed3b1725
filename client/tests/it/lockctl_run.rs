//! `lockctl run`. These tests have no terminal, so the command is in a process group of its own.

use crate::lockctl::{Ran, command, granted, granted_for, lockctl, refused, renewed};
use crate::server::{Answer, Asked, Server};
use holdfast_api::paths;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

/// Grants, answers renewals as told, and takes releases.
async fn server(renewal: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => granted(),
        paths::RENEW => renewal(asked),
        _ => Answer::Json(204, Value::Null),
    })
    .await
}

/// Answers that the lock is lost as soon as the command has begun.
async fn stolen_once_begun(folder: &TempDir) -> Server {
    let path = folder.path().to_owned();
    server(move |_| match has_begun(&path) {
        true => stolen(),
        false => renewed_for(29_700),
    })
    .await
}

fn stolen() -> Answer {
    Answer::Json(409, json!({ "renewed": false, "reason": "stolen" }))
}

/// To be renewed again at once.
fn renewed_for(ttl_ms: u64) -> Answer {
    let body = json!({ "renewed": true, "expiresAt": "", "ttlMs": ttl_ms, "renewAfterMs": 1 });
    Answer::Json(200, body)
}

/// Whether the command has said so, by making the file `begun` in its folder.
fn has_begun(folder: &Path) -> bool {
    folder.join("begun").exists()
}

async fn run(server: &Server, folder: &TempDir, args: &[&str], script: &str) -> Ran {
    let all = [&["run", "n"], args, &["--", "sh", "-c", script]].concat();
    let output = command(&server.url, &all)
        .current_dir(folder.path())
        .output();
    Ran::new(output.await.unwrap())
}

/// A command that runs, and the lines that it prints.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(server: &Server, script: &str) -> Self {
        let mut command = command(&server.url, &["run", "n", "--", "sh", "-c", script]);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn line(&mut self) -> String {
        self.lines.next_line().await.unwrap().unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    async fn code(mut self) -> i32 {
        self.child.wait().await.unwrap().code().unwrap()
    }
}

/// For a minute at least, and not for ever: nobody ends it when a test fails.
const LONG: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.02; done";

#[tokio::test]
async fn the_command_knows_the_lock_and_its_token_and_its_exit_code_is_handed_on() {
    let server = server(|_| renewed()).await;
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $HOLDFAST_LOCK $HOLDFAST_TOKEN; exit 7";
    let ran = run(&server, &folder, &[], script).await;
    assert_eq!(ran.exits(7).stdout, "n 7\n");
    assert_eq!(ran.stderr, "");
    assert_eq!(server.count(paths::RELEASE), 1);
}

#[tokio::test]
async fn a_lock_that_someone_else_holds_keeps_the_command_from_running() {
    let server = Server::start(|_| refused("held")).await;
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&server, &folder, &[], "touch begun").await;
    ran.exits(121).says("someone else holds it");
    assert!(!has_begun(folder.path()));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_gives_the_lock_back() {
    let server = server(|_| renewed()).await;
    for (command, code) in [("./no-such-command", 127), ("/etc/passwd", 126)] {
        lockctl(&server.url, &["run", "n", "--", command])
            .await
            .exits(code);
    }
    assert_eq!(server.count(paths::RELEASE), 2);
}

#[tokio::test]
async fn when_the_lock_is_lost_the_command_is_told_and_then_killed() {
    let folder = tempfile::tempdir().unwrap();
    let server = stolen_once_begun(&folder).await;
    let script = format!("trap 'echo told' TERM; touch begun; {LONG}");
    let ran = run(&server, &folder, &["--grace", "300ms"], &script).await;
    ran.exits(122).says("SIGKILL in 0.3s");
    assert_eq!(ran.stdout, "told\n");
    // There is nothing to give back.
    assert_eq!(server.count(paths::RELEASE), 0);
}

#[tokio::test]
async fn a_command_that_ends_by_itself_when_told_is_not_waited_for_any_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let server = Server::start(move |asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => granted_for(600_000),
        _ if has_begun(&path) => stolen(),
        _ => renewed_for(600_000),
    })
    .await;
    let script = format!("trap 'echo told; exit 0' TERM; touch begun; {LONG}");
    // Longer than a test may take.
    let args = ["--ttl", "10m", "--grace", "5m"];
    let ran = run(&server, &folder, &args, &script).await;
    assert_eq!(ran.exits(122).stdout, "told\n");
}

#[tokio::test]
async fn what_the_command_had_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = stolen_once_begun(&folder).await;
    // The shell dies of SIGTERM; what it has started does not.
    let script = format!("sh -c 'trap \"\" TERM; echo $$; touch begun; {LONG}' & wait");
    let ran = run(&server, &folder, &["--grace", "300ms"], &script).await;
    let pid: i32 = ran.exits(122).stdout.trim().parse().unwrap();
    // Whoever has inherited it may take a moment to notice.
    while is_alive(pid) {
        tokio::task::yield_now().await;
    }
}

/// A zombie is not.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

#[tokio::test]
async fn without_an_answer_to_renewals_the_command_is_gone_when_the_hold_ends() {
    let server = Server::start(|asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => {
            let body = json!({ "acquired": true, "lockId": "lock-AQ", "fencingToken": 7,
                               "expiresAt": "", "ttlMs": 990, "renewAfterMs": 330 });
            Answer::Json(200, body)
        }
        paths::RENEW => Answer::RetryAfter(503, 0),
        _ => Answer::Json(204, Value::Null),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let script = format!("trap '' TERM; {LONG}");
    let ran = run(&server, &folder, &["--ttl", "1s"], &script).await;
    ran.exits(122).says("no renewal is answered");
    // Nobody has said that it is over, so it is given back.
    assert_eq!(server.count(paths::RELEASE), 1);
}

#[tokio::test]
async fn signals_are_passed_on_and_the_lock_is_given_back_when_the_command_ends() {
    let server = server(|_| renewed()).await;
    let script = format!("trap 'exit 3' USR1; trap 'echo not yet' USR2; echo begun; {LONG}");
    let mut running = Running::start(&server, &script);
    assert_eq!(running.line().await, "begun");
    running.signal(Signal::USR2);
    assert_eq!(running.line().await, "not yet");
    running.signal(Signal::USR1);
    assert_eq!(running.code().await, 3);
    assert_eq!(server.count(paths::RELEASE), 1);
}

#[tokio::test]
async fn a_command_that_a_signal_ends_has_the_shells_exit_code() {
    let server = server(|_| renewed()).await;
    let mut running = Running::start(&server, &format!("echo begun; {LONG}"));
    assert_eq!(running.line().await, "begun");
    running.signal(Signal::TERM);
    assert_eq!(running.code().await, 143);
    assert_eq!(server.count(paths::RELEASE), 1);
}

#[tokio::test]
async fn a_signal_in_the_queue_ends_it_without_the_command() {
    let server = Server::start(|_| Answer::Hang).await;
    let running = Running::start(&server, "echo begun");
    server.until(|seen| !seen.is_empty()).await;
    running.signal(Signal::TERM);
    assert_eq!(running.code().await, 143);
}
