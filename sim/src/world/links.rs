//! A gateway's links to the others: the shell around [`Link`].

use super::{ArrivalNo, Event, World};
use crate::clock::{Real, Shows as _};
use crate::faults::Fault;
use crate::gateway::EngineAt;
use crate::network::{Line, LineNo, Parcel, Way};
use holdfast_gateway::engine::{Heritage, Input, Owner, Ticket};
use holdfast_gateway::limits;
use holdfast_gateway::peer::{Frame, Left, Link, Step};
use holdfast_gateway::service::{Forward, ForwardOutcome};
use std::sync::Arc;

/// What happens between gateways.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PeerEvent {
    /// A gateway looks after its link to another.
    LinkRuns { from: usize, to: usize, plan: u64 },
    /// Somebody knocks.
    DialArrives(LineNo),
    /// Somebody has knocked for long enough.
    DialEnds(LineNo),
    /// The first of what is on its way is due.
    Moves(LineNo, Way),
}

/// Who is told the outcome of a call.
#[derive(Debug, Clone)]
pub(crate) enum LinkAsker {
    /// An engine.
    Engine(EngineAt, Ticket),
    /// A client's request.
    Client(ArrivalNo, Arc<Owner>),
}

/// A gateway's link to another, and what waits for it.
#[derive(Debug)]
pub(crate) struct PeerLink {
    link: Link<LinkAsker>,
    inbox: Vec<LinkInput>,
    line: Option<LineNo>,
    run_at: Real,
    plan: u64,
}

#[derive(Debug)]
pub(super) enum LinkInput {
    Ask(Arc<str>, Box<Forward>, LinkAsker),
    Tell(Frame),
    Dialed(LineNo),
    Heard(LineNo, Frame),
    Broken(LineNo),
}

impl Default for PeerLink {
    fn default() -> Self {
        Self {
            link: Link::default(),
            inbox: Vec::new(),
            line: None,
            run_at: Real::MAX,
            plan: 0,
        }
    }
}

impl World {
    pub(super) fn peer_event(&mut self, event: PeerEvent) {
        match event {
            PeerEvent::LinkRuns { from, to, plan } => self.link_runs(from, to, plan),
            PeerEvent::DialArrives(no) => self.dial_arrives(no),
            PeerEvent::DialEnds(no) => self.dial_ends(no),
            PeerEvent::Moves(no, way) => self.moves(no, way),
        }
    }

    /// Asks another gateway.
    pub(super) fn forward(
        &mut self,
        from: usize,
        owner: &Owner,
        cluster: Arc<str>,
        forward: Forward,
        asker: LinkAsker,
    ) {
        self.figures.event("forwards");
        let input = LinkInput::Ask(cluster, Box::new(forward), asker);
        self.tell_link(from, at_url(&owner.peer_url), input);
    }

    /// Tells an heir what is left to it.
    pub(super) fn bequeath(&mut self, at: EngineAt, owner: &Owner, heritage: &Heritage) {
        self.figures.event("groups left to heirs");
        let cluster = &self.gateways[at.gateway].engines[at.cluster].cluster;
        let left = Frame::Left(Left::new(cluster, heritage));
        self.tell_link(at.gateway, at_url(&owner.peer_url), LinkInput::Tell(left));
    }

    pub(super) fn tell_link(&mut self, from: usize, to: usize, input: LinkInput) {
        let stall = self.dice.between(0..=9).saturating_sub(8);
        let gateway = &mut self.gateways[from];
        if gateway.is_up() {
            gateway.links.entry(to).or_default().inbox.push(input);
            self.plan_link(from, to, self.now + stall);
        }
    }

    fn plan_link(&mut self, from: usize, to: usize, time: Real) {
        let Some(entry) = self.gateways[from].links.get_mut(&to) else {
            return;
        };
        if time < entry.run_at {
            self.counter += 1;
            entry.run_at = time;
            entry.plan = self.counter;
            let plan = entry.plan;
            self.at(time, Event::Peer(PeerEvent::LinkRuns { from, to, plan }));
        }
    }

