//! The admin listener, on its thread.

use crate::fake::Fake;
use crate::fixture::{self, Server};
use crate::raw::Client;
use holdfast_api::paths;
use holdfast_gateway::admin::{Admin, start};
use holdfast_gateway::lifecycle::{Lifecycle, Phase};
use holdfast_gateway::map::MapStatus;
use holdfast_gateway::metrics::{Metrics, Present};
use holdfast_gateway::service::ClusterHealth;
use holdfast_gateway::time::Millis;
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::watch;

struct Running {
    address: SocketAddr,
    fake: Arc<Fake>,
    lifecycle: Lifecycle,
    thread: JoinHandle<()>,
}

fn run() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (fake, lifecycle) = (Arc::new(Fake::default()), Lifecycle::default());
    let admin = Admin {
        locks: Arc::clone(&fake),
        metrics: Arc::new(Metrics::default()),
        map: watch::channel(MapStatus::default()).1,
        lifecycle: lifecycle.clone(),
        runtimes: vec![("worker", Handle::current())],
    };
    Running {
        address,
        fake,
        lifecycle,
        thread: start(listener, None, admin).unwrap(),
    }
}

fn cluster(name: &str, proven: bool) -> ClusterHealth {
    ClusterHealth {
        name: Arc::from(name),
        proven,
        proof_age: Some(Millis::from_ms(700)),
        groups: 3,
        locks: 2500,
    }
}

/// Waits until the metrics of `server` have this line.
pub(crate) async fn wait_for_metric(server: &Server, line: &str) {
    let map = MapStatus::default();
    let present = Present {
        clusters: &[],
        engines: &[],
        shards: &[],
        map: &map,
        tasks: &[],
        phase: Phase::Serving,
        ready: true,
    };
    let there = async {
        while !server
            .metrics
            .render(&present)
            .lines()
            .any(|found| found == line)
        {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, there).await.expect(line);
}

#[tokio::test]
async fn the_pages_say_what_they_are_for() {
    let running = run();
    running
        .fake
        .clusters
        .lock()
        .unwrap()
        .push(cluster("alpha", true));
    let mut client = Client::connect(running.address).await;
    let alive = client.get("/livez").await;
    assert_eq!(
        (alive.status, alive.body.as_slice()),
        (200, &b"alive\n"[..])
    );
    let version = client.get("/version").await.json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let shards = client.get("/debug/shards").await.json();
    let expected = json!({
        "clusters": [
            { "name": "alpha", "proven": true, "proofAgeMs": 700, "groups": 3, "locks": 2500 },
        ],
        "shards": [{
            "shard": 5, "cluster": "alpha", "epoch": 2, "state": "active",
            "groups": 1, "locks": 10, "oldestProofMs": 900,
        }],
    });
    assert_eq!(shards, expected);
    let metrics = client.get("/metrics").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = String::from_utf8(metrics.body).unwrap();
    for line in [
        "holdfast_ready 1",
        r#"holdfast_phase{phase="serving"} 1"#,
        r#"holdfast_cluster_locks{cluster="alpha"} 2500"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(text.contains("holdfast_process_tasks{threads=\"worker\"} "));
    assert_eq!(client.get("/").await.status, 404);
    running.lifecycle.advance(Phase::Done);
    running.thread.join().unwrap();
}

#[tokio::test]
async fn readiness_follows_the_map_the_proofs_and_the_phase() {
    let running = run();
    let mut client = Client::connect(running.address).await;
    let without_a_map = client.get("/readyz").await;
    let text = String::from_utf8(without_a_map.body).unwrap();
    assert_eq!(
        (without_a_map.status, text.as_str()),
        (503, "not ready: no shard map is loaded\n")
    );
    let clusters = || running.fake.clusters.lock().unwrap();
    clusters().extend([cluster("alpha", false), cluster("beta", true)]);
    assert_eq!(client.get("/readyz").await.status, 200);
    clusters().pop();
    assert_eq!(client.get("/readyz").await.status, 503);
    clusters()[0].proven = true;
    assert_eq!(client.get("/readyz").await.status, 200);
    // What stops is not ready, and says so until its end.
    for phase in [Phase::Draining, Phase::Finishing] {
        running.lifecycle.advance(phase);
        assert_eq!(client.get("/readyz").await.status, 503);
        assert_eq!(client.get("/livez").await.status, 200);
    }
    running.lifecycle.advance(Phase::Done);
    running.thread.join().unwrap();
}

#[tokio::test]
async fn the_pages_take_only_get_and_refuse_what_is_no_request() {
    let running = run();
    for (sent, status) in [
        ("POST /livez HTTP/1.1\r\nhost: h\r\n\r\n", 405),
        ("GET /livez HTTP/1.1\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
    ] {
        let mut client = Client::connect(running.address).await;
        client.send(sent.as_bytes());
        assert_eq!(client.reply().await.status, status, "{sent:?}");
    }
    let mut client = Client::connect(running.address).await;
    client.send(b"HEAD /metrics HTTP/1.1\r\nhost: h\r\n\r\n");
    assert_eq!(client.try_reply(true).await.unwrap().status, 200);
    running.lifecycle.advance(Phase::Done);
    running.thread.join().unwrap();
}

#[tokio::test]
async fn requests_and_calls_are_counted_by_how_they_went() {
    let server = fixture::start();
    let mut client = server.client().await;
    client
        .post(
            paths::ACQUIRE,
            r#"{"name":"a","ttlMs":1000,"clientId":"c"}"#,
        )
        .await;
    client
        .post(
            paths::ACQUIRE,
            r#"{"name":"held","ttlMs":1000,"clientId":"c"}"#,
        )
        .await;
    client
        .post(
            paths::ACQUIRE,
            r#"{"name":"overloaded","ttlMs":1000,"clientId":"c"}"#,
        )
        .await;
    client.post(paths::ACQUIRE, "{}").await;
    let item = r#"{"name":"b","ttlMs":1000,"clientId":"c"}"#;
    let batch = format!(r#"{{"acquisitions":[{item},{item}]}}"#);
    client.post(paths::ACQUIRE_BATCH, &batch).await;
    client.get("/nowhere").await;
    for line in [
        r#"holdfast_http_requests_total{operation="acquire",outcome="ok"} 1"#,
        r#"holdfast_http_requests_total{operation="acquire",outcome="refused"} 1"#,
        r#"holdfast_http_requests_total{operation="acquire",outcome="overloaded"} 1"#,
        r#"holdfast_http_requests_total{operation="acquire",outcome="invalid_request"} 1"#,
        r#"holdfast_http_requests_total{operation="acquire_batch",outcome="ok"} 1"#,
        r#"holdfast_http_requests_total{operation="other",outcome="not_found"} 1"#,
        r#"holdfast_lock_calls_total{operation="acquire",outcome="ok"} 3"#,
        r#"holdfast_lock_calls_total{operation="acquire",outcome="refused"} 1"#,
        r#"holdfast_http_request_duration_seconds_count{operation="acquire"} 4"#,
        "holdfast_http_connections 1",
    ] {
        wait_for_metric(&server, line).await;
    }
}
