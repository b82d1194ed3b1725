//! The end of a hold: by release or because its deadline has passed.
//!
//! The slot is marked first, which is final; then the record is deleted under the fence, the
//! group's key and its own revision, and the delete is repeated until its outcome is definite.
//! Only then is anybody told.

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::closing::CloseJob;
use crate::engine::cold::{ColdAsk, ColdJob};
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::onward::To;
use crate::engine::records::LockRecord;
use crate::engine::renew::{RenewJob, Whereabouts};
use crate::engine::slot::{AtomicSlotWord, SlotState, SlotWord};
use crate::engine::table::Slot;
use crate::engine::tickets::{Ticket, Trouble, Via};
use crate::engine::wheel::{Entry, Tick};
use crate::engine::writes::{EndingRef, SlotRef, WriteOp};
use crate::limits;
use crate::lock_id::{GroupId, SlotIndex};
use crate::service::{CloseOutcome, Ended, Release, ReleaseOutcome, RenewOutcome};
use crate::time::Instant;
use holdfast_store::KeyValue;
use shard_map::ShardId;
use std::collections::BTreeMap;

/// A release that waits for its answer.
#[derive(Debug)]
pub(crate) struct ReleaseJob {
    pub(crate) ticket: Ticket,
    pub(crate) shard: ShardId,
    pub(crate) release: Release,
}

/// Who waits for the end of a hold.
#[derive(Debug)]
pub(crate) enum Waiter {
    Renew(Box<RenewJob>),
    Release(Box<ReleaseJob>),
    Acquire(Box<Job>),
    /// A force-release, and what it is told then.
    Close(Box<CloseJob>, CloseOutcome),
}

impl Waiter {
    fn ticket(&self) -> Ticket {
        match self {
            Self::Renew(job) => job.ticket,
            Self::Release(job) => job.ticket,
            Self::Acquire(job) => job.ticket,
            Self::Close(job, _) => job.ticket,
        }
    }
}

/// The holds that are ending.
#[derive(Debug, Default)]
pub(crate) struct Endings(BTreeMap<SlotRef, Ending>);

/// A hold that is ending.
#[derive(Debug, Default)]
struct Ending {
    /// Who waits for it.
    waiters: Vec<Waiter>,
    /// Its delete is on its way, or waits to be tried again. A second one would find the record
    /// gone, and be refused with its whole bundle.
    sent: bool,
}

impl Endings {
    /// Notes that its delete is being sent; false when one is on its way.
    pub(crate) fn send(&mut self, at: SlotRef) -> bool {
        let ending = self.0.get_mut(&at);
        ending.is_some_and(|ending| !std::mem::replace(&mut ending.sent, true))
    }

    /// Its delete comes to the queue again.
    pub(crate) fn send_again(&mut self, at: SlotRef) {
        if let Some(ending) = self.0.get_mut(&at) {
            ending.sent = false;
        }
    }

