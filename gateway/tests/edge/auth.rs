//! Who may do what, over the wire.

use crate::fake::{TOKEN, UNIX_MS, lock_id};
use crate::fixture::{self, Server};
use crate::raw::{Client, Reply, get, post};
use holdfast_api::paths;
use holdfast_gateway::auth::{
    Auth, AuthMode, BearerToken, Budgets, Rates, Roll, RollEntry, RollFile,
};
use holdfast_gateway::http::EdgeSettings;
use serde_json::json;
use std::sync::Arc;

fn token(bits: u8) -> String {
    BearerToken::from_random([bits; 32]).reveal().to_owned()
}

/// Principal `n` has token `n` and may acquire names that begin with `warm-n` or `cold`.
fn roll(principals: &[u8]) -> Roll {
    let entry = |bits: &u8| RollEntry {
        name: format!("principal-{bits}"),
        token_sha256: vec![BearerToken::from_random([*bits; 32]).hash().to_hex()],
        acquire: vec![format!("warm-{bits}"), "cold".to_owned(), "gate".to_owned()],
        inspect: vec![format!("seen-{bits}/")],
        admin: vec![format!("ruled-{bits}")],
        ..RollEntry::default()
    };
    let principal = principals.iter().map(entry).collect();
    Roll::parse(&toml::to_string(&RollFile { principal }).unwrap()).unwrap()
}

fn start() -> (Server, Arc<Auth>) {
    let auth = Auth::new(AuthMode::Tokens, roll(&[1, 2]), fixture::no_budgets());
    (fixture::start_for(Arc::clone(&auth)), auth)
}

fn bearer(bits: u8) -> String {
    format!("authorization: Bearer {}\r\n", token(bits))
}

fn renewal(name: &str) -> String {
    let lock_id = lock_id(name).to_text();
    json!({"lockId": lock_id, "fencingToken": TOKEN}).to_string()
}

