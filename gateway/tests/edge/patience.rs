//! Clients that are slow, idle, too many, or do not listen.

use crate::fake::{TOKEN, UNIX_MS, lock_id};
use crate::fixture;
use crate::raw::{get, post};
use holdfast_api::paths;
use holdfast_gateway::auth::Auth;
use holdfast_gateway::http::{ConnectionsMax, EdgeSettings, Timeouts};
use holdfast_gateway::time::{Clock, Instant, Millis};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

const BODY: &[u8] = br#"{"name":"a","ttlMs":1000,"clientId":"c"}"#;

/// Real sockets need real time, so a time that must run out is short, and one that must not is
/// longer than any test.
const SHORT: Millis = Millis::from_ms(50);
const NEVER: Millis = Millis::from_secs(3600);

fn timeouts(change: impl FnOnce(&mut Timeouts)) -> EdgeSettings {
    let mut timeouts = Timeouts {
        header: NEVER,
        body: NEVER,
        idle: NEVER,
        write: NEVER,
    };
    change(&mut timeouts);
    EdgeSettings {
        timeouts,
        ..EdgeSettings::default()
    }
}

#[tokio::test]
async fn headers_that_do_not_arrive_in_time_are_answered_408_and_the_connection_ends() {
    let server = fixture::start_with(timeouts(|t| t.header = SHORT));
    for beginning in ["G", "POST /api/v1/locks/acquire HTTP/1.1\r\nhost: h\r\n"] {
        let mut client = server.client().await;
        client.send(beginning.as_bytes());
        let reply = client.reply().await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (408, "request_timeout")
        );
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn the_time_for_headers_does_not_run_between_requests() {
    let server = fixture::start_with(timeouts(|t| t.header = SHORT));
    let mut idle = server.client().await;
    assert_eq!(idle.get(paths::OPENAPI).await.status, 200);
    // Longer than the time for headers: another client's time for them runs out meanwhile.
    let mut slow = server.client().await;
    slow.send(b"G");
    assert_eq!(slow.reply().await.status, 408);
    assert_eq!(idle.get(paths::OPENAPI).await.status, 200);
}

#[tokio::test]
async fn headers_in_pieces_are_one_request() {
    let server = fixture::start();
    let mut client = server.client().await;
    let request = [
        post(paths::ACQUIRE, "", BODY),
        post(paths::ACQUIRE, "", BODY),
    ]
    .concat();
    for byte in request {
        client.send(&[byte]);
    }
    assert_eq!(client.reply().await.status, 200);
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_answered_408_and_the_connection_ends() {
    let server = fixture::start_with(timeouts(|t| t.body = SHORT));
    let whole = post(paths::ACQUIRE, "", BODY);
    let chunked = b"POST /api/v1/locks/acquire HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\
        \r\ncontent-type: application/json\r\n\r\n5\r\n{\"nam\r\n";
    for beginning in [
        &whole[..whole.len() - 1],
        &whole[..whole.len() - BODY.len()],
        chunked,
    ] {
        let mut client = server.client().await;
        client.send(beginning);
        let reply = client.reply().await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (408, "request_timeout")
        );
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    // Long enough for the request below on a busy machine.
    let idle = Millis::from_ms(700);
    let server = fixture::start_with(timeouts(|t| t.idle = idle));
    let mut never_used = server.client().await;
    assert!(never_used.is_closed().await);
    let mut used = server.client().await;
    assert_eq!(used.get(paths::OPENAPI).await.status, 200);
    assert!(used.is_closed().await);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_replies_is_cut_off() {
    let server = fixture::start_with(timeouts(|t| t.write = SHORT));
    let mut client = server.client().await;
    assert_eq!(client.get(paths::OPENAPI).await.status, 200);
    let many = get(paths::OPENAPI).repeat(1_000);
    client.send(many.as_bytes());
    // Nothing is read here until the server gives up, which frees the connection's place.
    let text = "holdfast_http_connections 0";
    crate::admin::wait_for_metric(&server, text).await;
}

#[tokio::test]
async fn past_the_limit_of_connections_a_client_is_told_to_come_back() {
    let settings = EdgeSettings {
        connections_max: ConnectionsMax(1),
        ..EdgeSettings::default()
    };
    let server = fixture::start_with(settings);
    let mut first = server.client().await;
    assert_eq!(first.get(paths::OPENAPI).await.status, 200);
    let mut second = server.client().await;
    second.send(&post(paths::ACQUIRE, "", BODY));
    let reply = second.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "overloaded"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(second.is_closed().await);
    assert_eq!(first.get(paths::OPENAPI).await.status, 200);
    drop(first);
    crate::admin::wait_for_metric(&server, "holdfast_http_connections 0").await;
    let mut third = server.client().await;
    assert_eq!(third.get(paths::OPENAPI).await.status, 200);
}

/// A clock by which everything takes a second, as on a machine that does not keep up.
#[derive(Default)]
struct Racing(AtomicU64);

impl Clock for Racing {
    fn now(&self) -> Instant {
        Instant::from_ms(self.0.fetch_add(1_000, Ordering::Relaxed))
    }

    fn unix_ms(&self) -> u64 {
        UNIX_MS
    }
}

#[tokio::test]
async fn a_gateway_that_does_not_keep_up_refuses_acquires_and_has_renewals_come_later() {
    let auth = Auth::open(fixture::no_budgets());
    let clock = Racing::default();
    let server = fixture::start_with_clock(EdgeSettings::default(), auth, None, clock);
    crate::admin::wait_for_metric(&server, "holdfast_pressure_ratio 1").await;
    let acquire = json!({"name": "n", "ttlMs": 30_000, "clientId": "c"});
    // The first look only notes that it is late.
    let refused = loop {
        let reply = server.post(paths::ACQUIRE, &acquire.to_string()).await;
        if reply.status != 200 {
            break reply;
        }
        assert!(reply.json()["renewAfterMs"].as_u64() > Some(13_000));
    };
    let told = (refused.status, refused.code());
    assert_eq!(told, (503, "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let batch = json!({ "acquisitions": [acquire] }).to_string();
    let reply = server.post(paths::ACQUIRE_BATCH, &batch).await;
    assert_eq!(reply.status, 503);
    let hold = json!({"lockId": lock_id("n").to_text(), "fencingToken": TOKEN});
    let batch = json!({ "renewals": [hold.clone(), hold.clone()] }).to_string();
    let renewed = server.post(paths::RENEW, &hold.to_string()).await.json();
    let many = server.post(paths::RENEW_BATCH, &batch).await.json();
    for renewed in [&renewed, &many["results"][1]] {
        // A third of the TTL is 10,000 ms.
        assert!(renewed["renewAfterMs"].as_u64() > Some(13_000), "{renewed}");
        assert!(
            renewed["renewAfterMs"].as_u64() <= Some(29_700 / 2),
            "{renewed}"
        );
    }
    let released = server.post(paths::RELEASE, &hold.to_string()).await;
    assert_eq!(released.status, 204);
}
