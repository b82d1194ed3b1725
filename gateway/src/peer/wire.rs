//! What gateways say to each other: frames of a length-delimited stream, each one `postcard` value.
//!
//! The frames' layout is fixed by [`VERSION`]; gateways of another version are told so in the
//! handshake and not spoken to.

use crate::engine::{Heritage, SessionId};
use crate::lock_id::{GroupId, LockId, Secret, SlotIndex};
use crate::names::{Principal, Token};
use crate::service::{
    Close, CloseOutcome, Ended, Forward, ForwardOutcome, Release, ReleaseOutcome, Renew,
    RenewOutcome, Renewed, ServiceError,
};
use crate::time::Millis;
use bytes::Bytes;
use holdfast_api::ErrorCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The version of this protocol.
pub(super) const VERSION: u16 = 2;

/// Numbers the calls of one connection.
pub type CallNo = u64;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// Requests that clients made to the sender, about locks that it takes to be the receiver's.
    Calls(Vec<Call>),
    /// What is known about earlier calls, in any order.
    Answers(Vec<(CallNo, Said)>),
    /// Are you there?
    Ping,
    /// I am here.
    Pong,
    /// What a gateway that stops leaves to the receiver.
    Left(Left),
}

/// A group of a cluster, and how long its holds may still last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    cluster: String,
    group: u64,
    from: u64,
    to: u64,
    holds: Vec<(u16, u128, u64)>,
}

impl Left {
    /// What is left in this cluster.
    pub fn new(cluster: &str, heritage: &Heritage) -> Self {
        let hold =
            |(slot, secret, left): &(SlotIndex, Secret, Millis)| (slot.0, secret.0, left.as_ms());
        Self {
            cluster: cluster.to_owned(),
            group: heritage.group.0,
            from: heritage.from.0,
            to: heritage.to.0,
            holds: heritage.holds.iter().map(hold).collect(),
        }
    }

    /// The cluster and what is left in it.
    pub fn heritage(self) -> (String, Heritage) {
        let hold =
            |(slot, secret, left_ms)| (SlotIndex(slot), Secret(secret), Millis::from_ms(left_ms));
        let heritage = Heritage {
            group: GroupId(self.group),
            from: SessionId(self.from),
            to: SessionId(self.to),
            holds: self.holds.into_iter().map(hold).collect(),
        };
        (self.cluster, heritage)
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Which answer is its answer.
    pub no: CallNo,
    ask: Ask,
    lock_id: Bytes,
    token: u64,
    principal: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Ask {
    Renew { ttl_ms: Option<u64> },
    Release,
    Close { immediate: bool },
}

/// What is said of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The hold goes on.
    Renewed {
        /// It lasts so long from when the client sent its request.
        ttl_ms: u64,
        /// The client should renew after this.
        renew_after_ms: u64,
    },
    /// The hold is over: by time, by release, or by the loss of its lease.
    Expired,
    /// The hold is over: someone else holds the name, or the token is not this hold's.
    Stolen,
    /// The lock id holds nothing now.
    Released,
    /// The hold has another token, and is not released.
    TokenMismatch,
    /// The hold is force-released.
    Closed {
        /// Its token.
        token: u64,
        /// The name is not free before this has passed.
        free_in_ms: u64,
    },
    /// There was nothing to force-release.
    NotHeld,
    /// The lock's group belongs to another gateway. Says nothing about the lock.
    NotMine,
    /// There is no definite answer.
    Unknown {
        /// As in the API: a code more does not change the layout.
        code: String,
        /// When another try makes sense.
        retry_after_ms: u64,
    },
}

impl Frame {
    /// As bytes.
    pub fn encode(&self) -> Bytes {
        // Writing into memory cannot fail for these types.
        postcard::to_allocvec(self).unwrap_or_default().into()
    }

