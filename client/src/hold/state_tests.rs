use super::state::{Ask, Event, HoldState, Loss, Patience, Step};
use crate::clock::Instant;
use crate::error::{Cause, Error, Refused};
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, TRY_TIMEOUT_MIN};
use crate::types::Promise;
use holdfast_api::EndReason;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(30);
const RENEW: Duration = Duration::from_secs(10);

fn ms(ms: u64) -> Instant {
    Instant::from_micros(ms * 1_000)
}

fn promise(sent_ms: u64) -> Promise {
    Promise::new(ms(sent_ms), Duration::ZERO, TTL, RENEW)
}

/// A hold that was asked for at 0: renewed from 10 s on, lost at 30 s.
fn hold() -> HoldState {
    HoldState::new(promise(0), TIMEOUT, 7)
}

fn unknown(retry_after_ms: Option<u64>) -> Error {
    Error::Unknown {
        cause: Cause::Timeout,
        retry_after: retry_after_ms.map(Duration::from_millis),
    }
}

fn ended() -> Error {
    Error::Refused(Refused::Ended(EndReason::Stolen))
}

/// Asks at `at` and expects a request.
fn sends(hold: &mut HoldState, ask: Ask, at: Instant) -> Duration {
    match hold.step(at) {
        Step::Send(asked, timeout) if asked == ask => timeout,
        other => panic!("{other:?} instead of {ask:?} at {at:?}"),
    }
}

/// Answers at `at` and returns the moment of the next request.
fn next_try(hold: &mut HoldState, event: Event, at: Instant) -> Instant {
    hold.on(event, at);
    match hold.step(at) {
        Step::Wait(Some(next)) => next,
        other => panic!("{other:?} instead of a pause"),
    }
}

#[test]
fn a_hold_is_renewed_when_the_reply_said_so_and_the_promise_grows() {
    let mut hold = hold();
    assert_eq!(hold.step(ms(0)), Step::Wait(Some(ms(10_000))));
    assert_eq!(sends(&mut hold, Ask::Renew, ms(10_000)), TIMEOUT);
    assert_eq!(hold.step(ms(10_001)), Step::Wait(Some(ms(30_000))));
    hold.on(Event::Renewed(Ok(promise(10_000))), ms(10_050));
    assert_eq!(hold.until(), ms(40_000));
    assert_eq!(hold.step(ms(10_050)), Step::Wait(Some(ms(20_000))));
}

#[test]
fn a_renewal_never_shortens_the_promise() {
    let mut hold = hold();
    sends(&mut hold, Ask::Renew, ms(10_000));
    let shorter = Promise::new(ms(10_000), Duration::ZERO, RENEW, RENEW / 2);
    hold.on(Event::Renewed(Ok(shorter)), ms(10_050));
    assert_eq!(hold.until(), ms(30_000));
}

#[test]
fn a_hold_is_lost_at_its_deadline_and_not_a_microsecond_before() {
    let mut hold = hold();
    sends(&mut hold, Ask::Renew, ms(10_000));
    let before = Instant::from_micros(29_999_999);
    assert_eq!(hold.step(before), Step::Wait(Some(ms(30_000))));
    assert_eq!(hold.step(ms(30_000)), Step::SignalLoss(Loss::Deadline));
    assert_eq!(hold.step(ms(30_000)), Step::Wait(None));
}

#[test]
fn an_answer_after_the_deadline_does_not_undo_the_loss() {
    let mut hold = hold();
    sends(&mut hold, Ask::Renew, ms(29_000));
    // The machine slept: the answer and the deadline are noticed together.
    hold.on(Event::Renewed(Ok(promise(29_000))), ms(31_000));
    assert_eq!(hold.step(ms(31_000)), Step::SignalLoss(Loss::Deadline));
    hold.on(Event::Renewed(Ok(promise(31_000))), ms(31_001));
    assert_eq!(hold.step(ms(31_001)), Step::Wait(None));
}

#[test]
fn a_409_is_a_loss_at_once() {
    let mut hold = hold();
    sends(&mut hold, Ask::Renew, ms(10_000));
    hold.on(Event::Renewed(Err(ended())), ms(10_050));
    let loss = Loss::Ended(EndReason::Stolen);
    assert_eq!(hold.step(ms(10_050)), Step::SignalLoss(loss));
    assert_eq!(hold.step(ms(10_050)), Step::Wait(None));
    hold.on(Event::Release(Patience::UntilAnswered), ms(10_060));
    assert_eq!(hold.step(ms(10_060)), Step::Over);
}

