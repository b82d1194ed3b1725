//! The calls from this gateway to one other, as a state machine without I/O.
//!
//! Calls that come together leave in one frame, answers come in any order. Whatever happens to
//! the connection, each call has an outcome: what was sent and not answered is unknown, and the
//! client is told so. A peer that says nothing while it owes answers is cut off, and for a while
//! nothing is asked of it, so that a dead one costs its own requests a second and no more.
//!
//! The calling order: [`Link::forward`] as often as wanted, then [`Link::flush`]; [`Link::dialed`]
//! or [`Link::broken`] after each [`Step::Dial`]; [`Link::heard`] with each frame;
//! [`Link::tick`] no later than [`Link::next_wakeup`] says. After [`Step::HangUp`] nothing of that
//! connection is heard any more, and the next one begins with another [`Step::Dial`].

use crate::engine::Trouble;
use crate::limits;
use crate::peer::wire::{Call, CallNo, Frame, Said};
use crate::service::{Forward, ForwardOutcome};
use crate::time::Instant;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a link wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<A> {
    /// Connect.
    Dial,
    /// Send this on the connection.
    Send(Frame),
    /// Close the connection, or stop connecting.
    HangUp,
    /// Tell the asker.
    Answer(A, ForwardOutcome),
}

/// See the module. `A` is who asks.
#[derive(Debug)]
pub struct Link<A> {
    state: State,
    /// In the order of their numbers: those that wait for a connection are among them.
    pending: BTreeMap<CallNo, Pending<A>>,
    /// What the next frame takes.
    outbox: Vec<Call>,
    /// What is told as soon as there is a connection.
    untold: Vec<Frame>,
    /// When the last frame with calls left.
    flushed: Instant,
    /// How many calls of each cluster are pending, so that one whose owner waits for etcd leaves
    /// room for the others.
    by_cluster: HashMap<Arc<str>, usize>,
    last: CallNo,
}

#[derive(Debug)]
struct Pending<A> {
    asker: A,
    cluster: Arc<str>,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was asked for a while, or ever.
    Idle,
    Dialing(Instant),
    /// As that, after a failure: calls do not wait for it.
    Retrying(Instant),
    Up {
        /// Something was heard then, or nothing was owed.
        heard: Instant,
        /// A ping was sent then.
        pinged: Instant,
    },
    /// Asked again after this.
    Down(Instant),
}

impl<A> Default for Link<A> {
    fn default() -> Self {
        Self {
            state: State::Idle,
            pending: BTreeMap::new(),
            outbox: Vec::new(),
            untold: Vec::new(),
            flushed: Instant::NEVER,
            by_cluster: HashMap::new(),
            last: 0,
        }
    }
}

impl<A> Link<A> {
    /// Asks the peer. The outcome comes as [`Step::Answer`].
    pub fn forward(
        &mut self,
        now: Instant,
        cluster: &Arc<str>,
        forward: &Forward,
        asker: A,
        steps: &mut Vec<Step<A>>,
    ) {
        match self.state {
            // One that did not answer is tried by nobody's request: it may take long to fail again.
            State::Down(until) if now.since(until) < limits::PEER_FAILURE_COUNTS => {
                if now >= until {
                    self.state = State::Retrying(now);
                    steps.push(Step::Dial);
                }
                return steps.push(Step::Answer(asker, unreachable(cluster)));
            }
            State::Retrying(_) => return steps.push(Step::Answer(asker, unreachable(cluster))),
            // A failure of long ago says nothing about now.
            State::Idle | State::Down(_) => {
                self.state = State::Dialing(now);
                steps.push(Step::Dial);
            }
            // Nothing was owed so far, so nothing was to be heard.
            State::Up { .. } if self.pending.is_empty() => self.is_heard(now),
            State::Dialing(_) | State::Up { .. } => {}
        }
        let count = self.by_cluster.entry(Arc::clone(cluster)).or_default();
        if *count >= limits::FORWARDS_PER_CLUSTER_MAX {
            let error = Trouble::Overloaded.to_error(cluster);
            return steps.push(Step::Answer(asker, ForwardOutcome::Failed(error)));
        }
        *count += 1;
        self.last += 1;
        self.outbox.push(Call::new(self.last, forward));
        let pending = Pending {
            asker,
            cluster: Arc::clone(cluster),
            since: now,
        };
        self.pending.insert(self.last, pending);
    }

    /// Tells the peer something that nothing depends on.
    pub fn tell(&mut self, now: Instant, frame: Frame, steps: &mut Vec<Step<A>>) {
        match self.state {
            State::Up { .. } => return steps.push(Step::Send(frame)),
            State::Down(until) if now < until => return,
            State::Idle | State::Down(_) => {
                self.state = State::Dialing(now);
                steps.push(Step::Dial);
            }
            State::Dialing(_) | State::Retrying(_) => {}
        }
        if self.untold.len() < limits::UNTOLD_MAX {
            self.untold.push(frame);
        }
    }

    /// Until when calls may as well be left where they wait: none leaves earlier, unless there are
    /// more of them than one frame takes.
    pub fn rests_until(&self) -> Option<Instant> {
        let up = matches!(self.state, State::Up { .. });
        up.then(|| self.flushed + limits::PEER_FRAME_INTERVAL)
    }

