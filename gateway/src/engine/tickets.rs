//! Requests that wait for an answer. Each is answered exactly once, and in bounded time.

use crate::engine::records::SessionId;
use crate::engine::{Effect, Engine};
use crate::limits;
use crate::service::{
    Acquire, AcquireOutcome, CloseOutcome, Forward, ForwardOutcome, ReleaseOutcome, RenewOutcome,
    ServiceError,
};
use crate::time::{Instant, Millis};
use holdfast_api::ErrorCode;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A request, as the shell numbers it. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`crate::engine::Input::Acquire`].
    Acquire(Result<AcquireOutcome, ServiceError>),
    /// To [`crate::engine::Input::Renew`].
    Renew(Result<RenewOutcome, ServiceError>),
    /// To [`crate::engine::Input::Release`].
    Release(Result<ReleaseOutcome, ServiceError>),
    /// To [`crate::engine::Input::ForceRelease`].
    Close(Result<CloseOutcome, ServiceError>),
}

impl Answer {
    /// What the gateway that has forwarded the request is told; `None` to an acquire, which never
    /// comes so.
    pub fn into_forwarded(self) -> Option<ForwardOutcome> {
        match self {
            Self::Acquire(_) => None,
            Self::Renew(answer) => {
                Some(answer.map_or_else(ForwardOutcome::Failed, ForwardOutcome::Renew))
            }
            Self::Release(answer) => {
                Some(answer.map_or_else(ForwardOutcome::Failed, ForwardOutcome::Release))
            }
            Self::Close(answer) => {
                Some(answer.map_or_else(ForwardOutcome::Failed, ForwardOutcome::Close))
            }
        }
    }
}

/// Which kind of answer a ticket wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
    Close,
}

impl Kind {
    pub(crate) fn of(forward: &Forward) -> Self {
        match forward {
            Forward::Renew(_) => Self::Renew,
            Forward::Release(_) => Self::Release,
            Forward::Close(_) => Self::Close,
        }
    }
}

/// Where a request comes from, which says whether another gateway may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// From a client. At most two sessions are asked, one after the other.
    Client {
        /// The one that was asked last.
        asked: Option<SessionId>,
        /// How many may still be asked.
        left: u8,
    },
    /// From another gateway: what comes so goes no further.
    Gateway,
}

impl Via {
    pub(crate) const CLIENT: Self = Self::Client {
        asked: None,
        left: 2,
    };

