//! Surveys: reading what hangs from a group's lease, to fill the table of a claimed group or to
//! compare the table of an owned one.
//!
//! The key list of a lease comes from the leader and is not linearizable; it counts between two
//! linearizable reads of one Raft term. So a survey is: read the group's key, list the keys, read
//! records; all answers of one term, or it begins again.
//!
//! In a comparison a difference is a suspicion. It is acted on only for slots that were settled
//! before the list and still are, after a linearizable read of their key.

use crate::engine::Engine;
use crate::engine::calls::{Purpose, as_txn};
use crate::engine::group::GroupState;
use crate::engine::later::Task;
use crate::engine::mutation::Mutation;
use crate::engine::records::{self, LockRecord};
use crate::engine::shards::Shard;
use crate::engine::slot::{SlotState, SlotWord};
use crate::engine::writes::SlotRef;
use crate::limits;
use crate::lock_id::{GroupId, Secret, SlotIndex};
use crate::names::Token;
use crate::time::Instant;
use holdfast_store::{Get, Key, KeyRange, KeyValue, Op, Reply, StoreError, Txn, TxnOpReply};
use std::collections::{BTreeMap, VecDeque};

/// Which survey a call belongs to; what comes for an earlier one of the group is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurveyNo(u64);

/// A survey of one group.
#[derive(Debug)]
struct Survey {
    no: SurveyNo,
    goal: Goal,
    /// Of the first read; every later answer must be of the same.
    term: Option<u64>,
    /// What is still to be read, once the list is there.
    keys: Option<Vec<Key>>,
    reading: Vec<Key>,
    records: Vec<(Key, Option<KeyValue>)>,
}

#[derive(Debug)]
enum Goal {
    /// Fill the table of a claimed group.
    Load,
    /// Tell what is to be copied of a group that moves.
    Move,
    /// Compare the table with etcd.
    Compare {
        /// The holds that were settled when it began, by key.
        settled: BTreeMap<Key, (SlotIndex, Secret)>,
        /// How many holds of the group had ended then.
        ends: u64,
    },
}

/// The surveys that run, and the loads that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Surveys {
    running: BTreeMap<GroupId, Survey>,
    loads: VecDeque<GroupId>,
    counter: u64,
    /// Since the last time that there was nothing to load.
    taken_over: TakenOver,
}

#[derive(Debug, Default)]
struct TakenOver {
    groups: usize,
    locks: usize,
}

impl Engine {
    /// Has the records of a claimed group read as soon as others are done.
    pub(crate) fn want_load(&mut self, group: GroupId) {
        self.survey.loads.push_back(group);
        self.next_load();
    }

    fn next_load(&mut self) {
        while self.survey.running.len() < limits::LOADS_AT_ONCE_MAX {
            let Some(group) = self.survey.loads.pop_front() else {
                break;
            };
            self.start_load(group);
        }
        self.tell_what_was_taken_over();
    }

    fn tell_what_was_taken_over(&mut self) {
        let loading = self
            .survey
            .running
            .values()
            .any(|survey| matches!(survey.goal, Goal::Load));
        if !loading && self.survey.taken_over.groups > 0 {
            let TakenOver { groups, locks } = std::mem::take(&mut self.survey.taken_over);
            tracing::info!(
                cluster = %self.settings.cluster, groups, locks, "lease groups taken over"
            );
        }
    }

    pub(crate) fn start_load(&mut self, group: GroupId) {
        if self
            .groups
            .get(group)
            .is_some_and(|ctl| ctl.state == GroupState::Loading)
        {
            self.start_survey(group, Goal::Load);
        }
    }

    /// Something about the group's records looks wrong: compare soon.
    pub(crate) fn want_check(&mut self, group: GroupId) {
        if let Some(ctl) = self.groups.get_mut(group) {
            ctl.check_due = Instant::NEVER;
        }
    }

    fn check_again(&mut self, group: GroupId) {
        let soon = self.now + limits::RETRY_BACKOFF;
        if let Some(ctl) = self.groups.get_mut(group) {
            ctl.check_due = ctl.check_due.min(soon);
        }
    }

