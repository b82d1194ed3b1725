//! What becomes of calls to another gateway, whatever becomes of it.

use super::*;
use crate::lock_id::{GroupId, LockId, Secret, SlotIndex};
use crate::names::{LockName, Token};
use crate::service::{Release, ReleaseOutcome};
use holdfast_api::ErrorCode;

type Steps = Vec<Step<u32>>;

const T0: Instant = Instant::from_ms(1_000_000);

fn after(ms: u64) -> Instant {
    Instant::from_ms(T0.as_ms() + ms)
}

fn cluster() -> Arc<str> {
    "a".into()
}

fn call() -> Forward {
    let name = LockName::new("n").unwrap();
    Forward::Release(Release {
        lock_id: LockId::new(GroupId(1), SlotIndex(2), Secret(3), &name),
        token: Token(4),
        principal: None,
    })
}

fn connected() -> Link<u32> {
    let mut link = Link::default();
    let mut steps = Vec::new();
    link.forward(T0, &cluster(), &call(), 0, &mut steps);
    link.dialed(T0, &mut steps);
    link.heard(T0, Frame::Answers(vec![(1, Said::Released)]), &mut steps);
    link
}

fn ask(link: &mut Link<u32>, now: Instant, asker: u32) -> Steps {
    let mut steps = Vec::new();
    link.forward(now, &cluster(), &call(), asker, &mut steps);
    link.flush(now, &mut steps);
    steps
}

fn tick(link: &mut Link<u32>, now: Instant) -> Steps {
    let mut steps = Vec::new();
    link.tick(now, &mut steps);
    steps
}

fn unreachable_askers(steps: &Steps) -> Vec<u32> {
    let unreachable = |step: &Step<u32>| match step {
        Step::Answer(asker, ForwardOutcome::Failed(error)) => {
            assert_eq!(error.code, ErrorCode::OwnerUnreachable);
            Some(*asker)
        }
        _ => None,
    };
    steps.iter().filter_map(unreachable).collect()
}

#[test]
fn calls_that_come_together_leave_in_one_frame_and_are_answered_in_any_order() {
    let mut link = Link::default();
    let mut steps = Steps::new();
    for asker in [7, 8] {
        link.forward(T0, &cluster(), &call(), asker, &mut steps);
    }
    link.flush(T0, &mut steps);
    assert_eq!(
        steps,
        [Step::Dial],
        "nothing is sent before there is a connection"
    );
    steps.clear();
    link.dialed(T0, &mut steps);
    let [Step::Send(Frame::Calls(calls))] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(calls.len(), 2);
    let answers = vec![(2, Said::Released), (1, Said::TokenMismatch)];
    steps.clear();
    link.heard(T0, Frame::Answers(answers), &mut steps);
    assert_eq!(
        steps,
        [
            Step::Answer(8, ForwardOutcome::Release(ReleaseOutcome::Released)),
            Step::Answer(7, ForwardOutcome::Release(ReleaseOutcome::TokenMismatch)),
        ]
    );
    assert_eq!(link.next_wakeup(), None, "nothing is owed");
}

#[test]
fn an_answer_that_comes_twice_is_told_once() {
    let mut link = connected();
    let mut steps = Steps::new();
    link.heard(T0, Frame::Answers(vec![(1, Said::Released)]), &mut steps);
    assert_eq!(steps, []);
}

#[test]
fn a_peer_that_says_nothing_while_it_owes_an_answer_is_given_up_in_a_second() {
    let mut link = connected();
    ask(&mut link, after(60_000), 1);
    assert_eq!(
        tick(&mut link, after(60_300)),
        [Step::Send(Frame::Ping)],
        "a peer that is silent is asked whether it is there"
    );
    assert_eq!(tick(&mut link, after(60_999)).len(), 1, "and once more");
    let given_up = tick(&mut link, after(61_000));
    assert_eq!(given_up[0], Step::HangUp);
    assert_eq!(unreachable_askers(&given_up), [1]);
}

#[test]
fn a_failure_of_long_ago_fails_nobody() {
    let mut link = connected();
    ask(&mut link, T0, 1);
    tick(&mut link, after(1_000));
    assert_eq!(ask(&mut link, after(10_000), 2), [Step::Dial]);
    let mut steps = Steps::new();
    link.dialed(after(10_001), &mut steps);
    assert!(matches!(steps[..], [Step::Send(Frame::Calls(_))]));
}

