//! Jobs to request bodies, replies to answers.

use super::{Answer, Fleet, Job};
use crate::outcome::Op;
use crate::schedule::Item;
use bytes::Bytes;
use holdfast_api::{
    AcquireBatch, AcquireRequest, ReleaseBatch, ReleaseRequest, RenewBatch, RenewRequest, paths,
};
use holdfast_client::{Error, Instant, LockId, RawReply, Token, wire};
use std::borrow::Cow;

impl Fleet {
    /// Where a job goes, and its body.
    pub(crate) fn request(&self, job: &Job) -> (&'static str, Bytes) {
        let items = job.items.iter();
        match (job.op, self.is_batch(job.op)) {
            (Op::Renew, true) => {
                let renewals = items.map(|item| self.renewal(item)).collect();
                (paths::RENEW_BATCH, wire::encode(&RenewBatch { renewals }))
            }
            (Op::Acquire, true) => {
                let acquisitions = items.map(|item| self.acquisition(item)).collect();
                let batch = AcquireBatch { acquisitions };
                (paths::ACQUIRE_BATCH, wire::encode(&batch))
            }
            (Op::Release | Op::Return, true) => {
                let releases = items.map(|item| self.releasing(item)).collect();
                let batch = ReleaseBatch { releases };
                (paths::RELEASE_BATCH, wire::encode(&batch))
            }
            (Op::Renew, false) => {
                let one = items.map(|item| wire::encode(&self.renewal(item))).next();
                (paths::RENEW, one.unwrap_or_default())
            }
            (Op::Acquire | Op::Contend, _) => {
                let one = items
                    .map(|item| wire::encode(&self.acquisition(item)))
                    .next();
                (paths::ACQUIRE, one.unwrap_or_default())
            }
            (Op::Release | Op::Return, false) => {
                let one = items.map(|item| wire::encode(&self.releasing(item))).next();
                (paths::RELEASE, one.unwrap_or_default())
            }
        }
    }

    /// What a reply to a job says, item by item.
    pub(crate) fn read(&self, job: &Job, reply: Result<RawReply, Error>, sent: Instant) -> Answer {
        let count = job.items.len();
        let batch = self.is_batch(job.op);
        match job.op {
            Op::Acquire | Op::Contend => Answer::Granted(each(count, reply, |reply| {
                if batch {
                    return wire::acquire_batch(reply, sent, count);
                }
                Ok(vec![wire::acquire(reply, sent)])
            })),
            Op::Renew => Answer::Renewed(each(count, reply, |reply| {
                if batch {
                    return wire::renew_batch(reply, sent, count);
                }
                Ok(vec![wire::renew(reply, sent)])
            })),
            Op::Release | Op::Return => Answer::Released(each(count, reply, |reply| {
                if batch {
                    return wire::release_batch(reply, count);
                }
                Ok(vec![wire::release(reply)])
            })),
        }
    }

    fn is_batch(&self, op: Op) -> bool {
        match op {
            Op::Renew => self.plan.batch > 1,
            Op::Acquire | Op::Release | Op::Return => self.plan.acquire_batch > 1,
            Op::Contend => false,
        }
    }

    fn acquisition(&self, item: &Item) -> AcquireRequest<'static> {
        let index = self.share.first_lock + item.lock;
        let client_id = match item.op {
            Op::Contend => self.plan.contender(index),
            _ => self.plan.holder(index),
        };
        AcquireRequest {
            name: Cow::Owned(self.plan.lock_name(index)),
            ttl_ms: u64::try_from(self.plan.ttl.as_millis()).unwrap_or(u64::MAX),
            client_id: Cow::Owned(client_id),
            wait_ms: None,
            metadata: None,
            request_id: None,
        }
    }

    fn renewal(&self, item: &Item) -> RenewRequest<'_> {
        let (id, token) = self.hold(item);
        RenewRequest {
            lock_id: id.into(),
            fencing_token: token.0,
            ttl_ms: None,
        }
    }

    fn releasing(&self, item: &Item) -> ReleaseRequest<'_> {
        let (id, token) = self.hold(item);
        ReleaseRequest {
            lock_id: id.into(),
            fencing_token: token.0,
        }
    }

    fn hold(&self, item: &Item) -> (&str, Token) {
        let hold: Option<(&LockId, Token)> = match item.op {
            Op::Return => self
                .foreign
                .get(&item.lock)
                .map(|hold| (&hold.id, hold.token)),
            _ => self.locks[item.lock as usize].known.hold(),
        };
        // Jobs are made of locks that are held, so there is one.
        hold.map_or(("", Token(0)), |(id, token)| (id.as_str(), token))
    }
}

/// An error of the whole is the error of each.
fn each<T: Clone>(
    count: usize,
    reply: Result<RawReply, Error>,
    read: impl FnOnce(&RawReply) -> Result<Vec<Result<T, Error>>, Error>,
) -> Vec<Result<T, Error>> {
    reply
        .and_then(|reply| read(&reply))
        .unwrap_or_else(|error| vec![Err(error); count])
}
