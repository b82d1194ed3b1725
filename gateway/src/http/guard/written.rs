//! Counts the replies that the HTTP library has written.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// How many replies of one connection have gone into the library's buffer, complete. Clones share
/// it. All of them are used by the connection's task.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct Written(Arc<AtomicU64>);

impl Written {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A body that counts when the library is done with it. It drops a body when it has taken its
    /// last piece, and writes that piece, and the head before it, before it flushes anything.
    pub(in crate::http) fn told(&self, body: Full<Bytes>) -> Told {
        Told {
            body,
            written: self.clone(),
        }
    }
}

/// The body of a reply.
#[derive(Debug)]
pub(in crate::http) struct Told {
    body: Full<Bytes>,
    written: Written,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.written.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
