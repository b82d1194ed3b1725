//! Calls that are kept to be sent again.

use super::messages::frame;
use super::rules::{Call, contains};
use anyhow::{Context, Result};
use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use std::collections::VecDeque;

/// So many are kept; the oldest are forgotten.
const KEPT_MAX: usize = 4_096;

/// A call as it passed.
#[derive(Debug, Clone)]
pub(super) struct KeptCall {
    pub(super) call: Call,
    pub(super) head: Request<()>,
    pub(super) message: Bytes,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Kept(VecDeque<KeptCall>);

/// What became of calls that were sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repeated {
    /// etcd carried them out, which says nothing of a transaction's compares.
    pub ok: u64,
    /// etcd answered with an error.
    pub refused: u64,
}

impl Kept {
    pub(super) fn keep(&mut self, call: Call, head: &Request<()>, message: &Bytes) {
        if !matches!(call, Call::Txn | Call::LeaseRevoke) {
            return;
        }
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(KeptCall {
            call,
            head: head.clone(),
            message: message.clone(),
        });
    }

    pub(super) fn find(&self, call: Call, containing: &[u8], most: usize) -> Vec<KeptCall> {
        let is_meant = |kept: &&KeptCall| {
            kept.call == call && (containing.is_empty() || contains(&kept.message, containing))
        };
        let mut found: Vec<_> = self.0.iter().rev().filter(is_meant).take(most).collect();
        found.reverse();
        found.into_iter().cloned().collect()
    }
}

/// Sends the calls, one after the other, over a connection of their own.
pub(super) async fn send(target_port: u16, calls: Vec<KeptCall>) -> Result<Repeated> {
    let (sender, driver) = super::connect(target_port).await?;
    let mut repeated = Repeated::default();
    for call in calls {
        match answer(sender.clone(), call).await? {
            0 => repeated.ok += 1,
            _ => repeated.refused += 1,
        }
    }
    driver.abort();
    Ok(repeated)
}

/// Sends a call and gives the gRPC status it is answered with.
async fn answer(sender: SendRequest<Bytes>, call: KeptCall) -> Result<u16> {
    let mut sender = sender.ready().await?;
    let (response, mut body) = sender.send_request(call.head, false)?;
    body.send_data(frame(&call.message), true)?;
    let response = response.await?;
    if let Some(status) = status(response.headers()) {
        return Ok(status);
    }
    let mut answer = response.into_body();
    while let Some(data) = answer.data().await {
        answer.flow_control().release_capacity(data?.len())?;
    }
    let trailers = answer.trailers().await?.unwrap_or_default();
    status(&trailers).context("an answer without a status")
}

fn status(headers: &HeaderMap) -> Option<u16> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}