/// In the form that the express way takes.
fn usual_renewal(name: &str) -> String {
    let lock_id = lock_id(name).to_text();
    format!(r#"{{"lockId":"{lock_id}","fencingToken":{TOKEN}}}"#)
}

async fn ask(client: &mut Client, path: &str, headers: &str, body: &str) -> Reply {
    client.send(&post(path, headers, body.as_bytes()));
    client.reply().await
}

fn inspection(bits: u8, query: &str) -> String {
    let (path, header) = (paths::LOCKS, bearer(bits));
    format!("GET {path}?{query} HTTP/1.1\r\nhost: h\r\n{header}\r\n")
}

#[tokio::test]
async fn nothing_but_the_document_is_answered_without_credentials() {
    let (server, _) = start();
    let mut client = server.client().await;
    for (headers, challenge) in [
        (String::new(), "Bearer realm=\"holdfast\""),
        (
            "authorization: Basic YTpi\r\n".to_owned(),
            "Bearer realm=\"holdfast\"",
        ),
        (bearer(1) + &bearer(1), "Bearer realm=\"holdfast\""),
        (
            bearer(3),
            "Bearer realm=\"holdfast\", error=\"invalid_token\"",
        ),
    ] {
        for path in [
            paths::RENEW,
            paths::ACQUIRE,
            paths::RELEASE,
            paths::RENEW_BATCH,
        ] {
            let reply = ask(&mut client, path, &headers, &usual_renewal("warm-1")).await;
            assert_eq!(reply.status, 401, "{headers}");
            assert_eq!(reply.code(), "unauthenticated");
            assert_eq!(reply.header("www-authenticate"), Some(challenge));
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert!(
                !text.contains(&token(3)) && !text.contains("YTpi"),
                "{text}"
            );
        }
    }
    assert_eq!(client.get(paths::OPENAPI).await.status, 200);
    let inspect = format!("{}?name=a", paths::LOCKS);
    assert_eq!(client.get(&inspect).await.status, 401);
    assert!(server.fake.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_a_principal_acquires_is_recorded_as_its_own() {
    let (server, _) = start();
    let mut client = server.client().await;
    for bits in [1, 2, 1] {
        let body = json!({"name": "cold", "ttlMs": 30_000, "clientId": "c"}).to_string();
        let reply = ask(&mut client, paths::ACQUIRE, &bearer(bits), &body).await;
        assert_eq!(reply.status, 200);
        let seen = server.fake.seen.lock().unwrap().pop().unwrap();
        assert_eq!(
            seen.principal.unwrap().as_str(),
            format!("principal-{bits}")
        );
    }
}

#[tokio::test]
async fn rights_end_at_their_prefixes_on_every_route() {
    let (server, _) = start();
    let mut client = server.client().await;
    for (bits, allowed) in [(1, true), (2, false)] {
        let acquire = json!({"name": "warm-1", "ttlMs": 30_000, "clientId": "c"}).to_string();
        for (path, body, good) in [
            (paths::ACQUIRE, acquire.as_str(), 200),
            (paths::RENEW, &usual_renewal("warm-1"), 200),
            (paths::RENEW, &renewal("warm-1"), 200),
            (paths::RELEASE, &renewal("warm-1"), 204),
        ] {
            let reply = ask(&mut client, path, &bearer(bits), body).await;
            assert_eq!(reply.status, if allowed { good } else { 403 }, "{path}");
            if !allowed {
                assert_eq!(reply.code(), "forbidden");
                assert!(!reply.detail().contains("warm-1"));
            }
        }
    }
}

#[tokio::test]
async fn inspecting_and_ending_holds_need_rights_of_their_own() {
    let (server, _) = start();
    let mut client = server.client().await;
    for (query, status) in [
        ("name=seen-1/a", 200),
        ("prefix=seen-1/", 200),
        ("prefix=seen-1/a", 200),
        ("name=warm-1", 403),
        ("name=seen-2/a", 403),
        // It would show names beside those that may be seen.
        ("prefix=seen-1", 403),
        ("prefix=", 403),
    ] {
        client.send(inspection(1, query).as_bytes());
        let reply = client.reply().await;
        assert_eq!(reply.status, status, "{query}");
        assert!(status == 200 || !reply.detail().contains("seen-"));
    }
    for (name, status) in [("ruled-1/a", 200), ("warm-1", 403), ("seen-1/a", 403)] {
        let body = json!({"name": name, "reason": "r"}).to_string();
        let reply = ask(&mut client, paths::FORCE_RELEASE, &bearer(1), &body).await;
        assert_eq!(reply.status, status, "{name}");
    }
}

#[tokio::test]
async fn inspections_and_force_releases_spend_what_acquires_spend_and_renewals_go_on() {
    let rates = Rates {
        acquires: std::num::NonZeroU32::new(20),
        ..Rates::default()
    };
    let force = json!({"name": "ruled-1", "reason": "r"}).to_string();
    for request in [
        inspection(1, "name=seen-1/a").into_bytes(),
        inspection(1, "prefix=seen-1/").into_bytes(),
        post(paths::FORCE_RELEASE, &bearer(1), force.as_bytes()),
    ] {
        let budgets = Budgets::new(rates, Rates::default());
        let server = fixture::start_for(Auth::new(AuthMode::Tokens, roll(&[1, 2]), budgets));
        let mut client = server.client().await;
        let mut asked = 0;
        let refused = loop {
            client.send(&request);
            let reply = client.reply().await;
            asked += 1;
            assert!(asked < 10_000, "never refused");
            if reply.status != 200 {
                break reply;
            }
        };
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (429, "rate_limited")
        );
        assert_eq!(refused.header("retry-after"), Some("1"));
        let renewal = usual_renewal("warm-1");
        let renewed = ask(&mut client, paths::RENEW, &bearer(1), &renewal).await;
        assert_eq!(renewed.status, 200);
        client.send(inspection(2, "name=seen-2/a").as_bytes());
        assert_eq!(client.reply().await.status, 200, "another's budget");
    }
}

#[tokio::test]
async fn an_item_of_a_batch_that_is_forbidden_leaves_the_others_alone() {
    let (server, _) = start();
    let mut client = server.client().await;
    let item = |name: &str| json!({"lockId": lock_id(name).to_text(), "fencingToken": TOKEN});
    let items = [item("warm-1"), item("warm-2"), item("cold")];
    for (path, field, done) in [
        (paths::RENEW_BATCH, "renewals", "renewed"),
        (paths::RELEASE_BATCH, "releases", "released"),
    ] {
        let body = json!({ field: items }).to_string();
        let reply = ask(&mut client, path, &bearer(1), &body).await.json();
        assert_eq!(reply["results"][0][done], true);
        assert_eq!(reply["results"][1]["error"]["code"], "forbidden");
        assert_eq!(reply["results"][2][done], true);
    }
}

#[tokio::test]
async fn the_express_way_takes_a_token_and_gives_the_same_replies() {
    let date =
        httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_millis(UNIX_MS));
    let (server, auth) = start();
    let mut client = server.client().await;
    let mut renew = async |bits: u8| {
        let reply = ask(
            &mut client,
            paths::RENEW,
            &bearer(bits),
            &usual_renewal("warm-1"),
        )
        .await;
        (reply.status, reply.header("date") == Some(date.as_str()))
    };
    assert_eq!(renew(1).await, (200, true));
    assert_eq!(renew(1).await, (200, true));
    assert_eq!(renew(2).await, (403, false));
    assert_eq!(renew(3).await, (401, false));
    assert_eq!(renew(1).await, (200, true));
    // A token that is withdrawn is so on connections that are open.
    auth.replace(roll(&[2]));
    assert_eq!(renew(1).await, (401, false));
    auth.replace(roll(&[1]));
    assert_eq!(renew(1).await, (200, true));
}

#[tokio::test]
async fn without_authentication_a_token_is_no_hindrance() {
    let server = fixture::start();
    let mut client = server.client().await;
    let reply = ask(
        &mut client,
        paths::RENEW,
        &bearer(9),
        &usual_renewal("warm"),
    )
    .await;
    assert_eq!(reply.status, 200);
    client.send(get(paths::OPENAPI).as_bytes());
    assert_eq!(client.reply().await.status, 200);
}

/// Asks until it is refused.
async fn flood(client: &mut Client, path: &str, bits: u8, body: &str) -> Reply {
    for _ in 0..10_000 {
        let reply = ask(client, path, &bearer(bits), body).await;
        if reply.status != 200 {
            return reply;
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn a_flood_of_acquires_is_its_principals_own_affair() {
    let rate = std::num::NonZeroU32::new(20);
    let rates = Rates {
        acquires: rate,
        upkeep: rate,
        waits: None,
    };
    let budgets = Budgets::new(rates, Rates::default());
    let auth = Auth::new(AuthMode::Tokens, roll(&[1, 2]), budgets);
    let server = fixture::start_for(auth);
    let mut client = server.client().await;
    let acquire = json!({"name": "cold", "ttlMs": 30_000, "clientId": "c"}).to_string();
    let refused = flood(&mut client, paths::ACQUIRE, 1, &acquire).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "rate_limited")
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.json()["retryAfterMs"].as_u64().unwrap() >= 50);
    // Neither its own renewals nor anybody else's acquires are.
    let renewal = usual_renewal("warm-1");
    assert_eq!(
        ask(&mut client, paths::RENEW, &bearer(1), &renewal)
            .await
            .status,
        200
    );
    assert_eq!(
        ask(&mut client, paths::ACQUIRE, &bearer(2), &acquire)
            .await
            .status,
        200
    );
    // A new connection does not help. Renewals have their end too, by the express way.
    let mut other = server.client().await;
    let refused = flood(&mut other, paths::RENEW, 1, &renewal).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "rate_limited")
    );
}

