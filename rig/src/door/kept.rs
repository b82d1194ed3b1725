//! Calls that are kept to be sent again.

use super::messages::frame;
use super::rules::{Call, contains};
use anyhow::{Context, Result};
use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use std::collections::{BTreeMap, VecDeque};

/// So many are kept; the oldest are forgotten.
const KEPT_MAX: usize = 8_192;

/// A call as it passed.
#[derive(Debug, Clone)]
pub(super) struct KeptCall {
    pub(super) call: Call,
    pub(super) head: Request<()>,
    pub(super) message: Bytes,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Kept {
    calls: VecDeque<KeptCall>,
    repeated: BTreeMap<Call, Repeated>,
}

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
        if self.calls.len() == KEPT_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(KeptCall {
            call,
            head: head.clone(),
            message: message.clone(),
        });
    }

    pub(super) fn count(&mut self, call: Call, more: Repeated) {
        let repeated = self.repeated.entry(call).or_default();
        repeated.ok += more.ok;
        repeated.refused += more.refused;
    }

    pub(super) fn all_repeated(&self) -> Vec<(String, u64)> {
        let figures = |(call, repeated): (&Call, &Repeated)| {
            [
                (format!("{call:?} repeated, carried out"), repeated.ok),
                (format!("{call:?} repeated, refused"), repeated.refused),
            ]
        };
        self.repeated.iter().flat_map(figures).collect()
    }

    pub(super) fn find(&self, call: Call, containing: &[u8], most: usize) -> Vec<KeptCall> {
        let is_meant = |kept: &&KeptCall| {
            kept.call == call && (containing.is_empty() || contains(&kept.message, containing))
        };
        self.calls
            .iter()
            .filter(is_meant)
            .take(most)
            .cloned()
            .collect()
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