    pub(crate) fn after(asked: SessionId) -> Self {
        Self::Client {
            asked: Some(asked),
            left: 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    kind: Kind,
    via: Via,
    /// When it was asked, here or of another engine of this gateway,
    since: Instant,
    /// and how often it has gone on.
    hops: u8,
    /// Nobody waits for its answer any more.
    abandoned: bool,
    /// When it is answered at the latest, if that is not in the order in which requests come.
    out_of_order: Option<Instant>,
}

/// Why there is no definite answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The session in the cluster is not proven, or the cluster is not reached.
    Unproven,
    /// Home was not seen since the start.
    HomeUnseen,
    /// etcd has no space left.
    NoSpace,
    /// The group's records are being read after a takeover.
    Loading,
    /// Another gateway owns the lock.
    OtherOwner,
    /// The owner's session is over and its groups are not claimed yet.
    Unclaimed,
    /// A write may or may not have happened.
    Unknown,
    /// The shard's guard does not admit this.
    Moving,
    /// More requests than may wait.
    Overloaded,
    /// More requests stand in line for a name than may.
    LineFull,
    /// The client waits for more names than it may.
    WaitsTooOften,
    /// The principal has as many locks at this gateway as it may.
    QuotaFull,
    /// This gateway is about to stop.
    Draining,
}

impl Trouble {
    fn parts(self) -> (ErrorCode, u64, &'static str) {
        use ErrorCode as Code;
        match self {
            Self::Unproven => (
                Code::ClusterUnavailable,
                500,
                "this gateway's session in the etcd cluster is not proven at the moment, so \
                 nothing is known about the lock; retry, through any gateway",
            ),
            Self::HomeUnseen => (
                Code::ClusterUnavailable,
                1000,
                "the shard map has not been confirmed by the home cluster since this gateway \
                 started, so nothing is granted; retry, through any gateway",
            ),
            Self::NoSpace => (
                Code::ClusterUnavailable,
                5000,
                "the etcd cluster has no space left and takes no new locks; renewals and \
                 releases go on; retry later",
            ),
            Self::Loading => (
                Code::OwnerUnreachable,
                200,
                "the lock's group was taken over and its records are being read; retry",
            ),
            Self::OtherOwner => (
                Code::OwnerUnreachable,
                500,
                "the gateway that owns the lock does not answer, and its session has not ended; \
                 retry, until it answers again or another has taken over",
            ),
            Self::Unclaimed => (
                Code::OwnerUnreachable,
                200,
                "the gateway that owned the lock is gone and its locks are being taken over; \
                 retry",
            ),
            Self::Unknown => (
                Code::OutcomeUnknown,
                200,
                "it is not known whether etcd carried this out; repeat the request",
            ),
            Self::Moving => (
                Code::ShardMoving,
                500,
                "the shard of this name is moving between clusters or has no guard here; retry",
            ),
            Self::Overloaded => (
                Code::Overloaded,
                1000,
                "more requests are waiting for this cluster than may; slow down and retry",
            ),
            Self::LineFull => (
                Code::Overloaded,
                5000,
                "more requests wait in line for this name, or through this gateway, than may; ask \
                 again without `waitMs`, or later",
            ),
            Self::WaitsTooOften => (
                Code::QuotaExceeded,
                5000,
                "this client waits in more lines at once than it may; let some of its requests end \
                 first",
            ),
            Self::QuotaFull => (
                Code::QuotaExceeded,
                1000,
                "the principal has as many locks at this gateway as it may; release some, or let \
                 them end, and retry",
            ),
            Self::Draining => (
                Code::Draining,
                100,
                "this gateway is about to stop; retry through another",
            ),
        }
    }

    pub(crate) fn to_error(self, cluster: &Arc<str>) -> ServiceError {
        let (code, retry_after_ms, detail) = self.parts();
        ServiceError {
            code,
            detail,
            retry_after: Millis::from_ms(retry_after_ms),
            // A quota is of all clusters together.
            cluster: (self != Self::QuotaFull).then(|| Arc::clone(cluster)),
        }
    }
}

/// The open requests.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    open: HashMap<Ticket, Open>,
    /// Those that were asked here, in that order, which is that of their deadlines.
    by_deadline: VecDeque<(Instant, Ticket)>,
    /// Those that have come from another engine, which were asked earlier, and those that may wait.
    out_of_order: BTreeSet<(Instant, Ticket)>,
}

