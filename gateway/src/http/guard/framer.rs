//! Cuts what a client sends into requests, so that each is looked at before it is let through.
//!
//! Pure. Bytes go in with [`Framer::push`] as they are read. What may pass at once is counted by
//! its answer; the rest is held, and comes out of [`Framer::release`] when its head is complete.
//! A head is never let through in part, and nothing after a refused one is let through at all.

use super::Fault;
use super::head::{self, Body, Head};
use super::marker;
use crate::limits;
use bytes::{Buf, BytesMut};

/// What is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A request, from its beginning (of which some may be held).
    Head,
    /// So many more bytes of a body.
    Body { left: u64 },
    /// A chunked body. Where it ends is the HTTP library's business, and the connection ends
    /// with it, so that nothing can follow it unseen.
    Chunked,
    /// Nothing: the connection ends with a refusal.
    Refused,
}

/// What the client is expected to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Another request, or nothing.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body, or nothing.
    Body,
    /// Nothing: a refusal is on its way.
    Refused,
}

/// The cutter of one connection.
#[derive(Debug)]
pub(super) struct Framer {
    state: State,
    held: BytesMut,
    /// So many held bytes may be released.
    released: usize,
    /// So many held bytes were searched for a line's end in vain, or read and found incomplete.
    seen: usize,
    heads: u64,
}

impl Framer {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
            held: BytesMut::new(),
            released: 0,
            seen: 0,
            heads: 0,
        }
    }

    /// Takes what was read. The first so many bytes of it may pass at once; the others are held.
    pub(super) fn push(&mut self, read: &[u8]) -> usize {
        let passed = if self.held.is_empty() {
            self.pass(read)
        } else {
            0
        };
        if passed < read.len() && self.state != State::Refused {
            self.held.extend_from_slice(&read[passed..]);
        }
        passed
    }

    /// Moves held bytes that may pass into `put`, at most `room` of them; how many is returned.
    pub(super) fn release(&mut self, room: usize, put: impl FnOnce(&[u8])) -> usize {
        if self.released == 0 {
            self.look_at_held();
        }
        let bytes = self.released.min(room);
        if bytes > 0 {
            put(&self.held[..bytes]);
            self.held.advance(bytes);
            self.released -= bytes;
            self.seen = 0;
            if self.held.is_empty() {
                // Few connections ever hold anything; the memory is for those that do.
                self.held = BytesMut::new();
            }
        }
        bytes
    }

    /// Refuses what is coming in. The refusal is released like a request.
    pub(super) fn refuse(&mut self, fault: Fault) {
        self.state = State::Refused;
        self.held = BytesMut::from(marker::request(fault).as_bytes());
        self.released = self.held.len();
    }

    /// What the client is expected to send.
    pub(super) fn waiting(&self) -> Waiting {
        match self.state {
            State::Head if self.held.is_empty() => Waiting::Idle,
            State::Head => Waiting::Head,
            State::Body { .. } | State::Chunked => Waiting::Body,
            State::Refused => Waiting::Refused,
        }
    }

    /// How many heads were complete so far.
    pub(super) fn heads(&self) -> u64 {
        self.heads
    }

    /// Lets through the longest beginning of `read` that is known to belong to one request.
    fn pass(&mut self, read: &[u8]) -> usize {
        match self.state {
            State::Head => match head::read(read) {
                Head::Partial => 0,
                Head::Complete { bytes, body } => self.accept(bytes, body, read.len()),
                Head::Bad(fault) => {
                    self.refuse(fault);
                    0
                }
            },
            State::Body { left } => self.pass_body(left, read.len()),
            State::Chunked => read.len(),
            State::Refused => 0,
        }
    }

    /// A head of `bytes` is complete, and `there` bytes are there from its beginning on.
    fn accept(&mut self, bytes: usize, body: Body, there: usize) -> usize {
        self.heads += 1;
        match body {
            Body::Chunked => {
                self.state = State::Chunked;
                there
            }
            Body::Sized(left) => bytes + self.pass_body(left, there - bytes),
        }
    }

    fn pass_body(&mut self, left: u64, there: usize) -> usize {
        let passed = usize::try_from(left).unwrap_or(usize::MAX).min(there);
        let left = left - passed as u64;
        self.state = if left == 0 {
            State::Head
        } else {
            State::Body { left }
        };
        passed
    }

    fn look_at_held(&mut self) {
        if self.state == State::Head {
            // Some clients end a body with an empty line. It belongs to no request.
            while let Some(bytes) = empty_line(&self.held) {
                self.held.advance(bytes);
            }
            let large = self.held.len() > limits::HEADER_BYTES_MAX;
            // Only a line's end can complete a head, so a slow client does not cost a read of
            // the whole head for every byte.
            let seen = self.seen.min(self.held.len());
            self.seen = self.held.len();
            if !large && !self.held[seen..].contains(&b'\n') {
                return;
            }
        }
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let released = self.pass(&held);
            if self.state != State::Refused {
                self.held = held;
                self.released = released;
            }
        }
    }
}