    /// Begins the comparison that is most overdue; one at a time.
    pub(crate) fn keep_survey(&mut self) {
        if !self.survey.running.is_empty() || !self.is_proven() {
            return;
        }
        let due = self
            .groups
            .iter()
            .filter(|(_, ctl)| {
                matches!(ctl.state, GroupState::Open | GroupState::Closed)
                    && ctl.check_due <= self.now
                    && ctl.is_only_here()
            })
            .min_by_key(|(_, ctl)| ctl.check_due)
            .map(|(group, _)| group);
        let Some(group) = due else { return };
        let pending_too = self.mutated(Mutation::SurveyEndsPending);
        let Some(ctl) = self.groups.get_mut(group) else {
            return;
        };
        ctl.check_due = self.now + self.survey_interval;
        let ends = ctl.ends;
        let settled = ctl
            .group
            .slots()
            .iter()
            .enumerate()
            .filter(|(_, slot)| {
                slot.state().is_hold() || pending_too && slot.state() == SlotState::Pending
            })
            .filter_map(|(at, slot)| {
                let index = SlotIndex(u16::try_from(at).ok()?);
                let key = records::lock_key(slot.name.as_ref()?.as_str());
                Some((key, (index, slot.secret)))
            })
            .collect();
        self.start_survey(group, Goal::Compare { settled, ends });
    }

    /// Lists everything on the lease of a group that moves.
    pub(crate) fn start_move_survey(&mut self, group: GroupId) {
        self.start_survey(group, Goal::Move);
    }

    fn start_survey(&mut self, group: GroupId, goal: Goal) {
        let Some(key) = self.group_key_of(group) else {
            return;
        };
        self.survey.counter += 1;
        let no = SurveyNo(self.survey.counter);
        let survey = Survey {
            no,
            goal,
            term: None,
            keys: None,
            reading: Vec::new(),
            records: Vec::new(),
        };
        self.survey.running.insert(group, survey);
        let read = Txn::read([Get::keys(KeyRange::one(key))]);
        self.call(
            Op::Txn(read),
            limits::CALL_TIMEOUT,
            Purpose::Survey(group, no),
        );
    }

    fn group_key_of(&self, group: GroupId) -> Option<Key> {
        self.groups.get(group)?;
        Some(records::group_key(self.session.live()?.id, group))
    }

    pub(crate) fn survey_ends(&mut self, group: GroupId) {
        self.survey.running.remove(&group);
        self.next_load();
    }

    pub(crate) fn on_survey(
        &mut self,
        group: GroupId,
        no: SurveyNo,
        result: Result<Reply, StoreError>,
    ) {
        let of_no = self.survey.running.get(&group).filter(|it| it.no == no);
        if of_no.is_none() {
            return;
        }
        let Some(mut survey) = self.survey.running.remove(&group) else {
            return;
        };
        let step = match result {
            Ok(Reply::Txn(txn)) if survey.agrees(txn.header.raft_term) => {
                self.survey_read(group, &mut survey, as_txn(Ok(Reply::Txn(txn))))
            }
            Ok(Reply::LeaseKeys {
                header,
                ttl_s,
                keys,
            }) if ttl_s >= 0 && survey.agrees(header.raft_term) => {
                self.survey_listed(group, &mut survey, &keys)
            }
            _ => None,
        };
        match step {
            Some(Step::Call(op)) => {
                self.survey.running.insert(group, survey);
                self.call(op, limits::CALL_TIMEOUT, Purpose::Survey(group, no));
            }
            Some(Step::Done) => {
                self.survey_done(group, survey);
                self.next_load();
            }
            None => {
                // Another term, a lease that is gone, no answer: begin again.
                match survey.goal {
                    Goal::Load => self.do_later(limits::RETRY_BACKOFF, Task::Survey(group)),
                    Goal::Move => self.do_later(limits::LOOK_AGAIN, Task::SurveyToMove(group)),
                    Goal::Compare { .. } => self.check_again(group),
                }
                self.next_load();
            }
        }
    }

    fn survey_read(
        &mut self,
        group: GroupId,
        survey: &mut Survey,
        reply: Result<holdfast_store::TxnReply, StoreError>,
    ) -> Option<Step> {
        let reply = reply.ok()?;
        let ctl = self.groups.get(group)?;
        if survey.keys.is_none() {
            let TxnOpReply::Get(get) = reply.ops.first()? else {
                return None;
            };
            (get.kvs.first()?.mod_revision == ctl.revision).then_some(())?;
            return Some(Step::Call(Op::LeaseKeys { lease: ctl.lease }));
        }
        for (key, op) in std::mem::take(&mut survey.reading)
            .into_iter()
            .zip(reply.ops)
        {
            let TxnOpReply::Get(get) = op else {
                return None;
            };
            survey.records.push((key, get.kvs.into_iter().next()));
        }
        survey.next_read()
    }

