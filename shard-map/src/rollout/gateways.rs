//! Which gateways a rollout waits for, and which it goes on without.
//!
//! A gateway that has no session in a cluster cannot answer for what goes there, so shards begin to go
//! when every live gateway has come. One that does not come is not waited for for ever. If it owns groups
//! of a shard that leaves, nobody else may move them while its session lives; so that session is ended,
//! as long as another gateway is in both clusters and can take the groups over. Its promises stay true: an
//! heir waits for them whatever the reason is why a session has ended.

use super::driver::{Moving, Surveys};
use super::record::GatewayReport;
use super::steps::GuardRead;
use super::survey::Survey;
use crate::records::{GuardState, keys};
use crate::{ClusterName, limits};
use holdfast_store::{KeyRange, Txn, TxnOp};
use std::collections::{BTreeMap, BTreeSet};

/// A session to be ended: its gateway cannot come to the cluster where its groups have to go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionEnd {
    /// The cluster of the session.
    pub cluster: ClusterName,
    /// Its id, which never lives again.
    pub session: String,
}

impl SessionEnd {
    /// The transaction. It does nothing if it comes late.
    pub fn txn(&self) -> Txn {
        let key = KeyRange::one(keys::session(&self.session));
        Txn {
            then: vec![TxnOp::Delete(key)],
            ..Txn::default()
        }
    }
}

/// What a driver remembers of gateways: times, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(super) struct Attendance {
    began: Option<u64>,
    /// Since when a session keeps groups that its gateway cannot move.
    stranded: BTreeMap<SessionEnd, u64>,
}

impl Attendance {
    /// The clusters where a live gateway has no session yet.
    pub(super) fn unready(
        &mut self,
        gateways: &[GatewayReport],
        goals: &Surveys,
        now: u64,
    ) -> BTreeSet<ClusterName> {
        let began = *self.began.get_or_insert(now);
        if now.saturating_sub(began) >= limits::GATEWAY_WAIT_MS {
            return BTreeSet::new();
        }
        let lacks_one =
            |survey: &Survey| gateways.iter().any(|it| !survey.has_gateway(&it.instance));
        let unready = goals.iter().filter(|(_, survey)| lacks_one(survey));
        unready.map(|(name, _)| name.clone()).collect()
    }

    /// The sessions to end.
    pub(super) fn stranded(
        &mut self,
        window: &[Moving],
        left: &Surveys,
        goals: &Surveys,
        now: u64,
    ) -> Vec<SessionEnd> {
        let mut found = BTreeSet::new();
        for moving in window {
            if let (Some(left), Some(goal)) = (left.get(&moving.from), goals.get(&moving.to)) {
                let sessions = stranded(moving, left, goal);
                found.extend(sessions.map(|session| SessionEnd {
                    cluster: moving.from.clone(),
                    session,
                }));
            }
        }
        self.stranded.retain(|end, _| found.contains(end));
        let is_long = |end: &SessionEnd| {
            let since = *self.stranded.entry(end.clone()).or_insert(now);
            now.saturating_sub(since) >= limits::GATEWAY_STRANDED_MS
        };
        found.into_iter().filter(is_long).collect()
    }
}

/// The live sessions that own groups of a shard that leaves, of gateways that are not in the goal.
fn stranded(moving: &Moving, left: &Survey, goal: &Survey) -> impl Iterator<Item = String> {
    let leaves = matches!(left.guard(moving.shard), GuardRead::Present(guard, _) if guard.state == GuardState::Leaving);
    let has_heir = left.gateways().any(|instance| goal.has_gateway(instance));
    let owners = left
        .owners(moving.shard)
        .filter(move |(_, instance)| leaves && has_heir && !goal.has_gateway(instance));
    let owners: Vec<String> = owners.map(|(session, _)| session.to_owned()).collect();
    owners.into_iter()
}
