//! The routes for one lock.

use crate::fake::{TOKEN, lock_id};
use crate::fixture::{self, Server};
use holdfast_api::{ErrorCode, OPENAPI_JSON, paths};
use serde_json::{Value, json};

fn acquire(name: &str) -> String {
    json!({ "name": name, "ttlMs": 30_000, "clientId": "c" }).to_string()
}

fn renew(name: &str) -> String {
    json!({ "lockId": lock_id(name).to_text(), "fencingToken": TOKEN, "ttlMs": 30_000 }).to_string()
}

fn release(name: &str, token: u64) -> String {
    json!({ "lockId": lock_id(name).to_text(), "fencingToken": token }).to_string()
}

async fn check(server: &Server, path: &str, body: &str, status: u16, expected: Value) {
    let reply = server.post(path, body).await;
    assert_eq!(reply.status, status, "{body}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json(), expected, "{body}");
}

#[tokio::test]
async fn an_acquire_is_answered_with_the_hold_or_with_who_has_it() {
    let server = fixture::start();
    let granted = |name: &str| {
        json!({
            "acquired": true,
            "lockId": lock_id(name).to_text(),
            "fencingToken": TOKEN,
            "expiresAt": "2026-11-29T23:17:03.775Z",
            "ttlMs": 29_700,
            "renewAfterMs": 10_000,
        })
    };
    let refused = |reason: &str| json!({ "acquired": false, "expiresAt": "2026-11-29T23:16:36.075Z", "reason": reason });
    let mut again = granted("again");
    again["alreadyHeld"] = json!(true);
    let ünï = "ünï/%2F cödé";
    for (name, expected) in [
        ("free", granted("free")),
        (ünï, granted(ünï)),
        ("again", again),
        ("held", refused("held")),
        ("mine", refused("held_by_you")),
    ] {
        check(&server, paths::ACQUIRE, &acquire(name), 200, expected).await;
    }
}

#[tokio::test]
async fn every_field_of_an_acquire_reaches_the_service() {
    let server = fixture::start();
    let body = json!({
        "name": "n", "ttlMs": 1000, "clientId": "c\u{fc}", "waitMs": 0,
        "metadata": { "host": "a" }, "requestId": "r",
    });
    assert_eq!(
        server.post(paths::ACQUIRE, &body.to_string()).await.status,
        200
    );
    let seen = server.fake.seen.lock().unwrap().remove(0);
    assert_eq!(seen.name.as_str(), "n");
    assert_eq!(seen.ttl.as_ms(), 1000);
    assert_eq!(seen.client_id.as_str(), "c\u{fc}");
    assert_eq!(seen.request_id.unwrap().as_str(), "r");
    assert_eq!(seen.metadata.unwrap()["host"], "a");
    assert_eq!(seen.principal, None);
}

#[tokio::test]
async fn a_renewal_is_answered_the_same_from_memory_and_by_the_service() {
    let server = fixture::start();
    let renewed = json!({
        "renewed": true,
        "expiresAt": "2026-11-29T23:17:03.775Z",
        "ttlMs": 29_700,
        "renewAfterMs": 10_000,
    });
    for (name, status, expected) in [
        ("warm", 200, renewed.clone()),
        ("cold", 200, renewed.clone()),
        (
            "expired",
            409,
            json!({ "renewed": false, "reason": "expired" }),
        ),
        (
            "stolen",
            409,
            json!({ "renewed": false, "reason": "stolen" }),
        ),
    ] {
        check(&server, paths::RENEW, &renew(name), status, expected).await;
    }
    let own_ttl = json!({ "lockId": lock_id("warm").to_text(), "fencingToken": TOKEN });
    check(&server, paths::RENEW, &own_ttl.to_string(), 200, renewed).await;
}

#[tokio::test]
async fn a_release_is_answered_without_a_body_or_with_the_mismatch() {
    let server = fixture::start();
    let reply = server.post(paths::RELEASE, &release("a", TOKEN)).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let mismatch = json!({ "released": false, "reason": "token_mismatch" });
    check(&server, paths::RELEASE, &release("a", 1), 409, mismatch).await;
}

#[tokio::test]
async fn an_error_of_the_service_is_a_problem_that_says_when_to_come_back() {
    let server = fixture::start();
    let unavailable = ErrorCode::ALL.iter().filter(|code| code.status() == 503);
    for code in unavailable {
        let name = code.as_str();
        for (path, body) in [
            (paths::ACQUIRE, acquire(name)),
            (paths::RENEW, renew(name)),
            (paths::RELEASE, release(name, TOKEN)),
        ] {
            let reply = server.post(path, &body).await;
            assert_eq!((reply.status, reply.code().as_str()), (503, name));
            assert_eq!(reply.header("retry-after"), Some("2"));
            let problem = reply.json();
            assert_eq!(problem["retryAfterMs"], 1200);
            assert_eq!(problem["cluster"], "alpha");
            assert_eq!(problem["instance"], path);
        }
    }
}

#[tokio::test]
async fn a_wait_is_answered_with_how_long_it_took_or_that_it_was_in_vain() {
    let server = fixture::start();
    let mut client = server.client().await;
    let waiting = |name: &str, wait_ms: u64| {
        json!({ "name": name, "ttlMs": 30_000, "clientId": "c", "waitMs": wait_ms }).to_string()
    };
    let granted = client.post(paths::ACQUIRE, &waiting("free", 2_000)).await;
    assert_eq!(granted.json()["waitedMs"], 1_500);
    let late = client.post(paths::ACQUIRE, &waiting("late", 2_000)).await;
    let expected = json!({
        "acquired": false, "expiresAt": "2026-11-29T23:16:36.075Z", "reason": "timeout",
        "waitedMs": 2_000,
    });
    assert_eq!(late.json(), expected);
    let at_once = client.post(paths::ACQUIRE, &acquire("free")).await.json();
    assert!(at_once.get("waitedMs").is_none());
    let waits: Vec<u64> = server
        .fake
        .seen
        .lock()
        .unwrap()
        .iter()
        .map(|it| it.wait.as_ms())
        .collect();
    assert_eq!(waits, [2_000, 2_000, 0]);
    let too_long = client.post(paths::ACQUIRE, &waiting("free", 30_001)).await;
    assert_eq!(
        (too_long.status, too_long.code().as_str()),
        (400, "invalid_request")
    );
    assert!(too_long.detail().contains("waitMs"));
}

#[tokio::test]
async fn the_document_of_the_api_is_served() {
    let server = fixture::start();
    let mut client = server.client().await;
    let reply = client.get(paths::OPENAPI).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.body, OPENAPI_JSON.as_bytes());
}

#[tokio::test]
async fn a_client_that_disconnects_while_it_is_answered_takes_nothing_down_with_it() {
    let server = fixture::start();
    let mut client = server.client().await;
    client.send(&crate::raw::post(
        paths::ACQUIRE,
        "",
        acquire("hang").as_bytes(),
    ));
    server.fake.hanging.notified().await;
    drop(client);
    assert_eq!(
        server.post(paths::ACQUIRE, &acquire("free")).await.status,
        200
    );
}
