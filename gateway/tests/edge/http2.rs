//! HTTP/2 on the public listener: what it is for, and clients that misuse it.

use crate::fake::{TOKEN, lock_id};
use crate::fixture::no_budgets;
use crate::hostile;
use crate::raw::Reply;
use crate::tls::{World, renew};
use bytes::Bytes;
use holdfast_api::paths;
use holdfast_gateway::auth::Auth;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

type Http2 = h2::client::SendRequest<Bytes>;

async fn http2(world: &World) -> (Http2, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = world.connect("h2").await;
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    (requests, tokio::spawn(connection))
}

fn request(method: &str, path: &str) -> http::Request<()> {
    let uri = format!("https://127.0.0.1{path}");
    let json = "application/json";
    let builder = http::Request::builder().method(method).uri(uri);
    builder.header("content-type", json).body(()).unwrap()
}

/// Sends one request whole.
async fn ask(
    requests: &Http2,
    request: http::Request<()>,
    body: Vec<u8>,
) -> Result<Reply, h2::Error> {
    let mut ready = requests.clone().ready().await?;
    let (reply, mut sending) = ready.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        // A refusal may come before everything is sent; then the rest of it is of no use.
        let _ = sending.send_data(body.into(), true);
    }
    let (head, mut receiving) = reply.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = receiving.data().await {
        let data = data?;
        receiving.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    };
    Ok(Reply {
        status: head.status.as_u16(),
        headers: head.headers.iter().map(header).collect(),
        body,
    })
}

#[tokio::test]
async fn http_2_is_spoken_over_tls_with_many_requests_at_once() {
    let world = World::start(Auth::open(no_budgets()), None);
    let (requests, _connection) = http2(&world).await;
    let mut replies = Vec::new();
    for name in ["warm", "cold", "expired", "stolen"]
        .iter()
        .cycle()
        .take(40)
    {
        let mut requests = requests.clone().ready().await.unwrap();
        let (reply, mut body) = requests
            .send_request(request("POST", paths::RENEW), false)
            .unwrap();
        let lock_id = lock_id(name).to_text();
        let text = format!(r#"{{"lockId":"{lock_id}","fencingToken":{TOKEN}}}"#);
        body.send_data(text.into(), true).unwrap();
        replies.push((name, reply));
    }
    for (name, reply) in replies {
        let reply = reply.await.unwrap();
        let expected = if matches!(*name, "expired" | "stolen") {
            409
        } else {
            200
        };
        assert_eq!(reply.status().as_u16(), expected, "{name}");
        assert!(reply.headers().get("connection").is_none());
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The reason in the first GOAWAY among these frames.
fn goodbye(mut frames: &[u8]) -> Option<u32> {
    while let Some((head, rest)) = frames.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, rest) = rest.split_at_checked(length)?;
        if head[3] == 7 {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        frames = rest;
    }
    None
}

#[tokio::test]
async fn requests_that_are_taken_back_at_once_end_their_connection_and_no_other() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let world = World::start(Auth::open(no_budgets()), None);
    let mut stream = world.connect("h2").await;
    // GET https://h/openapi.json, in the static table and two literals.
    let headers = b"\x82\x87\x04\x0d/openapi.json\x01\x01h".to_vec();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, &[]));
    for stream in (1..20_000).step_by(2) {
        sent.extend(frame(1, 0x5, stream, &headers));
        sent.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    // It may be cut off before it has sent or read everything.
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let mut heard = Vec::new();
    let _ = tokio::join!(writer.write_all(&sent), reader.read_to_end(&mut heard));
    assert_eq!(goodbye(&heard), Some(ENHANCE_YOUR_CALM));
    let mut other = world.connect("http/1.1").await;
    assert_eq!(renew(&mut other, "warm").await, 200);
}

#[tokio::test]
async fn headers_over_http_2_are_bounded() {
    let world = World::start(Auth::open(no_budgets()), None);
    let (requests, _connection) = http2(&world).await;
    let mut large = request("GET", paths::OPENAPI);
    let value = http::HeaderValue::from_str(&"a".repeat(100 * 1024)).unwrap();
    large.headers_mut().insert("x-large", value);
    let mut ready = requests.clone().ready().await.unwrap();
    let (reply, _) = ready.send_request(large, true).unwrap();
    assert!(!reply.await.is_ok_and(|reply| reply.status().is_success()));
}

/// The path and the body of what is sent over HTTP/1.1.
fn path_and_body(case: &hostile::Case) -> (String, Vec<u8>) {
    let mut headers = [httparse::EMPTY_HEADER; 8];
    let mut head = httparse::Request::new(&mut headers);
    let parsed = head.parse(&case.send).unwrap();
    let body = &case.send[parsed.unwrap()..];
    (head.path.unwrap().to_owned(), body.to_vec())
}

