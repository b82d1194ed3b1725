//! Acquiring: a slot, a record, a grant; and what it means that the name is held.

use crate::engine::cold::{ColdAsk, ColdJob};
use crate::engine::ending::Waiter;
use crate::engine::groups::Room;
use crate::engine::later::Task;
use crate::engine::line::Place;
use crate::engine::looking::Shown;
use crate::engine::mutation::Mutation;
use crate::engine::onward::Look;
use crate::engine::outcome::Found;
use crate::engine::records::{self, LockRecord};
use crate::engine::renew::{RewriteFor, Whereabouts};
use crate::engine::slot::{SlotState, SlotWord};
use crate::engine::step::Left;
use crate::engine::table::FastRenewal;
use crate::engine::tickets::{Ticket, Trouble, Via};
use crate::engine::writes::SlotRef;
use crate::engine::{Engine, proof};
use crate::limits;
use crate::lock_id::{LockId, Secret};
use crate::names::{PrincipalTag, Token};
use crate::service::{self, Acquire, AcquireOutcome, Refusal, Renew, Renewed};
use crate::time::{Instant, Millis};
use holdfast_store::{KeyValue, Revision};
use rand::Rng;
use shard_map::ShardId;

/// An acquire that waits for its answer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ticket: Ticket,
    pub(crate) shard: ShardId,
    pub(crate) acquire: Acquire,
    /// When it has come; a wait counts from here,
    pub(crate) came_at: Instant,
    /// and a hold from here: for one that has waited this is when its turn has come.
    pub(crate) asked_at: Instant,
    pub(crate) attempts: u8,
    /// Its place in the line of its name.
    pub(crate) place: Option<Place>,
    /// It was found to be held where its shard comes from.
    pub(crate) held_there: bool,
    /// What is known of the name in the cluster that the shard comes from.
    pub(crate) look: Option<Look>,
    /// The guard that has sent it on.
    pub(crate) left: Option<Box<Left>>,
}

impl Job {
    /// Whether it may wait where others are refused.
    pub(crate) fn may_wait(&self) -> bool {
        self.acquire.wait > Millis::ZERO
    }

    /// About how large its record will be.
    pub(crate) fn bytes(&self) -> usize {
        let metadata = self.acquire.metadata.iter().flatten();
        let metadata: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
        3 * self.acquire.name.as_str().len()
            + self.acquire.client_id.as_str().len()
            + metadata
            + 256
    }
}

/// A grant on its way: the slot that is kept for it and the record that it writes.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) job: Job,
    /// Others who asked for the same name before this was sent.
    pub(crate) behind: Vec<Job>,
    pub(crate) at: SlotRef,
    pub(crate) lock_id: LockId,
    pub(crate) record: Vec<u8>,
    pub(crate) guard_revision: Revision,
    /// It may share its compares with others.
    pub(crate) likely_free: bool,
    token_base: u64,
}

impl Engine {
    pub(crate) fn on_acquire(&mut self, ticket: Ticket, shard: ShardId, acquire: Acquire) {
        if !self.open_acquire(ticket, &acquire, Via::CLIENT, (self.now, 0)) {
            return;
        }
        if !self.home_seen {
            return self.fail(ticket, Trouble::HomeUnseen);
        }
        self.queue_acquire(Job {
            ticket,
            shard,
            acquire,
            came_at: self.now,
            asked_at: self.now,
            attempts: 0,
            place: None,
            held_there: false,
            look: None,
            left: None,
        });
    }

    /// Tries again what was certainly not done.
    pub(crate) fn retry_acquire(&mut self, mut job: Job) {
        if job.place.is_some() {
            return self.attempt_over(job, None);
        }
        job.attempts += 1;
        if job.attempts > limits::ACQUIRE_ATTEMPTS_MAX {
            self.fail(job.ticket, Trouble::Unknown);
        } else if job.attempts == 1 {
            self.queue_acquire(job);
        } else {
            self.do_later(limits::LOOK_AGAIN, Task::Acquire(job));
        }
    }

    /// Asks again after a while. The hold of one that may wait begins now, and it is told how long it
    /// waited.
    pub(crate) fn acquire_anew(&mut self, mut job: Job) {
        if job.may_wait() {
            job.asked_at = self.now;
        }
        self.queue_acquire(job);
    }

