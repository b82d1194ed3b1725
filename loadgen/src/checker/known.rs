//! What was told about one name, and the rules.

use super::history::History;
use holdfast_api::EndReason;
use holdfast_client::{Granted, Instant, LockId, Promise, Token};
use std::time::Duration;

/// When a request was sent and its answer received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// Not later than the first byte left.
    pub(crate) sent: Instant,
    /// Not earlier than the last byte came.
    pub(crate) received: Instant,
}

/// Who was granted a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The one whose lock it is in this run.
    Holder,
    /// One that tries to get it nevertheless.
    Contender,
}

/// A contender's hold.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    /// The handle.
    pub(crate) id: LockId,
    /// The token.
    pub(crate) token: Token,
    /// The end of its promise, or the sending of its release.
    pub(crate) until: Instant,
}

/// What must not be. `left` is how long a promise would still have lasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A promise ended without a renewal.
    Lost,
    /// A grant whose token is not above that of an earlier grant.
    TokenNotGrown { token: Token, earlier: Token },
    /// One hold was told with two tokens.
    TokenChanged { token: Token, earlier: Token },
    /// A promise was made while another hold's promise for the name lasted.
    Overlap { to: Who, left: Duration },
    /// A hold was renewed although a later one had been granted.
    Revived { token: Token, later: Token },
    /// A promise is longer than was asked for.
    PromiseTooLong { told: Duration, asked: Duration },
    /// A 409 while the promise lasted.
    FalseLoss { reason: EndReason, left: Duration },
    /// A release with the hold's own token was refused.
    ReleaseRefused,
}

/// Whether a hold goes on after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does.
    Held,
    /// The promise had ended before the answer came.
    Lost,
}

/// What was told about one name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The holder's last hold, unless it is known to be over.
    id: Option<LockId>,
    token: Token,
    /// The highest token told for the name, and when it was told.
    top: Token,
    top_at: Instant,
    /// The end of the holder's promise; counts while `live`.
    until: Instant,
    live: bool,
    /// What happened to it last.
    pub(crate) history: History,
}

impl Known {
    /// The holder's handle and token.
    pub(crate) fn hold(&self) -> Option<(&LockId, Token)> {
        self.id.as_ref().map(|id| (id, self.token))
    }

    /// The end of the holder's promise.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// When the highest token of the name was told.
    pub(crate) fn told_at(&self) -> Instant {
        self.top_at
    }

    /// Takes note of a grant and says what is wrong with it.
    pub(crate) fn granted(
        &mut self,
        who: Who,
        grant: &Granted,
        at: At,
        asked: Duration,
        foreign: Option<&Foreign>,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        let known = match who {
            Who::Holder => self.hold(),
            Who::Contender => foreign.map(|hold| (&hold.id, hold.token)),
        };
        let same = known.filter(|(id, _)| **id == grant.lock_id);
        let same = same.map(|(_, token)| token);
        if let Some(earlier) = same
            && earlier != grant.token
        {
            let token = grant.token;
            found.push(Violation::TokenChanged { token, earlier });
        }
        found.extend(self.token_rule(same.is_some(), grant.token, at));
        found.extend(too_long(&grant.promise, at, asked));
        // To a contender the holder's own handle is not the same: that is someone else's.
        if self.live && same.is_none() {
            found.extend(overlap(who, self.until, &grant.promise, at));
        }
        if let (Who::Holder, Some(foreign)) = (who, foreign) {
            found.extend(overlap(who, foreign.until, &grant.promise, at));
        }
        if grant.token >= self.top {
            self.top = grant.token;
            self.top_at = at.received;
        }
        if who == Who::Holder {
            let extends = self.live && same.is_some();
            let before = if extends { self.until } else { Instant::ZERO };
            self.until = before.max(grant.promise.until);
            self.live = true;
            self.token = grant.token;
            self.id = Some(grant.lock_id.clone());
        }
        found
    }

    fn token_rule(&self, same_hold: bool, token: Token, at: At) -> Option<Violation> {
        let asked_afterwards = at.sent >= self.top_at;
        let fine = match (asked_afterwards, same_hold) {
            (true, true) => token >= self.top,
            (true, false) => token > self.top,
            // Either may have been granted first; but not with one token.
            (false, same) => same || token != self.top,
        };
        (!fine).then_some(Violation::TokenNotGrown {
            token,
            earlier: self.top,
        })
    }