#[tokio::test]
async fn hostile_bodies_get_the_same_answers_as_over_http_1() {
    let world = World::start(Auth::open(no_budgets()), None);
    let (requests, _connection) = http2(&world).await;
    for case in hostile::bodies::cases() {
        let (path, body) = path_and_body(&case);
        let reply = ask(&requests, request("POST", &path), body).await;
        hostile::check(
            &case,
            &reply.unwrap_or_else(|error| panic!("{}: {error}", case.what)),
        );
    }
    for (path, bytes, status) in [
        (paths::RENEW, 65_537, 413),
        (paths::RENEW_BATCH, (4 << 20) + 1, 413),
        (paths::RENEW_BATCH, 4 << 20, 400),
    ] {
        let reply = ask(&requests, request("POST", path), vec![b' '; bytes]).await;
        assert_eq!(reply.unwrap().status, status, "{bytes} bytes");
    }
    let alive = ask(&requests, request("GET", paths::OPENAPI), Vec::new()).await;
    assert_eq!(alive.unwrap().status, 200);
}

#[tokio::test]
async fn a_reply_of_many_pieces_arrives_whole() {
    let world = World::start(Auth::open(no_budgets()), None);
    let (requests, _connection) = http2(&world).await;
    let hold = json!({"lockId": lock_id("warm").to_text(), "fencingToken": TOKEN});
    let batch = json!({ "renewals": vec![hold; 10_000] })
        .to_string()
        .into_bytes();
    let reply = ask(&requests, request("POST", paths::RENEW_BATCH), batch)
        .await
        .unwrap();
    let results = &reply.json()["results"];
    assert_eq!(results.as_array().unwrap().len(), 10_000);
    assert_eq!(results[9_999]["renewed"], true);
}

/// Frames that make no sense, or far too many of one kind, and the beginning of a connection.
fn nonsense() -> Vec<(&'static str, Vec<u8>)> {
    let begin = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &frame(4, 0, 0, &[]),
    ]
    .concat();
    let after = |frames: Vec<u8>| [begin.clone(), frames].concat();
    // A head that goes on for ever: each piece is a literal header that nobody ends.
    let piece = [&b"\x00\x01a\x7f\x80\x01"[..], &[b'a'; 255]].concat();
    let mut endless = frame(1, 0, 1, &piece);
    (0..2_000).for_each(|_| endless.extend(frame(9, 0, 1, &piece)));
    let many = |one: Vec<u8>| one.repeat(20_000);
    vec![
        ("no preface", b"GET / HTTP/1.1\r\nhost: h\r\n\r\n".to_vec()),
        ("half a preface", b"PRI * HTTP/2.0\r\n\r\n".to_vec()),
        ("an endless head", after(endless)),
        (
            "a frame larger than allowed",
            after(frame(0, 0, 1, &vec![0; 1 << 20])),
        ),
        ("data on no stream", after(frame(0, 0, 0, b"data"))),
        ("data before a head", after(frame(0, 1, 1, b"data"))),
        (
            "a head on an even stream",
            after(frame(1, 5, 2, b"\x82\x87\x84")),
        ),
        (
            "headers that are no HPACK",
            after(frame(1, 5, 1, &[0xff; 64])),
        ),
        (
            "a window that overflows",
            after(frame(8, 0, 0, &0x7fff_ffff_u32.to_be_bytes())),
        ),
        ("settings of a wrong length", after(frame(4, 0, 0, &[0; 5]))),
        (
            "many settings",
            after(many(frame(4, 0, 0, &[0, 3, 0, 0, 0, 1]))),
        ),
        ("many pings", after(many(frame(6, 0, 0, &[0; 8])))),
        ("many empty pieces of a body", {
            let head = b"\x83\x87\x04\x16/api/v1/locks/renew-xy\x01\x01h".to_vec();
            let frames = [frame(1, 4, 1, &head), many(frame(0, 0, 1, &[]))].concat();
            after(frames)
        }),
    ]
}

#[tokio::test]
async fn nonsense_in_frames_ends_its_connection_and_harms_no_other() {
    let world = World::start(Auth::open(no_budgets()), None);
    for (what, sent) in nonsense() {
        let mut stream = world.connect("h2").await;
        let (mut reader, mut writer) = tokio::io::split(&mut stream);
        let mut heard = Vec::new();
        let send = async {
            // It may be cut off before it has sent everything.
            let _ = writer.write_all(&sent).await;
            let _ = writer.shutdown().await;
        };
        let _ = tokio::join!(send, reader.read_to_end(&mut heard));
        assert!(!heard.starts_with(b"HTTP/1"), "{what}");
        let mut other = world.connect("http/1.1").await;
        assert_eq!(renew(&mut other, "warm").await, 200, "after {what}");
    }
}