/// How long the empty line is that `bytes` begin with.
fn empty_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `sent` in pieces of `size` bytes with room for `room` at a time; what came through,
    /// piece by piece.
    fn feed(sent: &[u8], size: usize, room: usize) -> (Framer, Vec<Vec<u8>>) {
        let mut framer = Framer::new();
        let mut through = Vec::new();
        for piece in sent.chunks(size) {
            let passed = framer.push(piece);
            if passed > 0 {
                through.push(piece[..passed].to_vec());
            }
            loop {
                let mut out = Vec::new();
                if framer.release(room, |bytes| out.extend_from_slice(bytes)) == 0 {
                    break;
                }
                through.push(out);
            }
        }
        (framer, through)
    }

    const ONE: &[u8] = b"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc";
    const TWO: &[u8] = b"GET /b HTTP/1.1\r\nhost: h\r\n\r\n";

    #[test]
    fn all_that_is_sent_comes_through_however_it_is_cut() {
        let sent = [ONE, TWO, ONE, TWO].concat();
        for size in 1..sent.len() {
            for room in [1, 7, 8192] {
                let (framer, through) = feed(&sent, size, room);
                assert_eq!(through.concat(), sent, "pieces of {size}, room {room}");
                assert_eq!(framer.waiting(), Waiting::Idle);
                assert_eq!(framer.heads(), 4);
            }
        }
    }

    #[test]
    fn a_head_comes_through_whole_and_requests_one_by_one() {
        let (_, through) = feed(&[ONE, TWO].concat(), 10, 8192);
        let head_and_some = ONE.len() - 3;
        assert!(through[0].len() >= head_and_some && through[0].starts_with(b"POST"));
        let (_, at_once) = feed(&[ONE, TWO].concat(), 1000, 8192);
        assert_eq!(at_once, [ONE, TWO]);
    }

    #[test]
    fn nothing_after_a_refused_head_comes_through() {
        let bad = b"GET /b HTTP/1.1\r\n\r\n";
        let sent = [ONE, bad, TWO].concat();
        for size in 1..sent.len() {
            let (framer, through) = feed(&sent, size, 8192);
            let expected = [ONE, marker::request(Fault::Host).as_bytes()].concat();
            assert_eq!(through.concat(), expected, "pieces of {size}");
            assert_eq!(framer.waiting(), Waiting::Refused);
        }
    }

    #[test]
    fn what_follows_a_chunked_body_passes_as_a_part_of_it() {
        let sent = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET";
        for size in [1, 9, 500] {
            let (framer, through) = feed(sent, size, 8192);
            assert_eq!(through.concat(), sent);
            assert_eq!(framer.waiting(), Waiting::Body);
        }
    }

    #[test]
    fn empty_lines_between_requests_are_neither_a_request_nor_a_beginning_of_one() {
        for size in [1, 3, 500] {
            let (framer, through) = feed(&[TWO, b"\r\n\r\n"].concat(), size, 8192);
            assert_eq!(through.concat(), TWO);
            assert_eq!(framer.waiting(), Waiting::Idle);
        }
    }

    #[test]
    fn a_return_that_ends_no_line_is_refused_however_it_is_cut() {
        let sent = [TWO, b"\r\r\n", TWO].concat();
        for size in 1..sent.len() {
            let (framer, through) = feed(&sent, size, 8192);
            let expected = [TWO, marker::request(Fault::Malformed).as_bytes()].concat();
            assert_eq!(through.concat(), expected, "pieces of {size}");
            assert_eq!(framer.waiting(), Waiting::Refused);
        }
    }

    #[test]
    fn an_endless_head_is_refused_without_being_held() {
        let sent = vec![b'a'; limits::HEADER_BYTES_MAX * 4];
        for size in [1000, sent.len()] {
            let (framer, _) = feed(&sent, size, 8192);
            assert_eq!(framer.waiting(), Waiting::Refused);
            assert!(framer.held.is_empty());
        }
    }
}