impl Tickets {
    /// How many are not answered yet.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_open(&self, ticket: Ticket) -> bool {
        self.open.contains_key(&ticket)
    }

    /// Whether somebody waits for its answer.
    pub(crate) fn is_wanted(&self, ticket: Ticket) -> bool {
        let open = self.open.get(&ticket);
        open.is_some_and(|open| !open.abandoned)
    }

    /// Nobody waits for its answer any more.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        if let Some(open) = self.open.get_mut(&ticket) {
            open.abandoned = true;
        }
    }

    pub(crate) fn kind(&self, ticket: Ticket) -> Option<Kind> {
        self.open.get(&ticket).map(|open| open.kind)
    }

    pub(crate) fn via(&self, ticket: Ticket) -> Option<Via> {
        self.open.get(&ticket).map(|open| open.via)
    }

    pub(crate) fn set_via(&mut self, ticket: Ticket, via: Via) {
        if let Some(open) = self.open.get_mut(&ticket) {
            open.via = via;
        }
    }

    /// What goes on with a request to another engine.
    pub(crate) fn of_onward(&self, ticket: Ticket) -> Option<(Via, Instant, u8)> {
        let open = self.open.get(&ticket)?;
        Some((open.via, open.since, open.hops))
    }

    /// Whether the request has come from another engine.
    pub(crate) fn has_come_on(&self, ticket: Ticket) -> bool {
        self.open.get(&ticket).is_some_and(|open| open.hops > 0)
    }

    /// The request is answered, or another engine's now.
    pub(crate) fn close(&mut self, ticket: Ticket) -> Option<Open> {
        let open = self.open.remove(&ticket)?;
        if let Some(deadline) = open.out_of_order {
            self.out_of_order.remove(&(deadline, ticket));
        }
        Some(open)
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        let asked = self.by_deadline.front();
        let out_of_order = self.out_of_order.first();
        let first = asked.into_iter().chain(out_of_order).min();
        first.map(|(deadline, _)| *deadline)
    }

    fn wait_until(&mut self, deadline: Instant, ticket: Ticket, in_order: bool) {
        if in_order {
            self.by_deadline.push_back((deadline, ticket));
        } else if let Some(open) = self.open.get_mut(&ticket) {
            open.out_of_order = Some(deadline);
            self.out_of_order.insert((deadline, ticket));
        }
    }

    /// Takes out one whose time has passed, or that was answered and is in the way of seeing so.
    fn pop_late(&mut self, now: Instant) -> Option<Ticket> {
        let is_over = |(deadline, ticket): &(Instant, Ticket)| {
            *deadline <= now || !self.open.contains_key(ticket)
        };
        if self.by_deadline.front().is_some_and(is_over) {
            return self.by_deadline.pop_front().map(|(_, ticket)| ticket);
        }
        // Those that were answered are not among these.
        let late = self.out_of_order.first().copied();
        let late = late.filter(|(deadline, _)| *deadline <= now)?;
        self.out_of_order.remove(&late);
        Some(late.1)
    }

    fn take_all(&mut self) -> impl Iterator<Item = Ticket> + use<> {
        let asked = std::mem::take(&mut self.by_deadline);
        let out_of_order = std::mem::take(&mut self.out_of_order);
        asked
            .into_iter()
            .chain(out_of_order)
            .map(|(_, ticket)| ticket)
    }
}

impl Engine {
    /// Opens a request, or answers it at once where the cluster can answer nothing.
    pub(crate) fn open_ticket(&mut self, ticket: Ticket, kind: Kind, via: Via) -> bool {
        self.open_ticket_since(ticket, kind, via, (self.now, 0))
    }

    /// As [`Engine::open_ticket`], for one that was asked then and has gone on so often.
    pub(crate) fn open_ticket_since(
        &mut self,
        ticket: Ticket,
        kind: Kind,
        via: Via,
        since: (Instant, u8),
    ) -> bool {
        self.open(ticket, kind, via, since, Millis::ZERO)
    }

    /// As [`Engine::open_ticket_since`], for an acquire, which may wait.
    pub(crate) fn open_acquire(
        &mut self,
        ticket: Ticket,
        acquire: &Acquire,
        via: Via,
        since: (Instant, u8),
    ) -> bool {
        self.open(ticket, Kind::Acquire, via, since, acquire.wait)
    }

    fn open(
        &mut self,
        ticket: Ticket,
        kind: Kind,
        via: Via,
        (since, hops): (Instant, u8),
        wait: Millis,
    ) -> bool {
        let open = Open {
            kind,
            via,
            since,
            hops,
            abandoned: false,
            out_of_order: None,
        };
        self.tickets.open.insert(ticket, open);
        // Acquires leave half of the places to renewals and releases.
        let open_max = match kind {
            Kind::Acquire => limits::OPEN_REQUESTS_MAX / 2,
            Kind::Renew | Kind::Release | Kind::Close => limits::OPEN_REQUESTS_MAX,
        };
        // Those who stand in line have limits of their own.
        let busy = self.tickets.open.len().saturating_sub(self.lines.len());
        let crowded = busy > open_max;
        let trouble = self.proof.trouble(self.now);
        let refusal = trouble.or(crowded.then_some(Trouble::Overloaded));
        if let Some(trouble) = refusal {
            self.fail(ticket, trouble);
            return false;
        }
        let deadline = since + wait + limits::REQUEST_TIMEOUT;
        let in_order = hops == 0 && wait == Millis::ZERO;
        self.tickets.wait_until(deadline, ticket, in_order);
        true
    }

