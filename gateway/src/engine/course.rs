//! The course of a request about an existing hold: which part of which gateway is asked next, and
//! what counts as its answer. The service and the simulator follow the same one.
//!
//! A client's request begins with [`Course::of_request`], and goes on with
//! [`Course::after_owner`] when the owner has been asked; what another gateway forwards has
//! [`Course::of_forwarded`]. Memory only, on any thread.

use crate::engine::Input;
use crate::engine::owners::{Owned, Owner, Owners};
use crate::engine::records::SessionId;
use crate::engine::table::Table;
use crate::engine::tickets::{Ticket, Trouble};
use crate::limits;
use crate::lock_id::LockId;
use crate::service::{Forward, ForwardOutcome, RenewOutcome};
use crate::time::{Instant, Millis};
use shard_map::ShardId;
use std::sync::Arc;

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Course {
    /// The engine of the lock's cluster is asked, and answers.
    Engine(Hop),
    /// This gateway is asked. [`Course::after_owner`] says how it goes on.
    Owner(Arc<Owner>),
    /// The request is answered so.
    Answer(ForwardOutcome),
}

/// How a request has come to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// From a client.
    FromClient,
    /// From another gateway: it goes no further.
    FromGateway,
    /// Back from this session's gateway, which does not own the lock.
    NotTheirs(SessionId),
}

impl Hop {
    /// What the engine is told.
    pub fn input(self, ticket: Ticket, shard: ShardId, forward: Forward) -> Input {
        match (self, forward) {
            (Self::FromClient, Forward::Renew(renew)) => Input::Renew(ticket, shard, renew),
            (Self::FromClient, Forward::Release(release)) => Input::Release(ticket, shard, release),
            // A client's own force-release is about a name, not about a hold.
            (Self::FromGateway, forward) | (Self::FromClient, forward @ Forward::Close(_)) => {
                Input::Forwarded(ticket, shard, forward)
            }
            (Self::NotTheirs(asked), forward) => Input::NotTheirs(ticket, shard, forward, asked),
        }
    }
}

impl Course {
    /// Which of the gateway's clusters has the group of this hold, as far as it is known: it may have
    /// moved, or not have moved yet, whatever the map says.
    pub fn place_of_hold<'a>(
        table: &Table,
        mut clusters: impl Iterator<Item = (&'a Arc<str>, &'a Owners)>,
        id: &LockId,
    ) -> Option<usize> {
        match table.cluster_of(id.group()) {
            Some(own) => clusters.position(|(name, _)| *name == own),
            None => clusters.position(|(_, owners)| owners.has(id.group())),
        }
    }

    /// Where a client's request about this lock of `cluster` goes first.
    pub fn of_request(owners: &Owners, table: &Table, cluster: &Arc<str>, id: &LockId) -> Self {
        let group = id.group();
        if table.has(group) {
            return Self::Engine(Hop::FromClient);
        }
        match owners.of(group) {
            Some(Owned::By(owner)) => Self::Owner(owner),
            Some(Owned::Unclaimed) => Self::failed(Trouble::Unclaimed, cluster),
            Some(Owned::Silent) | None => Self::Engine(Hop::FromClient),
        }
    }

    /// What the owner's answer means. `None`: it could not be asked. `took` is the time since the
    /// request has come.
    pub fn after_owner(
        owner: &Owner,
        cluster: &Arc<str>,
        took: Millis,
        said: Option<ForwardOutcome>,
    ) -> Self {
        match said {
            // The engine may take its full time, and the client is not to wait longer than promised.
            Some(ForwardOutcome::NotTheirs) if took <= limits::SECOND_TRY_WITHIN => {
                Self::Engine(Hop::NotTheirs(owner.session))
            }
            Some(ForwardOutcome::NotTheirs) | None => Self::failed(Trouble::OtherOwner, cluster),
            Some(outcome) => Self::Answer(outcome),
        }
    }

    /// Where a request goes that another gateway has forwarded: nowhere but to this one's memory
    /// and engine.
    pub fn of_forwarded(table: &Table, now: Instant, forward: &Forward) -> Self {
        if !table.has(forward.lock_id().group()) {
            return Self::Answer(ForwardOutcome::NotTheirs);
        }
        let Forward::Renew(renew) = forward else {
            return Self::Engine(Hop::FromGateway);
        };
        match table.renew(now, renew) {
            Some(Ok(told)) => Self::Answer(ForwardOutcome::Renew(RenewOutcome::Renewed(told))),
            Some(Err(error)) => Self::Answer(ForwardOutcome::Failed(error)),
            None => Self::Engine(Hop::FromGateway),
        }
    }

    fn failed(trouble: Trouble, cluster: &Arc<str>) -> Self {
        Self::Answer(ForwardOutcome::Failed(trouble.to_error(cluster)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            session: SessionId(7),
            peer_url: "http://gateway-0".into(),
        }
    }

    fn after(took_ms: u64, said: Option<ForwardOutcome>) -> Course {
        Course::after_owner(&owner(), &"a".into(), Millis::from_ms(took_ms), said)
    }

    #[test]
    fn not_mine_is_looked_up_once_more_while_there_is_time_for_it() {
        let soon = after(10, Some(ForwardOutcome::NotTheirs));
        assert_eq!(soon, Course::Engine(Hop::NotTheirs(SessionId(7))));
        let late = after(1_000, Some(ForwardOutcome::NotTheirs));
        assert_eq!(
            late,
            Course::failed(Trouble::OtherOwner, &"a".into()),
            "the client is answered in time, and tries again"
        );
    }

    #[test]
    fn nobody_answers_for_an_owner_that_could_not_be_asked() {
        let course = after(10, None);
        assert_eq!(course, Course::failed(Trouble::OtherOwner, &"a".into()));
    }
}