    /// Finds the guard, the group and the slot for a grant. Otherwise the job is parked or
    /// answered.
    pub(crate) fn prepare_grant(&mut self, job: Job) -> Option<Grant> {
        let (job, guard, guard_revision) = self.guard_for(job)?;
        let group = match self.group_with_room(job.shard) {
            Room::In(group) => group,
            Room::Coming => {
                self.park(job);
                return None;
            }
            Room::None => {
                self.fail_job(job, Trouble::Overloaded);
                return None;
            }
            Room::Unproven => {
                self.fail_job(job, Trouble::Unproven);
                return None;
            }
        };
        let secret = self.new_secret();
        let owner = PrincipalTag::of(job.acquire.principal.as_ref());
        let Some(place) = self.table.quota().take(owner) else {
            self.quota_full(job);
            return None;
        };
        let ctl = self.groups.get_mut(group)?;
        let lease = ctl.lease;
        let taken = ctl.take_slot(place, |slot| {
            slot.secret = secret;
            slot.name = Some(job.acquire.name.clone());
            slot.token = Token(0);
            slot.set_ttl(job.acquire.ttl);
            slot.set_forced(false);
            slot.owner = owner;
            slot.word.store(SlotWord::PENDING);
        });
        let Some(slot) = taken else {
            self.park(job);
            return None;
        };
        let token_base = guard.token_base.get();
        let lock_id = LockId::new(group, slot, secret, &job.acquire.name);
        let granted_at_ms = self.wall_clock_ms.saturating_add(self.now.as_ms());
        let record = LockRecord::of_grant(&job.acquire, &lock_id, lease, token_base, granted_at_ms);
        let at = SlotRef { group, slot };
        let likely_free = job.attempts == 0 && job.place.is_none() && !self.is_contended(job.shard);
        Some(Grant {
            job,
            behind: Vec::new(),
            at,
            lock_id,
            record: record.to_bytes(),
            guard_revision,
            likely_free,
            token_base,
        })
    }

    /// Its principal has as many locks as it may: a hold that it has already it gets all the same, so
    /// the name is looked up, as long as that is in nobody's way. Whoever stands in line holds nothing.
    fn quota_full(&mut self, job: Job) {
        if job.place.is_some() {
            return self.fail_job(job, Trouble::QuotaFull);
        }
        if self.cold_is_busy() {
            return self.fail_job(job, Trouble::Overloaded);
        }
        let shard = job.shard;
        self.queue_cold(ColdJob::new(shard, ColdAsk::Look(Box::new(job))));
    }

    /// Says that there is no definite answer to an acquire, which then stands in no line any more.
    pub(crate) fn fail_job(&mut self, job: Job, trouble: Trouble) {
        self.fail(job.ticket, trouble);
        self.drop_job(job);
    }

    /// Nobody waits for the acquire any more.
    pub(crate) fn drop_job(&mut self, job: Job) {
        if job.place.is_some() {
            self.attempt_over(job, None);
        }
    }

    /// The grant certainly did not happen.
    pub(crate) fn grant_undone(&mut self, grant: Grant) {
        self.free_pending(&grant);
        self.retry_acquire(grant.job);
        grant
            .behind
            .into_iter()
            .for_each(|job| self.queue_acquire(job));
    }

    /// Whether the slot still waits for this grant. Its group may have been given up and claimed
    /// anew meanwhile: that table was filled from etcd, and its slots are no business of the grant.
    fn is_pending(&self, grant: &Grant) -> bool {
        let ctl = self.groups.get(grant.at.group);
        ctl.and_then(|ctl| {
            ctl.group.with_slot(grant.at.slot, |slot| {
                slot.state() == SlotState::Pending && slot.is_of(&grant.lock_id)
            })
        }) == Some(true)
    }

    fn free_pending(&mut self, grant: &Grant) {
        if self.is_pending(grant) {
            self.free_slot(grant.at.group, grant.at.slot);
        }
    }