#[tokio::test]
async fn who_waits_too_often_has_to_let_a_wait_end_first() {
    let rates = Rates {
        waits: std::num::NonZeroU32::new(1),
        ..Rates::default()
    };
    let budgets = Budgets::new(rates, Rates::default());
    let auth = Auth::new(AuthMode::Tokens, roll(&[1, 2]), budgets);
    let server = fixture::start_for(auth);
    let item =
        |name: &str| json!({"name": name, "ttlMs": 30_000, "clientId": "c", "waitMs": 9_000});
    let acquire = |name: &str| item(name).to_string();
    let (mut waits, mut other) = (server.client().await, server.client().await);
    waits.send(&post(
        paths::ACQUIRE,
        &bearer(1),
        acquire("gate").as_bytes(),
    ));
    server.fake.hanging.notified().await;
    let refused = ask(&mut other, paths::ACQUIRE, &bearer(1), &acquire("cold")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "quota_exceeded")
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    let batch = json!({ "acquisitions": [item("cold")] }).to_string();
    let batch = ask(&mut other, paths::ACQUIRE_BATCH, &bearer(1), &batch).await;
    let code = &batch.json()["results"][0]["error"]["code"];
    assert_eq!(code, "quota_exceeded");
    // Others may, and it may ask without waiting.
    let others = ask(&mut other, paths::ACQUIRE, &bearer(2), &acquire("cold")).await;
    assert_eq!(others.status, 200);
    let at_once = json!({"name": "cold", "ttlMs": 30_000, "clientId": "c"}).to_string();
    let at_once = ask(&mut other, paths::ACQUIRE, &bearer(1), &at_once).await;
    assert_eq!(at_once.status, 200);
    server.fake.gate.notify_one();
    assert_eq!(waits.reply().await.status, 200);
    let again = ask(&mut other, paths::ACQUIRE, &bearer(1), &acquire("cold")).await;
    assert_eq!(again.status, 200);
}

#[tokio::test]
async fn an_address_has_a_budget_where_it_is_given_one() {
    let rates = Rates {
        acquires: std::num::NonZeroU32::new(5),
        ..Rates::default()
    };
    let server = fixture::start_for(Auth::open(Budgets::new(Rates::default(), rates)));
    let item = json!({"name": "cold", "ttlMs": 30_000, "clientId": "c"});
    let batch = json!({ "acquisitions": vec![item; 50] }).to_string();
    let reply = server.post(paths::ACQUIRE_BATCH, &batch).await.json();
    assert_eq!(reply["results"][0]["acquired"], true);
    assert_eq!(reply["results"][49]["error"]["code"], "rate_limited");
    assert!(
        reply["results"][49]["error"]["retryAfterMs"]
            .as_u64()
            .unwrap()
            >= 50
    );
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_no_more() {
    let settings = EdgeSettings {
        address_connections_max: Some(2),
        ..EdgeSettings::default()
    };
    let server = fixture::start_with(settings);
    let (mut one, mut two) = (server.client().await, server.client().await);
    for client in [&mut one, &mut two] {
        assert_eq!(client.get(paths::OPENAPI).await.status, 200);
    }
    let mut three = server.client().await;
    let refused = three.get(paths::OPENAPI).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "overloaded")
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(three.is_closed().await);
    assert_eq!(two.get(paths::OPENAPI).await.status, 200);
}