    pub(crate) fn has(&self, at: SlotRef) -> bool {
        self.0.contains_key(&at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = SlotRef> {
        self.0.keys().copied()
    }
}

impl Engine {
    pub(crate) fn release_somewhere(&mut self, job: ReleaseJob) {
        if let Some(at) = self.slot_of_trusted(&job) {
            return self.end_hold(at, Some(Waiter::Release(Box::new(job))));
        }
        match self.whereabouts(&job.release.lock_id) {
            Whereabouts::Slot(at) => self.release_slot(job, at),
            Whereabouts::Loading => self.fail(job.ticket, Trouble::Loading),
            Whereabouts::Neighbour(cluster) => {
                let job = ColdJob::new(job.shard, ColdAsk::Release(job));
                self.hold_goes_on(To::Cluster(cluster), &job, None);
            }
            Whereabouts::OtherOwner if self.may_ask_owner(job.ticket, &job.release.lock_id) => {
                self.forward_job(ColdJob::new(job.shard, ColdAsk::Release(job)));
            }
            Whereabouts::OtherOwner if self.cold_is_busy() => {
                self.fail(job.ticket, Trouble::OtherOwner);
            }
            Whereabouts::Unclaimed => self.fail(job.ticket, Trouble::Unclaimed),
            Whereabouts::OtherOwner | Whereabouts::NoSlot(_) | Whereabouts::Unknown => {
                self.queue_cold(ColdJob::new(job.shard, ColdAsk::Release(job)));
            }
        }
    }

    /// The slot of a release that is not compared: a deliberate mistake.
    fn slot_of_trusted(&self, job: &ReleaseJob) -> Option<SlotRef> {
        let trusts = self.mutated(Mutation::ForwardedReleaseUncompared)
            && self.tickets.via(job.ticket) == Some(Via::Gateway);
        let (group, slot) = (job.release.lock_id.group(), job.release.lock_id.slot());
        let ctl = self.groups.get(group).filter(|_| trusts)?;
        let state = ctl.group.with_slot(slot, Slot::state);
        (state == Some(SlotState::Held)).then_some(SlotRef { group, slot })
    }

    fn release_slot(&mut self, job: ReleaseJob, at: SlotRef) {
        let Some(ctl) = self.groups.get(at.group) else {
            return;
        };
        let look = ctl.group.with_slot(at.slot, |slot| {
            let own = slot.is_open_to(job.release.principal.as_ref());
            (slot.state(), own && slot.token == job.release.token)
        });
        match look {
            // Its end was confirmed.
            Some((SlotState::Free, _)) | None => {
                self.answer_release(job.ticket, ReleaseOutcome::Released);
            }
            Some((SlotState::Pending, _)) => self.fail(job.ticket, Trouble::Unknown),
            // So is a stranger answered that has the lock id.
            Some((_, false)) => {
                self.answer_release(job.ticket, ReleaseOutcome::TokenMismatch);
            }
            Some((SlotState::Held | SlotState::Closed | SlotState::Ending, true)) => {
                if self.mutated(Mutation::ReleaseUnconfirmed) {
                    self.answer_release(job.ticket, ReleaseOutcome::Released);
                }
                self.end_hold(at, Some(Waiter::Release(Box::new(job))));
            }
        }
    }

    /// Ends a hold if that has not begun yet, and lets `waiter` wait for it.
    pub(crate) fn end_hold(&mut self, at: SlotRef, waiter: Option<Waiter>) {
        if let Some(Err(word)) = self.end_slot(at, |word, _| word.end())
            && word.state != SlotState::Ending
        {
            return;
        }
        self.await_end(at, waiter);
    }

    /// Ends a hold that nobody was told of, unless its client has entered it again meanwhile.
    pub(crate) fn take_back(&mut self, at: SlotRef) {
        let told_or_not = self.mutated(Mutation::TakenBackThoughTold);
        let taken = self.end_slot(at, |word, _| match told_or_not {
            true => word.end(),
            false => word.take_back(),
        });
        if taken == Some(Ok(())) {
            self.stats.waits_undone.add(1);
            self.await_end(at, None);
        }
    }

    /// Lets `waiter` wait for the end of a hold whose deadline has passed.
    pub(crate) fn end_passed_hold(&mut self, at: SlotRef, waiter: Waiter) {
        match self.end_slot(at, AtomicSlotWord::expire) {
            Some(Ok(())) => self.stats.expired.add(1),
            Some(Err(word)) if word.state == SlotState::Ending => {}
            // A renewal that began before the deadline has won.
            _ => return self.fail(waiter.ticket(), Trouble::Unknown),
        }
        self.await_end(at, Some(waiter));
    }

    fn end_slot(
        &self,
        at: SlotRef,
        end: impl FnOnce(&AtomicSlotWord, Instant) -> Result<(), SlotWord>,
    ) -> Option<Result<(), SlotWord>> {
        let ctl = self.groups.get(at.group)?;
        ctl.group
            .with_slot(at.slot, |slot| end(&slot.word, self.now))
    }

    /// Has the record of an ending hold deleted. A second delete for one that nobody waited for
    /// so far does no harm: the one that comes later finds nothing to do.
    fn await_end(&mut self, at: SlotRef, waiter: Option<Waiter>) {
        let Some(ctl) = self.groups.get(at.group) else {
            return;
        };
        let Some(secret) = ctl.group.with_slot(at.slot, |slot| slot.secret) else {
            return;
        };
        let lease = ctl.lease;
        let ending = self.endings.0.entry(at).or_default();
        if ending.waiters.is_empty() {
            let delete = EndingRef { at, secret, lease };
            self.writes.send_soon(WriteOp::Delete(delete));
        }
        ending.waiters.extend(waiter);
    }

    /// The holds of the group that are ending.
    pub(crate) fn endings_of(&self, group: GroupId) -> Vec<EndingRef> {
        let slot = |index| SlotRef {
            group,
            slot: SlotIndex(index),
        };
        let of_group = self.endings.0.range(slot(0)..=slot(u16::MAX));
        let Some(ctl) = self.groups.get(group) else {
            return Vec::new();
        };
        let ending = |at: SlotRef| {
            let secret = ctl.group.with_slot(at.slot, |slot| slot.secret)?;
            let lease = ctl.lease;
            Some(EndingRef { at, secret, lease })
        };
        of_group.filter_map(|(at, _)| ending(*at)).collect()
    }

    /// A hold has ended while its group was on its way here.
    pub(crate) fn end_after_take(&mut self, ending: EndingRef) {
        self.endings.0.entry(ending.at).or_default();
        self.queue_expiry(ending);
    }

    /// Has the wheel look at the hold when its deadline comes.
    pub(crate) fn arm(&mut self, at: SlotRef, deadline: Instant) {
        let Some(ctl) = self.groups.get(at.group) else {
            return;
        };
        let tick = self.wheel.tick_for(deadline);
        let due = ctl.group.with_slot(at.slot, |slot| {
            // An entry that comes first sees the later deadline and arms again.
            let arm = slot.armed() == Tick::NONE || slot.armed() > tick;
            if arm {
                slot.set_armed(tick);
            }
            arm
        });
        if due == Some(true) {
            self.wheel.arm(Entry::new(ctl.number, at.slot, tick));
        }
    }

    /// Ends the holds whose deadline has passed.
    pub(crate) fn expire_due(&mut self) {
        let mut due = Vec::new();
        self.wheel.advance(self.now, &mut due);
        for entry in due {
            let Some((group, ctl)) = self.groups.numbered(entry.group()) else {
                continue;
            };
            let at = SlotRef {
                group,
                slot: entry.slot(),
            };
            let now = self.now;
            let outcome = ctl.group.with_slot(at.slot, |slot| {
                if !entry.is_armed_for(slot.armed()) {
                    return None;
                }
                slot.set_armed(Tick::NONE);
                Some((slot.word.expire(now), slot.secret))
            });
            let lease = ctl.lease;
            match outcome.flatten() {
                Some((Ok(()), secret)) => {
                    self.stats.expired.add(1);
                    self.endings.0.entry(at).or_default();
                    self.queue_expiry(EndingRef { at, secret, lease });
                }
                Some((Err(word), _)) if word.state.is_hold() => {
                    self.arm(at, word.deadline);
                }
                Some((Err(_), _)) | None => {}
            }
        }
    }

    /// The delete did not happen, or not for certain. `record` is what etcd has at the name.
    pub(crate) fn delete_refused(&mut self, ending: EndingRef, record: Option<&KeyValue>) {
        let EndingRef { at, secret, lease } = ending;
        let ctl = self.groups.get(at.group);
        let Some(ctl) = ctl.filter(|ctl| ctl.lease == lease) else {
            return;
        };
        let own = record.filter(|kv| {
            LockRecord::read(kv).is_some_and(|(_, id)| {
                ctl.group
                    .with_slot(at.slot, |slot| slot.secret == secret && slot.is_of(&id))
                    == Some(true)
            })
        });
        let Some(own) = own else {
            return self.hold_ended(ending);
        };
        let revision = own.mod_revision;
        ctl.group
            .change_slot(at.slot, |slot| slot.revision = revision);
        self.do_later(limits::LOOK_AGAIN, Task::Write(WriteOp::Delete(ending)));
    }

    /// The hold's record is certainly not in etcd any more.
    pub(crate) fn hold_ended(&mut self, ending: EndingRef) {
        let EndingRef { at, secret, lease } = ending;
        let ctl = self.groups.get_mut(at.group);
        let Some(ctl) = ctl.filter(|ctl| ctl.lease == lease) else {
            return;
        };
        let this = ctl.group.with_slot(at.slot, |slot| {
            slot.secret == secret && slot.state() == SlotState::Ending
        });
        if this != Some(true) {
            return;
        }
        ctl.ends += 1;
        let (forced, name) = ctl
            .group
            .with_slot(at.slot, |slot| (slot.is_forced(), slot.name.clone()))
            .unwrap_or_default();
        let waiters = self.endings.0.remove(&at).unwrap_or_default().waiters;
        self.free_slot(at.group, at.slot);
        self.closing_ended(at, secret);
        if let Some(name) = name {
            self.name_freed(&name);
        }
        for waiter in waiters {
            match waiter {
                Waiter::Renew(job) => {
                    self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::of_end(forced)));
                }
                Waiter::Close(job, outcome) => self.answer_close(job.ticket, outcome),
                Waiter::Release(job) => {
                    self.answer_release(job.ticket, ReleaseOutcome::Released);
                }
                Waiter::Acquire(job) => self.queue_acquire(*job),
            }
        }
    }

    /// The group's table is gone; what waited for one of its locks is looked up in etcd.
    pub(crate) fn endings_of_lost_group(&mut self, group: GroupId) {
        self.closings_of_lost_group(group);
        let slot = |index| SlotRef {
            group,
            slot: SlotIndex(index),
        };
        let mut lost = self.endings.0.split_off(&slot(0));
        let mut rest = lost.split_off(&slot(u16::MAX));
        self.endings.0.append(&mut rest);
        for waiter in lost.into_values().flat_map(|ending| ending.waiters) {
            match waiter {
                Waiter::Renew(job) => self.renew_somewhere(*job),
                Waiter::Release(job) => self.release_somewhere(*job),
                Waiter::Close(job, _) => self.close_somewhere(*job),
                Waiter::Acquire(job) => self.queue_acquire(*job),
            }
        }
    }
}
