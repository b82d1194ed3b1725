//! How the public listener stops.

use crate::fixture;
use crate::raw::post;
use holdfast_api::paths;
use holdfast_gateway::lifecycle::Phase;
use tokio::net::TcpStream;

#[tokio::test]
async fn while_draining_everything_is_served_and_every_reply_ends_its_connection() {
    let server = fixture::start();
    let mut open = server.client().await;
    assert_eq!(open.get(paths::OPENAPI).await.header("connection"), None);
    server.lifecycle.advance(Phase::Draining);
    let mut fresh = server.client().await;
    for client in [&mut open, &mut fresh] {
        let reply = client.get(paths::OPENAPI).await;
        assert_eq!(
            (reply.status, reply.header("connection")),
            (200, Some("close"))
        );
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn when_finishing_idle_connections_end_and_nobody_is_let_in() {
    let mut server = fixture::start();
    let mut idle = server.client().await;
    assert_eq!(idle.get(paths::OPENAPI).await.status, 200);
    server.lifecycle.advance(Phase::Finishing);
    assert!(idle.is_closed().await);
    (&mut server.served).await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

/// Their tasks are woken by nothing else: neither by the phase before, nor by their clients.
#[tokio::test]
async fn connections_that_were_idle_while_draining_end_when_finishing() {
    let mut server = fixture::start();
    let mut idle = server.client().await;
    assert_eq!(idle.get(paths::OPENAPI).await.status, 200);
    server.lifecycle.advance(Phase::Draining);
    // Whoever is served now comes after all tasks that the phase has woken.
    assert_eq!(server.client().await.get(paths::OPENAPI).await.status, 200);
    server.lifecycle.advance(Phase::Finishing);
    assert!(idle.is_closed().await);
    (&mut server.served).await.unwrap();
}

#[tokio::test]
async fn when_finishing_what_is_under_way_is_answered() {
    let mut server = fixture::start();
    let mut client = server.client().await;
    let body = br#"{"name":"gate","ttlMs":1000,"clientId":"c"}"#;
    client.send(&post(paths::ACQUIRE, "", body));
    server.fake.hanging.notified().await;
    server.lifecycle.advance(Phase::Finishing);
    assert!(!server.served.is_finished());
    server.fake.gate.notify_one();
    let reply = client.reply().await;
    assert_eq!(
        (reply.status, reply.header("connection")),
        (200, Some("close"))
    );
    assert!(client.is_closed().await);
    (&mut server.served).await.unwrap();
}

#[tokio::test]
async fn what_does_not_finish_is_cut_off_at_the_end() {
    let mut server = fixture::start();
    let mut client = server.client().await;
    let body = br#"{"name":"hang","ttlMs":1000,"clientId":"c"}"#;
    client.send(&post(paths::ACQUIRE, "", body));
    server.fake.hanging.notified().await;
    server.lifecycle.advance(Phase::Finishing);
    assert!(!server.served.is_finished());
    server.lifecycle.advance(Phase::Done);
    assert!(client.try_reply(false).await.is_none());
    (&mut server.served).await.unwrap();
}