#[test]
fn unknown_answers_are_retried_with_growing_pauses_until_the_deadline() {
    let mut hold = hold();
    let mut now = ms(10_000);
    let mut tries = 0;
    let mut last_pause = Duration::ZERO;
    loop {
        match hold.step(now) {
            Step::Send(Ask::Renew, _) => {
                tries += 1;
                let next = next_try(&mut hold, Event::Renewed(Err(unknown(None))), now);
                last_pause = next.since(now);
                if tries == 1 {
                    assert!(last_pause <= BACKOFF_MIN, "{last_pause:?}");
                }
                assert!(last_pause <= BACKOFF_MAX, "{last_pause:?}");
                now = next;
            }
            Step::SignalLoss(loss) => {
                assert_eq!((loss, now), (Loss::Deadline, ms(30_000)));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((10..100).contains(&tries), "{tries}");
    assert!(last_pause > Duration::ZERO);
}

#[test]
fn after_a_success_the_pauses_begin_with_the_shortest_again() {
    let mut hold = hold();
    let mut now = ms(10_000);
    for _ in 0..5 {
        sends(&mut hold, Ask::Renew, now);
        now = next_try(&mut hold, Event::Renewed(Err(unknown(None))), now);
    }
    sends(&mut hold, Ask::Renew, now);
    let next = next_try(&mut hold, Event::Renewed(Ok(promise(12_000))), now);
    sends(&mut hold, Ask::Renew, next);
    let retry = next_try(&mut hold, Event::Renewed(Err(unknown(None))), next);
    assert!(retry.since(next) <= BACKOFF_MIN);
}

#[test]
fn an_error_that_says_nothing_about_the_lock_does_not_end_the_hold() {
    let rejected = Error::Rejected {
        status: 401,
        code: "unauthenticated".into(),
        detail: String::new(),
    };
    let limited = Error::Limited {
        code: "rate_limited".into(),
        detail: String::new(),
        retry_after: None,
    };
    for error in [rejected, limited, unknown(None)] {
        let mut hold = hold();
        sends(&mut hold, Ask::Renew, ms(10_000));
        let next = next_try(&mut hold, Event::Renewed(Err(error)), ms(10_000));
        sends(&mut hold, Ask::Renew, next);
        hold.on(Event::Renewed(Ok(promise(10_100))), ms(10_200));
        assert_eq!(hold.until(), ms(40_100));
    }
}

#[test]
fn the_gateways_wish_is_heeded_unless_the_promise_would_end_first() {
    let mut patient = hold();
    sends(&mut patient, Ask::Renew, ms(10_000));
    let answer = Event::Renewed(Err(unknown(Some(900))));
    assert_eq!(next_try(&mut patient, answer, ms(10_000)), ms(10_900));

    let mut urgent = hold();
    sends(&mut urgent, Ask::Renew, ms(24_000));
    let answer = Event::Renewed(Err(unknown(Some(60_000))));
    assert_eq!(next_try(&mut urgent, answer, ms(24_000)), ms(26_000));
}

#[test]
fn a_try_that_hangs_leaves_time_for_others() {
    for (now, timeout) in [
        (ms(10_000), TIMEOUT),
        (ms(24_000), Duration::from_secs(2)),
        (ms(29_850), TRY_TIMEOUT_MIN),
        (ms(29_950), Duration::from_millis(50)),
    ] {
        assert_eq!(sends(&mut hold(), Ask::Renew, now), timeout, "{now:?}");
    }
}

#[test]
fn an_explicit_release_is_repeated_until_it_is_answered() {
    let mut hold = hold();
    hold.on(Event::Release(Patience::UntilAnswered), ms(5_000));
    let mut now = ms(5_000);
    while now < ms(100_000) {
        assert_eq!(sends(&mut hold, Ask::Release, now), TIMEOUT);
        now = next_try(&mut hold, Event::Released(Err(unknown(None))), now);
    }
    sends(&mut hold, Ask::Release, now);
    hold.on(Event::Released(Ok(())), now);
    assert_eq!(hold.step(now), Step::Over);
}

#[test]
fn a_dropped_hold_is_released_until_its_promise_ends() {
    let mut hold = hold();
    hold.on(Event::Release(Patience::UntilDeadline), ms(29_000));
    sends(&mut hold, Ask::Release, ms(29_000));
    assert_eq!(hold.step(ms(29_001)), Step::Wait(Some(ms(30_000))));
    let next = next_try(&mut hold, Event::Released(Err(unknown(None))), ms(29_100));
    sends(&mut hold, Ask::Release, next);
    assert_eq!(hold.step(ms(30_000)), Step::Over);
}

#[test]
fn a_release_overtakes_a_renewal_that_is_not_answered_yet() {
    let mut hold = hold();
    sends(&mut hold, Ask::Renew, ms(10_000));
    hold.on(Event::Release(Patience::UntilAnswered), ms(10_010));
    sends(&mut hold, Ask::Release, ms(10_010));
    // The renewal's answer would be a 409 after the release; it must not be taken for a loss.
    hold.on(Event::Renewed(Err(ended())), ms(10_020));
    assert_eq!(hold.step(ms(10_020)), Step::Wait(None));
    hold.on(Event::Released(Ok(())), ms(10_030));
    assert_eq!(hold.step(ms(10_030)), Step::Over);
}

#[test]
fn a_hold_that_missed_its_deadline_can_still_be_released() {
    let mut hold = hold();
    assert_eq!(hold.step(ms(30_000)), Step::SignalLoss(Loss::Deadline));
    hold.on(Event::Release(Patience::UntilAnswered), ms(31_000));
    sends(&mut hold, Ask::Release, ms(31_000));
}

#[test]
fn a_refused_release_is_an_answer() {
    let mut hold = hold();
    hold.on(Event::Release(Patience::UntilAnswered), ms(1));
    sends(&mut hold, Ask::Release, ms(1));
    let mismatch = Error::Refused(Refused::TokenMismatch);
    hold.on(Event::Released(Err(mismatch)), ms(2));
    assert_eq!(hold.step(ms(2)), Step::Over);
}

#[test]
fn a_release_that_nobody_waits_for_any_more_loses_its_patience() {
    let mut hold = hold();
    hold.on(Event::Release(Patience::UntilAnswered), ms(1_000));
    sends(&mut hold, Ask::Release, ms(1_000));
    hold.on(Event::Release(Patience::UntilDeadline), ms(1_100));
    assert_eq!(hold.step(ms(1_100)), Step::Wait(Some(ms(30_000))));
    assert_eq!(hold.step(ms(30_000)), Step::Over);
}
