//! What was asked, when in the run, and what came of it, in one byte each.

use holdfast_api::{EndReason, ErrorCode, RefusalReason};
use holdfast_client::{Cause, Error, Granted, Refused};

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    /// A holder's acquire.
    Acquire,
    /// A renewal.
    Renew,
    /// A holder's release.
    Release,
    /// A contender's acquire.
    Contend,
    /// A contender's release.
    Return,
}

impl Op {
    pub(crate) const ALL: [Self; 5] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Contend,
        Self::Return,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Contend => "contend",
            Self::Return => "return",
        }
    }
}

/// When in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Until every lock was held once. Locks that are held are renewed already.
    Acquire,
    /// For the duration.
    Hold,
    /// Until every lock is free. Locks that are still held are renewed.
    Release,
}

impl Phase {
    pub(crate) const ALL: [Self; 3] = [Self::Acquire, Self::Hold, Self::Release];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Hold => "hold",
            Self::Release => "release",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Outcome(u8);

/// The outcomes that are not error codes of the API.
const OWN: [&str; 18] = [
    "granted",
    "already_held",
    "held",
    "held_by_you",
    "wait_timeout",
    "renewed",
    "expired",
    "stolen",
    "released",
    "token_mismatch",
    "no_answer_in_time",
    "connection_broken",
    "not_sent",
    "garbled",
    "http_500",
    "http_502",
    "http_504",
    "http_other",
];

impl Outcome {
    /// How many there are.
    pub(crate) const COUNT: usize = OWN.len() + ErrorCode::ALL.len();
    /// Those that did what was asked.
    pub(crate) const GOOD: [Self; 4] = [Self(0), Self(1), Self::RENEWED, Self::RELEASED];
    pub(crate) const RENEWED: Self = Self(5);
    pub(crate) const RELEASED: Self = Self(8);

    pub(crate) fn of_grant(granted: &Granted) -> Self {
        Self(u8::from(granted.already_held))
    }

    pub(crate) fn of_error(error: &Error) -> Self {
        match error {
            Error::Refused(Refused::Taken(RefusalReason::Held)) => Self(2),
            Error::Refused(Refused::Taken(RefusalReason::HeldByYou)) => Self(3),
            Error::Refused(Refused::Taken(RefusalReason::Timeout)) => Self(4),
            Error::Refused(Refused::Ended(EndReason::Expired)) => Self(6),
            Error::Refused(Refused::Ended(EndReason::Stolen)) => Self(7),
            Error::Refused(Refused::TokenMismatch) => Self(9),
            Error::Limited { code, .. } => Self::of_code(429, code),
            Error::Rejected { status, code, .. } => Self::of_code(*status, code),
            Error::Unknown { cause, .. } => match cause {
                Cause::Timeout => Self(10),
                Cause::Broken(_) => Self(11),
                Cause::NotSent(_) => Self(12),
                Cause::Garbled(_) => Self(13),
                Cause::Answer { status, code } => Self::of_code(*status, code),
            },
        }
    }

    fn of_code(status: u16, code: &str) -> Self {
        let known = ErrorCode::ALL.iter().zip(OWN.len()..);
        let known = known.filter_map(|(known, index)| {
            let index = u8::try_from(index).ok()?;
            (known.as_str() == code).then_some(Self(index))
        });
        known.last().unwrap_or(match status {
            500 => Self(14),
            502 => Self(15),
            504 => Self(16),
            _ => Self(17),
        })
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Every outcome's name, in the order of [`Outcome::index`].
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let codes = ErrorCode::ALL.iter().map(|code| code.as_str());
        OWN.into_iter().chain(codes)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::names().nth(self.index()).unwrap_or("")
    }
}

const _: () = assert!(Outcome::COUNT < 256);

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str) -> Error {
        Error::Unknown {
            cause: Cause::Answer {
                status,
                code: code.into(),
            },
            retry_after: None,
        }
    }

    #[test]
    fn every_error_code_has_an_outcome_of_its_own_name() {
        for code in ErrorCode::ALL {
            let outcome = Outcome::of_error(&answer(code.status(), code.as_str()));
            assert_eq!(outcome.name(), code.as_str());
        }
    }

    #[test]
    fn other_outcomes_are_called_what_they_are() {
        let refused = |refused| Outcome::of_error(&Error::Refused(refused)).name();
        assert_eq!(refused(Refused::Taken(RefusalReason::Held)), "held");
        assert_eq!(refused(Refused::Ended(EndReason::Stolen)), "stolen");
        assert_eq!(refused(Refused::TokenMismatch), "token_mismatch");
        assert_eq!(Outcome::of_error(&answer(502, "")).name(), "http_502");
        assert_eq!(Outcome::of_error(&answer(520, "")).name(), "http_other");
        assert_eq!(Outcome::RENEWED.name(), "renewed");
        assert_eq!(Outcome::RELEASED.name(), "released");
    }
}
