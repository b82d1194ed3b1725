//! How many locks a principal may have, over the wire and a service that is no fake.

use crate::fixture::no_budgets;
use crate::raw::{Client, Reply, post};
use holdfast_api::paths;
use holdfast_gateway::auth::{Auth, AuthMode, BearerToken, Roll};
use holdfast_gateway::http::{Edge, EdgeSettings, bind, serve};
use holdfast_gateway::lifecycle::{Lifecycle, Phase};
use holdfast_gateway::metrics::Metrics;
use holdfast_gateway::service::{Alone, Embedded, LockService, Locks as _, ServiceSettings};
use holdfast_gateway::time::{BootClock, Millis};
use serde_json::{Value, json};
use shard_map::{DeploymentId, ShardCount};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const LOCKS_MAX: usize = 3;

/// A service over two clusters in memory, whose sessions are proven.
async fn service() -> Arc<LockService<BootClock>> {
    let clock = Arc::new(BootClock);
    let shards = ShardCount::try_from(8).unwrap();
    let deployment = DeploymentId::from_random_bits(7);
    let embedded = Embedded::start(2, shards, deployment, &clock).await;
    let embedded = embedded.unwrap();
    let (map, engines) = (embedded.map.clone(), AtomicU8::new(0));
    let settings = ServiceSettings {
        instance: "gateway".to_owned(),
        peer_url: "http://127.0.0.1:1".to_owned(),
        session_ttl: Millis::from_secs(9),
        group_ttl: Millis::from_secs(1800),
        principal_locks_max: NonZeroU32::new(u32::try_from(LOCKS_MAX).unwrap()),
        engines: tokio::runtime::Handle::current(),
    };
    let service = LockService::new(
        settings,
        clock,
        Box::new(move |cluster| embedded.store(cluster)),
        // Two engines have other random numbers, or their groups would have the same names.
        Box::new(move || Ok([engines.fetch_add(1, Ordering::Relaxed); 32])),
        Arc::new(Alone),
    );
    service.apply_map(&map).unwrap();
    service.home_seen().await;
    while !service.clusters().iter().all(|cluster| cluster.proven) {
        tokio::task::yield_now().await;
    }
    Arc::new(service)
}

fn token(bits: u8) -> BearerToken {
    BearerToken::from_random([bits; 32])
}

/// Principal `n` has token `n` and may acquire everything.
fn auth() -> Arc<Auth> {
    let entry = |bits: u8| {
        let hash = token(bits).hash().to_hex();
        format!("[[principal]]\nname = \"{bits}\"\ntoken_sha256 = [\"{hash}\"]\nacquire = [\"\"]\n")
    };
    let roll = Roll::parse(&(entry(1) + &entry(2))).unwrap();
    Auth::new(AuthMode::Tokens, roll, no_budgets())
}

async fn ask(client: &mut Client, bits: u8, path: &str, body: &Value) -> Reply {
    let header = format!("authorization: Bearer {}\r\n", token(bits).reveal());
    client.send(&post(path, &header, body.to_string().as_bytes()));
    client.reply().await
}

fn acquire(name: &str) -> Value {
    json!({ "name": name, "ttlMs": 30_000, "clientId": "c" })
}

#[tokio::test]
async fn a_principal_beyond_its_quota_is_told_so_until_it_gives_something_back() {
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (metrics, lifecycle) = (Arc::new(Metrics::default()), Lifecycle::default());
    let edge = Edge::new(
        service().await,
        BootClock,
        EdgeSettings::default(),
        metrics,
        lifecycle.clone(),
        auth(),
    );
    tokio::spawn(serve(listener, None, Arc::new(edge)));
    let client = &mut Client::connect(address).await;

    // One too many, in whichever cluster it would be: a batch is answered item by item.
    let items: Vec<_> = ["a", "b", "c", "d"].map(acquire).into();
    let batch = json!({ "acquisitions": items });
    let reply = ask(client, 1, paths::ACQUIRE_BATCH, &batch).await.json();
    let results = reply["results"].as_array().unwrap();
    let (held, refused): (Vec<_>, Vec<_>) = results.iter().partition(|it| it["acquired"] == true);
    assert_eq!((held.len(), refused.len()), (LOCKS_MAX, 1), "{reply}");
    assert_eq!(refused[0]["error"]["code"], "quota_exceeded", "{reply}");

    let refused = ask(client, 1, paths::ACQUIRE, &acquire("e")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "quota_exceeded")
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.json().get("cluster").is_none());
    // What it has it gets again, and renews; and others have a quota of their own.
    let names = ["a", "b", "c", "d"].iter().zip(results);
    let names = names.filter_map(|(name, result)| (result["acquired"] == true).then_some(*name));
    for (name, was) in names.zip(&held) {
        let again = ask(client, 1, paths::ACQUIRE, &acquire(name)).await.json();
        assert_eq!(
            (&again["alreadyHeld"], &again["lockId"]),
            (&json!(true), &was["lockId"])
        );
    }
    let of =
        |held: &Value| json!({ "lockId": held["lockId"], "fencingToken": held["fencingToken"] });
    assert_eq!(ask(client, 1, paths::RENEW, &of(held[0])).await.status, 200);
    let other = ask(client, 2, paths::ACQUIRE, &acquire("e")).await.json();
    assert_eq!(other["acquired"], true, "{other}");
    // Held by somebody else is what it is.
    let refused = ask(client, 1, paths::ACQUIRE, &acquire("e")).await.json();
    assert_eq!(
        (&refused["acquired"], &refused["reason"]),
        (&json!(false), &json!("held"))
    );

    assert_eq!(
        ask(client, 1, paths::RELEASE, &of(held[0])).await.status,
        204
    );
    let next = ask(client, 1, paths::ACQUIRE, &acquire("f")).await.json();
    assert_eq!(next["acquired"], true, "{next}");
    lifecycle.advance(Phase::Done);
}
