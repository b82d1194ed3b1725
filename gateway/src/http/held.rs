//! Replies that wait for clients who do not read them.
//!
//! Over HTTP/1.1 a connection has one reply at a time. Over HTTP/2 it may have one for each of its
//! requests, and a client that opens no window for them lets all of them wait. So large ones are
//! counted, those of all connections together.

use super::failure::Failure;
use super::reply::{self, Reply};
use crate::limits;
use bytes::Bytes;
use futures::future::FutureExt as _;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory for large replies.
#[derive(Debug)]
pub(super) struct Replies {
    /// In units, because a semaphore hands out a `u32` at once.
    units_left: Arc<Semaphore>,
}

const UNIT_BYTES: usize = 1024;

/// The body of a reply, and its share of the memory for as long as the client has not taken it. It
/// goes to the library in pieces, because the library keeps what it was given until it is sent.
#[derive(Debug)]
pub(super) struct Held {
    left: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl Replies {
    pub(super) fn new(bytes_max: usize) -> Self {
        let units_left = Arc::new(Semaphore::new(bytes_max / UNIT_BYTES));
        Self { units_left }
    }

    /// The reply, or, when there is no memory for it, a refusal: the outcome is unknown to the client
    /// then, as with every 503.
    pub(super) fn hold(&self, reply: Reply) -> Response<Held> {
        let (head, body) = reply.into_parts();
        let left = whole(body);
        if left.len() <= limits::HTTP2_REPLY_BYTES_FREE {
            return Response::from_parts(head, Held { left, _share: None });
        }
        match self.take(left.len().div_ceil(UNIT_BYTES)) {
            Some(share) => {
                let _share = Some(share);
                Response::from_parts(head, Held { left, _share })
            }
            None => {
                let detail = "too many large replies wait for their clients; read them, or send \
                              smaller batches";
                let refusal = reply::problem(&Failure::overloaded(detail), "/");
                refusal.map(|body| Held {
                    left: whole(body),
                    _share: None,
                })
            }
        }
    }

    fn take(&self, units: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(units).ok()?;
        Arc::clone(&self.units_left)
            .try_acquire_many_owned(units)
            .ok()
    }
}

/// A body that is there already.
fn whole(mut body: Full<Bytes>) -> Bytes {
    let frame = body.frame().now_or_never().flatten();
    let data = frame.and_then(|frame| frame.ok()?.into_data().ok());
    data.unwrap_or_default()
}

impl Body for Held {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let bytes = self.left.len().min(limits::HTTP2_REPLY_BYTES_FREE);
        let piece = self.left.split_to(bytes);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: usize) -> Reply {
        Response::new(Full::new(Bytes::from(vec![b'a'; bytes])))
    }

    #[test]
    fn large_replies_that_wait_are_bounded_and_small_ones_always_pass() {
        let large = limits::HTTP2_REPLY_BYTES_FREE + 1;
        let replies = Replies::new(2 * large.next_multiple_of(UNIT_BYTES));
        let one = replies.hold(reply(large));
        let two = replies.hold(reply(large));
        assert_eq!([one.status().as_u16(), two.status().as_u16()], [200, 200]);
        let refused = replies.hold(reply(large));
        assert_eq!(refused.status().as_u16(), 503);
        assert!(refused.headers().contains_key("retry-after"));
        assert_eq!(replies.hold(reply(large - 1)).status().as_u16(), 200);
        // In pieces, and the share is given back with the last of them.
        let mut one = one.into_body();
        let pieces = std::iter::from_fn(|| one.frame().now_or_never().flatten());
        let pieces: Vec<_> = pieces
            .map(|piece| piece.unwrap().into_data().unwrap().len())
            .collect();
        assert_eq!(pieces, [large - 1, 1]);
        drop(one);
        assert_eq!(replies.hold(reply(large)).status().as_u16(), 200);
    }
}
