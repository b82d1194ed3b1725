//! The routes for many locks.

use crate::fake::{TOKEN, lock_id};
use crate::fixture;
use holdfast_api::paths;
use serde_json::{Value, json};

fn renewal(name: &str) -> Value {
    json!({ "lockId": lock_id(name).to_text(), "fencingToken": TOKEN })
}

fn acquisition(name: &str) -> Value {
    json!({ "name": name, "ttlMs": 30_000, "clientId": "c" })
}

/// The results, each reduced to what tells them apart.
fn kinds(results: &Value) -> Vec<String> {
    let kind = |result: &Value| {
        for field in ["acquired", "renewed", "released"] {
            match result[field] {
                Value::Bool(true) => return "yes".to_owned(),
                Value::Bool(false) => return result["reason"].as_str().unwrap().to_owned(),
                _ => {}
            }
        }
        result["error"]["code"].as_str().unwrap().to_owned()
    };
    results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(kind)
        .collect()
}

#[tokio::test]
async fn each_renewal_of_a_batch_stands_alone_and_in_its_place() {
    let server = fixture::start();
    let mut bad_ttl = renewal("warm");
    bad_ttl["ttlMs"] = json!(1);
    let bad_token = json!({ "lockId": lock_id("a").to_text(), "fencingToken": 1_u64 << 53 });
    let bad_id = json!({ "lockId": "lock-x", "fencingToken": 1 });
    let body = json!({ "renewals": [
        renewal("cold"), renewal("warm"), bad_id, renewal("owner_unreachable"), bad_ttl,
        renewal("stolen"), bad_token, renewal("expired"), renewal("warm-2"),
    ] });
    let reply = server.post(paths::RENEW_BATCH, &body.to_string()).await;
    assert_eq!(reply.status, 200);
    let expected = [
        "yes",
        "yes",
        "invalid_lock_id",
        "owner_unreachable",
        "invalid_request",
        "stolen",
        "invalid_request",
        "expired",
        "yes",
    ];
    let results = reply.json();
    assert_eq!(kinds(&results), expected);
    assert_eq!(results["results"][3]["error"]["retryAfterMs"], 1200);
    assert_eq!(results["results"][0]["ttlMs"], 29_700);
}

#[tokio::test]
async fn each_acquire_and_each_release_of_a_batch_stands_alone() {
    let server = fixture::start();
    let mut waits = acquisition("b");
    waits["waitMs"] = json!(10);
    let body = json!({ "acquisitions": [
        acquisition("a"), acquisition(""), acquisition("held"), waits,
        acquisition("shard_moving"), acquisition("b"),
    ] });
    let reply = server.post(paths::ACQUIRE_BATCH, &body.to_string()).await;
    let expected = [
        "yes",
        "invalid_request",
        "held",
        "yes",
        "shard_moving",
        "yes",
    ];
    assert_eq!(
        (reply.status, kinds(&reply.json())),
        (200, expected.map(str::to_owned).to_vec())
    );

    let wrong = json!({ "lockId": lock_id("a").to_text(), "fencingToken": 1 });
    let body = json!({ "releases": [renewal("a"), wrong, renewal("outcome_unknown")] });
    let reply = server.post(paths::RELEASE_BATCH, &body.to_string()).await;
    let expected = ["yes", "token_mismatch", "outcome_unknown"];
    assert_eq!(
        (reply.status, kinds(&reply.json())),
        (200, expected.map(str::to_owned).to_vec())
    );
}

#[tokio::test]
async fn a_batch_of_the_largest_size_is_answered_in_order() {
    let server = fixture::start();
    let names = ["warm", "cold", "expired", "stolen"];
    let renewals: Vec<Value> = (0..10_000).map(|at| renewal(names[at % 4])).collect();
    let mut body = json!({ "renewals": renewals });
    let mut client = server.client().await;
    let reply = client.post(paths::RENEW_BATCH, &body.to_string()).await;
    let expected = ["yes", "yes", "expired", "stolen"];
    let kinds = kinds(&reply.json());
    assert_eq!((reply.status, kinds.len()), (200, 10_000));
    assert!(
        kinds
            .iter()
            .enumerate()
            .all(|(at, kind)| kind == expected[at % 4])
    );

    body["renewals"]
        .as_array_mut()
        .unwrap()
        .push(renewal("warm"));
    let reply = client.post(paths::RENEW_BATCH, &body.to_string()).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (400, "invalid_request")
    );
    assert!(reply.detail().contains("10001"), "{}", reply.detail());
    let empty = client.post(paths::RENEW_BATCH, r#"{"renewals":[]}"#).await;
    assert_eq!(
        (empty.status, empty.json()),
        (200, json!({ "results": [] }))
    );
}

#[tokio::test]
async fn a_wrong_type_in_one_item_refuses_the_batch_and_names_the_item() {
    let server = fixture::start();
    for (path, body, place) in [
        (
            paths::RENEW_BATCH,
            r#"{"renewals":[{"lockId":"a","fencingToken":1},{"lockId":"a","fencingToken":"1"}]}"#,
            "renewals[1].fencingToken",
        ),
        (
            paths::ACQUIRE_BATCH,
            r#"{"acquisitions":[{"name":"a","ttlMs":1e3,"clientId":"c"}]}"#,
            "acquisitions[0].ttlMs",
        ),
        (
            paths::RELEASE_BATCH,
            r#"{"releases":[["lock-a",1]]}"#,
            "releases[0]",
        ),
        (
            paths::RELEASE_BATCH,
            r#"{"releases":[{"lockId":"a"}]}"#,
            "releases[0]",
        ),
    ] {
        let reply = server.post(path, body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "invalid_request")
        );
        assert!(reply.detail().starts_with(place), "{}", reply.detail());
    }
}

/// With a paused clock the five seconds pass as soon as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn what_is_not_answered_in_time_is_unknown_and_what_was_not_begun_is_not_done() {
    let server = fixture::start();
    let mut acquisitions = vec![acquisition("hang"); 1024];
    acquisitions.insert(3, acquisition("free"));
    acquisitions.push(acquisition("free"));
    let body = json!({ "acquisitions": acquisitions }).to_string();
    let reply = server.post(paths::ACQUIRE_BATCH, &body).await;
    let kinds = kinds(&reply.json());
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!(count("yes"), 1);
    assert_eq!(kinds[3], "yes");
    assert_eq!(count("outcome_unknown"), 1024);
    assert_eq!(kinds[1025], "overloaded");
}
