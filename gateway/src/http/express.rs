//! Answers renewals that arrive whole, before the HTTP library sees them.
//!
//! The library's work on a request (a map of headers, a body as a channel, a response with a map
//! of headers) costs more than a renewal does. What is answered here is a single renewal of a
//! lock that memory can answer for, in a request with nothing unusual about it: every header is
//! one of a few known ones that change nothing, and the body has the usual form
//! ([`usual`](super::usual)). Whatever else arrives goes to the library, untouched, as if this
//! module did not exist; and where this one answers, the library's way gives the same bytes. The
//! measured gain stands in `docs/performance.md`.

use super::client::Client;
use super::{reply, single};
use crate::lifecycle::Phase;
use crate::limits;
use crate::metrics::{LockCall, Operation, Outcome, Stopwatch};
use crate::service::Locks;
use crate::time::Clock;
use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// Somebody who can answer a request that arrived whole.
pub trait Express {
    /// Answers the request at the beginning of `bytes`: appends the whole reply, and returns the
    /// request's length. `None` leaves everything as it is.
    fn answer(&self, bytes: &[u8], reply: &mut Vec<u8>) -> Option<usize>;
}

/// Nobody can.
impl Express for () {
    fn answer(&self, _: &[u8], _: &mut Vec<u8>) -> Option<usize> {
        None
    }
}

impl<L: Locks, C: Clock> Express for Client<'_, L, C> {
    fn answer(&self, bytes: &[u8], reply: &mut Vec<u8>) -> Option<usize> {
        let head = read_head(bytes)?;
        let whole = head.bytes + head.body_bytes;
        let body = bytes.get(head.bytes..whole)?;
        let edge = self.edge;
        if edge.lifecycle.phase() != Phase::Serving {
            return None;
        }
        let took = Stopwatch::start();
        let who = self.caller.identify(head.authorization).ok()?;
        let told = single::renew_at_once(edge, &who, body)?;
        let unix_ms = edge.clock.unix_ms();
        write_head(reply, reply::renewed_bytes(told), unix_ms);
        reply::push_renewed_at(reply, told, unix_ms);
        edge.metrics.lock_calls(LockCall::Renew, Outcome::Ok, 1);
        edge.metrics.request(Operation::Renew, Outcome::Ok, took);
        Some(whole)
    }
}

const BEGIN: &[u8] = b"POST /api/v1/locks/renew HTTP/1.1\r\n";
const HEADERS_MAX: usize = 10;

/// The head of a usual renewal.
#[derive(Debug, PartialEq, Eq)]
struct Head<'a> {
    bytes: usize,
    body_bytes: usize,
    authorization: Option<&'a [u8]>,
}

/// `None` for any other request, and for one whose head is not there completely.
fn read_head(bytes: &[u8]) -> Option<Head<'_>> {
    if !bytes.starts_with(BEGIN) {
        return None;
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let read = httparse::parse_headers(&bytes[BEGIN.len()..], &mut headers);
    let Ok(httparse::Status::Complete((length, headers))) = read else {
        return None;
    };
    let head = BEGIN.len() + length;
    let (mut host, mut json, mut body, mut authorization) = (false, false, None, None);
    for header in headers {
        let (name, value) = (header.name, header.value);
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let once = match name.len() {
            4 if is("host") => !std::mem::replace(&mut host, true),
            6 if is("accept") => true,
            10 if is("user-agent") => true,
            10 if is("connection") => value.eq_ignore_ascii_case(b"keep-alive"),
            12 if is("content-type") => {
                value == b"application/json" && !std::mem::replace(&mut json, true)
            }
            13 if is("authorization") => authorization.replace(value).is_none(),
            14 if is("content-length") => body.replace(read_length(value)?).is_none(),
            15 if is("accept-encoding") => true,
            _ => false,
        };
        if !once {
            return None;
        }
    }
    let small = head <= limits::HEADER_BYTES_MAX;
    let body_bytes = body?;
    (host && json && small).then_some(Head {
        bytes: head,
        body_bytes,
        authorization,
    })
}

/// A length that a single renewal may have.
fn read_length(value: &[u8]) -> Option<usize> {
    let plain = matches!(value, [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit));
    let length = str::from_utf8(value).ok().filter(|_| plain)?.parse().ok()?;
    (length <= limits::BODY_BYTES_MAX).then_some(length)
}

