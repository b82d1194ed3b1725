//! The commands that ask once. What `lockctl run` does is in [`crate::lockctl_run`].

use crate::server::{Answer, Asked, Server, nowhere};
use holdfast_api::paths;
use serde_json::{Value, json};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// The command with nothing in its environment but a path.
pub(crate) fn command(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockctl"));
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOLDFAST_TARGET", url)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// What came of it.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        self
    }

    /// On standard error.
    #[track_caller]
    pub(crate) fn says(&self, expected: &str) -> &Self {
        assert!(self.stderr.contains(expected), "{}", self.stderr);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

pub(crate) async fn lockctl(url: &str, args: &[&str]) -> Ran {
    Ran::new(command(url, args).output().await.unwrap())
}

pub(crate) fn granted() -> Answer {
    granted_for(29_700)
}

/// To be renewed at once.
pub(crate) fn granted_for(ttl_ms: u64) -> Answer {
    let body = json!({ "acquired": true, "lockId": "lock-AQ", "fencingToken": 7, "expiresAt": "",
                       "ttlMs": ttl_ms, "renewAfterMs": 1 });
    Answer::Json(200, body)
}

pub(crate) fn renewed() -> Answer {
    let body = json!({ "renewed": true, "expiresAt": "", "ttlMs": 29_700, "renewAfterMs": 9_700 });
    Answer::Json(200, body)
}

pub(crate) fn refused(reason: &str) -> Answer {
    let body = json!({ "acquired": false, "expiresAt": "", "reason": reason });
    Answer::Json(200, body)
}

fn problem(status: u16, code: &str, detail: &str) -> Answer {
    Answer::Json(status, json!({ "code": code, "detail": detail }))
}

fn good(asked: &Asked<'_>) -> Answer {
    match asked.seen.path.as_str() {
        paths::ACQUIRE => granted(),
        paths::RENEW => renewed(),
        _ => Answer::Json(204, Value::Null),
    }
}

#[tokio::test]
async fn a_hold_goes_from_acquire_to_release_through_a_file_and_shows_its_id_nowhere_else() {
    let server = Server::start(|asked| good(&asked)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hold");
    let file = file.to_str().unwrap();
    let args = ["acquire", "n", "--ttl", "1m", "--hold", file];
    let acquired = lockctl(&server.url, &args).await;
    assert_eq!(acquired.exits(0).json()["fencingToken"], 7);
    assert!(!acquired.stdout.contains("lock-AQ"), "{}", acquired.stdout);
    let renewing = lockctl(&server.url, &["renew", "--hold", file, "--ttl", "2m"]).await;
    assert_eq!(renewing.exits(0).json()["renewed"], true);
    let released = lockctl(&server.url, &["release", "--hold", file, "-o", "table"]).await;
    assert_eq!(released.exits(0).stdout, "released\n");
    let bodies: Vec<Value> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(
        (&bodies[0]["name"], &bodies[0]["ttlMs"]),
        (&json!("n"), &json!(60_000))
    );
    let hold = json!({ "lockId": "lock-AQ", "fencingToken": 7 });
    assert_eq!(
        bodies[1],
        json!({ "lockId": "lock-AQ", "fencingToken": 7, "ttlMs": 120_000 })
    );
    assert_eq!(bodies[2], hold);
}

#[tokio::test]
async fn what_acquire_prints_is_what_release_reads() {
    let server = Server::start(|asked| good(&asked)).await;
    let acquired = lockctl(&server.url, &["acquire", "n"]).await;
    assert_eq!(acquired.exits(0).json()["lockId"], "lock-AQ");
    let mut releasing = command(&server.url, &["release"]);
    let mut releasing = releasing.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = releasing.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut input, acquired.stdout.as_bytes())
        .await
        .unwrap();
    drop(input);
    let released = Ran::new(releasing.wait_with_output().await.unwrap());
    assert_eq!(released.exits(0).json(), json!({ "released": true }));
}

#[tokio::test]
async fn a_definite_no_exits_with_3_and_says_which() {
    let server = Server::start(|asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => refused("held"),
        paths::RENEW => Answer::Json(409, json!({ "renewed": false, "reason": "stolen" })),
        paths::RELEASE => Answer::Json(
            409,
            json!({ "released": false, "reason": "token_mismatch" }),
        ),
        _ => Answer::Json(200, json!({ "released": false })),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hold");
    std::fs::write(&file, r#"{"name":"n","lockId":"lock-AQ","fencingToken":7}"#).unwrap();
    let file = file.to_str().unwrap();
    for (args, reason, says) in [
        (vec!["acquire", "n"], json!("held"), "someone else holds it"),
        (
            vec!["renew", "--hold", file],
            json!("stolen"),
            "someone else has the lock",
        ),
        (
            vec!["release", "--hold", file],
            json!("token_mismatch"),
            "not this hold's",
        ),
        (
            vec!["force-release", "n", "--reason", "r"],
            Value::Null,
            "nobody holds n",
        ),
    ] {
        let ran = lockctl(&server.url, &args).await;
        assert_eq!(ran.exits(3).says(says).json()["reason"], reason, "{args:?}");
    }
    let kept = std::fs::read_to_string(file).unwrap();
    let args = ["acquire", "n", "--hold", file];
    lockctl(&server.url, &args).await.exits(3);
    assert_eq!(std::fs::read_to_string(file).unwrap(), kept);
}

#[tokio::test]
async fn what_may_not_be_done_exits_with_4_and_bad_arguments_with_2() {
    for (status, code, exit) in [
        (401, "unauthenticated", 4),
        (403, "forbidden", 4),
        (501, "not_implemented", 4),
        (400, "invalid_request", 2),
    ] {
        let server = Server::start(move |_| problem(status, code, "do this")).await;
        let ran = lockctl(&server.url, &["acquire", "n"]).await;
        ran.exits(exit).says("do this").says(code);
    }
    let url = nowhere().await;
    for args in [
        vec!["acquire"],
        vec!["acquire", "n", "--ttl", "soon"],
        vec!["acquire", "n", "--cacert", "ca.pem"],
        vec!["acquire", "n", "--token-file", "no/such"],
        vec!["acquire", "n", "--hold", "no/such/folder"],
        vec!["renew", "--hold", "no/such"],
        vec!["list", "--limit", "0"],
        vec!["run", "n", "--grace", "16s", "--", "true"],
    ] {
        lockctl(&url, &args).await.exits(2);
    }
}

#[tokio::test]
async fn while_nobody_answers_it_says_so_once_and_asks_again_for_as_long_as_it_was_told() {
    let server = Server::start(|asked| match asked.nth {
        0..3 => Answer::RetryAfter(503, 0),
        _ => granted(),
    })
    .await;
    let ran = lockctl(&server.url, &["acquire", "n"]).await;
    ran.exits(0).says("asking again for up to 30s");
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let ids: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.body["requestId"].clone())
        .collect();
    assert!(
        ids.len() == 4 && ids.iter().all(|id| id.is_string() && *id == ids[0]),
        "{ids:?}"
    );

    let url = nowhere().await;
    let ran = lockctl(&url, &["acquire", "n", "--patience", "10ms"]).await;
    ran.exits(4).says("no target can be reached");
}

#[tokio::test]
async fn a_long_wait_is_made_of_shorter_ones() {
    let server = Server::start(|asked| match asked.nth {
        0 => refused("timeout"),
        _ => granted(),
    })
    .await;
    lockctl(&server.url, &["acquire", "n", "--wait", "10m"])
        .await
        .exits(0);
    for seen in server.seen() {
        assert_eq!(seen.body["waitMs"], 30_000);
    }
    let server = Server::start(|_| refused("timeout")).await;
    let ran = lockctl(&server.url, &["acquire", "n", "--wait", "1ms"]).await;
    ran.exits(3).says("did not become free in time");
}

#[tokio::test]
async fn the_token_in_the_file_is_sent() {
    let server = Server::start(|asked| good(&asked)).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hft_secret\n").unwrap();
    let path = file.path().to_str().unwrap();
    lockctl(&server.url, &["acquire", "n", "--token-file", path])
        .await
        .exits(0);
    let sent = server.seen()[0].authorization.clone();
    assert_eq!(sent.as_deref(), Some("Bearer hft_secret"));
}
