//! Every rule finds what it is for, and does not find what late messages explain.

use super::known::{At, Foreign, Known, Standing, Violation, Who};
use holdfast_api::EndReason;
use holdfast_client::{Granted, Instant, LockId, Promise, Token};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

fn ms(ms: u64) -> Instant {
    Instant::from_micros(ms * 1000)
}

fn at(sent: u64, received: u64) -> At {
    At {
        sent: ms(sent),
        received: ms(received),
    }
}

fn promise(sent: u64, ttl: u64) -> Promise {
    let ttl = Duration::from_millis(ttl);
    Promise::new(ms(sent), Duration::ZERO, ttl, ttl / 3)
}

fn grant(id: &str, token: u64, sent: u64) -> Granted {
    Granted {
        lock_id: LockId::new(id),
        token: Token(token),
        promise: promise(sent, 30_000),
        already_held: false,
    }
}

/// Granted as "a" with token 10; asked for at 0, answered at 10, lasts until 30 s.
fn held() -> Known {
    let mut known = Known::default();
    let found = known.granted(Who::Holder, &grant("a", 10, 0), at(0, 10), TTL, None);
    assert_eq!(found, []);
    known
}

/// The same, released.
fn free() -> Known {
    let mut known = held();
    known.release_sent();
    known.released();
    known
}

fn grants(known: &mut Known, who: Who, grant: &Granted, at: At) -> Vec<&'static str> {
    let found = known.granted(who, grant, at, TTL, None);
    found.iter().map(Violation::kind).collect()
}

fn foreign(id: &str, token: u64, until: u64) -> Foreign {
    Foreign {
        id: LockId::new(id),
        token: Token(token),
        until: ms(until),
    }
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    for (token, expected) in [
        (11, vec![]),
        (10, vec!["token_not_grown"]),
        (9, vec!["token_not_grown"]),
    ] {
        let found = grants(
            &mut free(),
            Who::Holder,
            &grant("b", token, 2_000),
            at(2_000, 2_010),
        );
        assert_eq!(found, expected, "{token}");
    }
}

#[test]
fn a_released_hold_that_comes_back_is_found() {
    let found = grants(
        &mut free(),
        Who::Holder,
        &grant("a", 10, 2_000),
        at(2_000, 2_010),
    );
    assert_eq!(found, ["token_not_grown"]);
}

#[test]
fn tokens_of_grants_that_were_asked_for_at_one_time_may_come_in_any_order_but_not_twice() {
    // The first grant was answered at 10, this one was sent at 5.
    for (token, expected) in [(9, vec![]), (11, vec![]), (10, vec!["token_not_grown"])] {
        let mut known = held();
        known.release_sent();
        let found = grants(&mut known, Who::Contender, &grant("b", token, 5), at(5, 20));
        assert_eq!(found, expected, "{token}");
    }
}

#[test]
fn a_contenders_token_counts_for_the_name() {
    let mut known = free();
    assert_eq!(
        grants(
            &mut known,
            Who::Contender,
            &grant("b", 12, 2_000),
            at(2_000, 2_010)
        ),
        [""; 0]
    );
    assert_eq!(
        grants(
            &mut known,
            Who::Holder,
            &grant("c", 11, 3_000),
            at(3_000, 3_010)
        ),
        ["token_not_grown"]
    );
}

#[test]
fn a_re_entry_with_the_same_handle_and_token_is_fine_and_with_another_token_is_found() {
    let mut known = held();
    assert_eq!(
        grants(
            &mut known,
            Who::Holder,
            &grant("a", 10, 5_000),
            at(5_000, 5_010)
        ),
        [""; 0]
    );
    assert_eq!(known.until(), ms(35_000));
    assert_eq!(
        grants(
            &mut known,
            Who::Holder,
            &grant("a", 11, 6_000),
            at(6_000, 6_010)
        ),
        ["token_changed"]
    );
}

#[test]
fn a_grant_to_another_while_the_promise_lasts_is_found() {
    let found = held().granted(
        Who::Contender,
        &grant("b", 11, 20_000),
        at(20_000, 20_010),
        TTL,
        None,
    );
    let overlap = Violation::Overlap {
        to: Who::Contender,
        left: Duration::from_millis(9_990),
    };
    assert_eq!(found, [overlap]);
}

#[test]
fn the_holders_own_handle_in_anothers_hands_is_found() {
    let found = grants(
        &mut held(),
        Who::Contender,
        &grant("a", 10, 20_000),
        at(20_000, 20_010),
    );
    assert_eq!(found, ["token_not_grown", "overlap"]);
}

#[test]
fn a_second_hold_of_the_holder_while_the_first_lasts_is_found() {
    let found = grants(
        &mut held(),
        Who::Holder,
        &grant("b", 11, 20_000),
        at(20_000, 20_010),
    );
    assert_eq!(found, ["overlap"]);
}

#[test]
fn a_grant_after_the_promise_or_after_the_release_was_sent_is_fine() {
    let mut known = held();
    assert_eq!(
        grants(
            &mut known,
            Who::Contender,
            &grant("b", 11, 29_000),
            at(29_000, 30_000)
        ),
        [""; 0]
    );
    let mut known = held();
    known.release_sent();
    assert_eq!(
        grants(
            &mut known,
            Who::Contender,
            &grant("b", 11, 900),
            at(900, 1_000)
        ),
        [""; 0]
    );
}

