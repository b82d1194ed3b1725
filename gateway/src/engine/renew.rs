//! Renewals that memory alone could not answer, and where a lock is to be looked for.

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::cold::{ColdAsk, ColdJob};
use crate::engine::ending::Waiter;
use crate::engine::group::GroupState;
use crate::engine::mutation::Mutation;
use crate::engine::onward::To;
use crate::engine::owners::Owned;
use crate::engine::records::LockRecord;
use crate::engine::slot::SlotState;
use crate::engine::table::FastRenewal;
use crate::engine::tickets::{Ticket, Trouble};
use crate::engine::writes::{SlotRef, WriteOp};
use crate::lock_id::{GroupId, LockId};
use crate::service::{Ended, Renew, RenewOutcome};
use crate::time::Millis;
use holdfast_store::{KeyValue, Revision};
use shard_map::ShardId;
use std::sync::Arc;

/// A renewal that waits for its answer.
#[derive(Debug)]
pub(crate) struct RenewJob {
    pub(crate) ticket: Ticket,
    pub(crate) shard: ShardId,
    pub(crate) renew: Renew,
}

/// Where a lock id leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// This slot is, or was last, the lock's.
    Slot(SlotRef),
    /// The group is owned here, and no slot of it is the lock's.
    NoSlot(GroupId),
    /// The group is owned here and its records are being read.
    Loading,
    /// Another gateway owns the group and is alive.
    OtherOwner,
    /// The group is this gateway's, in this other cluster.
    Neighbour(Arc<str>),
    /// The group's session is gone and nobody has claimed it yet.
    Unclaimed,
    /// The group is not known here.
    Unknown,
}

/// A record that is to be read and then rewritten with a longer TTL.
#[derive(Debug)]
pub(crate) struct RewriteJob {
    wanted_by: RewriteFor,
    at: SlotRef,
    pub(crate) renew: Renew,
}

impl RewriteJob {
    pub(crate) fn ticket(&self) -> Ticket {
        self.wanted_by.ticket()
    }
}

/// The rewrite itself.
#[derive(Debug)]
pub(crate) struct Rewrite {
    wanted_by: RewriteFor,
    pub(crate) at: SlotRef,
    pub(crate) lock_id: LockId,
    pub(crate) read_revision: Revision,
    pub(crate) record: Vec<u8>,
    renew: Renew,
    /// What the record says then, at least.
    pub(crate) ttl: Millis,
}

/// Who wants a longer TTL.
#[derive(Debug)]
pub(crate) enum RewriteFor {
    Renew(Ticket),
    Acquire(Box<Job>),
}

impl RewriteFor {
    fn ticket(&self) -> Ticket {
        match self {
            Self::Renew(ticket) => *ticket,
            Self::Acquire(job) => job.ticket,
        }
    }
}

impl Engine {
    pub(crate) fn whereabouts(&self, id: &LockId) -> Whereabouts {
        let group = id.group();
        if let Some(ctl) = self.groups.get(group) {
            if ctl.state == GroupState::Loading {
                return Whereabouts::Loading;
            }
            let known = ctl.group.with_slot(id.slot(), |slot| slot.is_of(id)) == Some(true);
            return match known {
                true => Whereabouts::Slot(SlotRef {
                    group,
                    slot: id.slot(),
                }),
                false => Whereabouts::NoSlot(group),
            };
        }
        match self.table.cluster_of(group) {
            Some(cluster) if cluster != self.settings.cluster => {
                return Whereabouts::Neighbour(cluster);
            }
            // It has just arrived.
            Some(_) if self.groups.arriving(group).is_some() => return Whereabouts::Loading,
            Some(_) | None => {}
        }
        match self.owners.of(group) {
            Some(Owned::By(_) | Owned::Silent) => Whereabouts::OtherOwner,
            Some(Owned::Unclaimed) => Whereabouts::Unclaimed,
            None => Whereabouts::Unknown,
        }
    }

