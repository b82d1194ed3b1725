//! Requests about locks of other gateways, which are asked in the client's stead.
//!
//! A request goes at most one hop: what another gateway forwards is never forwarded again. "Not
//! mine" is an answer; one linearizable look-up and one more try follow, and then the client is
//! told that nothing is known.

use crate::engine::acquire::Job;
use crate::engine::closing::CloseJob;
use crate::engine::cold::{ColdAsk, ColdJob};
use crate::engine::ending::ReleaseJob;
use crate::engine::mutation::Mutation;
use crate::engine::onward::Look;
use crate::engine::owners::{Owned, Owner};
use crate::engine::renew::RenewJob;
use crate::engine::tickets::{Answer, Kind, Ticket, Trouble, Via};
use crate::engine::{Effect, Engine, proof};
use crate::lock_id::LockId;
use crate::names::Token;
use crate::service::{AcquireOutcome, Ended, Forward, ForwardOutcome, Grant, Renew, RenewOutcome};
use shard_map::ShardId;
use std::collections::HashMap;
use std::sync::Arc;

/// What other gateways were asked, and what is to be done with the answer.
#[derive(Debug, Default)]
pub(crate) struct Forwards(HashMap<Ticket, Asked>);

#[derive(Debug)]
enum Asked {
    /// The client's own request.
    Request(ColdJob),
    /// To renew the hold that an acquire found to be the same client's.
    Entry(Job, LockId, Token),
}

impl Engine {
    /// A client, or another gateway for a client, asks about an existing hold.
    pub(crate) fn on_forward(
        &mut self,
        ticket: Ticket,
        shard: ShardId,
        forward: Forward,
        via: Via,
    ) {
        let kind = Kind::of(&forward);
        if !self.open_ticket(ticket, kind, via) {
            return;
        }
        let is_after_owner = matches!(via, Via::Client { asked: Some(_), .. });
        if is_after_owner && kind == Kind::Renew && self.mutated(Mutation::NotTheirsTakenAsLost) {
            return self.answer_renew(ticket, RenewOutcome::Ended(Ended::Expired));
        }
        self.begin_hold(ticket, shard, forward);
    }

    /// As the engine of another cluster has begun with it.
    pub(crate) fn go_on_with_hold(
        &mut self,
        ticket: Ticket,
        shard: ShardId,
        forward: Forward,
        look: Option<Look>,
    ) {
        let is_here = self.groups.get(forward.lock_id().group()).is_some();
        if look.is_none() || is_here {
            return self.begin_hold(ticket, shard, forward);
        }
        let ask = match forward {
            Forward::Renew(renew) => ColdAsk::Renew(RenewJob {
                ticket,
                shard,
                renew,
            }),
            Forward::Release(release) => ColdAsk::Release(ReleaseJob {
                ticket,
                shard,
                release,
            }),
            Forward::Close(close) => ColdAsk::Close(CloseJob {
                ticket,
                shard,
                close,
            }),
        };
        self.queue_cold(ColdJob::new(shard, ask).with_look(look));
    }

    fn begin_hold(&mut self, ticket: Ticket, shard: ShardId, forward: Forward) {
        match forward {
            Forward::Renew(renew) => self.renew_somewhere(RenewJob {
                ticket,
                shard,
                renew,
            }),
            Forward::Release(release) => self.release_somewhere(ReleaseJob {
                ticket,
                shard,
                release,
            }),
            Forward::Close(close) => self.close_somewhere(CloseJob {
                ticket,
                shard,
                close,
            }),
        }
    }

    /// The owner of the lock's group, if it may be asked for this request.
    fn owner_to_ask(&self, ticket: Ticket, id: &LockId) -> Option<Arc<Owner>> {
        let Some(Via::Client { asked, left: 1.. }) = self.tickets.via(ticket) else {
            return None;
        };
        match self.owners.of(id.group()) {
            Some(Owned::By(owner)) if asked != Some(owner.session) => Some(owner),
            _ => None,
        }
    }

    pub(crate) fn may_ask_owner(&self, ticket: Ticket, id: &LockId) -> bool {
        self.owner_to_ask(ticket, id).is_some()
    }

    /// Asks the owner in the client's stead.
    pub(crate) fn forward_job(&mut self, job: ColdJob) {
        let id = job.lock_id();
        match (
            id.and_then(|id| self.owner_to_ask(job.ticket(), id)),
            job.to_forward(),
        ) {
            (Some(owner), Some(forward)) => {
                self.forward(job.ticket(), owner, forward, Asked::Request(job));
            }
            _ => self.fail(job.ticket(), Trouble::OtherOwner),
        }
    }

