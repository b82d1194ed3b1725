//! When to renew, when to try again, when the hold is lost: a state machine over values. Time and
//! events come in, steps go out; the shell in [`super::task`] carries them out.
//!
//! Calling order: ask [`HoldState::step`] until it says [`Step::Wait`] or [`Step::Over`]; then
//! wait for that moment or an event, hand the event to [`HoldState::on`], and ask again.

use crate::backoff::Backoff;
use crate::clock::Instant;
use crate::error::{Error, Refused};
use crate::limits::{TRY_SHARE, TRY_TIMEOUT_MIN};
use crate::types::Promise;
use holdfast_api::EndReason;
use std::time::Duration;

/// Why a hold is over although it was not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The promise ended before a renewal was answered.
    Deadline,
    /// The gateway said so: a 409.
    Ended(EndReason),
}

/// What to ask the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A renewal.
    Renew,
    /// A release.
    Release,
}

/// How long a release is repeated while it is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Until it is answered.
    UntilAnswered,
    /// Until the promise ends: then the hold ends by itself.
    UntilDeadline,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The answer to the renewal that was asked for last.
    Renewed(Result<Promise, Error>),
    /// The answer to the release that was asked for last.
    Released(Result<(), Error>),
    /// The holder wants no more. An answer to a renewal that is still outstanding is not to be
    /// reported any more.
    Release(Patience),
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ask, and report the answer, or that none came within the time.
    Send(Ask, Duration),
    /// Tell the holder that the hold is lost. Said once.
    SignalLoss(Loss),
    /// Nothing until this moment, or until an event; `None`: until an event.
    Wait(Option<Instant>),
    /// Nothing ever again.
    Over,
}

/// One hold, from its grant on.
#[derive(Debug)]
pub struct HoldState {
    promise: Promise,
    phase: Phase,
    asking: bool,
    next_try: Instant,
    backoff: Backoff,
    timeout_max: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Held,
    Lost(Loss, Signalled),
    Releasing(Patience),
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signalled {
    NotYet,
    Yes,
}

impl HoldState {
    /// A hold with this promise. No request is given more time than `timeout_max`; the seed
    /// decides the jitter of pauses.
    pub fn new(promise: Promise, timeout_max: Duration, seed: u64) -> Self {
        Self {
            promise,
            phase: Phase::Held,
            asking: false,
            next_try: promise.renew_at,
            backoff: Backoff::new(seed),
            timeout_max,
        }
    }

    /// The end of the promise. The holder may go on while the time is *before* it.
    pub fn until(&self) -> Instant {
        self.promise.until
    }

    /// What to do at `now`.
    pub fn step(&mut self, now: Instant) -> Step {
        if self.phase == Phase::Held && now >= self.promise.until {
            self.lose(Loss::Deadline);
        }
        match self.phase {
            Phase::Over => Step::Over,
            Phase::Lost(loss, Signalled::NotYet) => {
                self.phase = Phase::Lost(loss, Signalled::Yes);
                Step::SignalLoss(loss)
            }
            Phase::Lost(_, Signalled::Yes) => Step::Wait(None),
            Phase::Held => self.ask_or_wait(Ask::Renew, now, Some(self.promise.until)),
            Phase::Releasing(Patience::UntilAnswered) => self.ask_or_wait(Ask::Release, now, None),
            Phase::Releasing(Patience::UntilDeadline) if now >= self.promise.until => {
                self.phase = Phase::Over;
                Step::Over
            }
            Phase::Releasing(Patience::UntilDeadline) => {
                self.ask_or_wait(Ask::Release, now, Some(self.promise.until))
            }
        }
    }

    /// Takes note of what happened at `now`.
    pub fn on(&mut self, event: Event, now: Instant) {
        match event {
            Event::Release(patience) => self.release(patience, now),
            Event::Renewed(answer) if self.phase == Phase::Held => {
                self.asking = false;
                self.renewed(answer, now);
            }
            Event::Released(answer) if matches!(self.phase, Phase::Releasing(_)) => {
                self.asking = false;
                match answer {
                    // A token mismatch is an answer too: nothing is held by this id and token.
                    Ok(()) | Err(Error::Refused(_)) => self.phase = Phase::Over,
                    Err(error) => self.try_again(&error, now),
                }
            }
            Event::Renewed(_) | Event::Released(_) => {}
        }
    }

    fn renewed(&mut self, answer: Result<Promise, Error>, now: Instant) {
        match answer {
            // Between the end of the promise and this answer nobody knew whether the lock was
            // held, so the answer comes too late to undo the loss.
            Ok(_) if now >= self.promise.until => self.lose(Loss::Deadline),
            Ok(promise) => {
                self.promise.until = self.promise.until.max(promise.until);
                self.next_try = promise.renew_at;
                self.backoff.reset();
            }
            Err(Error::Refused(Refused::Ended(reason))) => self.lose(Loss::Ended(reason)),
            Err(error) => self.try_again(&error, now),
        }
    }

    fn release(&mut self, patience: Patience, now: Instant) {
        match self.phase {
            Phase::Over => {}
            // The gateway has said that nothing is held. After a missed deadline it may be.
            Phase::Lost(Loss::Ended(_), _) => self.phase = Phase::Over,
            Phase::Releasing(_) => self.phase = Phase::Releasing(patience),
            Phase::Held | Phase::Lost(Loss::Deadline, _) => {
                self.phase = Phase::Releasing(patience);
                self.asking = false;
                self.backoff.reset();
                self.next_try = now;
            }
        }
    }

    fn lose(&mut self, loss: Loss) {
        self.phase = Phase::Lost(loss, Signalled::NotYet);
    }

    fn try_again(&mut self, error: &Error, now: Instant) {
        // A gateway that asks for a longer pause than the promise allows is asked once more
        // while there is time.
        let left = self.promise.until.since(now) / TRY_SHARE;
        let wanted = match self.phase {
            Phase::Held => error.retry_after().map(|wanted| wanted.min(left)),
            _ => error.retry_after(),
        };
        self.next_try = now + self.backoff.pause(wanted);
    }

    fn ask_or_wait(&mut self, ask: Ask, now: Instant, end: Option<Instant>) -> Step {
        if self.asking {
            return Step::Wait(end);
        }
        if now < self.next_try {
            let next = end.map_or(self.next_try, |end| end.min(self.next_try));
            return Step::Wait(Some(next));
        }
        self.asking = true;
        let left = end.map_or(Duration::MAX, |end| end.since(now));
        let share = (left / TRY_SHARE).max(TRY_TIMEOUT_MIN).min(left);
        Step::Send(ask, share.min(self.timeout_max))
    }
}
