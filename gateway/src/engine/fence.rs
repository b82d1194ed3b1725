//! The fence: the session key's mod revision, compared by every write of this gateway.
//!
//! When the outcome of a write is unknown, rewriting the session's key makes every write that is
//! still on its way fail. Then a linearizable read tells the truth. One fence is on its way at a
//! time, and nothing else is sent until its outcome is known.

use crate::engine::Engine;
use crate::engine::batch::Batch;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::outcome::Question;
use crate::limits;
use holdfast_store::{Compare, Op, Reply, Revision, StoreError, Txn, TxnOp, TxnOpReply};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    /// The mod revision of the session's key, as far as it is known.
    revision: Revision,
    busy: bool,
    /// Batches whose outcome the fence makes readable.
    unknown: Vec<Batch>,
}

impl Fence {
    /// The revision that writes compare; `None` while a fence is on its way.
    pub(crate) fn open(&self) -> Option<Revision> {
        (!self.busy && self.revision != Revision::ABSENT).then_some(self.revision)
    }
}

impl Engine {
    pub(crate) fn fence_begins(&mut self, revision: Revision) {
        self.fence.revision = revision;
    }

    /// The compare that every write carries (OWNER).
    pub(crate) fn fence_compare(&self) -> Option<Compare> {
        let revision = self.fence.open()?;
        Some(Compare::mod_revision(self.session_key()?, revision))
    }

    /// Finds out what became of a batch whose outcome is unknown.
    pub(crate) fn fence_then_read(&mut self, batch: Batch) {
        self.stats.unknown_outcomes.add(1);
        let unfenced = self.mutated(Mutation::ReadWithoutFence);
        if (batch.fence < self.fence.revision || unfenced) && !self.fence.busy {
            // A fence was confirmed since the batch was sent.
            return self.resolve(Question::of(batch));
        }
        self.fence.unknown.push(batch);
        if !self.fence.busy {
            self.fence.busy = true;
            self.send_fence();
        }
    }

    pub(crate) fn send_fence(&mut self) {
        let (Some(live), Some(key)) = (self.session.live(), self.session_key()) else {
            return;
        };
        let mut compare = vec![Compare::mod_revision(key, self.fence.revision)];
        let mut put = self.session_put(live.id, live.lease);
        if self.mutated(Mutation::FenceByPlainPut) {
            compare.clear();
            put.lease = None;
        }
        let inner = Txn {
            compare,
            then: vec![TxnOp::Put(put)],
            or_else: self.get_session_key().into_iter().map(TxnOp::Get).collect(),
        };
        let txn = Txn {
            then: vec![TxnOp::Txn(inner)],
            ..Txn::default()
        };
        self.stats.fences.add(1);
        self.call(Op::Txn(txn), limits::CALL_TIMEOUT, Purpose::Fence);
    }

    pub(crate) fn on_fence(&mut self, result: Result<Reply, StoreError>) {
        let reply = match as_txn(result) {
            Ok(reply) => reply,
            Err(error) => {
                // Unknown, or not done: the same fence again. If it was done after all, the next
                // one is refused and tells the revision.
                tracing::debug!(cluster = %self.settings.cluster, %error, "fence not confirmed");
                self.round.want();
                self.do_later(limits::RETRY_BACKOFF, Task::Fence);
                return;
            }
        };
        let header = reply.header;
        match reply.ops.into_iter().next() {
            Some(TxnOpReply::Txn {
                succeeded: true, ..
            }) => {
                self.fence.revision = header.revision;
                self.fence.busy = false;
                for batch in std::mem::take(&mut self.fence.unknown) {
                    self.resolve(Question::of(batch));
                }
            }
            Some(TxnOpReply::Txn {
                succeeded: false,
                ops,
            }) => {
                let present = ops.into_iter().find_map(|op| match op {
                    TxnOpReply::Get(get) => get.kvs.into_iter().next(),
                    _ => None,
                });
                match present {
                    Some(kv) if self.is_session_key(&kv) => {
                        self.fence.revision = kv.mod_revision;
                        self.send_fence();
                    }
                    _ => self.session_lost(),
                }
            }
            _ => self.do_later(limits::RETRY_BACKOFF, Task::Fence),
        }
    }

    /// Whether this is the key of the session as it was made.
    pub(crate) fn is_session_key(&self, kv: &holdfast_store::KeyValue) -> bool {
        self.session
            .live()
            .is_some_and(|live| kv.create_revision == live.created && kv.lease == Some(live.lease))
    }

    /// A write was refused by the fence compare: adopt what is there. Writes that are on their
    /// way with an older revision are refused like this one, so nothing is unknown by it.
    pub(crate) fn adopt_fence(&mut self, present: Option<holdfast_store::KeyValue>) {
        match present {
            Some(kv) if self.is_session_key(&kv) => {
                if !self.fence.busy {
                    self.fence.revision = self.fence.revision.max(kv.mod_revision);
                }
            }
            _ => self.session_lost(),
        }
    }
}
