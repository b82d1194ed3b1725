//! Whole answers.

use super::item::{Acquired, Batch, Released, Renewed, WireError, garbled};
use crate::clock::Instant;
use crate::connection::RawReply;
use crate::error::Error;
use crate::types::{Granted, Promise};
use bytes::Bytes;
use holdfast_api::{ForceReleaseReply, LockInfo, LockPage};
use serde::{Deserialize, Serialize};

/// The body of a request.
pub fn encode(request: &impl Serialize) -> Bytes {
    // The request types have string keys only, so this cannot fail.
    serde_json::to_vec(request).map_or_else(|_| Bytes::new(), Bytes::from)
}

/// Reads the answer to an acquire that was sent at `sent`.
///
/// # Errors
/// [`Error::Refused`] when someone holds the name; [`Error::Unknown`] also for a body that makes
/// no sense.
pub fn acquire(reply: &RawReply, sent: Instant) -> Result<Granted, Error> {
    match reply.status {
        200 => parse::<Acquired<'_>>(reply)?.decide(sent),
        _ => Err(failure(reply)),
    }
}

/// Reads the answer to a renewal that was sent at `sent`.
///
/// # Errors
/// [`Error::Refused`] when the hold is over, otherwise as [`acquire`].
pub fn renew(reply: &RawReply, sent: Instant) -> Result<Promise, Error> {
    match reply.status {
        200 | 409 => parse::<Renewed<'_>>(reply)?.decide(sent),
        _ => Err(failure(reply)),
    }
}

/// Reads the answer to a release.
///
/// # Errors
/// [`Error::Refused`] when the token is not the hold's, otherwise as [`acquire`].
pub fn release(reply: &RawReply) -> Result<(), Error> {
    match reply.status {
        204 => Ok(()),
        409 => parse::<Released<'_>>(reply)?.decide(),
        _ => Err(failure(reply)),
    }
}

/// Reads the answer to a look at one lock.
///
/// # Errors
/// [`Error::Unknown`] also for a body that makes no sense.
pub fn inspect(reply: &RawReply) -> Result<LockInfo, Error> {
    whole(reply)
}

/// Reads the answer to a look at a page of locks.
///
/// # Errors
/// As [`inspect`].
pub fn list(reply: &RawReply) -> Result<LockPage, Error> {
    whole(reply)
}

/// Reads the answer to a force-release. That nobody held the name is an answer too.
///
/// # Errors
/// As [`inspect`].
pub fn force_release(reply: &RawReply) -> Result<ForceReleaseReply, Error> {
    whole(reply)
}

fn whole<'a, T: Deserialize<'a>>(reply: &'a RawReply) -> Result<T, Error> {
    match reply.status {
        200 => parse(reply),
        _ => Err(failure(reply)),
    }
}

/// Reads the answer to a batch of `count` acquires that was sent at `sent`.
///
/// # Errors
/// When there is no list of `count` results; each result has errors of its own.
pub fn acquire_batch(
    reply: &RawReply,
    sent: Instant,
    count: usize,
) -> Result<Vec<Result<Granted, Error>>, Error> {
    let items = results::<Acquired<'_>>(reply, count)?;
    Ok(items.into_iter().map(|item| item.decide(sent)).collect())
}

/// Reads the answer to a batch of `count` renewals that was sent at `sent`.
///
/// # Errors
/// As [`acquire_batch`].
pub fn renew_batch(
    reply: &RawReply,
    sent: Instant,
    count: usize,
) -> Result<Vec<Result<Promise, Error>>, Error> {
    let items = results::<Renewed<'_>>(reply, count)?;
    Ok(items.into_iter().map(|item| item.decide(sent)).collect())
}

/// Reads the answer to a batch of `count` releases.
///
/// # Errors
/// As [`acquire_batch`].
pub fn release_batch(reply: &RawReply, count: usize) -> Result<Vec<Result<(), Error>>, Error> {
    let items = results::<Released<'_>>(reply, count)?;
    Ok(items.into_iter().map(Released::decide).collect())
}

fn results<'a, T: Deserialize<'a>>(reply: &'a RawReply, count: usize) -> Result<Vec<T>, Error> {
    if reply.status != 200 {
        return Err(failure(reply));
    }
    let items = parse::<Batch<T>>(reply)?.results;
    if items.len() != count {
        return Err(garbled(format!(
            "{} results for {count} items",
            items.len()
        )));
    }
    Ok(items)
}