    fn link_runs(&mut self, from: usize, to: usize, plan: u64) {
        let (now, gateway) = (self.now, &mut self.gateways[from]);
        let paused_until = gateway.paused_until;
        let Some(entry) = gateway.links.get_mut(&to).filter(|it| it.plan == plan) else {
            return;
        };
        entry.run_at = Real::MAX;
        if paused_until > now {
            return self.plan_link(from, to, paused_until);
        }
        let shown = gateway.clock.instant(now);
        let mut steps = Vec::new();
        for input in std::mem::take(&mut entry.inbox) {
            match input {
                LinkInput::Ask(cluster, forward, asker) => {
                    entry
                        .link
                        .forward(shown, &cluster, &forward, asker, &mut steps);
                }
                LinkInput::Tell(frame) => entry.link.tell(shown, frame, &mut steps),
                LinkInput::Dialed(line) if entry.line == Some(line) => {
                    entry.link.dialed(shown, &mut steps);
                }
                LinkInput::Heard(line, frame) if entry.line == Some(line) => {
                    entry.link.heard(shown, frame, &mut steps);
                }
                LinkInput::Broken(line) if entry.line == Some(line) => {
                    entry.line = None;
                    entry.link.broken(shown, &mut steps);
                }
                // Of a connection that was given up.
                LinkInput::Dialed(_) | LinkInput::Heard(..) | LinkInput::Broken(_) => {}
            }
        }
        entry.link.tick(shown, &mut steps);
        entry.link.flush(shown, &mut steps);
        self.take_steps(from, to, steps);
        let gateway = &self.gateways[from];
        let wakeup = gateway.links.get(&to).and_then(|it| it.link.next_wakeup());
        if let Some(wakeup) = wakeup {
            let next = gateway.clock.when(wakeup.as_ms()).max(now);
            self.plan_link(from, to, next);
        }
    }

    fn take_steps(&mut self, from: usize, to: usize, steps: Vec<Step<LinkAsker>>) {
        for step in steps {
            match step {
                Step::Dial => self.dial(from, to),
                Step::HangUp => self.hang_up(from, to),
                Step::Answer(asker, outcome) => self.owner_said(asker, outcome),
                Step::Send(frame) => self.send_frame(from, to, frame),
            }
        }
    }

    fn owner_said(&mut self, asker: LinkAsker, outcome: ForwardOutcome) {
        match asker {
            LinkAsker::Engine(at, ticket) => {
                self.give(at, Input::ForwardAnswered(ticket, outcome));
            }
            LinkAsker::Client(arrival, owner) => self.owner_answered(arrival, &owner, outcome),
        }
    }

    fn dial(&mut self, from: usize, to: usize) {
        self.hang_up(from, to);
        let no = LineNo(self.number());
        self.network.insert(no, Line::new(from, to));
        let gateway = &mut self.gateways[from];
        let timeout = limits::PEER_HANDSHAKE_TIMEOUT.as_ms();
        let ends = gateway.clock.when(gateway.clock.read(self.now) + timeout);
        gateway.links.entry(to).or_default().line = Some(no);
        self.at(ends, Event::Peer(PeerEvent::DialEnds(no)));
        let arrives = self.now + 3 * self.peer_latency(from, to);
        self.at(arrives, Event::Peer(PeerEvent::DialArrives(no)));
    }

    fn hang_up(&mut self, from: usize, to: usize) {
        let entry = self.gateways[from].links.get_mut(&to);
        if let Some(no) = entry.and_then(|entry| entry.line.take()) {
            self.abandon(no);
        }
    }

    /// The connection from one gateway to another breaks, if there is one.
    pub(super) fn reset_link(&mut self, from: usize, to: usize) {
        let line = self.gateways[from].links.get(&to).and_then(|it| it.line);
        if let Some(no) = line {
            self.figures.fault(Fault::PeerReset);
            self.abandon(no);
            self.tell_link(from, to, LinkInput::Broken(no));
        }
    }

    fn send_frame(&mut self, from: usize, to: usize, frame: Frame) {
        let line = self.gateways[from].links.get(&to).and_then(|it| it.line);
        let is_up = |no: &LineNo| {
            let line = self.network.get(*no);
            line.is_some_and(|line| line.to_life.is_some())
        };
        if let Some(no) = line.filter(is_up) {
            self.push(no, Way::There, Parcel::Frame(frame));
        }
    }
}

/// Which gateway is reached there.
fn at_url(url: &str) -> usize {
    let number = url.strip_prefix("http://gateway-");
    let Some(gateway) = number.and_then(|number| number.parse().ok()) else {
        unreachable!("every gateway of this world has such a URL");
    };
    gateway
}
