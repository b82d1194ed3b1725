//! When a command that runs under a lock must end: a state machine over values.
//!
//! Calling order: ask [`Keeper::step`] until it says [`Step::Wait`]; wait for that moment, or for
//! the loss of the hold, which is told by [`Keeper::lost`]; ask again.

use holdfast_api::EndReason;
use holdfast_client::{Instant, Loss};
use std::fmt;
use std::time::Duration;

/// Why the command must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// No renewal was answered, and the hold is about to end.
    NotRenewed,
    /// The gateway said so.
    Ended(EndReason),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRenewed => "no renewal is answered, and the hold is about to end",
            Self::Ended(EndReason::Expired) => "the lock is lost: the hold is over",
            Self::Ended(EndReason::Stolen) => {
                "the lock is lost: someone else has it, or it was ended by force"
            }
        })
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// SIGTERM; SIGKILL will follow at that moment. Said once.
    Terminate(Why, Instant),
    /// SIGKILL. Said once.
    Kill,
    /// Nothing until this moment; `None`: nothing any more.
    Wait(Option<Instant>),
}

/// One command, from its start on.
#[derive(Debug)]
pub(super) struct Keeper {
    grace: Duration,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// It is to end and has not been told.
    Doomed(Why, Instant),
    /// It has got SIGTERM.
    Ending(Instant),
    /// It has got SIGKILL.
    Killed(Instant),
}

impl Keeper {
    /// A command that gets `grace` between SIGTERM and SIGKILL.
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace,
            phase: Phase::Running,
        }
    }

    /// What to do at `now`, while the hold lasts until `until`. A command that is told to end because
    /// the end of the hold is near is killed when the hold ends, not later. Once it is told to end,
    /// a renewal that succeeds after all changes nothing: nobody could take the signal back.
    pub(super) fn step(&mut self, now: Instant, until: Instant) -> Step {
        match self.phase {
            Phase::Running if now + self.grace >= until => {
                self.phase = Phase::Ending(until);
                Step::Terminate(Why::NotRenewed, until)
            }
            Phase::Running => Step::Wait(Some(until - self.grace)),
            Phase::Doomed(why, kill_at) => {
                self.phase = Phase::Ending(kill_at);
                Step::Terminate(why, kill_at)
            }
            Phase::Ending(kill_at) if now >= kill_at => {
                self.phase = Phase::Killed(kill_at);
                Step::Kill
            }
            Phase::Ending(kill_at) => Step::Wait(Some(kill_at)),
            Phase::Killed(_) => Step::Wait(None),
        }
    }

    /// Takes note that the hold is lost at `now`.
    pub(super) fn lost(&mut self, loss: Loss, now: Instant) {
        if self.phase == Phase::Running {
            self.phase = match loss {
                Loss::Deadline => Phase::Doomed(Why::NotRenewed, now),
                Loss::Ended(reason) => Phase::Doomed(Why::Ended(reason), now + self.grace),
            };
        }
    }

    /// When what is left of the command is killed; `None`: the lock was held all the while.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => None,
            Phase::Doomed(_, at) | Phase::Ending(at) | Phase::Killed(at) => Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn at(secs: u64) -> Instant {
        Instant::from_micros(secs * 1_000_000)
    }

    fn keeper() -> Keeper {
        Keeper::new(GRACE)
    }

    #[test]
    fn while_renewals_are_answered_the_command_runs() {
        let mut keeper = keeper();
        for now in [0, 10, 20, 30] {
            let until = now + 30;
            assert_eq!(
                keeper.step(at(now), at(until)),
                Step::Wait(Some(at(until - 5)))
            );
        }
        assert_eq!(keeper.kill_at(), None);
    }

    #[test]
    fn without_renewals_it_is_told_before_the_hold_ends_and_killed_when_it_ends() {
        let mut keeper = keeper();
        assert_eq!(keeper.step(at(24), at(30)), Step::Wait(Some(at(25))));
        let told = Step::Terminate(Why::NotRenewed, at(30));
        assert_eq!(keeper.step(at(25), at(30)), told);
        assert_eq!(keeper.step(at(25), at(30)), Step::Wait(Some(at(30))));
        keeper.lost(Loss::Deadline, at(30));
        assert_eq!(keeper.step(at(30), at(30)), Step::Kill);
        assert_eq!(keeper.step(at(31), at(30)), Step::Wait(None));
        assert_eq!(keeper.kill_at(), Some(at(30)));
    }

    #[test]
    fn a_renewal_that_comes_too_late_does_not_take_the_signal_back() {
        let mut keeper = keeper();
        keeper.step(at(25), at(30));
        assert_eq!(keeper.step(at(26), at(56)), Step::Wait(Some(at(30))));
        assert_eq!(keeper.step(at(30), at(56)), Step::Kill);
    }

    #[test]
    fn a_hold_that_is_over_gives_the_command_its_whole_grace() {
        let mut keeper = keeper();
        let stolen = EndReason::Stolen;
        keeper.lost(Loss::Ended(stolen), at(7));
        let told = Step::Terminate(Why::Ended(stolen), at(12));
        assert_eq!(keeper.step(at(7), at(30)), told);
        assert_eq!(keeper.step(at(8), at(30)), Step::Wait(Some(at(12))));
        assert_eq!(keeper.step(at(12), at(30)), Step::Kill);
    }

    #[test]
    fn after_a_suspension_past_the_end_it_is_killed_without_delay() {
        let mut keeper = keeper();
        let told = Step::Terminate(Why::NotRenewed, at(30));
        assert_eq!(keeper.step(at(1000), at(30)), told);
        assert_eq!(keeper.step(at(1000), at(30)), Step::Kill);

        let mut keeper = self::keeper();
        keeper.lost(Loss::Deadline, at(1000));
        assert!(matches!(keeper.step(at(1000), at(30)), Step::Terminate(..)));
        assert_eq!(keeper.step(at(1000), at(30)), Step::Kill);
    }
}