    /// Sends what has come together: a frame every two milliseconds, unless there are more calls than
    /// one takes. A call on a quiet link goes at once; under load a frame carries many, and a gateway
    /// pays for frames rather than for calls.
    pub fn flush(&mut self, now: Instant, steps: &mut Vec<Step<A>>) {
        let full = self.outbox.len() >= limits::CALLS_PER_FRAME_MAX;
        if !matches!(self.state, State::Up { .. })
            || now.since(self.flushed) < limits::PEER_FRAME_INTERVAL && !full
        {
            return;
        }
        while !self.outbox.is_empty() {
            self.flushed = now;
            let rest = self.outbox.len().min(limits::CALLS_PER_FRAME_MAX);
            let rest = self.outbox.split_off(rest);
            steps.push(Step::Send(Frame::Calls(std::mem::replace(
                &mut self.outbox,
                rest,
            ))));
        }
    }

    /// There is a connection.
    pub fn dialed(&mut self, now: Instant, steps: &mut Vec<Step<A>>) {
        if matches!(self.state, State::Dialing(_) | State::Retrying(_)) {
            self.is_heard(now);
            steps.extend(self.untold.drain(..).map(Step::Send));
            self.flush(now, steps);
        }
    }

    /// The connection could not be made, or has ended. Whether what was sent was carried out is
    /// not known.
    pub fn broken(&mut self, now: Instant, steps: &mut Vec<Step<A>>) {
        self.state = match self.state {
            // Perhaps it was only this connection: the next call tries again.
            State::Up { .. } | State::Idle => State::Idle,
            State::Dialing(_) | State::Retrying(_) => State::Down(now + limits::PEER_RETRY),
            State::Down(until) => State::Down(until),
        };
        self.fail_all(steps);
    }

    /// The peer has said something.
    pub fn heard(&mut self, now: Instant, frame: Frame, steps: &mut Vec<Step<A>>) {
        if !matches!(self.state, State::Up { .. }) {
            return;
        }
        self.is_heard(now);
        match frame {
            Frame::Answers(answers) => {
                for (no, said) in answers {
                    self.answered(no, said, steps);
                }
            }
            Frame::Ping => steps.push(Step::Send(Frame::Pong)),
            // Nobody calls on a connection that was dialed here.
            Frame::Pong | Frame::Calls(_) | Frame::Left(_) => {}
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, steps: &mut Vec<Step<A>>) {
        match self.state {
            State::Dialing(since) | State::Retrying(since)
                if now.since(since) >= limits::PEER_SILENCE_MAX =>
            {
                self.give_up(now, steps);
            }
            State::Up { heard, .. }
                if !self.pending.is_empty() && now.since(heard) >= limits::PEER_SILENCE_MAX =>
            {
                self.give_up(now, steps);
            }
            State::Up { heard, pinged }
                if !self.pending.is_empty()
                    && now.since(heard.max(pinged)) >= limits::PEER_PING_INTERVAL =>
            {
                self.state = State::Up { heard, pinged: now };
                steps.push(Step::Send(Frame::Ping));
            }
            _ => {}
        }
        self.time_out(now, steps);
    }

    /// When [`Link::tick`] is wanted; `None`: not before something else has happened.
    pub fn next_wakeup(&self) -> Option<Instant> {
        if let State::Dialing(since) | State::Retrying(since) = self.state {
            return Some(since + limits::PEER_SILENCE_MAX);
        }
        let (_, oldest) = self.pending.first_key_value()?;
        let timeout = oldest.since + limits::REQUEST_TIMEOUT;
        let look = match self.state {
            State::Up { .. } if !self.outbox.is_empty() => {
                self.flushed + limits::PEER_FRAME_INTERVAL
            }
            State::Up { heard, pinged } => heard.max(pinged) + limits::PEER_PING_INTERVAL,
            State::Idle | State::Down(_) | State::Dialing(_) | State::Retrying(_) => return None,
        };
        Some(timeout.min(look))
    }

    fn is_heard(&mut self, now: Instant) {
        let pinged = match self.state {
            State::Up { pinged, .. } => pinged,
            _ => now,
        };
        self.state = State::Up { heard: now, pinged };
    }

    fn answered(&mut self, no: CallNo, said: Said, steps: &mut Vec<Step<A>>) {
        // One that timed out is not waited for any more.
        if let Some(pending) = self.take(no) {
            let outcome = said.outcome(&pending.cluster);
            steps.push(Step::Answer(pending.asker, outcome));
        }
    }

    fn take(&mut self, no: CallNo) -> Option<Pending<A>> {
        let pending = self.pending.remove(&no)?;
        if let Some(count) = self.by_cluster.get_mut(&pending.cluster) {
            *count -= 1;
        }
        Some(pending)
    }

    fn time_out(&mut self, now: Instant, steps: &mut Vec<Step<A>>) {
        while let Some((no, oldest)) = self.pending.first_key_value()
            && now.since(oldest.since) >= limits::REQUEST_TIMEOUT
        {
            let no = *no;
            self.outbox.retain(|call| call.no != no);
            if let Some(pending) = self.take(no) {
                steps.push(Step::Answer(pending.asker, unreachable(&pending.cluster)));
            }
        }
    }

    fn give_up(&mut self, now: Instant, steps: &mut Vec<Step<A>>) {
        steps.push(Step::HangUp);
        self.state = State::Down(now + limits::PEER_RETRY);
        self.fail_all(steps);
    }

    fn fail_all(&mut self, steps: &mut Vec<Step<A>>) {
        self.outbox.clear();
        self.untold.clear();
        self.by_cluster.clear();
        for pending in std::mem::take(&mut self.pending).into_values() {
            steps.push(Step::Answer(pending.asker, unreachable(&pending.cluster)));
        }
    }
}

fn unreachable(cluster: &Arc<str>) -> ForwardOutcome {
    ForwardOutcome::Failed(Trouble::OtherOwner.to_error(cluster))
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