    /// From bytes; `None` when they are no frame.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

impl Call {
    /// The call that asks this.
    pub fn new(no: CallNo, forward: &Forward) -> Self {
        let (ask, token, principal) = match forward {
            Forward::Renew(renew) => (
                Ask::Renew {
                    ttl_ms: renew.ttl.map(Millis::as_ms),
                },
                renew.token,
                &renew.principal,
            ),
            Forward::Release(release) => (Ask::Release, release.token, &release.principal),
            Forward::Close(close) => {
                let immediate = close.immediate;
                (Ask::Close { immediate }, close.token, &None)
            }
        };
        Self {
            no,
            ask,
            lock_id: Bytes::copy_from_slice(forward.lock_id().as_bytes()),
            token: token.0,
            principal: principal
                .as_ref()
                .map(|principal| principal.as_str().to_owned()),
        }
    }

    /// What is asked; `None` when the lock id is none.
    pub fn forward(&self) -> Option<Forward> {
        let lock_id = LockId::from_bytes(&self.lock_id)?;
        let token = Token(self.token);
        let principal = self.principal.as_deref().map(Principal::new);
        Some(match self.ask {
            Ask::Renew { ttl_ms } => Forward::Renew(Renew {
                lock_id,
                token,
                ttl: ttl_ms.map(Millis::from_ms),
                principal,
            }),
            Ask::Release => Forward::Release(Release {
                lock_id,
                token,
                principal,
            }),
            Ask::Close { immediate } => Forward::Close(Close {
                lock_id,
                token,
                immediate,
            }),
        })
    }
}

impl From<ForwardOutcome> for Said {
    fn from(outcome: ForwardOutcome) -> Self {
        match outcome {
            ForwardOutcome::Renew(RenewOutcome::Renewed(told)) => Self::Renewed {
                ttl_ms: told.ttl.as_ms(),
                renew_after_ms: told.renew_after.as_ms(),
            },
            ForwardOutcome::Renew(RenewOutcome::Ended(Ended::Expired)) => Self::Expired,
            ForwardOutcome::Renew(RenewOutcome::Ended(Ended::Stolen)) => Self::Stolen,
            ForwardOutcome::Release(ReleaseOutcome::Released) => Self::Released,
            ForwardOutcome::Release(ReleaseOutcome::TokenMismatch) => Self::TokenMismatch,
            ForwardOutcome::Close(CloseOutcome::Closed { token, free_in }) => Self::Closed {
                token: token.0,
                free_in_ms: free_in.as_ms(),
            },
            ForwardOutcome::Close(CloseOutcome::NotHeld) => Self::NotHeld,
            ForwardOutcome::NotTheirs => Self::NotMine,
            ForwardOutcome::Failed(error) => Self::Unknown {
                code: error.code.as_str().to_owned(),
                retry_after_ms: error.retry_after.as_ms(),
            },
        }
    }
}

impl Said {
    /// What it means for a request about a lock of `cluster`.
    pub fn outcome(self, cluster: &Arc<str>) -> ForwardOutcome {
        match self {
            Self::Renewed {
                ttl_ms,
                renew_after_ms,
            } => ForwardOutcome::Renew(RenewOutcome::Renewed(Renewed {
                ttl: Millis::from_ms(ttl_ms),
                renew_after: Millis::from_ms(renew_after_ms),
            })),
            Self::Expired => ForwardOutcome::Renew(RenewOutcome::Ended(Ended::Expired)),
            Self::Stolen => ForwardOutcome::Renew(RenewOutcome::Ended(Ended::Stolen)),
            Self::Released => ForwardOutcome::Release(ReleaseOutcome::Released),
            Self::TokenMismatch => ForwardOutcome::Release(ReleaseOutcome::TokenMismatch),
            Self::Closed { token, free_in_ms } => ForwardOutcome::Close(CloseOutcome::Closed {
                token: Token(token),
                free_in: Millis::from_ms(free_in_ms),
            }),
            Self::NotHeld => ForwardOutcome::Close(CloseOutcome::NotHeld),
            Self::NotMine => ForwardOutcome::NotTheirs,
            Self::Unknown {
                code,
                retry_after_ms,
            } => ForwardOutcome::Failed(ServiceError {
                code: code_of(&code),
                detail: "the gateway that owns the lock cannot answer for certain; retry",
                retry_after: Millis::from_ms(retry_after_ms),
                cluster: Some(Arc::clone(cluster)),
            }),
        }
    }
}

fn code_of(text: &str) -> ErrorCode {
    let unknown = ErrorCode::ALL.iter().filter(|code| code.status() == 503);
    let known = unknown.copied().find(|code| code.as_str() == text);
    known.unwrap_or(ErrorCode::OwnerUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::LockName;

    fn lock_id() -> LockId {
        let name = LockName::new("process_order:42").unwrap();
        LockId::new(GroupId(7), SlotIndex(3), Secret(11), &name)
    }

    #[test]
    fn what_is_asked_reads_back_as_it_was_sent() {
        let renew = Renew {
            lock_id: lock_id(),
            token: Token(4711),
            ttl: Some(Millis::from_secs(30)),
            principal: Some(Principal::new("team-a")),
        };
        let release = Release {
            lock_id: lock_id(),
            token: Token(4711),
            principal: None,
        };
        let close = Close {
            lock_id: lock_id(),
            token: Token(4711),
            immediate: true,
        };
        for forward in [
            Forward::Renew(renew),
            Forward::Release(release),
            Forward::Close(close),
        ] {
            let frame = Frame::Calls(vec![Call::new(1, &forward)]);
            let Some(Frame::Calls(calls)) = Frame::decode(&frame.encode()) else {
                panic!("another frame");
            };
            assert_eq!(calls[0].no, 1);
            assert_eq!(calls[0].forward(), Some(forward));
        }
    }

    #[test]
    fn what_is_said_means_what_was_meant() {
        let cluster: Arc<str> = "a".into();
        for outcome in [
            ForwardOutcome::Renew(RenewOutcome::Renewed(Renewed {
                ttl: Millis::from_ms(29_700),
                renew_after: Millis::from_ms(9_700),
            })),
            ForwardOutcome::Renew(RenewOutcome::Ended(Ended::Expired)),
            ForwardOutcome::Renew(RenewOutcome::Ended(Ended::Stolen)),
            ForwardOutcome::Release(ReleaseOutcome::Released),
            ForwardOutcome::Release(ReleaseOutcome::TokenMismatch),
            ForwardOutcome::Close(CloseOutcome::Closed {
                token: Token(4711),
                free_in: Millis::from_ms(900),
            }),
            ForwardOutcome::Close(CloseOutcome::NotHeld),
            ForwardOutcome::NotTheirs,
        ] {
            assert_eq!(Said::from(outcome.clone()).outcome(&cluster), outcome);
        }
    }

    #[test]
    fn what_is_left_reads_back_as_it_was_sent() {
        let heritage = Heritage {
            group: GroupId(1),
            from: SessionId(2),
            to: SessionId(3),
            holds: vec![(SlotIndex(0), Secret(u128::MAX), Millis::from_secs(30))],
        };
        let frame = Frame::Left(Left::new("a", &heritage));
        match Frame::decode(&frame.encode()) {
            Some(Frame::Left(left)) => assert_eq!(left.heritage(), ("a".to_owned(), heritage)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_none() {
        for bytes in [
            &b""[..],
            b"\xff",
            b"\x00\xff\xff\xff\xff\xff",
            b"GET / HTTP/1.1\r\n",
        ] {
            assert_eq!(Frame::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_call_with_a_forged_lock_id_asks_nothing() {
        let mut call = Call::new(
            1,
            &Forward::Release(Release {
                lock_id: lock_id(),
                token: Token(1),
                principal: None,
            }),
        );
        call.lock_id = Bytes::from_static(b"\x01forged");
        assert_eq!(call.forward(), None);
    }

    #[test]
    fn a_peer_cannot_say_that_the_client_is_wrong() {
        for code in ["overloaded", "invalid_request", "no such code"] {
            let said = Said::Unknown {
                code: code.to_owned(),
                retry_after_ms: 10,
            };
            let ForwardOutcome::Failed(error) = said.outcome(&"a".into()) else {
                panic!("a definite answer");
            };
            assert_eq!(error.code.status(), 503, "{code}");
        }
    }
}
