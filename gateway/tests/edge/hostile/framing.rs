//! Hostile heads, targets, lengths and encodings.

use super::Case;
use crate::raw::{get, post};
use holdfast_api::paths;

const GOOD: &str = r#"{"name":"hostile-framing","ttlMs":1000,"clientId":"c"}"#;
const JSON: &str = "content-type: application/json\r\n";
const INVALID: &str = "invalid_request";

pub(crate) fn cases() -> Vec<Case> {
    [
        lengths(),
        chunks(),
        heads(),
        versions(),
        targets(),
        methods(),
        types(),
        sizes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// An acquire whose headers say how long its body is.
fn acquire(framing: &str, body: &str) -> String {
    format!(
        "POST {} HTTP/1.1\r\nhost: h\r\n{JSON}{framing}\r\n{body}",
        paths::ACQUIRE
    )
}

fn lengths() -> Vec<Case> {
    let length = GOOD.len();
    [
        format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
        format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\r\nTransfer-Encoding: Chunked\r\n"),
        format!("content-length: {length}\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\r\ncontent-length: 0\r\n"),
        format!("content-length: {length}, {length}\r\n"),
        format!("content-length: +{length}\r\n"),
        format!("content-length: -{length}\r\n"),
        format!("content-length: {length}.0\r\n"),
        format!("content-length: 0x{length:x}\r\n"),
        "content-length: \r\n".to_owned(),
        "content-length: 99999999999999999999999\r\n".to_owned(),
        "transfer-encoding: gzip, chunked\r\n".to_owned(),
        "transfer-encoding: chunked, chunked\r\n".to_owned(),
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n".to_owned(),
        "transfer-encoding: identity\r\n".to_owned(),
        "transfer-encoding: xchunked\r\n".to_owned(),
        "transfer-encoding: \x0bchunked\r\n".to_owned(),
        "transfer-encoding : chunked\r\n".to_owned(),
        "transfer-encoding:\r\n chunked\r\n".to_owned(),
        format!("content-length : {length}\r\n"),
        format!("content-length: {length}\r\n folded\r\n"),
    ]
    .iter()
    .map(|framing| Case::new(format!("{framing:?}"), acquire(framing, GOOD)).is(400, INVALID))
    .collect()
}

fn chunks() -> Vec<Case> {
    let chunked = |body: &str| acquire("transfer-encoding: chunked\r\n", body);
    let good = format!("{:x}\r\n{GOOD}\r\n0\r\n\r\n", GOOD.len());
    let mut cases = vec![
        Case::new("a chunked body", chunked(&good)),
        Case::new(
            "a chunked body with a request after it",
            chunked(&format!("{good}{}", get("/"))),
        ),
        Case::new(
            "a chunked body of 1 MiB",
            chunked(&format!("100000\r\n{}", "x".repeat(1 << 20))),
        )
        .is(413, "body_too_large"),
    ];
    for bad in [
        "zz\r\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "5\r\nabcdefgh\r\n0\r\n\r\n",
        "\r\n",
    ] {
        cases.push(Case::new(format!("the chunks {bad:?}"), chunked(bad)).is(400, INVALID));
    }
    cases
}

fn heads() -> Vec<Case> {
    let with = |header: &[u8]| {
        let mut request = b"GET /openapi.json HTTP/1.1\r\nhost: h\r\n".to_vec();
        request.extend_from_slice(header);
        request.extend_from_slice(b"\r\n\r\n");
        request
    };
    let mut cases: Vec<Case> = [
        &b"a: b\0c"[..],
        b"a: b\rc",
        b"a\0: b",
        b"no colon",
        b": no name",
        b"sp ace: b",
        b"host: other",
        b"\xff: b",
    ]
    .iter()
    .map(|header| {
        let what = format!("the header {:?}", String::from_utf8_lossy(header));
        Case::new(what, with(header)).is(400, INVALID)
    })
    .collect();
    cases.push(Case::new(
        "bytes above ASCII in a header's value",
        with(b"a: \xff\xfe"),
    ));
    cases.push(Case::new(
        "empty lines before a request",
        format!("\r\n\r\n{}", get(paths::OPENAPI)),
    ));
    cases
}

fn versions() -> Vec<Case> {
    [
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("HTTP/2.0 in words", "GET / HTTP/2.0\r\nhost: h\r\n\r\n"),
        ("HTTP/1.2", "GET / HTTP/1.2\r\nhost: h\r\n\r\n"),
        ("HTTP/0.9", "GET /\r\n\r\n"),
        (
            "HTTP/1.1 without a host",
            "GET /openapi.json HTTP/1.1\r\n\r\n",
        ),
        (
            "chunks in HTTP/1.0",
            "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("TLS", "\x16\x03\x01\x02\0\x01\0\x01\u{7c}\x03\x03"),
        ("nonsense", "nonsense\r\n\r\n"),
        ("binary", "\0\0\0\0"),
        (
            "two spaces",
            "GET  /openapi.json HTTP/1.1\r\nhost: h\r\n\r\n",
        ),
        (
            "the guard's own method",
            "REFUSED /0 HTTP/1.1\r\nhost: h\r\n\r\n",
        ),
    ]
    .into_iter()
    .map(|(what, sent)| Case::new(what, sent).is(400, INVALID))
    .chain([Case::new("HTTP/1.0", "GET /openapi.json HTTP/1.0\r\n\r\n")])
    .collect()
}

fn targets() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "/nowhere",
        "/",
        "//api/v1/locks/acquire",
        "/api/v1/locks/acquire/",
        "/api/v1/locks%2Facquire",
        "/api%2Fv1/locks/acquire",
        "/api/v1/locks/acquire%00",
        "/api/v1/../v1/locks/acquire",
        "/API/V1/LOCKS/ACQUIRE",
        "/api/v1/locks/acquire;x",
        "/\u{fc}",
    ]
    .iter()
    .map(|path| Case::new(format!("the path {path}"), get(path)).is(404, "not_found"))
    .collect();
    for target in [
        "relative", "<>", "http://", "h:443", "/a b", "/a\x7fb", "/a\0b", "\\",
    ] {
        let what = format!("the target {target:?}");
        cases.push(Case::new(what, get(target)).is(400, INVALID));
    }
    let invalid_utf8 = b"GET /\xff HTTP/1.1\r\nhost: h\r\n\r\n".to_vec();
    cases.push(Case::new("a path that is no UTF-8", invalid_utf8).is(400, INVALID));
    let absolute = get(&format!("http://elsewhere{}", paths::OPENAPI));
    cases.push(Case::new("an absolute target", absolute));
    let any = "OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n";
    cases.push(Case::new("the target *", any).is(404, "not_found"));
    let tunnel = "CONNECT h:443 HTTP/1.1\r\nhost: h\r\n\r\n";
    cases.push(Case::new("a tunnel", tunnel).is(400, INVALID));
    cases.push(Case::new(
        "a query",
        get(&format!("{}?a=%2F", paths::OPENAPI)),
    ));
    cases
}

fn methods() -> Vec<Case> {
    let request = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nhost: h\r\n\r\n");
    let mut cases = Vec::new();
    for method in [
        "GET",
        "PUT",
        "DELETE",
        "PATCH",
        "OPTIONS",
        "TRACE",
        "FOO",
        "post",
        "M!#$%&'*+",
    ] {
        let what = format!("{method} of an acquire");
        let sent = request(method, paths::ACQUIRE);
        cases.push(
            Case::new(what, sent)
                .is(405, "method_not_allowed")
                .says("POST"),
        );
    }
    let sent = request("POST", paths::OPENAPI);
    cases.push(
        Case::new("POST of a document", sent)
            .is(405, "method_not_allowed")
            .says("GET"),
    );
    let sent = post(paths::LOCKS, "", b"{}");
    cases.push(Case::new("POST of locks", sent).is(405, "method_not_allowed"));
    cases.push(Case::new(
        "an upgrade",
        format!(
            "GET {} HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            paths::OPENAPI
        ),
    ));
    cases
}

fn types() -> Vec<Case> {
    let typed = |headers: &str| {
        let (path, length) = (paths::ACQUIRE, GOOD.len());
        format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\n{headers}content-length: {length}\r\n\r\n{GOOD}"
        )
    };
    let mut cases: Vec<Case> = [
        "",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: text/plain\r\n",
        "content-type: application/jsonx\r\n",
        "content-type: application\r\n",
        "content-type: ;application/json\r\n",
        "content-type: \r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
    ]
    .iter()
    .map(|headers| {
        let case = Case::new(format!("{headers:?}"), typed(headers));
        case.is(415, "unsupported_media_type")
            .says("content-type: application/json")
    })
    .collect();
    let none = Case::new("no content type", typed("")).is(415, "unsupported_media_type");
    cases.push(none.says("curl: `--json`"));
    for good in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/json ;x",
    ] {
        cases.push(Case::new(good, typed(&format!("content-type: {good}\r\n"))));
    }
    cases
}