    pub(crate) fn answer_acquire(&mut self, ticket: Ticket, outcome: AcquireOutcome) {
        self.answer(ticket, Answer::Acquire(Ok(outcome)));
    }

    pub(crate) fn answer_renew(&mut self, ticket: Ticket, outcome: RenewOutcome) {
        self.answer(ticket, Answer::Renew(Ok(outcome)));
    }

    pub(crate) fn answer_release(&mut self, ticket: Ticket, outcome: ReleaseOutcome) {
        self.answer(ticket, Answer::Release(Ok(outcome)));
    }

    pub(crate) fn answer_close(&mut self, ticket: Ticket, outcome: CloseOutcome) {
        self.answer(ticket, Answer::Close(Ok(outcome)));
    }

    /// Gives a definite answer. Without a proven session there is none (ONE-ANSWER).
    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if !self.is_proven() {
            self.fail(ticket, Trouble::Unknown);
        } else {
            self.pass_on(ticket, answer);
        }
    }

    /// Gives an answer that does not rest on this gateway's own session: what another gateway said.
    pub(crate) fn pass_on(&mut self, ticket: Ticket, answer: Answer) {
        if self.tickets.close(ticket).is_some() {
            self.wait_over(ticket);
            self.out.push(Effect::Answer(ticket, answer));
        }
    }

    /// Says that there is no definite answer.
    pub(crate) fn fail(&mut self, ticket: Ticket, trouble: Trouble) {
        self.fail_with(ticket, trouble.to_error(&self.settings.cluster));
    }

    pub(crate) fn fail_with(&mut self, ticket: Ticket, error: ServiceError) {
        let Some(open) = self.tickets.close(ticket) else {
            return;
        };
        self.wait_over(ticket);
        let answer = match open.kind {
            Kind::Acquire => Answer::Acquire(Err(error)),
            Kind::Renew => Answer::Renew(Err(error)),
            Kind::Release => Answer::Release(Err(error)),
            Kind::Close => Answer::Close(Err(error)),
        };
        self.out.push(Effect::Answer(ticket, answer));
    }

    pub(crate) fn time_out_tickets(&mut self) {
        while let Some(ticket) = self.tickets.pop_late(self.now) {
            let trouble = if self.is_proven() {
                Trouble::Unknown
            } else {
                Trouble::Unproven
            };
            self.fail(ticket, trouble);
        }
    }

    /// Answers everything that waits: nothing is known of any of it.
    pub(crate) fn fail_all_tickets(&mut self, trouble: Trouble) {
        for ticket in self.tickets.take_all() {
            self.fail(ticket, trouble);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(tickets: &mut Tickets, number: u64, deadline_ms: u64) -> Ticket {
        let ticket = Ticket(number);
        let open = Open {
            kind: Kind::Acquire,
            via: Via::CLIENT,
            since: Instant::NEVER,
            hops: 0,
            abandoned: false,
            out_of_order: None,
        };
        tickets.open.insert(ticket, open);
        tickets.wait_until(Instant::from_ms(deadline_ms), ticket, false);
        ticket
    }

    /// A thousand may be granted at once while one waits for half a minute.
    #[test]
    fn of_requests_that_may_wait_nothing_is_left_when_they_are_answered() {
        let mut tickets = Tickets::default();
        let waits = open(&mut tickets, 0, 30_000);
        for number in 1..=1_000 {
            let ticket = open(&mut tickets, number, 30_000 + number);
            assert!(tickets.close(ticket).is_some());
        }
        assert_eq!((tickets.open.len(), tickets.out_of_order.len()), (1, 1));
        assert_eq!(tickets.pop_late(Instant::from_ms(29_999)), None);
        assert_eq!(tickets.pop_late(Instant::from_ms(30_000)), Some(waits));
        assert_eq!(tickets.next_wakeup(), None);
    }
}
