//! What hostile and broken clients send, and what they must get: a clear 4xx (or 501), never a
//! 500, and a gateway that goes on answering everybody else.
//!
//! [`attack`] needs nothing but an address, so it runs against the fake and against real
//! gateways alike; no answer depends on what is locked.

pub(crate) mod bodies;
mod framing;

use crate::raw::{Client, Reply, get, post};
use holdfast_api::paths;
use std::net::SocketAddr;

/// One thing that is sent, and what must come back.
pub(crate) struct Case {
    pub(crate) what: String,
    pub(crate) send: Vec<u8>,
    pub(crate) status: u16,
    /// The code of the problem; `None`: the answer is no problem.
    pub(crate) code: Option<&'static str>,
    /// What the problem's detail must say.
    pub(crate) says: &'static str,
}

impl Case {
    pub(crate) fn new(what: impl Into<String>, send: impl Into<Vec<u8>>) -> Self {
        Self {
            what: what.into(),
            send: send.into(),
            status: 200,
            code: None,
            says: "",
        }
    }

    pub(crate) fn is(self, status: u16, code: &'static str) -> Self {
        Self {
            status,
            code: Some(code),
            ..self
        }
    }

    pub(crate) fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }
}

/// Sends everything hostile to `address`, each on a connection of its own, and checks each answer
/// and that others are answered afterwards.
pub(crate) async fn attack(address: SocketAddr) {
    for case in framing::cases().into_iter().chain(bodies::cases()) {
        let mut client = Client::connect(address).await;
        client.send(&case.send);
        let reply = client.try_reply(false).await;
        let reply = reply.unwrap_or_else(|| panic!("{}: closed without a reply", case.what));
        check(&case, &reply);
        if reply.header("connection") == Some("close") {
            assert!(
                client.is_closed().await,
                "{}: said close and did not",
                case.what
            );
        }
        let mut other = Client::connect(address).await;
        let alive = other.get(paths::OPENAPI).await;
        assert_eq!(alive.status, 200, "after {}", case.what);
    }
    heads_of_replies(address).await;
    pipelines(address).await;
    expectations(address).await;
    half_sent_and_gone(address).await;
}

pub(crate) fn check(case: &Case, reply: &Reply) {
    let body = String::from_utf8_lossy(&reply.body);
    assert_eq!(reply.status, case.status, "{}: {body}", case.what);
    if let Some(code) = case.code {
        assert_eq!(reply.code(), code, "{}: {body}", case.what);
        assert!(reply.detail().contains(case.says), "{}: {body}", case.what);
    }
    if reply.status == 405 {
        assert!(reply.header("allow").is_some(), "{}", case.what);
    }
}

/// A HEAD request gets the head of what GET would get, and the connection goes on after it.
async fn heads_of_replies(address: SocketAddr) {
    let mut client = Client::connect(address).await;
    for (path, status) in [
        (paths::OPENAPI, 200),
        (paths::ACQUIRE, 405),
        ("/nowhere", 404),
    ] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes());
        let reply = client.try_reply(true).await.unwrap();
        assert_eq!(reply.status, status, "HEAD {path}");
        assert_ne!(reply.header("content-length"), Some("0"), "HEAD {path}");
    }
    assert_eq!(client.get(paths::OPENAPI).await.status, 200);
}

/// Requests that are sent together are answered in order, good and bad ones, until one after
/// which nobody knows where the next begins.
async fn pipelines(address: SocketAddr) {
    let mut client = Client::connect(address).await;
    let bad_json = post(paths::RENEW, "", b"{");
    let no_type = format!(
        "POST {} HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{{}}",
        paths::RENEW
    );
    let smuggled = format!(
        "POST {} HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n\
         0\r\n\r\n",
        paths::ACQUIRE
    );
    let good = get(paths::OPENAPI);
    let sent = [
        good.as_bytes(),
        &bad_json,
        no_type.as_bytes(),
        good.as_bytes(),
        smuggled.as_bytes(),
        good.as_bytes(),
    ];
    client.send(&sent.concat());
    for status in [200, 400, 415, 200, 400] {
        assert_eq!(client.reply().await.status, status);
    }
    assert!(
        client.is_closed().await,
        "something after a smuggled request was answered"
    );
}

/// A client that asks before it sends its body is told to go on, or that it need not.
async fn expectations(address: SocketAddr) {
    let body = br#"{"name":"hostile-expect","ttlMs":1000,"clientId":"c"}"#;
    let request = post(paths::ACQUIRE, "expect: 100-continue\r\n", body);
    let (head, body) = request.split_at(request.len() - body.len());
    let mut client = Client::connect(address).await;
    client.send(head);
    assert_eq!(client.reply().await.status, 100);
    client.send(body);
    assert_eq!(client.reply().await.status, 200);

    let mut client = Client::connect(address).await;
    let large = format!(
        "POST {} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n\
         content-length: 1000000000\r\nexpect: 100-continue\r\n\r\n",
        paths::ACQUIRE
    );
    client.send(large.as_bytes());
    assert_eq!(client.reply().await.status, 413);
}

/// A client that goes away in the middle of a request is nobody's trouble.
async fn half_sent_and_gone(address: SocketAddr) {
    let request = post(
        paths::ACQUIRE,
        "",
        br#"{"name":"a","ttlMs":1000,"clientId":"c"}"#,
    );
    for bytes in [1, 20, request.len() - 1] {
        let mut client = Client::connect(address).await;
        client.send(&request[..bytes]);
        drop(client);
    }
    let mut other = Client::connect(address).await;
    assert_eq!(other.get(paths::OPENAPI).await.status, 200);
}

/// A part of a request that is never finished, and gets its 408 when the gateway's time for it is
/// up; so this takes as long as that time is.
pub(crate) async fn attack_slowly(address: SocketAddr) {
    let whole = post(
        paths::ACQUIRE,
        "",
        br#"{"name":"a","ttlMs":1000,"clientId":"c"}"#,
    );
    let mut clients = Vec::new();
    for bytes in [1, 30, whole.len() - 1] {
        let mut client = Client::connect(address).await;
        client.send(&whole[..bytes]);
        clients.push(client);
    }
    let mut other = Client::connect(address).await;
    assert_eq!(other.get(paths::OPENAPI).await.status, 200);
    for mut client in clients {
        let reply = client.reply().await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (408, "request_timeout")
        );
        assert!(client.is_closed().await);
    }
}