    /// Has the owner renew the hold that an acquire found to be the same client's. It is asked to
    /// renew and nothing else, so that a copy that comes late grants nothing.
    pub(crate) fn forward_entry(&mut self, job: Job, id: LockId, token: Token) {
        let Some(owner) = self.owner_to_ask(job.ticket, &id) else {
            return self.fail(job.ticket, Trouble::OtherOwner);
        };
        let renew = Renew {
            lock_id: id.clone(),
            token,
            ttl: Some(job.acquire.ttl),
            principal: job.acquire.principal.clone(),
        };
        let (ticket, forward) = (job.ticket, Forward::Renew(renew));
        self.forward(ticket, owner, forward, Asked::Entry(job, id, token));
    }

    fn forward(&mut self, ticket: Ticket, owner: Arc<Owner>, forward: Forward, asked: Asked) {
        let left = match self.tickets.via(ticket) {
            Some(Via::Client { left, .. }) => left.saturating_sub(1),
            _ => 0,
        };
        let via = Via::Client {
            asked: Some(owner.session),
            left,
        };
        self.tickets.set_via(ticket, via);
        self.forwards.0.insert(ticket, asked);
        self.stats.forwarded.add(1);
        self.out.push(Effect::Forward(ticket, owner, forward));
    }

    pub(crate) fn on_forward_answered(&mut self, ticket: Ticket, outcome: ForwardOutcome) {
        match self.forwards.0.remove(&ticket) {
            Some(Asked::Request(job)) => self.request_answered(job, outcome),
            Some(Asked::Entry(job, id, token)) => self.entry_answered(job, id, token, outcome),
            None => {}
        }
    }

    /// The owner that was asked has said nothing.
    fn note_silence(&mut self, ticket: Ticket) {
        if let Some(Via::Client {
            asked: Some(session),
            ..
        }) = self.tickets.via(ticket)
            && self.mutated(Mutation::ClaimWhileSessionLives)
        {
            self.claims.taken_for_dead.insert(session);
            self.round.want_soon(self.now);
        }
    }

    fn request_answered(&mut self, job: ColdJob, outcome: ForwardOutcome) {
        let ticket = job.ticket();
        match (outcome, self.tickets.kind(ticket)) {
            (ForwardOutcome::Renew(outcome), Some(Kind::Renew)) => {
                self.pass_on(ticket, Answer::Renew(Ok(outcome)));
            }
            (ForwardOutcome::Release(outcome), Some(Kind::Release)) => {
                self.pass_on(ticket, Answer::Release(Ok(outcome)));
            }
            (ForwardOutcome::Close(outcome), Some(Kind::Close)) => {
                self.pass_on(ticket, Answer::Close(Ok(outcome)));
            }
            (ForwardOutcome::NotTheirs, _) => self.await_owner(job),
            (ForwardOutcome::Failed(error), _) => {
                self.note_silence(ticket);
                self.fail_with(ticket, error);
            }
            // An answer to another question than was asked is none.
            _ => self.fail(ticket, Trouble::Unknown),
        }
    }

    fn entry_answered(&mut self, job: Job, id: LockId, token: Token, outcome: ForwardOutcome) {
        match outcome {
            ForwardOutcome::Renew(RenewOutcome::Renewed(told)) => {
                let grant = Grant {
                    lock_id: id,
                    token,
                    told,
                    already_held: true,
                    waited: None,
                };
                let outcome = AcquireOutcome::Granted(grant);
                self.pass_on(job.ticket, Answer::Acquire(Ok(outcome)));
            }
            // It has ended meanwhile: the name may be free.
            ForwardOutcome::Renew(RenewOutcome::Ended(_)) => self.retry_acquire(job),
            ForwardOutcome::NotTheirs => {
                self.round.want_soon(self.now);
                self.retry_acquire(job);
            }
            ForwardOutcome::Release(_) | ForwardOutcome::Close(_) => {
                self.fail(job.ticket, Trouble::Unknown);
            }
            ForwardOutcome::Failed(_) if self.mutated(Mutation::EntryAnsweredForOwner) => {
                let told = proof::told(job.acquire.ttl, self.now, id.secret());
                self.granted_again(job.ticket, id, token, told);
            }
            ForwardOutcome::Failed(error) => {
                self.note_silence(job.ticket);
                self.fail_with(job.ticket, error);
            }
        }
    }
}
