use crate::server::{Answer, Server, nowhere};
use holdfast_api::paths;
use holdfast_client::{
    Acquire, Cause, Client, ClientConfig, Error, LockId, Refused, Token, TransportConfig,
};
use serde_json::{Value, json};
use std::time::Duration;

fn config(urls: &[&str]) -> ClientConfig {
    let targets = urls.iter().map(|url| url.parse().unwrap()).collect();
    ClientConfig::new("worker-7", TransportConfig::new(targets))
}

fn client(urls: &[&str]) -> Client {
    Client::new(config(urls))
}

fn renewed() -> Value {
    json!({ "renewed": true, "expiresAt": "", "ttlMs": 29700, "renewAfterMs": 9700 })
}

async fn renew(client: &Client) -> Result<(), Error> {
    let id = LockId::new("lock-AQ");
    client.renew(&id, Token(7), None).await.map(drop)
}

fn cause(outcome: Result<(), Error>) -> Cause {
    match outcome {
        Err(Error::Unknown { cause, .. }) => cause,
        other => panic!("{other:?} is not unknown"),
    }
}

#[tokio::test]
async fn calls_send_what_the_contract_says() {
    let server = Server::start(|asked| match asked.seen.path.as_str() {
        paths::ACQUIRE => Answer::Json(
            200,
            json!({ "acquired": true, "lockId": "lock-AQ", "fencingToken": 7, "expiresAt": "",
                    "ttlMs": 29700, "renewAfterMs": 9700 }),
        ),
        paths::RELEASE => Answer::Json(
            409,
            json!({ "released": false, "reason": "token_mismatch" }),
        ),
        _ => Answer::Json(200, renewed()),
    })
    .await;
    let mut config = config(&[&server.url]);
    config.transport.access.authorization = Some("Bearer t".parse().unwrap());
    let client = Client::new(config);

    let wanted = Acquire {
        wait: Duration::from_millis(250),
        request_id: Some("r-1".into()),
        metadata: [("host".to_owned(), "a".to_owned())].into(),
        ..Acquire::new("process_order:42", Duration::from_secs(30))
    };
    let granted = client.acquire(&wanted).await.unwrap();
    assert_eq!(granted.token, Token(7));
    let ttl = Some(Duration::from_secs(30));
    client
        .renew(&granted.lock_id, granted.token, ttl)
        .await
        .unwrap();
    let released = client.release(&granted.lock_id, Token(8)).await;
    assert_eq!(released, Err(Error::Refused(Refused::TokenMismatch)));

    let seen = server.seen();
    let bodies: Vec<_> = seen.iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(
        bodies,
        [
            json!({ "name": "process_order:42", "ttlMs": 30000, "clientId": "worker-7", "waitMs": 250,
                    "metadata": { "host": "a" }, "requestId": "r-1" }),
            json!({ "lockId": "lock-AQ", "fencingToken": 7, "ttlMs": 30000 }),
            json!({ "lockId": "lock-AQ", "fencingToken": 8 }),
        ]
    );
    for seen in &seen {
        assert_eq!(seen.authorization.as_deref(), Some("Bearer t"));
        assert_eq!(seen.connection, 0, "the connection is kept");
    }
}

#[tokio::test]
async fn batches_are_answered_item_by_item() {
    let server = Server::start(|asked| {
        Answer::Json(
            200,
            match asked.seen.path.as_str() {
                paths::ACQUIRE_BATCH => json!({ "results": [
                    { "acquired": false, "expiresAt": "", "reason": "held" },
                    { "acquired": true, "lockId": "lock-AQ", "fencingToken": 7, "expiresAt": "",
                      "ttlMs": 29700, "renewAfterMs": 9700 } ] }),
                paths::RENEW_BATCH => json!({ "results": [
                    { "renewed": false, "reason": "expired" },
                    { "error": { "code": "owner_unreachable", "retryAfterMs": 900 } } ] }),
                _ => json!({ "results": [ { "released": true }, { "released": true } ] }),
            },
        )
    })
    .await;
    let client = client(&[&server.url]);
    let ttl = Duration::from_secs(30);
    let wanted = [Acquire::new("a", ttl), Acquire::new("b", ttl)];
    let acquired = client.acquire_batch(&wanted).await.unwrap();
    assert!(matches!(
        acquired[0],
        Err(Error::Refused(Refused::Taken(_)))
    ));
    assert!(acquired[1].is_ok());
    let holds = [
        (LockId::new("lock-AQ"), Token(7)),
        (LockId::new("lock-BQ"), Token(8)),
    ];
    let renewals = client.renew_batch(&holds).await.unwrap();
    assert!(matches!(
        renewals[0],
        Err(Error::Refused(Refused::Ended(_)))
    ));
    assert!(renewals[1].as_ref().unwrap_err().is_unknown());
    let releases = client.release_batch(&holds).await.unwrap();
    assert_eq!(releases, [Ok(()), Ok(())]);
    assert_eq!(
        server.seen()[1].body,
        json!({ "renewals": [ { "lockId": "lock-AQ", "fencingToken": 7 },
                              { "lockId": "lock-BQ", "fencingToken": 8 } ] })
    );
}

