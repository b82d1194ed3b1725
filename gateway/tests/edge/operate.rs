//! The routes for operators.

use crate::fake::{LISTED, TOKEN};
use crate::fixture;
use crate::raw::{Client, Reply};
use holdfast_api::paths;
use serde_json::{Value, json};

async fn get(client: &mut Client, query: &str) -> Reply {
    client.get(&format!("{}?{query}", paths::LOCKS)).await
}

#[tokio::test]
async fn a_lock_is_shown_without_its_handle() {
    let server = fixture::start();
    let mut client = server.client().await;
    let held = json!({
        "name": "held",
        "held": true,
        "clientId": "c",
        "fencingToken": TOKEN,
        "expiresAt": "2026-11-29T23:16:36.075Z",
        "heldForMs": 73_000,
        "metadata": { "host": "h" },
        "waiters": 3,
        "shard": 17,
        "cluster": "alpha",
    });
    let mut forced = held.clone();
    forced["name"] = json!("forced");
    forced["forceReleased"] = json!(true);
    let free = json!({
        "name": "ünï/ +x", "held": false, "waiters": 3, "shard": 17, "cluster": "alpha",
    });
    for (query, expected) in [
        ("name=held", held),
        ("name=forced", forced),
        ("name=%C3%BCn%C3%AF%2F+%2Bx", free),
    ] {
        let reply = get(&mut client, query).await;
        assert_eq!((reply.status, reply.json()), (200, expected), "{query}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn pages_follow_each_other_and_each_lock_is_on_one_of_them() {
    let server = fixture::start();
    let mut client = server.client().await;
    for limit in [1, 2, 4, 5, 500] {
        let mut names: Vec<String> = Vec::new();
        let mut cursor = String::new();
        loop {
            let query = format!("prefix=&limit={limit}{cursor}");
            let page = get(&mut client, &query).await.json();
            let locks = page["locks"].as_array().unwrap();
            assert!(locks.len() <= limit && locks.iter().all(|lock| lock["held"] == true));
            let shown = locks
                .iter()
                .map(|lock| lock["name"].as_str().unwrap().to_owned());
            names.extend(shown);
            match &page["nextCursor"] {
                Value::String(next) => cursor = format!("&cursor={next}"),
                other => break assert!(other.is_null()),
            }
        }
        assert_eq!(names, LISTED, "{limit}");
    }
    let of_prefix = get(&mut client, "prefix=a%2F").await.json();
    assert_eq!(of_prefix["locks"].as_array().unwrap().len(), 2);
    assert_eq!(
        get(&mut client, "prefix=z").await.json(),
        json!({ "locks": [] })
    );
}

#[tokio::test]
async fn a_page_that_cannot_be_whole_is_an_error_that_names_the_cluster() {
    let server = fixture::start();
    let mut client = server.client().await;
    for query in ["name=cluster_unavailable", "prefix=cluster_unavailable"] {
        let reply = get(&mut client, query).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (503, "cluster_unavailable")
        );
        assert_eq!(reply.json()["cluster"], "alpha");
        assert_eq!(reply.header("retry-after"), Some("2"));
    }
}

#[tokio::test]
async fn a_query_that_means_nothing_is_refused() {
    let server = fixture::start();
    let mut client = server.client().await;
    for query in [
        "",
        "name=",
        "name=a&prefix=b",
        "nam=a",
        "name=%FF",
        "name=a%00b",
        "name=a&name=a",
        "prefix=&limit=0",
        "prefix=&limit=99999999999999999999",
        "prefix=&cursor=!",
    ] {
        let reply = get(&mut client, query).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "invalid_request"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_force_release_says_when_the_name_is_free_or_that_nobody_held_it() {
    let server = fixture::start();
    let released =
        |free_at: &str| json!({ "released": true, "fencingToken": TOKEN, "freeAt": free_at });
    for (body, expected) in [
        (
            json!({ "name": "held", "reason": "r" }),
            released("2026-11-29T23:16:36.075Z"),
        ),
        (
            json!({ "name": "held", "reason": "r", "immediate": false }),
            released("2026-11-29T23:16:36.075Z"),
        ),
        (
            json!({ "name": "held", "reason": "r", "immediate": true }),
            released("2026-11-29T23:16:34.075Z"),
        ),
        (
            json!({ "name": "free", "reason": "r" }),
            json!({ "released": false }),
        ),
    ] {
        let reply = server.post(paths::FORCE_RELEASE, &body.to_string()).await;
        assert_eq!((reply.status, reply.json()), (200, expected), "{body}");
    }
}

#[tokio::test]
async fn a_force_release_without_a_reason_is_refused() {
    let server = fixture::start();
    for (body, field) in [
        (json!({ "name": "held" }), "reason"),
        (json!({ "name": "held", "reason": "" }), "reason"),
        (json!({ "name": "held", "reason": "a\nb" }), "reason"),
        (
            json!({ "name": "held", "reason": "r".repeat(257) }),
            "reason",
        ),
        (json!({ "name": "", "reason": "r" }), "name"),
        (
            json!({ "name": "held", "reason": "r", "immediate": 1 }),
            "immediate",
        ),
        (
            json!({ "name": "held", "reason": "r", "force": true }),
            "force",
        ),
    ] {
        let reply = server.post(paths::FORCE_RELEASE, &body.to_string()).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "invalid_request")
        );
        assert!(reply.detail().contains(field), "{body}: {}", reply.detail());
    }
}