fn write_head(reply: &mut Vec<u8>, body_bytes: usize, unix_ms: u64) {
    reply.extend_from_slice(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ",
    );
    reply.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
    reply.extend_from_slice(b"\r\ndate: ");
    reply.extend_from_slice(&date(unix_ms / 1000));
    reply.extend_from_slice(b"\r\n\r\n");
}

const DATE_BYTES: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

/// The text of a `date` header, as of this second. It is made once per thread and second.
fn date(unix_secs: u64) -> [u8; DATE_BYTES] {
    thread_local! {
        static LAST: Cell<(u64, [u8; DATE_BYTES])> = const { Cell::new((0, [0; DATE_BYTES])) };
    }
    let (secs, text) = LAST.get();
    if secs == unix_secs && secs != 0 {
        return text;
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(unix_secs);
    let mut made = [0; DATE_BYTES];
    made.copy_from_slice(httpdate::fmt_http_date(at).as_bytes());
    LAST.set((unix_secs, made));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &str, body: &str) -> String {
        let begin = str::from_utf8(BEGIN).unwrap();
        let length = body.len();
        format!("{begin}{headers}content-length: {length}\r\n\r\n{body}")
    }

    const USUAL: &str = "host: h\r\ncontent-type: application/json\r\n";

    #[test]
    fn the_heads_of_common_clients_are_usual() {
        for headers in [
            USUAL,
            &format!("authorization:  Bearer x \r\n{USUAL}"),
            "Host: h\r\nUser-Agent: curl/8\r\nAccept: */*\r\nContent-Type: application/json\r\n",
            "Host: h\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n",
        ] {
            let whole = request(headers, "{body}");
            let head = whole.len() - 6;
            let read = read_head(whole.as_bytes()).unwrap();
            assert_eq!((read.bytes, read.body_bytes), (head, 6), "{headers}");
            let authorized = headers.contains("authorization");
            assert_eq!(read.authorization, authorized.then_some(&b"Bearer x"[..]));
            for end in 0..head {
                assert_eq!(read_head(&whole.as_bytes()[..end]), None, "{end} bytes");
            }
        }
    }

    #[test]
    fn whatever_is_unusual_about_a_head_is_left_to_the_library() {
        for headers in [
            "",
            "host: h\r\n",
            "content-type: application/json\r\n",
            "host: h\r\ncontent-type: text/plain\r\n",
            "host: h\r\ncontent-type: application/json; charset=utf-8\r\n",
            &format!("{USUAL}host: h\r\n"),
            &format!("{USUAL}content-type: application/json\r\n"),
            &format!("{USUAL}content-length: 2\r\n"),
            &format!("{USUAL}content-encoding: gzip\r\n"),
            &format!("{USUAL}transfer-encoding: chunked\r\n"),
            &format!("{USUAL}connection: close\r\n"),
            &format!("{USUAL}expect: 100-continue\r\n"),
            &format!("{USUAL}authorization: a\r\nauthorization: a\r\n"),
            &format!("{USUAL}a : b\r\n"),
            &format!("{USUAL} folded\r\n"),
            &format!("{USUAL}{}", "accept: a\r\n".repeat(HEADERS_MAX)),
            &format!(
                "{USUAL}accept: {}\r\n",
                "a".repeat(limits::HEADER_BYTES_MAX)
            ),
        ] {
            assert_eq!(
                read_head(request(headers, "{}").as_bytes()),
                None,
                "{headers:.99}"
            );
        }
        let usual = request(USUAL, "{}");
        for (part, other) in [
            ("POST", "PUT"),
            ("renew", "renew-batch"),
            ("renew", "renew?a"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("length: 2", "length: +2"),
            ("length: 2", "length: 02"),
            ("length: 2", "length: 0"),
            ("length: 2", "length: "),
            ("length: 2", "length: 99999999999999999999"),
            ("length: 2", "length: 65537"),
        ] {
            let unusual = usual.replacen(part, other, 1);
            assert_eq!(read_head(unusual.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_date_is_of_its_second() {
        for (secs, expected) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(str::from_utf8(&date(secs)).unwrap(), expected);
        }
    }
}