    /// Takes note of a renewal and says what is wrong with it.
    pub(crate) fn renewed(
        &mut self,
        promise: &Promise,
        at: At,
        asked: Duration,
        foreign: Option<&Foreign>,
    ) -> (Standing, Vec<Violation>) {
        let mut found = Vec::new();
        found.extend(too_long(promise, at, asked));
        if self.token < self.top && at.sent >= self.top_at {
            found.push(Violation::Revived {
                token: self.token,
                later: self.top,
            });
        }
        if let Some(foreign) = foreign {
            found.extend(overlap(Who::Holder, foreign.until, promise, at));
        }
        if let Some(lost) = self.lost(at.received) {
            found.push(lost);
            return (Standing::Lost, found);
        }
        self.until = self.until.max(promise.until);
        (Standing::Held, found)
    }

    /// Takes note of a 409 to a renewal and says what is wrong with it.
    pub(crate) fn ended(&mut self, reason: EndReason, at: At) -> Option<Violation> {
        let live = self.live;
        self.over();
        let left = self.until.since(at.received);
        self.until = self.until.min(at.received);
        match (live, left) {
            (false, _) => None,
            // The promise had ended when the answer came: it may have been true when it was given.
            (true, Duration::ZERO) => Some(Violation::Lost),
            (true, left) => Some(Violation::FalseLoss { reason, left }),
        }
    }

    /// The time has come to `now`: says so if the promise has ended.
    pub(crate) fn lost(&mut self, now: Instant) -> Option<Violation> {
        if !self.live || now < self.until {
            return None;
        }
        self.live = false;
        Some(Violation::Lost)
    }

    /// From now on the holder does not rely on its promise: a release is sent.
    pub(crate) fn release_sent(&mut self) {
        self.live = false;
    }

    /// A release was answered 204: the handle holds nothing any more.
    pub(crate) fn released(&mut self) {
        self.over();
    }

    /// A release was refused although it had the hold's own token.
    pub(crate) fn release_refused(&mut self) -> Violation {
        self.over();
        Violation::ReleaseRefused
    }

    fn over(&mut self) {
        self.live = false;
        self.id = None;
    }
}

fn too_long(promise: &Promise, at: At, asked: Duration) -> Option<Violation> {
    let told = promise.until.since(at.sent);
    (told > asked).then_some(Violation::PromiseTooLong { told, asked })
}

/// Whether the promise made to `to` certainly begins before the other, which lasts `until`, ends.
fn overlap(to: Who, until: Instant, promise: &Promise, at: At) -> Option<Violation> {
    let left = until.min(promise.until).since(at.received);
    (!left.is_zero()).then_some(Violation::Overlap { to, left })
}

impl Violation {
    /// The kind, for programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::TokenNotGrown { .. } => "token_not_grown",
            Self::TokenChanged { .. } => "token_changed",
            Self::Overlap { .. } => "overlap",
            Self::Revived { .. } => "revived",
            Self::PromiseTooLong { .. } => "promise_too_long",
            Self::FalseLoss { .. } => "false_loss",
            Self::ReleaseRefused => "release_refused",
        }
    }

    /// In words.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Lost => "the promise ended without a renewal".to_owned(),
            Self::TokenNotGrown { token, earlier } => {
                format!("granted with token {} after {}", token.0, earlier.0)
            }
            Self::TokenChanged { token, earlier } => {
                format!("one hold has token {} and {}", earlier.0, token.0)
            }
            Self::Overlap { to, left } => format!(
                "a promise to the {} while another lasts for {} ms more",
                match to {
                    Who::Holder => "holder",
                    Who::Contender => "contender",
                },
                left.as_millis()
            ),
            Self::Revived { token, later } => {
                format!("token {} renewed after {} was granted", token.0, later.0)
            }
            Self::PromiseTooLong { told, asked } => format!(
                "{} ms promised, {} ms asked for",
                told.as_millis(),
                asked.as_millis()
            ),
            Self::FalseLoss { reason, left } => format!(
                "answered {} while the promise lasts for {} ms more",
                match reason {
                    EndReason::Expired => "expired",
                    EndReason::Stolen => "stolen",
                },
                left.as_millis()
            ),
            Self::ReleaseRefused => "a release with the hold's own token was refused".to_owned(),
        }
    }
}
