//! Reads request bodies, within bounds of size, time and memory.

use super::failure::Failure;
use crate::limits;
use crate::time::Millis;
use bytes::Bytes;
use holdfast_api::ErrorCode;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// The memory for bodies that are still arriving, shared by all connections.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_left: AtomicUsize,
}

/// A part of the budget, given back when dropped.
struct Share<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        let bytes_left = AtomicUsize::new(bytes);
        Self { bytes_left }
    }

    fn share(&self) -> Share<'_> {
        Share {
            budget: self,
            bytes: 0,
        }
    }
}

impl Share<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let left = &self.budget.bytes_left;
        left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        })
        .map_err(|_| Failure::overloaded("too many large bodies at once").ending_connection())?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let left = &self.budget.bytes_left;
        left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Reads a body of at most `bytes_max`, which has `timeout` to arrive.
///
/// A body that came together with its head is returned as it lies in the connection's buffer,
/// and no timer is armed for it.
///
/// A client that disconnects ends the request here, before anything has begun.
///
/// # Errors
/// When it is too large (said as soon as it is known), too slow, broken, or when too much is
/// arriving at once. The connection ends with each of these.
pub(super) async fn read(
    mut body: Incoming,
    bytes_max: usize,
    timeout: Millis,
    budget: &Budget,
) -> Result<Bytes, Failure> {
    let said = body.size_hint().lower();
    if said > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let first = match frame_that_is_there(&mut body).await {
        Some(frame) => data(frame)?,
        None => Bytes::new(),
    };
    if body.is_end_stream() && first.len() <= bytes_max {
        return Ok(first);
    }
    let rest = read_rest(first, &mut body, bytes_max, budget);
    // Boxed, because the future of every request would carry it about otherwise.
    match Box::pin(tokio::time::timeout(timeout.to_std(), rest)).await {
        Ok(read) => read,
        Err(_) => Err(Failure::new(
            ErrorCode::RequestTimeout,
            format!("the body did not arrive within {} ms", timeout.as_ms()),
        )
        .ending_connection()),
    }
}

/// The first frame, or `None` when it is still on its way. The HTTP library has read what came
/// with the head before it gives the request away, so one look is enough.
async fn frame_that_is_there(
    body: &mut Incoming,
) -> Option<Option<Result<Frame<Bytes>, hyper::Error>>> {
    std::future::poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn read_rest(
    first: Bytes,
    body: &mut Incoming,
    bytes_max: usize,
    budget: &Budget,
) -> Result<Bytes, Failure> {
    let mut share = budget.share();
    let mut read = Vec::new();
    let mut next = first;
    loop {
        if read.len() + next.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        share.grow(next.len())?;
        read.extend_from_slice(&next);
        match body.frame().await {
            None => return Ok(Bytes::from(read)),
            frame => next = data(frame)?,
        }
    }
}

/// The data of a frame; trailers have none.
fn data(frame: Option<Result<Frame<Bytes>, hyper::Error>>) -> Result<Bytes, Failure> {
    match frame {
        None => Ok(Bytes::new()),
        Some(Ok(frame)) => Ok(frame.into_data().unwrap_or_default()),
        Some(Err(_)) => Err(
            Failure::invalid("the body broke off, or its chunks are malformed").ending_connection(),
        ),
    }
}

fn too_large(bytes_max: usize) -> Failure {
    let batches = if bytes_max < limits::BATCH_BODY_BYTES_MAX {
        ""
    } else {
        "; split the batch"
    };
    let detail = format!("the body is larger than {bytes_max} bytes{batches}");
    Failure::new(ErrorCode::BodyTooLarge, detail).ending_connection()
}
