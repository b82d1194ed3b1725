//! The guard: a client's connection, seen through the rules of this service.
//!
//! It stands between the socket and the HTTP library, and does what the library leaves to others:
//!
//! - A head is checked before the library sees it ([`head`]). What two readers could understand
//!   differently is refused, and every refusal is a problem in JSON, in its turn ([`marker`]).
//! - The time for a head runs from its first byte, so it does not cut a kept connection that is
//!   idle; idle ones have a longer time of their own.
//! - A client that does not read its replies is cut off.
//! - A refused client may finish sending, for a while, so that it gets to read the refusal.
//!
//! - A renewal that arrives whole may be answered at once ([`Express`]), while the library has
//!   nothing to do.
//!
//! A request that arrives whole costs one look at its head; it is not copied and arms no timer.

mod fault;
mod framer;
#[cfg(feature = "fuzz")]
pub(super) mod fuzz;
mod head;
mod marker;
mod timer;
mod written;

pub(crate) use fault::Fault;
pub(crate) use marker::fault as fault_of;
pub(super) use written::Written;

use crate::http::Timeouts;
use crate::http::express::Express;
use crate::limits;
use framer::{Framer, Waiting};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use timer::Timer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A guarded connection.
pub(super) struct Guard<'a, S, X> {
    socket: S,
    framer: Framer,
    express: &'a X,
    /// Of a reply that was given at once, what the socket has not taken.
    unsent: Vec<u8>,
    written: Written,
    /// The library had written and flushed every reply when so many heads were complete.
    quiet_at: u64,
    timeouts: Timeouts,
    /// Runs while nothing can be read. What it was armed for stands beside it.
    reading: Timer,
    armed: Armed,
    /// Whether anything was written since the timer was armed.
    wrote: bool,
    /// Runs while nothing can be written.
    writing: Timer,
    lingering: Timer,
    linger_bytes_left: usize,
}

/// What the reading timer was armed for.
#[derive(Debug, Clone, Copy, Default)]
struct Armed {
    for_head: bool,
    /// The heads that were complete then.
    heads: u64,
}

impl<'a, S, X: Express> Guard<'a, S, X> {
    /// `written` counts the replies to what is let through.
    pub(super) fn new(socket: S, timeouts: Timeouts, express: &'a X, written: Written) -> Self {
        Self {
            socket,
            framer: Framer::new(),
            express,
            unsent: Vec::new(),
            written,
            quiet_at: 0,
            timeouts,
            reading: Timer::new(),
            armed: Armed::default(),
            wrote: false,
            writing: Timer::new(),
            lingering: Timer::new(),
            linger_bytes_left: limits::LINGER_BYTES_MAX,
        }
    }

