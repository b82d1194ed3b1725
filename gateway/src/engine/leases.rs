//! The leases that waiters' keys hang from: the session's own for the first thousand, then others that are
//! kept alive, and given up, with it.

use crate::engine::Engine;
use crate::engine::calls::Purpose;
use crate::engine::later::Task;
use crate::limits;
use holdfast_store::{LeaseId, Op};

/// The leases beside the session's.
#[derive(Debug, Default)]
pub(crate) struct LineLeases {
    /// How many keys hang from the session's.
    on_session: usize,
    others: Vec<(LeaseId, usize)>,
    asked: Option<LeaseId>,
}

/// Where a key may hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    On(LeaseId),
    /// A lease is asked for.
    Coming,
    /// One must be asked for.
    None,
}

impl LineLeases {
    /// A lease for one more key.
    pub(crate) fn take(&mut self, session: LeaseId) -> Hook {
        if self.on_session < limits::LEASE_WAITERS_MAX {
            self.on_session += 1;
            return Hook::On(session);
        }
        let room = |(_, used): &&mut (LeaseId, usize)| *used < limits::LEASE_WAITERS_MAX;
        match self.others.iter_mut().find(room) {
            Some((lease, used)) => {
                *used += 1;
                Hook::On(*lease)
            }
            None if self.asked.is_some() => Hook::Coming,
            None => Hook::None,
        }
    }

    /// A key is gone. Tells a lease from which nothing hangs any more.
    pub(crate) fn give_back(&mut self, lease: LeaseId, session: LeaseId) -> Option<LeaseId> {
        if lease == session {
            self.on_session = self.on_session.saturating_sub(1);
            return None;
        }
        // It may have been lost.
        let at = self.others.iter().position(|(known, _)| *known == lease)?;
        let (_, used) = self.others.get_mut(at)?;
        *used = used.saturating_sub(1);
        (*used == 0).then(|| self.others.swap_remove(at).0)
    }

    pub(crate) fn ask(&mut self, lease: LeaseId) {
        self.asked = Some(lease);
    }

    /// The lease that was asked for is there.
    pub(crate) fn granted(&mut self, lease: LeaseId) {
        if self.asked == Some(lease) {
            self.asked = None;
            self.others.push((lease, 0));
        }
    }

    /// The lease that was asked for did not come: another may be asked for.
    pub(crate) fn refused(&mut self, lease: LeaseId) {
        self.asked = self.asked.filter(|asked| *asked != lease);
    }

    /// The lease is gone, and what hung from it; tells whether it was one of these.
    pub(crate) fn lost(&mut self, lease: LeaseId) -> bool {
        let before = self.others.len();
        self.others.retain(|(known, _)| *known != lease);
        self.others.len() < before
    }

    /// Those that a round keeps alive.
    pub(crate) fn kept(&self) -> impl Iterator<Item = LeaseId> {
        self.others.iter().map(|(lease, _)| *lease)
    }
}

impl Engine {
    pub(crate) fn is_line_lease(&self, lease: LeaseId) -> bool {
        let own = self.session.live().map(|live| live.lease);
        own == Some(lease) || self.line_leases.kept().any(|kept| kept == lease)
    }

    pub(crate) fn ask_line_lease(&mut self) {
        let lease = self.new_lease_id();
        self.line_leases.ask(lease);
        let op = Op::LeaseGrant {
            lease,
            ttl_s: self.session_ttl_s(),
        };
        self.call(op, limits::CALL_TIMEOUT, Purpose::LineLease(lease));
    }

    pub(crate) fn on_line_lease(&mut self, lease: LeaseId, granted: bool) {
        if granted {
            self.line_leases.granted(lease);
            self.lines.touch_all();
        } else {
            self.do_later(limits::RETRY_BACKOFF, Task::AskLineLease(lease));
        }
    }

    /// Those who wait for a lease may ask for another.
    pub(crate) fn line_lease_refused(&mut self, lease: LeaseId) {
        self.line_leases.refused(lease);
        self.lines.touch_all();
    }

    pub(crate) fn lease_freed(&mut self, lease: LeaseId) {
        let Some(session) = self.session.live().map(|live| live.lease) else {
            return;
        };
        if let Some(unused) = self.line_leases.give_back(lease, session) {
            self.revoke(unused);
        }
    }

    /// A keepalive found the lease gone.
    pub(crate) fn line_lease_lost(&mut self, lease: LeaseId) {
        if self.line_leases.lost(lease) {
            self.lines.look_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: LeaseId = LeaseId(1);

    #[test]
    fn a_thousand_hang_from_the_session_and_the_others_from_leases_that_come_and_go() {
        let mut leases = LineLeases::default();
        for _ in 0..limits::LEASE_WAITERS_MAX {
            assert_eq!(leases.take(SESSION), Hook::On(SESSION));
        }
        assert_eq!(leases.take(SESSION), Hook::None);
        leases.ask(LeaseId(2));
        assert_eq!(leases.take(SESSION), Hook::Coming);
        leases.granted(LeaseId(2));
        assert_eq!(leases.take(SESSION), Hook::On(LeaseId(2)));
        assert_eq!(leases.kept().collect::<Vec<_>>(), [LeaseId(2)]);
        assert_eq!(leases.give_back(SESSION, SESSION), None);
        assert_eq!(leases.take(SESSION), Hook::On(SESSION));
        assert_eq!(
            leases.give_back(LeaseId(2), SESSION),
            Some(LeaseId(2)),
            "nothing hangs from it"
        );
        assert_eq!(leases.kept().count(), 0);
    }

    #[test]
    fn keys_of_a_lease_that_is_lost_make_no_room_on_the_sessions() {
        let mut leases = LineLeases::default();
        while leases.take(SESSION) != Hook::None {}
        leases.ask(LeaseId(2));
        leases.granted(LeaseId(2));
        assert_eq!(leases.take(SESSION), Hook::On(LeaseId(2)));
        assert!(leases.lost(LeaseId(2)));
        assert_eq!(leases.give_back(LeaseId(2), SESSION), None);
        assert_eq!(leases.take(SESSION), Hook::None);
    }

    #[test]
    fn a_lease_that_is_not_granted_is_asked_for_again() {
        let mut leases = LineLeases::default();
        while leases.take(SESSION) != Hook::None {}
        leases.ask(LeaseId(2));
        assert_eq!(leases.take(SESSION), Hook::Coming);
        leases.refused(LeaseId(2));
        assert_eq!(leases.take(SESSION), Hook::None);
    }
}
