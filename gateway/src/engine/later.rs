//! What is to be done at a later time.

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::cold::ColdJob;
use crate::engine::outcome::Question;
use crate::engine::writes::{SlotRef, WriteOp};
use crate::lock_id::{GroupId, Secret};
use crate::time::{Instant, Millis};
use holdfast_store::LeaseId;
use shard_map::ShardId;
use std::collections::BTreeMap;

/// A step that waits for its time.
#[derive(Debug)]
pub(crate) enum Task {
    StartSession,
    LookForHeirs,
    RevokeSession(LeaseId),
    Fence,
    Acquire(Job),
    Write(WriteOp),
    Cold(Box<ColdJob>),
    Resolve(Question),
    OpenGroup(ShardId),
    ReadGuard(ShardId),
    Survey(GroupId),
    SurveyToMove(GroupId),
    Undo(GroupId, LeaseId),
    Close(SlotRef, Secret),
    LeaveSource(GroupId),
    RefusePlace(GroupId),
    /// Ask for another lease for waiters; this one was refused.
    AskLineLease(LeaseId),
    AskSource(GroupId),
    /// Write nothing more to the cluster before this.
    Resume,
}

/// The tasks by time; those of one time in the order they were put in.
#[derive(Debug, Default)]
pub(crate) struct Later {
    tasks: BTreeMap<(Instant, u64), Task>,
    counter: u64,
}

impl Later {
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.tasks.first_key_value().map(|((when, _), _)| *when)
    }

    /// Forgets everything but the start of a session.
    pub(crate) fn clear(&mut self) {
        self.tasks
            .retain(|_, task| matches!(task, Task::StartSession | Task::Resume));
    }
}

impl Engine {
    pub(crate) fn do_later(&mut self, after: Millis, task: Task) {
        self.later.counter += 1;
        self.later
            .tasks
            .insert((self.now + after, self.later.counter), task);
    }

    pub(crate) fn run_later(&mut self) {
        while let Some(entry) = self.later.tasks.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            match entry.remove() {
                Task::StartSession => self.start_session(),
                Task::LookForHeirs => self.look_for_heirs(),
                Task::RevokeSession(lease) => self.revoke_session(lease),
                Task::Fence => self.send_fence(),
                Task::Acquire(job) => self.acquire_anew(job),
                Task::Write(op) => self.queue_write(op),
                Task::Cold(job) => self.queue_cold(*job),
                Task::Resolve(question) => self.resolve(question),
                Task::OpenGroup(shard) => self.open_group_after_backoff(shard),
                Task::ReadGuard(shard) => self.want_guard(shard),
                Task::Survey(group) => self.start_load(group),
                Task::SurveyToMove(group) => self.survey_to_move(group),
                Task::Undo(group, lease) => self.undo_again(group, lease),
                Task::AskLineLease(lease) => self.line_lease_refused(lease),
                Task::LeaveSource(group) => self.leave_source(group),
                Task::RefusePlace(group) => self.refuse_place(group),
                Task::AskSource(group) => self.ask_source(group),
                Task::Close(at, secret) => self.read_to_close(at, secret),
                Task::Resume => self.writes.resume(),
            }
        }
    }
}
