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
//! A request that arrives whole costs one look at its head; it is not copied and arms no timer.

mod fault;
mod framer;
mod head;
mod marker;
mod timer;

pub(crate) use fault::Fault;
pub(crate) use marker::fault as fault_of;

use crate::http::Timeouts;
use crate::limits;
use framer::{Framer, Waiting};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use timer::Timer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A guarded connection.
pub(super) struct Guard<S> {
    socket: S,
    framer: Framer,
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

impl<S> Guard<S> {
    pub(super) fn new(socket: S, timeouts: Timeouts) -> Self {
        Self {
            socket,
            framer: Framer::new(),
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

impl<S: AsyncRead + Unpin> Guard<S> {
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

impl<S: AsyncRead + Unpin> AsyncRead for Guard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
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
                    let passed = this.framer.push(bytes);
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.patiently(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.patiently(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
        match self.framer.waiting() {
            Waiting::Idle => Poll::Ready(Ok(())),
            Waiting::Head | Waiting::Body | Waiting::Refused => self.poll_linger(cx).map(Ok),
        }
    }
}
