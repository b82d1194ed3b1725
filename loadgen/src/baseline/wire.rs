//! Requests and replies as bytes. Pure.

use holdfast_api::{RenewRequest, paths};
use holdfast_client::wire;
use memchr::memmem;
use std::borrow::Cow;
use std::cell::Cell;

/// The answer to a renewal, in the size that a gateway's has.
pub(super) const RENEWED: &str = r#"{"renewed":true,"expiresAt":"2026-01-01T00:00:00.000Z","ttlMs":594000,"renewAfterMs":198000}"#;

const YES: &[u8] = br#""renewed":true"#;
const HEADERS_MAX: usize = 16;

/// The answer to a batch of so many.
pub(super) fn renewed_batch(count: usize) -> String {
    let results = vec![RENEWED; count];
    format!(r#"{{"results":[{}]}}"#, results.join(","))
}

/// Held locks, each as the JSON that renews it, one after the other in memory in the order in
/// which they are renewed.
#[derive(Debug, Default)]
pub(super) struct Deck {
    text: Vec<u8>,
    ends: Vec<usize>,
    next: Cell<usize>,
}

impl Deck {
    pub(super) fn push(&mut self, lock_id: &str, fencing_token: u64) {
        let renewal = RenewRequest {
            lock_id: Cow::Borrowed(lock_id),
            fencing_token,
            ttl_ms: None,
        };
        self.text.extend_from_slice(&wire::encode(&renewal));
        self.ends.push(self.text.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The next `count` locks in turn, each of them once.
    fn take(&self, count: usize) -> std::ops::Range<usize> {
        let next = self.next.get();
        let start = if next + count > self.len() { 0 } else { next };
        self.next.set(start + count);
        start..start + count
    }

    fn item(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[at]]
    }
}

/// Writes the requests of one kind.
#[derive(Debug)]
pub(super) struct Writer {
    head: Vec<u8>,
    count: usize,
    batched: bool,
}

impl Writer {
    /// Single renewals.
    pub(super) fn single(host: &str, authorization: Option<&str>) -> Self {
        Self {
            head: head(paths::RENEW, host, authorization),
            count: 1,
            batched: false,
        }
    }

    /// Batches of `count`.
    pub(super) fn batch(host: &str, authorization: Option<&str>, count: usize) -> Self {
        Self {
            head: head(paths::RENEW_BATCH, host, authorization),
            count,
            batched: true,
        }
    }

    /// Renewals in one request.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Puts the next request into `out`, in the place of what is there.
    pub(super) fn write(&self, deck: &Deck, out: &mut Vec<u8>) {
        const BEGIN: &[u8] = br#"{"renewals":["#;
        const END: &[u8] = b"]}";
        let locks = deck.take(self.count);
        let items: usize = locks.clone().map(|at| deck.item(at).len()).sum();
        let around = match self.batched {
            true => BEGIN.len() + END.len() + self.count - 1,
            false => 0,
        };
        out.clear();
        out.extend_from_slice(&self.head);
        out.extend_from_slice((items + around).to_string().as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        if !self.batched {
            return out.extend_from_slice(deck.item(locks.start));
        }
        out.extend_from_slice(BEGIN);
        for at in locks.clone() {
            if at > locks.start {
                out.push(b',');
            }
            out.extend_from_slice(deck.item(at));
        }
        out.extend_from_slice(END);
    }
}

/// All of a request's head but the length.
fn head(path: &str, host: &str, authorization: Option<&str>) -> Vec<u8> {
    let authorization = match authorization {
        Some(value) => format!("authorization: {value}\r\n"),
        None => String::new(),
    };
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\n{authorization}content-type: application/json\r\n\
         content-length: "
    )
    .into_bytes()
}

/// What the first bytes of a reply are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// Not all of it.
    Partial,
    /// All of it, and every renewal in it succeeded.
    Renewed,
    /// Something else, with this status.
    Other(u16),
}

/// Reads a reply to `count` renewals.
pub(super) fn read(bytes: &[u8], count: usize) -> Reply {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let end = match head.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Reply::Partial,
        Err(_) => return Reply::Other(0),
    };
    let status = head.code.unwrap_or(0);
    let length = head.headers.iter().find_map(|header| {
        let named = header.name.eq_ignore_ascii_case("content-length");
        named.then(|| str::from_utf8(header.value).ok()?.parse::<usize>().ok())?
    });
    let Some(length) = length else {
        return Reply::Other(status);
    };
    let body = &bytes[end..];
    if body.len() < length {
        return Reply::Partial;
    }
    let renewed = body.len() == length && memmem::find_iter(body, YES).count() == count;
    match (status, renewed) {
        (200, true) => Reply::Renewed,
        _ => Reply::Other(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_api::RenewBatch;

    fn deck(locks: u64) -> Deck {
        let mut deck = Deck::default();
        for token in 0..locks {
            deck.push(&format!("lock-{token}"), token);
        }
        deck
    }

    fn body(request: &[u8]) -> &[u8] {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        let end = head.parse(request).unwrap().unwrap();
        let length = head.headers.iter().find(|h| h.name == "content-length");
        let length: usize = str::from_utf8(length.unwrap().value)
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(request.len(), end + length);
        &request[end..]
    }

    #[test]
    fn single_renewals_take_every_lock_in_its_turn() {
        let (deck, writer) = (deck(3), Writer::single("h", None));
        let mut out = Vec::new();
        for token in [0, 1, 2, 0] {
            writer.write(&deck, &mut out);
            let read: RenewRequest<'_> = serde_json::from_slice(body(&out)).unwrap();
            assert_eq!(read.fencing_token, token);
            assert_eq!(read.lock_id, format!("lock-{token}"));
        }
    }

    #[test]
    fn no_batch_has_a_lock_twice() {
        let (deck, writer) = (deck(5), Writer::batch("h", None, 3));
        let mut out = Vec::new();
        for _ in 0..4 {
            writer.write(&deck, &mut out);
            let read: RenewBatch<'_> = serde_json::from_slice(body(&out)).unwrap();
            let mut tokens: Vec<_> = read.renewals.iter().map(|one| one.fencing_token).collect();
            tokens.dedup();
            assert_eq!(tokens.len(), 3);
        }
    }

    #[test]
    fn a_reply_counts_only_when_every_renewal_in_it_succeeded() {
        let reply = |status: &str, body: &str| {
            let length = body.len();
            format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        };
        let batch = renewed_batch(3);
        let good = reply("200", &batch);
        assert_eq!(read(&good, 3), Reply::Renewed);
        assert_eq!(read(&reply("200", RENEWED), 1), Reply::Renewed);
        for end in 0..good.len() {
            assert_eq!(read(&good[..end], 3), Reply::Partial, "{end} bytes");
        }
        assert_eq!(read(&good, 4), Reply::Other(200));
        assert_eq!(read(&reply("503", "{}"), 1), Reply::Other(503));
        assert_eq!(
            read(&reply("200", r#"{"renewed":false}"#), 1),
            Reply::Other(200)
        );
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\n", 1), Reply::Other(200));
        assert_eq!(read(b"no HTTP at all\r\n\r\n", 1), Reply::Other(0));
    }
}
