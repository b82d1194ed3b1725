//! A connection between two gateways that writes while it reads, so that neither side can wait for
//! the other to read first.

use crate::limits;
use crate::peer::wire::Frame;
use bytes::Bytes;
use futures::{Sink, SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// Frames of bytes, of at most so many each.
pub(super) type Bytestream<T> = Framed<T, LengthDelimitedCodec>;

/// A connection of two gateways that have shaken hands.
pub(super) struct Connection {
    bytes: Bytestream<TokioIo<Upgraded>>,
    unwritten: bool,
}

/// For the handshake, in which a stranger may speak.
pub(super) fn framed<T: AsyncRead + AsyncWrite>(io: T) -> Bytestream<T> {
    let mut framed = LengthDelimitedCodec::builder()
        .max_frame_length(limits::PEER_GREETING_BYTES_MAX)
        .new_framed(io);
    // What is not written yet is bounded by the calls that may be under way.
    framed.set_backpressure_boundary(usize::MAX);
    framed
}

impl Connection {
    pub(super) fn new(mut bytes: Bytestream<TokioIo<Upgraded>>) -> Self {
        bytes
            .codec_mut()
            .set_max_frame_length(limits::PEER_FRAME_BYTES_MAX);
        Self {
            bytes,
            unwritten: false,
        }
    }

    /// Has the frame written while [`Connection::next`] is awaited.
    pub(super) fn send(&mut self, frame: &Frame) {
        // There is always room; what is wrong with the connection shows when it is read.
        let _ = self.bytes.start_send_unpin(frame.encode());
        self.unwritten = true;
    }

    /// The next frame; `None` when the connection has ended or carries no frames. Nothing is lost
    /// when it is not awaited to the end.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        if self.unwritten {
            match Sink::<Bytes>::poll_flush(Pin::new(&mut self.bytes), context) {
                Poll::Ready(Ok(())) => self.unwritten = false,
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => {}
            }
        }
        let bytes = std::task::ready!(self.bytes.poll_next_unpin(context));
        Poll::Ready(
            bytes
                .and_then(Result::ok)
                .and_then(|bytes| Frame::decode(&bytes)),
        )
    }
}
