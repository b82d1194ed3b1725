use anyhow::ensure;
use holdfast_rig::{Process, ProcessSpec, free_port, tool, wait_until};
use std::fs;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A shell that runs `script`.
fn shell(script: &str) -> ProcessSpec {
    ProcessSpec::new("/bin/sh").args(["-c", script])
}

#[tokio::test]
async fn a_process_that_ends_before_it_is_ready_is_an_error_that_shows_its_log() {
    let spec = shell("echo the configuration is broken; exit 3")
        .ready_when_get_answers_200(free_port().unwrap(), "/ready");
    let error = Process::start(spec).await.unwrap_err();
    assert!(
        format!("{error:#}").contains("the configuration is broken"),
        "{error:#}"
    );
}

#[tokio::test]
async fn a_terminated_process_ends_with_the_status_it_chose() {
    let spec = shell("trap 'exit 7' TERM; echo started; while :; do sleep 0.01; done");
    let mut process = Process::start(spec).await.unwrap();
    wait_for_log(&process, "started").await.unwrap();
    let status = process.terminate().await.unwrap();
    assert_eq!(status.code(), Some(7));
    assert!(!process.is_running());
}

#[tokio::test]
async fn the_log_and_the_directory_stay_over_a_restart() {
    let spec = shell("echo run $X; exec sleep 1000").env("X", "number");
    let mut process = Process::start(spec).await.unwrap();
    wait_for_log(&process, "run number\n").await.unwrap();
    fs::write(process.dir().join("kept"), "data").unwrap();
    process.restart().await.unwrap();
    wait_for_log(&process, "run number\nrun number\n")
        .await
        .unwrap();
    assert_eq!(
        fs::read_to_string(process.dir().join("kept")).unwrap(),
        "data"
    );
}

#[tokio::test]
async fn dropping_ends_the_process_even_if_it_is_stopped_and_removes_its_directory() {
    let mut process = Process::start(shell("exec sleep 1000")).await.unwrap();
    let (pid, dir) = (process.pid().unwrap(), process.dir().to_owned());
    process.stop().await.unwrap();
    drop(process);
    assert!(!is_alive(pid));
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_process_ends_with_a_test_that_runs_no_destructors() {
    // The helper cannot remove its directory.
    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .env("TMPDIR", temporary.path())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "process::helper_that_aborts",
        ])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let pid = stdout
        .lines()
        .find_map(|line| line.split("pid=").nth(1))
        .expect("the helper's pid");
    let pid = pid.parse().unwrap();
    wait_until("the orphan to end", PATIENCE, || async move {
        ensure!(!is_alive(pid), "process {pid} is alive");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
#[ignore = "is run by a_process_ends_with_a_test_that_runs_no_destructors"]
async fn helper_that_aborts() {
    let process = Process::start(shell("echo started; exec sleep 1000"))
        .await
        .unwrap();
    wait_for_log(&process, "started").await.unwrap();
    println!("\npid={}", process.pid().unwrap());
    std::process::abort();
}

#[test]
fn a_missing_tool_says_how_to_get_it() {
    let error = tool("no-such/bin/tool").unwrap_err().to_string();
    assert!(error.contains("make tools"), "{error}");
}

async fn wait_for_log(process: &Process, text: &str) -> anyhow::Result<()> {
    wait_until("the log", PATIENCE, || async {
        ensure!(
            process.log().contains(text),
            "the log is {:?}",
            process.log()
        );
        Ok(())
    })
    .await
}

/// A dead process that its adopter has not waited for counts as dead.
fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('Z'))
    })
}
