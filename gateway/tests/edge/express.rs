//! Renewals that are answered before the HTTP library sees them.

use crate::fake::{TOKEN, lock_id};
use crate::fixture;
use crate::raw::{Reply, get, post};
use holdfast_api::paths;
use holdfast_gateway::lifecycle::Phase;
use holdfast_gateway::map::MapStatus;
use holdfast_gateway::metrics::Present;
use serde_json::json;

fn renewal(name: &str) -> Vec<u8> {
    let lock_id = lock_id(name).to_text();
    format!(r#"{{"lockId":"{lock_id}","fencingToken":{TOKEN}}}"#).into_bytes()
}

/// One that the express way takes.
fn express(name: &str) -> Vec<u8> {
    post(paths::RENEW, "", &renewal(name))
}

/// The same, with a header that sends it to the library.
fn through_the_library(name: &str) -> Vec<u8> {
    post(paths::RENEW, "x-unusual: 1\r\n", &renewal(name))
}

/// Everything but the date, which the two ways take from different clocks.
fn undated(reply: &Reply) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers = reply.headers.clone();
    for (name, value) in &mut headers {
        if name == "date" {
            assert_eq!(value.len(), "Sun, 06 Nov 1994 08:49:37 GMT".len());
            value.clear();
        }
    }
    (reply.status, headers, reply.body.clone())
}

#[tokio::test]
async fn both_ways_give_the_same_reply() {
    let server = fixture::start();
    for name in ["warm", "cold", "expired", "stolen", "owner_unreachable"] {
        let mut client = server.client().await;
        client.send(&express(name));
        let one = client.reply().await;
        client.send(&through_the_library(name));
        let other = client.reply().await;
        assert_eq!(undated(&one), undated(&other), "{name}");
    }
}

#[tokio::test]
async fn a_usual_renewal_takes_the_express_way_and_an_unusual_one_does_not() {
    // The library dates its replies by the machine's clock, the express way by the edge's.
    const STILL: &str = "Sun, 29 Nov 2026 23:16:34 GMT";
    let server = fixture::start();
    let mut client = server.client().await;
    for (request, is_express) in [
        (express("warm"), true),
        (through_the_library("warm"), false),
        (express("cold"), false),
        (express("warm"), true),
    ] {
        client.send(&request);
        let reply = client.reply().await;
        assert_eq!(reply.header("date") == Some(STILL), is_express);
    }
}

#[tokio::test]
async fn replies_come_in_the_order_of_the_requests_whichever_way_each_takes() {
    let server = fixture::start();
    let mut client = server.client().await;
    let openapi = get(paths::OPENAPI).into_bytes();
    let sent = [
        express("warm"),
        openapi.clone(),
        express("warm"),
        express("expired"),
        express("warm"),
        through_the_library("stolen"),
        express("warm"),
        openapi,
        express("warm"),
    ];
    client.send(&sent.concat());
    for expected in [200, 200, 200, 409, 200, 409, 200, 200, 200] {
        assert_eq!(client.reply().await.status, expected);
    }
}

#[tokio::test]
async fn a_renewal_waits_for_the_reply_to_the_request_before_it() {
    let server = fixture::start();
    let mut client = server.client().await;
    let acquire = br#"{"name":"gate","ttlMs":1000,"clientId":"c"}"#;
    client.send(&post(paths::ACQUIRE, "", acquire));
    server.fake.hanging.notified().await;
    client.send(&express("warm"));
    server.fake.gate.notify_one();
    assert_eq!(client.reply().await.json()["acquired"], true);
    assert_eq!(client.reply().await.json()["renewed"], true);
}

#[tokio::test]
async fn a_renewal_that_arrives_in_pieces_is_answered_once() {
    let server = fixture::start();
    let whole = express("warm");
    let head = whole.len() - renewal("warm").len();
    for cut in [1, 10, head - 1, head, head + 1, whole.len() - 1] {
        let mut client = server.client().await;
        // What came before makes the connection one that is in use.
        client.send(&express("warm"));
        assert_eq!(client.reply().await.status, 200);
        client.send(&whole[..cut]);
        client.send(&whole[cut..]);
        assert_eq!(client.reply().await.status, 200, "cut at {cut}");
        assert_eq!(client.get(paths::OPENAPI).await.status, 200);
    }
}

#[tokio::test]
async fn of_many_renewals_sent_at_once_each_is_answered() {
    const COUNT: usize = 30_000;
    let server = fixture::start();
    let mut client = server.client().await;
    client.send(&express("warm").repeat(COUNT));
    for _ in 0..COUNT {
        assert_eq!(client.reply().await.status, 200);
    }
}

#[tokio::test]
async fn while_draining_a_renewal_ends_its_connection_too() {
    let server = fixture::start();
    let mut client = server.client().await;
    client.send(&express("warm"));
    assert_eq!(client.reply().await.header("connection"), None);
    server.lifecycle.advance(Phase::Draining);
    client.send(&express("warm"));
    assert_eq!(client.reply().await.header("connection"), Some("close"));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_forged_renewal_is_refused_as_ever() {
    let server = fixture::start();
    for (body, status, code) in [
        (
            json!({ "lockId": "lock-x", "fencingToken": 1 }),
            400,
            "invalid_lock_id",
        ),
        (
            json!({ "lockId": lock_id("warm").to_text(), "fencingToken": 1_u64 << 53 }),
            400,
            "invalid_request",
        ),
    ] {
        let mut client = server.client().await;
        client.send(&post(paths::RENEW, "", body.to_string().as_bytes()));
        let reply = client.reply().await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code));
    }
}

#[tokio::test]
async fn both_ways_are_counted_alike() {
    let server = fixture::start();
    let mut client = server.client().await;
    for request in [
        express("warm"),
        through_the_library("warm"),
        express("warm"),
    ] {
        client.send(&request);
        assert_eq!(client.reply().await.status, 200);
    }
    let text = server.metrics.render(&Present {
        clusters: &[],
        engines: &[],
        shards: &[],
        map: &MapStatus::default(),
        tasks: &[],
        phase: Phase::Serving,
        ready: true,
    });
    for family in ["holdfast_http_requests_total", "holdfast_lock_calls_total"] {
        let line = format!(r#"{family}{{operation="renew",outcome="ok"}} 3"#);
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}
