//! What a gateway that stops tells its heirs: how long each of its holds may still last.
//!
//! Without it an heir keeps a lock whose holder is gone for its TTL and the session's, counted from
//! the claim. Every promise of the gateway that stops ends by the deadlines that it tells, so an heir
//! that claims *from that very session* may end the holds by them. It is sent once, to the
//! gateway that each group falls to, before the session is given up; if it is lost, or comes after
//! the records were read, the heir waits the longer time.

use crate::engine::claims::falls_to;
use crate::engine::mutation::Mutation;
use crate::engine::records::SessionId;
use crate::engine::{Effect, Engine};
use crate::limits;
use crate::lock_id::{GroupId, Secret, SlotIndex};
use crate::time::{Instant, Millis};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The holds of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heritage {
    /// The group.
    pub group: GroupId,
    /// The session that gives it up.
    pub from: SessionId,
    /// The session that it is meant for; nobody else may use it.
    pub to: SessionId,
    /// Its holds in the order of their slots: slot, random bits, and how long each may still last.
    pub holds: Vec<(SlotIndex, Secret, Millis)>,
}

/// What others have left to this gateway, until it claims their groups.
#[derive(Debug, Default)]
pub(crate) struct Heritages(BTreeMap<GroupId, (Instant, Heritage)>);

impl Heritages {
    /// When the hold ends at the latest, as the session said that the group was claimed from. `None`
    /// for any session is a deliberate mistake.
    pub(crate) fn deadline(
        &self,
        group: GroupId,
        claimed_from: Option<SessionId>,
        (slot, secret): (SlotIndex, Secret),
    ) -> Option<Instant> {
        let (received, heritage) = self.0.get(&group)?;
        let holds = &heritage.holds;
        let at = holds.binary_search_by_key(&slot, |(slot, _, _)| *slot);
        let (_, bits, remaining) = holds.get(at.ok()?)?;
        if *bits != secret || claimed_from.is_some_and(|from| heritage.from != from) {
            return None;
        }
        // The two gateways' clocks may drift against each other as a client's and a gateway's may.
        Some(*received + *remaining + remaining.percent(1))
    }

    pub(crate) fn forget(&mut self, group: GroupId) {
        self.0.remove(&group);
    }
}

impl Engine {
    /// Leaves each group to the session that it falls to. Its table answers no renewal any more, so
    /// no promise outlasts what is told.
    pub(crate) fn bequeath(&mut self) {
        let Some(own) = self.session.live().map(|live| live.id) else {
            return;
        };
        let mut heirs = self.claims.alive.clone();
        heirs.remove(&own);
        for (group, ctl) in self.groups.iter() {
            let deadlines = ctl.group.close();
            if self.mutated(Mutation::PromiseAfterStop) {
                ctl.group.begin_serving();
            }
            let heir = falls_to(group, heirs.keys().copied());
            let Some(Some(owner)) = heir.and_then(|heir| heirs.get(&heir)) else {
                continue;
            };
            let holds = deadlines
                .into_iter()
                .map(|(slot, secret, deadline)| (slot, secret, deadline.since(self.now)))
                .collect();
            let heritage = Heritage {
                group,
                from: own,
                to: owner.session,
                holds,
            };
            self.out.push(Effect::Bequeath(Arc::clone(owner), heritage));
        }
    }

    /// A gateway that stops has left a group to this one.
    pub(crate) fn on_heritage(&mut self, heritage: Heritage) {
        let now = self.now;
        let fresh = |received: Instant| now.since(received) < limits::HERITAGE_TIME;
        let left = &mut self.heritages.0;
        left.retain(|_, (received, _)| fresh(*received));
        if self.session.live().map(|live| live.id) == Some(heritage.to)
            && left.len() < limits::GROUPS_MAX
        {
            left.insert(heritage.group, (now, heritage));
        }
    }
}
