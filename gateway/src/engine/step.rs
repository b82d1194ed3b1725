//! The one step of a rollout that an engine takes by itself: when another cluster's guard is leaving
//! for this one and the guard here has not followed, grants would wait for the driver.
//!
//! What is written follows from the two guards alone, in the epoch of the one that is leaving, and is
//! compared with the one here, so it makes no difference who writes it, how often, or how late.

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::calls::Purpose;
use crate::engine::later::Task;
use crate::engine::onward::To;
use crate::engine::shards::GuardSeen;
use crate::engine::tickets::Trouble;
use crate::limits;
use holdfast_store::{Op, Revision, Txn, TxnOp};
use shard_map::records::{Guard, GuardState};
use shard_map::rollout::{GuardRead, GuardWrite, Mistake, Next, Side, next_step};
use shard_map::{ClusterName, MapVersion, ShardId};
use std::sync::Arc;

/// The guard of another cluster that admits nothing, as that cluster's engine has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) cluster: Arc<str>,
    pub(crate) guard: Guard,
    pub(crate) at: Revision,
}

impl Engine {
    /// An acquire has come to a guard that admits nothing: it goes on where that one says.
    pub(crate) fn acquire_where_left(&mut self, mut job: Job, guard: Guard, at: Revision) {
        let Some(to) = guard.to.as_ref().map(ClusterName::to_shared) else {
            return self.fail_job(job, Trouble::Moving);
        };
        let left = job.left.take();
        if let Some(left) = left.filter(|left| left.cluster == to) {
            // Each of the two guards says the other: this one is about to change, or that one has.
            self.follow(job.shard, &left);
            return self.do_later(limits::GUARD_WAIT, Task::Acquire(job));
        }
        job.left = Some(Box::new(Left {
            cluster: Arc::clone(&self.settings.cluster),
            guard,
            at,
        }));
        self.acquire_goes_on(To::Cluster(to), job);
    }

    /// Makes the guard here what follows from the one that was left, if anything does.
    pub(crate) fn follow(&mut self, shard: ShardId, left: &Left) {
        let here = match &self.shard_mut(shard).guard {
            GuardSeen::Unread => return self.want_guard(shard),
            // One that this version cannot read is there, so nothing is written.
            GuardSeen::Missing => GuardRead::Absent,
            GuardSeen::Read(guard, at) => GuardRead::Present(guard.clone(), *at),
        };
        let there = GuardRead::Present(left.guard.clone(), left.at);
        let (Ok(goal), Ok(other)) = (self.settings.cluster.parse(), left.cluster.parse()) else {
            return;
        };
        let (goal, other): (ClusterName, ClusterName) = (goal, other);
        let side = |cluster, guard| Side {
            cluster,
            guard,
            groups: None,
        };
        let next = next_step(
            MapVersion(left.guard.epoch.0),
            shard,
            side(&goal, &here),
            side(&other, &there),
            Mistake::NONE,
        );
        match next {
            Next::Write(write) if is_step_three(&write, &goal, &other) => {
                if self.shard_mut(shard).following {
                    return;
                }
                self.shard_mut(shard).following = true;
                // Inside, so that a lack of space does not refuse it.
                let nested = Txn {
                    then: vec![TxnOp::Txn(write.txn())],
                    ..Txn::default()
                };
                self.stats.guards_written.add(1);
                self.call(
                    Op::Txn(nested),
                    limits::CALL_TIMEOUT,
                    Purpose::Follow(shard),
                );
            }
            _ => {}
        }
    }

    /// Whatever came of it: what the guard is now is read.
    pub(crate) fn on_followed(&mut self, shard: ShardId) {
        self.shard_mut(shard).following = false;
        self.want_guard(shard);
    }
}

/// Whether it makes the goal the shard's cluster. The other steps are the driver's.
fn is_step_three(write: &GuardWrite, goal: &ClusterName, other: &ClusterName) -> bool {
    write.cluster == *goal
        && write.guard.state == GuardState::Active
        && write.guard.from.as_ref() == Some(other)
}