    /// Nothing can be read: ready when that has lasted too long and something must be done.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Waiting> {
        loop {
            let waiting = self.framer.waiting();
            let (heads, for_head) = (self.framer.heads(), waiting == Waiting::Head);
            // The time for a head is not prolonged by its pieces; an idle connection's timer is
            // left running over any number of requests, and looked at when it goes off.
            let same = self.armed.for_head == for_head && (!for_head || self.armed.heads == heads);
            if !same || !self.reading.is_armed() {
                self.reading.arm(if for_head {
                    self.timeouts.header
                } else {
                    self.timeouts.idle
                });
                self.armed = Armed { for_head, heads };
                self.wrote = false;
            }
            ready!(self.reading.poll(cx));
            self.reading.disarm();
            match waiting {
                // The body's own time is kept by its reader.
                Waiting::Body => {}
                Waiting::Idle if self.wrote || self.armed.heads != heads => {}
                Waiting::Idle | Waiting::Head | Waiting::Refused => return Poll::Ready(waiting),
            }
        }
    }

    /// The result of a write, or an error when the client has not taken anything for too long.
    fn patiently<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.wrote = true;
            self.writing.disarm();
            return result;
        }
        if !self.writing.is_armed() {
            self.writing.arm(self.timeouts.write);
        }
        ready!(self.writing.poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin, X: Express> Guard<'_, S, X> {
    /// Answers what can be answered at once, from the beginning of `read` on. Returns how much of
    /// it that was.
    ///
    /// Not while the library has a request or a reply in its hands, whose turn comes before.
    fn answer_at_once(&mut self, read: &[u8]) -> usize {
        if self.quiet_at != self.framer.heads() || self.framer.waiting() != Waiting::Idle {
            return 0;
        }
        let mut answered = 0;
        while let Some(bytes) = self.express.answer(&read[answered..], &mut self.unsent) {
            answered += bytes;
        }
        answered
    }

    /// Sends what was answered at once. It goes before anything that the library writes later.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = Pin::new(&mut self.socket).poll_write(cx, &self.unsent);
            let sent = ready!(self.patiently(cx, sent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..sent);
            if self.unsent.is_empty() {
                // A hundred thousand idle connections would keep it.
                self.unsent = Vec::new();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin, X: Express> Guard<'_, S, X> {
    /// Reads away what a refused client still sends.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.lingering.is_armed() {
            self.lingering.arm(limits::LINGER_TIMEOUT);
        }
        let mut scratch = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.socket).poll_read(cx, &mut buf) {
                Poll::Pending => return self.lingering.poll(cx),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {
                    let bytes = buf.filled().len();
                    if bytes == 0 || bytes > self.linger_bytes_left {
                        return Poll::Ready(());
                    }
                    self.linger_bytes_left -= bytes;
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, X: Express> AsyncRead for Guard<'_, S, X> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            ready!(this.poll_unsent(cx))?;
            let room = buf.remaining();
            if this.framer.release(room, |bytes| buf.put_slice(bytes)) > 0 {
                return Poll::Ready(Ok(()));
            }
            let before = buf.filled().len();
            let read = if this.framer.waiting() == Waiting::Refused {
                Poll::Pending
            } else {
                Pin::new(&mut this.socket).poll_read(cx, buf)
            };
            match read {
                Poll::Ready(Ok(())) => {
                    let bytes = &buf.filled()[before..];
                    if bytes.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    let answered = this.answer_at_once(bytes);
                    if answered > 0 {
                        let end = before + bytes.len();
                        buf.filled_mut().copy_within(before + answered.., before);
                        buf.set_filled(end - answered);
                    }
                    let passed = this.framer.push(&buf.filled()[before..]);
                    buf.set_filled(before + passed);
                    if passed > 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => match ready!(this.poll_patience(cx)) {
                    Waiting::Head => this.framer.refuse(Fault::Slow),
                    // As if the client had closed it.
                    Waiting::Idle | Waiting::Body | Waiting::Refused => return Poll::Ready(Ok(())),
                },
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, X: Express> AsyncWrite for Guard<'_, S, X> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(cx))?;
        let result = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.patiently(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(cx))?;
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.patiently(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        // The library asks for it when its own buffer is empty.
        if self.written.count() == self.framer.heads() {
            self.quiet_at = self.framer.heads();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
        match self.framer.waiting() {
            Waiting::Idle => Poll::Ready(Ok(())),
            Waiting::Head | Waiting::Body | Waiting::Refused => self.poll_linger(cx).map(Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    /// Answers `ping` with many bytes.
    struct Pong;

    const REPLY: [u8; 100] = [b'x'; 100];
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";

    impl Express for Pong {
        fn answer(&self, bytes: &[u8], reply: &mut Vec<u8>) -> Option<usize> {
            bytes.starts_with(b"ping").then(|| {
                reply.extend_from_slice(&REPLY);
                4
            })
        }
    }

    /// A guard whose socket takes so many bytes at a time, and the client's end of it.
    fn guard(
        bytes: usize,
        written: &Written,
    ) -> (Guard<'static, DuplexStream, Pong>, DuplexStream) {
        let (client, socket) = duplex(bytes);
        let guard = Guard::new(socket, Timeouts::default(), &Pong, written.clone());
        (guard, client)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_answered_at_once_is_sent_whole_and_before_the_librarys_replies() {
        let written = Written::default();
        let (mut guard, client) = guard(7, &written);
        let (mut from_guard, mut to_guard) = tokio::io::split(client);
        let served = async {
            let mut request = vec![0; REQUEST.len()];
            guard.read_exact(&mut request).await.unwrap();
            assert_eq!(request, REQUEST);
            guard.write_all(b"library").await.unwrap();
            guard.flush().await.unwrap();
        };
        let sent = async {
            to_guard.write_all(b"ping").await.unwrap();
            to_guard.write_all(REQUEST).await.unwrap();
        };
        let received = async {
            let mut replies = vec![0; REPLY.len() + 7];
            from_guard.read_exact(&mut replies).await.unwrap();
            assert_eq!(replies, [&REPLY[..], b"library"].concat());
        };
        tokio::join!(served, sent, received);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_answered_at_once_until_the_library_has_flushed_its_reply() {
        for (replied, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
            let written = Written::default();
            let (mut guard, mut client) = guard(256, &written);
            client.write_all(REQUEST).await.unwrap();
            guard.read_exact(&mut [0; REQUEST.len()]).await.unwrap();
            if replied {
                drop(written.told(Full::default()));
            }
            if flushed {
                guard.flush().await.unwrap();
            }
            client.write_all(b"ping").await.unwrap();
            client.shutdown().await.unwrap();
            // Ends with the client's end, and lets nothing through that is no whole request.
            assert_eq!(guard.read(&mut [0; 64]).await.unwrap(), 0);
            drop(guard);
            let mut reply = Vec::new();
            client.read_to_end(&mut reply).await.unwrap();
            let expected = if replied && flushed { &REPLY[..] } else { &[] };
            assert_eq!(reply, expected, "replied {replied}, flushed {flushed}");
        }
    }
}
