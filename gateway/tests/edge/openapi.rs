//! Real replies, held against the OpenAPI document.

use crate::fake::{TOKEN, lock_id};
use crate::fixture;
use crate::raw::{Reply, get, post};
use holdfast_api::{OPENAPI_JSON, paths};
use holdfast_gateway::lock_id::LockId;
use serde_json::{Value, json};

fn document() -> Value {
    serde_json::from_str(OPENAPI_JSON).unwrap()
}

/// What the document says about this answer to this request.
fn documented(path: &str, method: &str, status: u16) -> Value {
    let document = document();
    let response = &document["paths"][path][method]["responses"][status.to_string()];
    let response = match response["$ref"].as_str() {
        Some(target) => document.pointer(&target[1..]).unwrap(),
        None => response,
    };
    assert!(response.is_object(), "{method} {path} has no {status}");
    response.clone()
}

fn check(path: &str, method: &str, reply: &Reply) {
    let response = documented(path, method, reply.status);
    let Some(content) = response.get("content") else {
        assert!(reply.body.is_empty());
        return;
    };
    let content_type = reply.header("content-type").unwrap();
    let mut schema = content[content_type]["schema"].clone();
    assert!(
        schema.is_object(),
        "{method} {path} {}: {content_type}",
        reply.status
    );
    schema["components"] = document()["components"].clone();
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    let body = reply.json();
    let errors: Vec<String> = validator
        .iter_errors(&body)
        .map(|error| error.to_string())
        .collect();
    assert!(
        errors.is_empty(),
        "{method} {path} {}: {body}: {errors:?}",
        reply.status
    );
    for header in response["headers"]
        .as_object()
        .into_iter()
        .flat_map(|h| h.keys())
    {
        assert!(
            reply.header(&header.to_lowercase()).is_some(),
            "{path}: no {header}"
        );
    }
}

fn acquire(name: &str) -> Value {
    json!({ "name": name, "ttlMs": 1000, "clientId": "c" })
}

fn hold(name: &str, token: u64) -> Value {
    json!({ "lockId": lock_id(name).to_text(), "fencingToken": token })
}

#[tokio::test]
async fn every_answer_of_a_lock_route_is_what_the_document_says() {
    let server = fixture::start();
    let batch = |field: &str, items: &[Value]| json!({ field: items });
    for (path, bodies) in [
        (
            paths::ACQUIRE,
            vec![
                acquire("a"),
                acquire("again"),
                acquire("held"),
                acquire("mine"),
                acquire("draining"),
            ],
        ),
        (
            paths::RENEW,
            vec![
                hold("warm", 1),
                hold("stolen", 1),
                hold("expired", 1),
                hold("overloaded", 1),
            ],
        ),
        (
            paths::RELEASE,
            vec![hold("a", TOKEN), hold("a", 1), hold("shard_moving", 1)],
        ),
        (
            paths::ACQUIRE_BATCH,
            vec![batch(
                "acquisitions",
                &[acquire("a"), acquire("held"), acquire("draining")],
            )],
        ),
        (
            paths::RENEW_BATCH,
            vec![batch(
                "renewals",
                &[hold("a", 1), hold("stolen", 1), hold("draining", 1)],
            )],
        ),
        (
            paths::RELEASE_BATCH,
            vec![batch(
                "releases",
                &[hold("a", TOKEN), hold("a", 1), hold("draining", 1)],
            )],
        ),
        (
            paths::FORCE_RELEASE,
            vec![
                json!({ "name": "a", "reason": "r" }),
                json!({ "name": "held", "reason": "r", "immediate": true }),
                json!({ "name": "shard_moving", "reason": "r" }),
            ],
        ),
    ] {
        for body in bodies {
            check(path, "post", &server.post(path, &body.to_string()).await);
        }
    }
    let mut client = server.client().await;
    for query in [
        "name=held",
        "name=forced",
        "name=free",
        "name=cluster_unavailable",
        "prefix=&limit=2",
        "prefix=z",
        "",
    ] {
        let reply = client.get(&format!("{}?{query}", paths::LOCKS)).await;
        check(paths::LOCKS, "get", &reply);
    }
}

#[tokio::test]
async fn every_refusal_is_what_the_document_says() {
    let server = fixture::start();
    for path in paths::ALL {
        let posts = ![paths::LOCKS, paths::OPENAPI].contains(path);
        let method = if posts { "post" } else { "get" };
        let mut requests = vec![
            post(path, "host: twice\r\n", b"{}"),
            post(path, &format!("filler: {}\r\n", "x".repeat(20_000)), b"{}"),
            get(path).into_bytes(),
            post(path, "", b"{}"),
        ];
        if posts {
            requests.push(post(path, "content-encoding: gzip\r\n", b"{}"));
            requests.push(post(path, "", &[b' '; 5 << 20]));
        }
        for request in requests {
            let mut client = server.client().await;
            client.send(&request);
            check(path, method, &client.reply().await);
        }
    }
}

#[test]
fn every_lock_id_in_an_example_is_one() {
    let document = document();
    let mut ids = 0;
    let mut todo = vec![&document];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(id) = fields.get("lockId").and_then(Value::as_str) {
                    assert!(LockId::parse(id).is_some(), "{id}");
                    ids += 1;
                }
                todo.extend(fields.values());
            }
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    assert!(ids > 5);
}