#[tokio::test]
async fn a_target_that_cannot_be_reached_is_passed_over_within_the_call() {
    let server = Server::start(|_| Answer::Json(200, renewed())).await;
    let nowhere = nowhere().await;
    let client = client(&[&nowhere, &server.url]);
    assert_eq!(renew(&client).await, Ok(()));
}

#[tokio::test]
async fn with_no_target_to_be_reached_nothing_was_sent() {
    let nowhere = nowhere().await;
    let client = client(&[&nowhere, &nowhere]);
    assert!(matches!(cause(renew(&client).await), Cause::NotSent(_)));
}

#[tokio::test]
async fn a_broken_connection_is_unknown_and_the_next_request_goes_elsewhere() {
    let bad = Server::start(|_| Answer::Break).await;
    let good = Server::start(|_| Answer::Json(200, renewed())).await;
    let client = client(&[&bad.url, &good.url]);
    assert!(matches!(cause(renew(&client).await), Cause::Broken(_)));
    assert_eq!(renew(&client).await, Ok(()));
    assert_eq!((bad.seen().len(), good.seen().len()), (1, 1));
}

#[tokio::test]
async fn a_503_is_unknown_and_the_next_request_goes_elsewhere() {
    let draining = Server::start(|_| Answer::RetryAfter(503, 2)).await;
    let good = Server::start(|_| Answer::Json(200, renewed())).await;
    let client = client(&[&draining.url, &good.url]);
    let error = renew(&client).await.unwrap_err();
    assert!(error.is_unknown());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    assert_eq!(renew(&client).await, Ok(()));
}

#[tokio::test]
async fn a_request_without_an_answer_is_given_up_and_its_connection_closed() {
    let server = Server::start(|asked| match asked.seen.path.as_str() {
        paths::RENEW => Answer::Hang,
        _ => Answer::Json(
            200,
            json!({ "acquired": false, "expiresAt": "", "reason": "held" }),
        ),
    })
    .await;
    let mut config = config(&[&server.url]);
    config.request_timeout = Duration::from_millis(50);
    config.transport.connections_per_target = 1;
    let client = Client::new(config);
    assert_eq!(cause(renew(&client).await), Cause::Timeout);

    // Its wait gives this request more time, so that it only fails when there is no connection.
    let patient = Acquire {
        wait: Duration::from_secs(60),
        ..Acquire::new("a", Duration::from_secs(30))
    };
    let refused = client.acquire(&patient).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_ne!(server.seen().last().map(|seen| seen.connection), Some(0));
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_replaced_without_an_error() {
    let server = Server::start(|_| Answer::LastJson(200, renewed())).await;
    let client = client(&[&server.url]);
    for _ in 0..3 {
        assert_eq!(renew(&client).await, Ok(()));
    }
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 1, 2]);
}

#[tokio::test]
async fn no_more_connections_are_opened_than_configured() {
    let server = Server::start(|_| Answer::Json(200, renewed())).await;
    let mut config = config(&[&server.url]);
    config.transport.connections_per_target = 2;
    let client = Client::new(config);
    let calls = (0..20).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { renew(&client).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), Ok(()));
    }
    let connections = server.seen().iter().map(|seen| seen.connection).max();
    assert!(connections.unwrap() <= 1, "{connections:?}");
}