    pub(crate) fn renew_somewhere(&mut self, job: RenewJob) {
        match self.whereabouts(&job.renew.lock_id) {
            Whereabouts::Slot(at) => self.renew_slot(job, at),
            Whereabouts::Loading => self.fail(job.ticket, Trouble::Loading),
            Whereabouts::Neighbour(cluster) => {
                let job = ColdJob::new(job.shard, ColdAsk::Renew(job));
                self.hold_goes_on(To::Cluster(cluster), &job, None);
            }
            Whereabouts::OtherOwner if self.may_ask_owner(job.ticket, &job.renew.lock_id) => {
                self.forward_job(ColdJob::new(job.shard, ColdAsk::Renew(job)));
            }
            Whereabouts::OtherOwner if self.cold_is_busy() => {
                self.fail(job.ticket, Trouble::OtherOwner);
            }
            Whereabouts::Unclaimed => self.fail(job.ticket, Trouble::Unclaimed),
            // The record tells whether there is still anything to ask another owner for.
            Whereabouts::OtherOwner | Whereabouts::NoSlot(_) | Whereabouts::Unknown => {
                if self.mutated(Mutation::MissTakenAsLost) {
                    self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::Expired));
                }
                self.queue_cold(ColdJob::new(job.shard, ColdAsk::Renew(job)));
            }
        }
    }

    fn renew_slot(&mut self, job: RenewJob, at: SlotRef) {
        let Some(ctl) = self.groups.get(at.group) else {
            return;
        };
        let Some((word, own, forced)) = ctl.group.with_slot(at.slot, |slot| {
            let own = slot.is_open_to(job.renew.principal.as_ref());
            let own = own && slot.token == job.renew.token;
            (slot.word.load(), own, slot.is_forced())
        }) else {
            return;
        };
        match word.state {
            // Its end was confirmed, and a lock id never lives twice.
            SlotState::Free => {
                self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::of_end(forced)));
            }
            SlotState::Pending => self.fail(job.ticket, Trouble::Unknown),
            SlotState::Ending => self.renew_passed_hold(job, at),
            SlotState::Held | SlotState::Closed if word.deadline <= self.now => {
                self.renew_passed_hold(job, at);
            }
            // An heir would revive it as long as its record does not say that it is closed.
            SlotState::Closed if own && self.is_closing(at, job.renew.lock_id.secret()) => {
                self.fail(job.ticket, Trouble::Unknown);
            }
            SlotState::Closed => {
                self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::Stolen));
            }
            // A stranger with the lock id is told what a wrong token is told, and learns no more.
            SlotState::Held if !own => {
                self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::Stolen));
            }
            SlotState::Held => match ctl.group.renew(self.now, &job.renew) {
                FastRenewal::Renewed(told) => {
                    self.answer_renew(job.ticket, RenewOutcome::Renewed(told));
                }
                FastRenewal::Unproven => self.fail(job.ticket, Trouble::Unproven),
                FastRenewal::Loading => self.fail(job.ticket, Trouble::Loading),
                FastRenewal::AskEngine => {
                    self.want_rewrite(RewriteFor::Renew(job.ticket), at, job.renew);
                }
            },
        }
    }

    fn renew_passed_hold(&mut self, job: RenewJob, at: SlotRef) {
        if self.mutated(Mutation::ExpiryUnconfirmed) {
            self.answer_renew(job.ticket, RenewOutcome::Ended(Ended::Expired));
        }
        self.end_passed_hold(at, Waiter::Renew(Box::new(job)));
    }

    /// The hold is to last longer than its record says: the record is rewritten first, so that
    /// an heir waits long enough.
    pub(crate) fn want_rewrite(&mut self, wanted_by: RewriteFor, at: SlotRef, renew: Renew) {
        if self.keeps_records(at.group) {
            return self.renew_as_stored(wanted_by, at, renew);
        }
        let Some(ctl) = self.groups.get(at.group) else {
            return self.fail(wanted_by.ticket(), Trouble::Unknown);
        };
        let shard = ctl.shard;
        let job = Box::new(RewriteJob {
            wanted_by,
            at,
            renew,
        });
        self.queue_cold(ColdJob::new(shard, ColdAsk::Rewrite(job)));
    }

    /// Whether the records of this group are not rewritten: while it moves, and until nothing of it is left
    /// where it came from. Whoever looks for a name there tells by the record when the hold may end.
    pub(crate) fn keeps_records(&self, group: GroupId) -> bool {
        let ctl = self.groups.get(group);
        self.moves.may_copy(group) || ctl.is_some_and(|ctl| ctl.from.is_some())
    }

    /// While the group moves its records are not rewritten: the stored TTL counts.
    fn renew_as_stored(&mut self, wanted_by: RewriteFor, at: SlotRef, renew: Renew) {
        let ticket = wanted_by.ticket();
        let group = self.groups.get(at.group).map(|ctl| &ctl.group);
        let renewed = group.map(|group| group.renew_as_stored(self.now, &renew));
        match (renewed, wanted_by) {
            (Some(FastRenewal::Renewed(told)), RewriteFor::Renew(ticket)) => {
                self.answer_renew(ticket, RenewOutcome::Renewed(told));
            }
            (Some(FastRenewal::Renewed(told)), RewriteFor::Acquire(job)) => {
                self.entered_again(&job, renew, told);
            }
            _ => self.fail(ticket, Trouble::Unknown),
        }
    }

    pub(crate) fn rewrite_read(&mut self, job: RewriteJob, kv: Option<&KeyValue>) {
        let read = kv.and_then(|kv| {
            let (record, id) = LockRecord::read(kv)?;
            (id == job.renew.lock_id).then_some((kv, record))
        });
        let (Some((kv, mut record)), Some(ttl)) = (read, job.renew.ttl) else {
            return self.fail(job.wanted_by.ticket(), Trouble::Unknown);
        };
        record.token = Some(record.fencing_token(kv).0);
        // Never less than what it says: another renewal may have been promised that much.
        let ttl = ttl.max(record.ttl());
        record.ttl_ms = ttl.as_ms();
        let rewrite = Rewrite {
            wanted_by: job.wanted_by,
            at: job.at,
            lock_id: job.renew.lock_id.clone(),
            read_revision: kv.mod_revision,
            record: record.to_bytes(),
            renew: job.renew,
            ttl,
        };
        self.queue_write(WriteOp::Rewrite(Box::new(rewrite)));
    }

    /// The record says the longer TTL, since `revision`.
    pub(crate) fn rewrite_landed(&mut self, rewrite: Rewrite, revision: Revision) {
        let ticket = rewrite.wanted_by.ticket();
        let Some(ctl) = self.groups.get(rewrite.at.group) else {
            return self.fail(ticket, Trouble::Unknown);
        };
        let mut same = false;
        ctl.group.change_slot(rewrite.at.slot, |slot| {
            same = slot.is_of(&rewrite.lock_id) && slot.state() != SlotState::Free;
            if same {
                slot.revision = slot.revision.max(revision);
                slot.set_ttl(slot.ttl().max(rewrite.ttl));
            }
        });
        if !same {
            return self.fail(ticket, Trouble::Unknown);
        }
        match (ctl.group.renew(self.now, &rewrite.renew), rewrite.wanted_by) {
            (FastRenewal::Renewed(told), RewriteFor::Renew(ticket)) => {
                self.answer_renew(ticket, RenewOutcome::Renewed(told));
            }
            (FastRenewal::Renewed(told), RewriteFor::Acquire(job)) => {
                self.entered_again(&job, rewrite.renew, told);
            }
            _ => self.fail(ticket, Trouble::Unknown),
        }
    }

    /// The rewrite was not sent.
    pub(crate) fn drop_rewrite(&mut self, rewrite: Rewrite) {
        if self.keeps_records(rewrite.at.group) {
            self.renew_as_stored(rewrite.wanted_by, rewrite.at, rewrite.renew);
        } else {
            self.fail_rewrite(rewrite, Trouble::Unknown);
        }
    }

    pub(crate) fn fail_rewrite(&mut self, rewrite: Rewrite, trouble: Trouble) {
        self.fail(rewrite.wanted_by.ticket(), trouble);
    }
}