fn sizes() -> Vec<Case> {
    let body = |bytes: usize| vec![b' '; bytes];
    let claim = |bytes: &str| acquire(&format!("content-length: {bytes}\r\n"), "");
    let header = |bytes: usize| {
        let filler = "x".repeat(bytes);
        format!(
            "GET {} HTTP/1.1\r\nhost: h\r\nfiller: {filler}\r\n\r\n",
            paths::OPENAPI
        )
    };
    let long_target = get(&format!("/{}", "x".repeat(20_000)));
    let many = format!(
        "GET {} HTTP/1.1\r\nhost: h\r\n{}\r\n",
        paths::OPENAPI,
        "a: b\r\n".repeat(100)
    );
    let endless = vec![b'x'; 1 << 20];
    let too_large = "body_too_large";
    let headers_too_large = "headers_too_large";
    vec![
        Case::new("a body of 1 MiB", post(paths::RENEW, "", &body(1 << 20))).is(413, too_large),
        Case::new(
            "a body of 64 KiB + 1",
            post(paths::RENEW, "", &body(65_537)),
        )
        .is(413, too_large),
        Case::new(
            "a blank body of 64 KiB",
            post(paths::RENEW, "", &body(65_536)),
        )
        .is(400, INVALID),
        Case::new(
            "a batch of 4 MiB + 1",
            post(paths::RENEW_BATCH, "", &body((4 << 20) + 1)),
        )
        .is(413, too_large),
        Case::new(
            "a blank batch of 4 MiB",
            post(paths::RENEW_BATCH, "", &body(4 << 20)),
        )
        .is(400, INVALID),
        Case::new("a claim of a huge body", claim("18446744073709551613")).is(413, too_large),
        Case::new("a claim of a large body", claim("65537")).is(413, too_large),
        Case::new("headers of 15 KiB", header(15_000)),
        Case::new("headers of 17 KiB", header(17_000)).is(431, headers_too_large),
        Case::new("headers of 100 KiB", header(100 << 10)).is(431, headers_too_large),
        Case::new("headers without end", endless).is(431, headers_too_large),
        Case::new("101 headers", many).is(431, headers_too_large),
        Case::new("a target of 20,000 bytes", long_target).is(431, headers_too_large),
    ]
}