#[test]
fn a_grant_whose_promise_was_over_when_it_arrived_overlaps_nothing() {
    let mut known = held();
    let mut short = grant("b", 11, 20_000);
    short.promise = promise(20_000, 500);
    assert_eq!(
        grants(&mut known, Who::Contender, &short, at(20_000, 20_500)),
        [""; 0]
    );
}

#[test]
fn a_grant_or_a_renewal_while_a_contenders_promise_lasts_is_found() {
    let contender = foreign("b", 11, 40_000);
    let mut known = free();
    let found = known.granted(
        Who::Holder,
        &grant("c", 12, 31_000),
        at(31_000, 31_010),
        TTL,
        Some(&contender),
    );
    assert_eq!(
        found.iter().map(Violation::kind).collect::<Vec<_>>(),
        ["overlap"]
    );

    let mut known = held();
    let (standing, found) = known.renewed(
        &promise(25_000, 30_000),
        at(25_000, 25_010),
        TTL,
        Some(&contender),
    );
    assert_eq!(standing, Standing::Held);
    assert_eq!(
        found.iter().map(Violation::kind).collect::<Vec<_>>(),
        ["overlap"]
    );
}

#[test]
fn a_renewal_of_a_hold_that_a_later_grant_has_ended_is_found() {
    let mut known = held();
    known.granted(
        Who::Contender,
        &grant("b", 11, 20_000),
        at(20_000, 20_010),
        TTL,
        None,
    );
    // Sent before the later grant was told: it may have been answered before that was made.
    let (_, found) = known.renewed(&promise(20_000, 30_000), at(20_000, 20_020), TTL, None);
    assert_eq!(found, []);
    let (_, found) = known.renewed(&promise(20_010, 30_000), at(20_010, 20_020), TTL, None);
    assert_eq!(
        found.iter().map(Violation::kind).collect::<Vec<_>>(),
        ["revived"]
    );
}

#[test]
fn a_promise_longer_than_asked_for_is_found() {
    let mut long = grant("b", 11, 2_000);
    long.promise = promise(2_000, 30_001);
    assert_eq!(
        grants(&mut free(), Who::Holder, &long, at(2_000, 2_010)),
        ["promise_too_long"]
    );
    let (_, found) = held().renewed(&promise(10_000, 30_001), at(10_000, 10_010), TTL, None);
    assert_eq!(
        found.iter().map(Violation::kind).collect::<Vec<_>>(),
        ["promise_too_long"]
    );
}

#[test]
fn a_renewal_moves_the_promise_on_and_never_back() {
    let mut known = held();
    let (standing, found) = known.renewed(&promise(10_000, 30_000), at(10_000, 10_010), TTL, None);
    assert_eq!((standing, found), (Standing::Held, vec![]));
    assert_eq!(known.until(), ms(40_000));
    known.renewed(&promise(11_000, 1_000), at(11_000, 11_010), TTL, None);
    assert_eq!(known.until(), ms(40_000));
}

#[test]
fn a_promise_that_ends_without_a_renewal_is_lost_once() {
    let mut known = held();
    assert_eq!(known.lost(Instant::from_micros(29_999_999)), None);
    assert_eq!(known.lost(ms(30_000)), Some(Violation::Lost));
    assert_eq!(known.lost(ms(30_001)), None);
}

#[test]
fn a_renewal_that_is_answered_after_the_promise_comes_too_late() {
    let mut known = held();
    let (standing, found) = known.renewed(&promise(29_000, 30_000), at(29_000, 30_000), TTL, None);
    assert_eq!((standing, found), (Standing::Lost, vec![Violation::Lost]));
    // The hold may still be there; getting it back is no contradiction.
    assert_eq!(
        grants(
            &mut known,
            Who::Holder,
            &grant("a", 10, 31_000),
            at(31_000, 31_010)
        ),
        [""; 0]
    );
    assert_eq!(known.until(), ms(61_000));
}

#[test]
fn a_409_while_the_promise_lasts_is_a_false_loss() {
    let found = held().ended(EndReason::Expired, at(29_000, 29_999));
    let false_loss = Violation::FalseLoss {
        reason: EndReason::Expired,
        left: Duration::from_millis(1),
    };
    assert_eq!(found, Some(false_loss));
}

#[test]
fn a_409_that_may_have_been_given_after_the_promise_is_a_loss_but_not_a_false_one() {
    assert_eq!(
        held().ended(EndReason::Expired, at(29_000, 30_000)),
        Some(Violation::Lost)
    );
    let mut known = held();
    assert_eq!(known.lost(ms(30_000)), Some(Violation::Lost));
    assert_eq!(known.ended(EndReason::Expired, at(30_000, 30_010)), None);
}

#[test]
fn after_a_409_the_name_may_be_granted_anew() {
    let mut known = held();
    known.ended(EndReason::Stolen, at(1_000, 1_010));
    assert_eq!(
        grants(
            &mut known,
            Who::Contender,
            &grant("b", 11, 2_000),
            at(2_000, 2_010)
        ),
        [""; 0]
    );
}

#[test]
fn a_refused_release_with_the_own_token_is_found() {
    let mut known = held();
    known.release_sent();
    assert_eq!(known.release_refused(), Violation::ReleaseRefused);
}