    fn survey_listed(
        &mut self,
        group: GroupId,
        survey: &mut Survey,
        listed: &[Key],
    ) -> Option<Step> {
        let group_key = self.group_key_of(group)?;
        let ctl = self.groups.get(group)?;
        let locks = listed
            .iter()
            .filter(|key| records::lock_name(key).is_some());
        // The group's key is read too, so that there is a second linearizable read.
        let mut keys = vec![group_key];
        match &survey.goal {
            Goal::Load | Goal::Move => keys.extend(locks.cloned()),
            Goal::Compare { settled, .. } => {
                let slots = ctl.group.slots();
                let used: std::collections::BTreeSet<Key> = slots
                    .iter()
                    .filter(|slot| slot.state() != SlotState::Free)
                    .filter_map(|slot| Some(records::lock_key(slot.name.as_ref()?.as_str())))
                    .collect();
                let listed: std::collections::BTreeSet<&Key> = listed.iter().collect();
                keys.extend(locks.filter(|key| !used.contains(*key)).cloned());
                keys.extend(settled.keys().filter(|key| !listed.contains(*key)).cloned());
            }
        }
        survey.keys = Some(keys);
        survey.next_read()
    }

    fn survey_done(&mut self, group: GroupId, survey: Survey) {
        let Survey {
            goal, mut records, ..
        } = survey;
        let Some(ctl) = self.groups.get(group) else {
            return;
        };
        let own_key = self.group_key_of(group);
        let own = records
            .iter()
            .find(|(key, _)| Some(key) == own_key.as_ref());
        if own
            .and_then(|(_, kv)| kv.as_ref())
            .map(|kv| kv.mod_revision)
            != Some(ctl.revision)
        {
            if matches!(goal, Goal::Load) {
                // The key was rewritten meanwhile, or is lost.
                self.do_later(limits::RETRY_BACKOFF, Task::Survey(group));
            }
            return self.round.want();
        }
        records.retain(|(key, _)| records::lock_name(key).is_some());
        match goal {
            Goal::Load => self.loaded(group, &records),
            Goal::Move => self.copies_listed(group, &records),
            Goal::Compare { settled, ends } => self.compared(group, &settled, ends, &records),
        }
    }

    fn loaded(&mut self, group: GroupId, records: &[(Key, Option<KeyValue>)]) {
        for kv in records.iter().filter_map(|(_, kv)| kv.as_ref()) {
            self.adopt(group, kv);
        }
        self.heritages.forget(group);
        let Some(ctl) = self.groups.get_mut(group) else {
            return;
        };
        ctl.state = GroupState::Closed;
        ctl.check_due = self.now + self.survey_interval;
        ctl.group.begin_serving();
        self.survey.taken_over.groups += 1;
        self.survey.taken_over.locks += ctl.used();
    }

    fn compared(
        &mut self,
        group: GroupId,
        settled: &BTreeMap<Key, (SlotIndex, Secret)>,
        ends: u64,
        records: &[(Key, Option<KeyValue>)],
    ) {
        // Where a hold has ended meanwhile, a record that was read may be one that is gone.
        let ended = self.groups.get(group).is_none_or(|ctl| ctl.ends != ends);
        if let Some(ctl) = self.groups.get_mut(group).filter(|_| !ended) {
            // Those that are still there are counted again below.
            ctl.unreadable = 0;
        }
        for (key, kv) in records {
            match (settled.get(key), kv) {
                (Some((slot, secret)), found) => {
                    self.settled_but_unlisted(group, *slot, *secret, found.as_ref());
                }
                (None, Some(kv)) if !ended => self.adopt(group, kv),
                (None, _) => {}
            }
        }
    }

    /// The record of a hold is not on the group's lease: deleted or changed by hand. The guarded
    /// delete finds out, and then the end is told truthfully.
    fn settled_but_unlisted(
        &mut self,
        group: GroupId,
        slot: SlotIndex,
        secret: Secret,
        found: Option<&KeyValue>,
    ) {
        let Some(ctl) = self.groups.get(group) else {
            return;
        };
        let as_it_was = ctl.group.with_slot(slot, |slot| {
            let this = slot.secret == secret;
            if this && self.mutated(Mutation::SurveyEndsPending) {
                slot.word.store(SlotWord::held(self.now));
            }
            this && slot.state().is_hold()
        });
        let there = found.is_some_and(|kv| {
            kv.lease == Some(ctl.lease)
                && LockRecord::read(kv).is_some_and(|(_, id)| id.secret() == secret)
        });
        if as_it_was == Some(true) && !there {
            tracing::warn!(cluster = %self.settings.cluster, "the record of a hold is gone");
            self.stats.survey_findings.add(1);
            self.end_hold(SlotRef { group, slot }, None);
        }
    }

