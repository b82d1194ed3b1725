use crate::server::{Answer, Asked, Server, count};
use holdfast_api::{EndReason, paths};
use holdfast_client::{
    Acquire, BootClock, Client, ClientConfig, Clock as _, Error, Hold, Loss, Refused,
    TransportConfig,
};
use serde_json::{Value, json};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// Granted for a time that no test waits for, to be renewed at once.
fn granted() -> Answer {
    granted_for(29_700)
}

fn granted_for(ttl_ms: u64) -> Answer {
    let body = json!({ "acquired": true, "lockId": "lock-AQ", "fencingToken": 7, "expiresAt": "",
                       "ttlMs": ttl_ms, "renewAfterMs": 1 });
    Answer::Json(200, body)
}

fn renewed() -> Answer {
    let body = json!({ "renewed": true, "expiresAt": "", "ttlMs": 29700, "renewAfterMs": 1 });
    Answer::Json(200, body)
}

fn unavailable() -> Answer {
    Answer::Json(
        503,
        json!({ "code": "cluster_unavailable", "detail": "", "retryAfterMs": 1 }),
    )
}

/// A server that grants every acquire and answers the rest as told.
async fn server(rest: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => granted(),
        _ => rest(asked),
    })
    .await
}

async fn hold(server: &Server) -> Hold {
    client(server).hold(&Acquire::new("a", TTL)).await.unwrap()
}

fn client(server: &Server) -> Client {
    let targets = vec![server.url.parse().unwrap()];
    Client::new(ClientConfig::new("worker-7", TransportConfig::new(targets)))
}

#[tokio::test]
async fn a_hold_is_renewed_again_and_again_and_its_promise_grows() {
    let server = server(|asked| match asked.seen.path.as_str() {
        paths::RENEW => renewed(),
        _ => Answer::Json(204, Value::Null),
    })
    .await;
    let hold = hold(&server).await;
    let first = hold.until();
    server.until(|seen| count(seen, paths::RENEW) >= 3).await;
    assert!(hold.is_held() && hold.until() > first);
    assert_eq!(server.seen()[1].body["ttlMs"], 30_000);
    assert_eq!(hold.release().await, Ok(()));
    assert_eq!(server.count(paths::RELEASE), 1);
}

#[tokio::test]
async fn a_409_is_signalled_as_a_loss() {
    let server =
        server(|_| Answer::Json(409, json!({ "renewed": false, "reason": "stolen" }))).await;
    let hold = hold(&server).await;
    assert_eq!(hold.lost().await, Loss::Ended(EndReason::Stolen));
    assert!(!hold.is_held());
    // Known to be over: there is nothing to ask.
    assert_eq!(hold.release().await, Ok(()));
    assert_eq!(server.count(paths::RELEASE), 0);
}

#[tokio::test]
async fn answers_that_say_nothing_are_retried_and_the_hold_goes_on() {
    let server = server(|asked| match asked.nth {
        0 => unavailable(),
        1 => Answer::Break,
        2 => Answer::Json(502, Value::Null),
        3 => Answer::Json(200, json!({ "renewed": "perhaps" })),
        _ => renewed(),
    })
    .await;
    let hold = hold(&server).await;
    let first = hold.until();
    server.until(|seen| count(seen, paths::RENEW) >= 6).await;
    assert!(hold.is_held() && hold.until() > first);
}

#[tokio::test]
async fn a_hold_that_cannot_be_renewed_is_lost_when_its_promise_ends() {
    let server = Server::start(|asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => granted_for(300),
        _ => unavailable(),
    })
    .await;
    let hold = hold(&server).await;
    let until = hold.until();
    assert_eq!(hold.lost().await, Loss::Deadline);
    assert!(BootClock.now() >= until);
    assert!(!hold.is_held());
}

#[tokio::test]
async fn a_renewal_that_hangs_does_not_delay_the_loss_signal() {
    let server = Server::start(|asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => granted_for(150),
        _ => Answer::Hang,
    })
    .await;
    let mut config = ClientConfig::new(
        "worker-7",
        TransportConfig::new(vec![server.url.parse().unwrap()]),
    );
    config.request_timeout = Duration::from_secs(3600);
    let client = Client::new(config);
    let hold = client.hold(&Acquire::new("a", TTL)).await.unwrap();
    assert_eq!(hold.lost().await, Loss::Deadline);
}

#[tokio::test]
async fn a_release_is_repeated_until_it_is_answered() {
    let server = server(|asked| match (asked.seen.path.as_str(), asked.nth) {
        (paths::RENEW, _) => renewed(),
        (_, 0) => unavailable(),
        (_, 1) => Answer::Break,
        _ => Answer::Json(204, Value::Null),
    })
    .await;
    assert_eq!(hold(&server).await.release().await, Ok(()));
    assert_eq!(server.count(paths::RELEASE), 3);
}

#[tokio::test]
async fn a_refused_release_is_reported() {
    let server = server(|asked| match asked.seen.path.as_str() {
        paths::RENEW => renewed(),
        _ => Answer::Json(
            409,
            json!({ "released": false, "reason": "token_mismatch" }),
        ),
    })
    .await;
    let released = hold(&server).await.release().await;
    assert_eq!(released, Err(Error::Refused(Refused::TokenMismatch)));
}

#[tokio::test]
async fn a_dropped_hold_is_released_in_the_background() {
    let server = server(|asked| match (asked.seen.path.as_str(), asked.nth) {
        (paths::RENEW, _) => renewed(),
        (_, 0) => unavailable(),
        _ => Answer::Json(204, Value::Null),
    })
    .await;
    drop(hold(&server).await);
    server.until(|seen| count(seen, paths::RELEASE) == 2).await;
}

#[tokio::test]
async fn repeated_acquires_of_one_hold_carry_one_request_id_and_two_holds_have_two() {
    let server = Server::start(|asked| match (asked.seen.path.as_str(), asked.nth) {
        (paths::ACQUIRE, 0) => unavailable(),
        (paths::ACQUIRE, 1) => Answer::Break,
        (paths::ACQUIRE, _) => granted(),
        _ => renewed(),
    })
    .await;
    let client = client(&server);
    let wanted = Acquire::new("a", TTL);
    let _first = client.hold(&wanted).await.unwrap();
    let _second = client.hold(&wanted).await.unwrap();
    let ids: Vec<_> = server
        .seen()
        .iter()
        .filter(|seen| seen.path == paths::ACQUIRE)
        .map(|seen| seen.body["requestId"].clone())
        .collect();
    assert_eq!(ids.len(), 4);
    assert!(
        ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3],
        "{ids:?}"
    );
}

#[tokio::test]
async fn an_acquire_that_is_refused_is_not_repeated() {
    let server = Server::start(|_| {
        Answer::Json(
            200,
            json!({ "acquired": false, "expiresAt": "", "reason": "held" }),
        )
    })
    .await;
    let refused = client(&server).hold(&Acquire::new("a", TTL)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::Taken(_)))));
    assert_eq!(server.seen().len(), 1);
}