    fn new_secret(&mut self) -> Secret {
        Secret(u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64()))
    }

    /// The grant, one that stands alone, is in etcd, written at `revision`. A waiter's has read then who
    /// is first in line.
    pub(crate) fn grant_came_back(&mut self, grant: Grant, found: &Found, revision: Revision) {
        let name = grant.job.acquire.name.clone();
        let shown = grant.job.place.map(|_| Shown {
            revision,
            record: Some(KeyValue {
                key: records::lock_key(name.as_str()),
                value: grant.record.clone(),
                create_revision: revision,
                mod_revision: revision,
                version: 1,
                lease: self.groups.get(grant.at.group).map(|ctl| ctl.lease),
            }),
            head: found.last().cloned(),
        });
        self.grant_landed(grant, revision);
        if let Some(shown) = shown {
            self.shown_by_grant(&name, &shown);
        }
    }

    /// The grant is in etcd, written at `revision`.
    ///
    /// The hold's time counts from when the gateway was asked, as the client counts from when it
    /// sent the request. So it makes no difference how long the answer took, and whether anybody
    /// waits for it any more: a grant that nobody is told about is kept for the client that may
    /// come back, and ends with its TTL (NO-GHOST).
    pub(crate) fn grant_landed(&mut self, grant: Grant, revision: Revision) {
        let pending = self.is_pending(&grant);
        let Grant {
            job,
            behind,
            at,
            lock_id,
            token_base,
            ..
        } = grant;
        behind.into_iter().for_each(|job| self.queue_acquire(job));
        let waits = match job.place {
            Some(place) => self.served(&job.acquire.name, place, job.ticket, revision),
            None => self.tickets.is_wanted(job.ticket),
        };
        let Some(ctl) = self.groups.get(at.group).filter(|_| pending) else {
            return self.fail(job.ticket, Trouble::Unknown);
        };
        let token = Token(token_base.saturating_add(revision.0.cast_unsigned()));
        let told = self.tickets.is_open(job.ticket);
        let deadline = match self.mutated(Mutation::GhostKept) && !told {
            true => self.now + self.settings.group_ttl,
            false => job.asked_at + job.acquire.ttl,
        };
        let promised = deadline.min(ctl.stay.proven_until());
        ctl.group.change_slot(at.slot, |slot| {
            slot.token = token;
            slot.revision = revision;
            slot.word.store(match job.may_wait() {
                true => SlotWord::offered(deadline),
                false => SlotWord::held(deadline),
            });
        });
        self.arm(at, deadline);
        if job.may_wait() && !waits {
            // Its client has gone: whoever is next must not wait for it.
            self.fail(job.ticket, Trouble::Unknown);
            return self.take_back(at);
        }
        if promised <= self.now || token.0 >= Token::END {
            return self.fail(job.ticket, Trouble::Unknown);
        }
        self.stats.granted.add(1);
        let told = proof::told(promised.since(job.asked_at), self.now, lock_id.secret());
        let has_waited = job.place.is_some() || job.asked_at > job.came_at;
        let waited = has_waited.then(|| job.asked_at.since(job.came_at));
        if let Some(waited) = waited {
            self.stats.waits_granted.add(1);
            self.stats.waited.record(waited.as_ms());
        }
        // As of every promise, a hundredth is left out for the drift of the client's clock.
        let waited = waited.map(|waited| waited.percent(99));
        let grant = service::Grant {
            lock_id,
            token,
            told,
            already_held: false,
            waited,
        };
        self.answer_acquire(job.ticket, AcquireOutcome::Granted(grant));
    }

    /// A hold that the client has already.
    pub(crate) fn granted_again(
        &mut self,
        ticket: Ticket,
        lock_id: LockId,
        token: Token,
        told: Renewed,
    ) {
        let grant = service::Grant {
            lock_id,
            token,
            told,
            already_held: true,
            waited: None,
        };
        self.answer_acquire(ticket, AcquireOutcome::Granted(grant));
    }

    /// The grant, one that stands alone, was refused by its own compares: the name is held, or
    /// somebody queues for it.
    pub(crate) fn grant_refused(
        &mut self,
        grant: Grant,
        record: Option<&KeyValue>,
        head: Option<&KeyValue>,
        revision: Revision,
    ) {
        let own =
            record.filter(|kv| LockRecord::read(kv).is_some_and(|(_, id)| id == grant.lock_id));
        if let Some(record) = own {
            // It did happen, by whatever copy of the batch: what is there is the truth.
            let revision = record.mod_revision;
            return self.grant_landed(grant, revision);
        }
        self.free_pending(&grant);
        let tells_head = grant.job.place.is_some();
        // All of them asked before this was read, so it answers them all.
        for job in std::iter::once(grant.job).chain(grant.behind) {
            match record {
                _ if job.place.is_some() && !tells_head => self.attempt_over(job, None),
                _ if job.place.is_some() => {
                    let shown = Shown {
                        revision,
                        record: record.cloned(),
                        head: head.cloned(),
                    };
                    self.refused_in_line(job, shown);
                }
                Some(record) => self.contended(job, record),
                None => self.refuse_or_wait(job, Refusal::Held, Millis::ZERO),
            }
        }
    }

    /// Somebody else has the name: the request waits if it may.
    fn refuse_or_wait(&mut self, job: Job, reason: Refusal, free_in: Millis) {
        match job.may_wait() {
            true => self.stand_in_line(job, free_in),
            false => self.refuse(job.ticket, reason, free_in),
        }
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, reason: Refusal, free_in: Millis) {
        self.answer_acquire(ticket, AcquireOutcome::Refused { reason, free_in });
    }

    /// The name is held, by this record.
    pub(crate) fn contended(&mut self, job: Job, kv: &KeyValue) {
        let Some((record, id)) = LockRecord::read(kv) else {
            tracing::error!(cluster = %self.settings.cluster, "a lock's record cannot be read");
            return self.refuse_or_wait(job, Refusal::Held, self.settings.group_ttl);
        };
        let free_in = self.free_in(&id, record.ttl());
        // One that was force-released is nobody's to enter again.
        if !record.is_of(&job.acquire) || record.closed.is_some() {
            self.refuse_or_wait(job, Refusal::Held, free_in);
        } else if !record.is_of_request(&job.acquire) {
            self.refuse(job.ticket, Refusal::HeldByYou, free_in);
        } else {
            self.enter_again(job, id, record.fencing_token(kv));
        }
    }

    /// The hold ends after this at the latest, unless it is renewed.
    pub(crate) fn free_in(&self, id: &LockId, ttl: Millis) -> Millis {
        let here = match self.whereabouts(id) {
            Whereabouts::Slot(at) => self.groups.get(at.group),
            _ => None,
        };
        let word = here.and_then(|ctl| ctl.group.with_slot(id.slot(), |slot| slot.word.load()));
        match word {
            Some(word) if word.state.is_hold() => word.deadline.since(self.now),
            Some(word) if word.state == SlotState::Ending => Millis::ZERO,
            // Its owner may have renewed it just now, and may be dead: its session ends, an heir
            // claims, and keeps the lock for its TTL and the session's.
            _ => free_in_at_most(ttl, self.settings.session_ttl),
        }
    }

    /// The same client asks again: a retry after a lost reply, or re-entry. The hold is renewed
    /// and answered as it is; if it is just ending, that is waited for.
    pub(crate) fn enter_again(&mut self, job: Job, id: LockId, token: Token) {
        match self.whereabouts(&id) {
            Whereabouts::Slot(at) => self.enter_slot_again(job, at, id, token),
            Whereabouts::Loading => self.fail(job.ticket, Trouble::Loading),
            Whereabouts::OtherOwner => self.forward_entry(job, id, token),
            Whereabouts::Neighbour(_) => self.enter_neighbour_again(job, id, token),
            Whereabouts::Unclaimed => self.fail(job.ticket, Trouble::Unclaimed),
            Whereabouts::Unknown => {
                self.round.want_soon(self.now);
                self.retry_acquire(job);
            }
            Whereabouts::NoSlot(group) => {
                self.want_check(group);
                self.retry_acquire(job);
            }
        }
    }

    /// The hold's group is this gateway's in another cluster: its table is the same.
    fn enter_neighbour_again(&mut self, job: Job, id: LockId, token: Token) {
        let renew = Renew {
            lock_id: id.clone(),
            token,
            ttl: Some(job.acquire.ttl),
            principal: None,
        };
        // A record is not rewritten from here.
        let group = self.table.get(id.group());
        match group.map(|group| group.renew_as_stored(self.now, &renew)) {
            Some(FastRenewal::Renewed(told)) => self.granted_again(job.ticket, id, token, told),
            _ => self.retry_acquire(job),
        }
    }

    fn enter_slot_again(&mut self, job: Job, at: SlotRef, id: LockId, token: Token) {
        let Some(ctl) = self.groups.get(at.group) else {
            return;
        };
        let word = ctl.group.with_slot(at.slot, |slot| slot.word.load());
        match word.map(|word| (word.state, word.deadline)) {
            Some((SlotState::Held, deadline)) if deadline > self.now => {
                let ttl = Some(job.acquire.ttl);
                let renew = Renew {
                    lock_id: id.clone(),
                    token,
                    ttl,
                    principal: job.acquire.principal.clone(),
                };
                match ctl.group.renew(self.now, &renew) {
                    FastRenewal::Renewed(told) => self.granted_again(job.ticket, id, token, told),
                    FastRenewal::Unproven => self.fail(job.ticket, Trouble::Unproven),
                    FastRenewal::Loading => self.fail(job.ticket, Trouble::Loading),
                    FastRenewal::AskEngine => {
                        self.want_rewrite(RewriteFor::Acquire(Box::new(job)), at, renew);
                    }
                }
            }
            // It is being closed, and its record does not say so yet.
            Some((SlotState::Closed, deadline)) if deadline > self.now => self.retry_acquire(job),
            Some((SlotState::Held | SlotState::Closed | SlotState::Ending, _)) => {
                self.end_passed_hold(at, Waiter::Acquire(Box::new(job)));
            }
            // Its grant is on its way, or its end was confirmed after this was read.
            _ => self.retry_acquire(job),
        }
    }

    /// A hold of the same client was renewed for longer than its record said.
    pub(crate) fn entered_again(&mut self, job: &Job, renew: Renew, told: Renewed) {
        self.granted_again(job.ticket, renew.lock_id, renew.token, told);
    }
}

/// A hold of another gateway, with this TTL in its record, ends after this at the latest, unless it is
/// renewed.
pub(crate) fn free_in_at_most(ttl: Millis, session_ttl: Millis) -> Millis {
    ttl + session_ttl.times(3)
}