    /// Puts a record that no slot knows into its slot, as after a claim.
    fn adopt(&mut self, group: GroupId, kv: &KeyValue) {
        let now = self.now;
        let session_ttl = self.settings.session_ttl;
        let Some(ctl) = self.groups.get_mut(group) else {
            return;
        };
        if kv.lease != Some(ctl.lease) {
            return;
        }
        let read = LockRecord::read(kv).filter(|(_, id)| id.group() == group);
        let (Some((record, id)), Some(name)) = (read, records::name_of(&kv.key)) else {
            return self.cannot_adopt(group, "cannot be read by this version");
        };
        // A lock id never lives twice, so a slot that had it knows better than this record.
        if ctl.group.with_slot(id.slot(), |slot| slot.is_of(&id)) == Some(true) {
            return;
        }
        let token = match self.proof.mutated(Mutation::TokenFromPresentGuard) {
            true => {
                let base = self
                    .shards
                    .get(&ctl.shard)
                    .map_or(0, Shard::present_token_base);
                Token(base + kv.mod_revision.0.cast_unsigned())
            }
            false => record.fencing_token(kv),
        };
        let (since, session_ttl) = match ctl.state {
            GroupState::Loading => (ctl.claimed_at, session_ttl.max(ctl.heir_of_ttl)),
            _ => (now, session_ttl),
        };
        let deadline = match () {
            () if self.proof.mutated(Mutation::HeirForgetsSession) => since + record.ttl(),
            () if self.proof.mutated(Mutation::HeirCountsFromGrant) => now + session_ttl,
            () => since + record.ttl() + session_ttl,
        };
        // Only while it loads: as soon as it serves, this gateway has promises of its own.
        let told = ctl
            .claimed_from
            .filter(|_| ctl.state == GroupState::Loading);
        let told = told.and_then(|from| {
            let from = (!self.proof.mutated(Mutation::HeritageOfAnyone)).then_some(from);
            self.heritages
                .deadline(group, from, (id.slot(), id.secret()))
        });
        let deadline = told.map_or(deadline, |told| deadline.min(told));
        let closed = record.closed.is_some() && !self.proof.mutated(Mutation::ClosedRevived);
        // It is there, whatever its principal's quota is.
        let place = self.table.quota().admit(record.owner());
        let placed = ctl.take_slot_at(id.slot(), place, |slot| {
            slot.secret = id.secret();
            slot.name = Some(name);
            slot.token = token;
            slot.revision = kv.mod_revision;
            slot.set_ttl(record.ttl());
            slot.owner = record.owner();
            slot.set_forced(closed);
            slot.word.store(match closed {
                true => SlotWord::closed(deadline),
                false => SlotWord::held(deadline),
            });
        });
        match placed {
            Ok(()) => self.arm(
                SlotRef {
                    group,
                    slot: id.slot(),
                },
                deadline,
            ),
            Err(_) => self.cannot_adopt(group, "claims a slot that another has"),
        }
    }

    /// The record is not served here; the group's lease is kept for it.
    fn cannot_adopt(&mut self, group: GroupId, why: &str) {
        tracing::error!(
            cluster = %self.settings.cluster, group = %group, why, "a lock's record is not served"
        );
        self.stats.survey_findings.add(1);
        if let Some(ctl) = self.groups.get_mut(group) {
            ctl.unreadable += 1;
        }
    }
}

enum Step {
    Call(Op),
    Done,
}

impl Survey {
    fn agrees(&mut self, term: u64) -> bool {
        *self.term.get_or_insert(term) == term
    }

    fn next_read(&mut self) -> Option<Step> {
        let keys = self.keys.as_mut()?;
        if keys.is_empty() {
            return Some(Step::Done);
        }
        let rest = keys.split_off(keys.len().min(limits::READ_KEYS_MAX));
        self.reading = std::mem::replace(keys, rest);
        let gets = self
            .reading
            .iter()
            .map(|key| Get::all(KeyRange::one(key.clone())));
        Some(Step::Call(Op::Txn(Txn::read(gets))))
    }
}