#[test]
fn a_peer_that_was_given_up_is_tried_again_and_nobody_waits_for_it() {
    let mut link = connected();
    ask(&mut link, T0, 1);
    tick(&mut link, after(1_000));
    assert_eq!(unreachable_askers(&ask(&mut link, after(1_499), 2)), [2]);
    let tried = ask(&mut link, after(1_500), 3);
    assert_eq!(tried[0], Step::Dial);
    assert_eq!(unreachable_askers(&tried), [3]);
    assert_eq!(unreachable_askers(&ask(&mut link, after(1_501), 4)), [4]);
    let mut steps = Steps::new();
    link.broken(after(2_400), &mut steps);
    assert_eq!(unreachable_askers(&ask(&mut link, after(2_899), 5)), [5]);
    assert_eq!(ask(&mut link, after(2_900), 6)[0], Step::Dial);
    link.dialed(after(2_901), &mut steps);
    assert!(
        matches!(ask(&mut link, after(2_902), 7)[..], [Step::Send(_)]),
        "and when it is back it is asked"
    );
}

#[test]
fn a_peer_that_answers_pings_may_take_its_time_up_to_the_timeout() {
    let mut link = connected();
    ask(&mut link, T0, 1);
    let mut now = 0;
    while now < 4_400 {
        now += 300;
        let mut steps = Steps::new();
        if now < 4_500 {
            assert_eq!(tick(&mut link, after(now)), [Step::Send(Frame::Ping)]);
            link.heard(after(now), Frame::Pong, &mut steps);
        }
    }
    assert_eq!(unreachable_askers(&tick(&mut link, after(4_500))), [1]);
    let mut steps = Steps::new();
    link.heard(
        after(4_501),
        Frame::Answers(vec![(2, Said::Released)]),
        &mut steps,
    );
    assert_eq!(steps, [], "an answer that comes later is told to nobody");
}

#[test]
fn a_connection_that_breaks_leaves_what_was_sent_unknown_and_the_next_call_tries_again() {
    let mut link = connected();
    ask(&mut link, T0, 1);
    let mut steps = Steps::new();
    link.broken(T0, &mut steps);
    assert_eq!(unreachable_askers(&steps), [1]);
    assert_eq!(ask(&mut link, T0, 2), [Step::Dial]);
}

#[test]
fn one_clusters_calls_leave_room_for_anothers() {
    let mut link = connected();
    let mut steps = Steps::new();
    for asker in 0..=u32::try_from(limits::FORWARDS_PER_CLUSTER_MAX).unwrap() {
        link.forward(T0, &cluster(), &call(), asker, &mut steps);
    }
    match &steps[..] {
        [Step::Answer(_, ForwardOutcome::Failed(error))] => {
            assert_eq!(error.code, ErrorCode::Overloaded);
        }
        other => panic!("{other:?}"),
    }
    steps.clear();
    link.forward(T0, &"b".into(), &call(), 0, &mut steps);
    assert_eq!(steps, []);
    link.flush(T0, &mut steps);
    let frames = steps.iter().map(|step| match step {
        Step::Send(Frame::Calls(calls)) => calls.len(),
        other => panic!("{other:?}"),
    });
    assert!(
        frames
            .into_iter()
            .all(|calls| calls <= limits::CALLS_PER_FRAME_MAX)
    );
}

#[test]
fn a_peer_that_was_quiet_because_nothing_was_asked_is_not_suspected() {
    let mut link = connected();
    ask(&mut link, after(3_600_000), 1);
    assert_eq!(tick(&mut link, after(3_600_299)), []);
}

#[test]
fn calls_that_come_close_together_share_a_frame_and_the_first_does_not_wait() {
    let mut link = connected();
    assert_eq!(ask(&mut link, after(5), 1).len(), 1, "it goes at once");
    assert_eq!(ask(&mut link, after(5), 2), []);
    assert_eq!(ask(&mut link, after(6), 3), []);
    assert_eq!(link.next_wakeup(), Some(after(7)));
    let mut steps = Steps::new();
    link.flush(after(7), &mut steps);
    match &steps[..] {
        [Step::Send(Frame::Calls(calls))] => assert_eq!(calls.len(), 2),
        other => panic!("{other:?}"),
    }
}