fn parse<'a, T: Deserialize<'a>>(reply: &'a RawReply) -> Result<T, Error> {
    serde_json::from_slice(&reply.body).map_err(|error| garbled(error.to_string()))
}

fn failure(reply: &RawReply) -> Error {
    // A proxy's error has a body of its own kind; the status is enough then.
    let problem: WireError<'_> = serde_json::from_slice(&reply.body).unwrap_or_default();
    problem.into_error(reply.status, reply.retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Cause, Refused};
    use crate::types::Token;
    use holdfast_api::{
        AcquireReply, AcquireResult, BatchReply, EndReason, ErrorCode, ItemError, RefusalReason,
        ReleaseReply, ReleaseResult, RenewReply, RenewResult, TokenMismatch,
    };
    use std::time::Duration;

    const SENT: Instant = Instant::from_micros(1_000_000);

    fn reply(status: u16, body: impl Into<Bytes>) -> RawReply {
        RawReply {
            status,
            retry_after: None,
            body: body.into(),
        }
    }

    fn grant() -> AcquireReply {
        AcquireReply {
            acquired: true,
            lock_id: Some("lock-AQ".into()),
            fencing_token: Some(4711),
            expires_at: "2026-01-01T00:00:00.000Z".into(),
            ttl_ms: Some(29_700),
            renew_after_ms: Some(9_700),
            already_held: None,
            waited_ms: None,
            reason: None,
        }
    }

    fn held() -> AcquireReply {
        AcquireReply {
            acquired: false,
            lock_id: None,
            fencing_token: None,
            expires_at: "2026-01-01T00:00:00.000Z".into(),
            ttl_ms: None,
            renew_after_ms: None,
            already_held: None,
            waited_ms: None,
            reason: Some(RefusalReason::Held),
        }
    }

    fn renewed() -> RenewReply {
        RenewReply {
            renewed: true,
            expires_at: Some("2026-01-01T00:00:00.000Z".into()),
            ttl_ms: Some(29_700),
            renew_after_ms: Some(10_200),
            reason: None,
        }
    }

    fn ended(reason: EndReason) -> RenewReply {
        RenewReply {
            renewed: false,
            expires_at: None,
            ttl_ms: None,
            renew_after_ms: None,
            reason: Some(reason),
        }
    }

    fn unreachable() -> ItemError {
        ItemError {
            code: ErrorCode::OwnerUnreachable,
            detail: None,
            retry_after_ms: Some(900),
        }
    }

    fn unreachable_as_read() -> Error {
        Error::Unknown {
            cause: Cause::Answer {
                status: 503,
                code: "owner_unreachable".into(),
            },
            retry_after: Some(Duration::from_millis(900)),
        }
    }

    #[test]
    fn a_promise_counts_from_the_sending_plus_the_wait() {
        let waited = AcquireReply {
            waited_ms: Some(5_000),
            already_held: Some(true),
            ..grant()
        };
        let granted = acquire(&reply(200, encode(&waited)), SENT).unwrap();
        assert_eq!(granted.token, Token(4711));
        assert_eq!(granted.lock_id.as_str(), "lock-AQ");
        assert!(granted.already_held);
        let began = SENT + Duration::from_secs(5);
        assert_eq!(granted.promise.until, began + Duration::from_millis(29_700));
        assert_eq!(
            granted.promise.renew_at,
            began + Duration::from_millis(9_700)
        );
    }

    #[test]
    fn a_409_is_definite_and_a_refused_acquire_too() {
        for reason in [EndReason::Expired, EndReason::Stolen] {
            let answer = renew(&reply(409, encode(&ended(reason))), SENT);
            assert_eq!(answer, Err(Error::Refused(Refused::Ended(reason))));
        }
        let taken = acquire(&reply(200, encode(&held())), SENT);
        assert_eq!(
            taken,
            Err(Error::Refused(Refused::Taken(RefusalReason::Held)))
        );
        let mismatch = ReleaseReply {
            released: false,
            reason: Some(TokenMismatch::TokenMismatch),
        };
        assert_eq!(
            release(&reply(409, encode(&mismatch))),
            Err(Error::Refused(Refused::TokenMismatch))
        );
        assert_eq!(release(&reply(204, "")), Ok(()));
    }

    #[test]
    fn what_is_not_known_is_never_an_answer() {
        for status in [500, 502, 503, 504, 408, 301, 418] {
            let answer = renew(&reply(status, "<html>bad gateway</html>"), SENT);
            assert!(answer.unwrap_err().is_unknown(), "{status}");
        }
        for body in [
            "",
            "{}",
            "null",
            r#"{"renewed":true}"#,
            r#"{"renewed":false}"#,
        ] {
            for status in [200, 409] {
                let answer = renew(&reply(status, body), SENT);
                assert!(answer.unwrap_err().is_unknown(), "{status} {body}");
            }
        }
        for body in ["", "{}", r#"{"acquired":true,"lockId":"lock-AQ"}"#] {
            assert!(acquire(&reply(200, body), SENT).unwrap_err().is_unknown());
        }
        assert!(release(&reply(409, "{}")).unwrap_err().is_unknown());
        assert!(release(&reply(200, "{}")).unwrap_err().is_unknown());
    }

    #[test]
    fn every_error_code_is_of_the_kind_that_its_status_says() {
        for &code in ErrorCode::ALL {
            let body = format!(
                r#"{{"code":"{}","detail":"d","retryAfterMs":1500}}"#,
                code.as_str()
            );
            let error = renew(&reply(code.status(), body), SENT).unwrap_err();
            let item = format!(
                r#"{{"results":[{{"error":{{"code":"{}"}}}}]}}"#,
                code.as_str()
            );
            let batch = renew_batch(&reply(200, item), SENT, 1).unwrap();
            let of_item = batch[0].clone().unwrap_err();
            match code.status() {
                429 => assert!(
                    matches!(
                        error,
                        Error::Limited {
                            retry_after: Some(_),
                            ..
                        }
                    ) && matches!(of_item, Error::Limited { .. })
                ),
                408 | 500 | 503 => {
                    assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
                    assert!(error.is_unknown() && of_item.is_unknown());
                }
                status => {
                    let told = Error::Rejected {
                        status,
                        code: code.as_str().into(),
                        detail: "d".into(),
                    };
                    assert_eq!(error, told);
                    assert!(matches!(of_item, Error::Rejected { .. }));
                }
            }
        }
    }

    #[test]
    fn an_error_code_of_a_later_version_is_unknown_and_does_not_spoil_the_batch() {
        let body = r#"{"results":[{"error":{"code":"moon_phase"}},{"renewed":true,"ttlMs":1000,"later":{}}]}"#;
        let batch = renew_batch(&reply(200, body), SENT, 2).unwrap();
        assert!(batch[0].clone().unwrap_err().is_unknown());
        assert!(batch[1].is_ok());
    }

    #[test]
    fn the_header_says_when_to_retry_where_the_body_does_not() {
        let answer = RawReply {
            retry_after: Some(Duration::from_secs(2)),
            ..reply(503, "")
        };
        let error = acquire(&answer, SENT).unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn batches_of_the_api_types_read_back_item_by_item() {
        let acquires = BatchReply {
            results: vec![
                AcquireResult::Answered(grant()),
                AcquireResult::Answered(held()),
                AcquireResult::Failed {
                    error: unreachable(),
                },
            ],
        };
        let read = acquire_batch(&reply(200, encode(&acquires)), SENT, 3).unwrap();
        assert_eq!(read[0].as_ref().unwrap().token, Token(4711));
        assert!(matches!(read[1], Err(Error::Refused(_))));
        assert_eq!(read[2], Err(unreachable_as_read()));

        let renewals = BatchReply {
            results: vec![
                RenewResult::Answered(renewed()),
                RenewResult::Answered(ended(EndReason::Stolen)),
                RenewResult::Failed {
                    error: unreachable(),
                },
            ],
        };
        let read = renew_batch(&reply(200, encode(&renewals)), SENT, 3).unwrap();
        assert_eq!(
            read[0].as_ref().unwrap().renew_at,
            SENT + Duration::from_millis(10_200)
        );
        assert!(matches!(read[1], Err(Error::Refused(_))));
        assert_eq!(read[2], Err(unreachable_as_read()));

        let releases = BatchReply {
            results: vec![
                ReleaseResult::Answered(ReleaseReply {
                    released: true,
                    reason: None,
                }),
                ReleaseResult::Failed {
                    error: unreachable(),
                },
            ],
        };
        let read = release_batch(&reply(200, encode(&releases)), 2).unwrap();
        assert_eq!(read, [Ok(()), Err(unreachable_as_read())]);
    }

    #[test]
    fn a_batch_with_too_few_results_answers_nothing() {
        let body = r#"{"results":[{"renewed":true,"ttlMs":1000}]}"#;
        assert!(
            renew_batch(&reply(200, body), SENT, 2)
                .unwrap_err()
                .is_unknown()
        );
    }
}
