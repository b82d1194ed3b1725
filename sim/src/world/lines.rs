//! What becomes of connections between gateways, and of what is on its way on them.

use super::links::{LinkInput, PeerEvent};
use super::{Event, World};
use crate::clock::Real;
use crate::network::{LineNo, Parcel, Way};
use holdfast_gateway::peer::Frame;

impl World {
    pub(super) fn dial_arrives(&mut self, no: LineNo) {
        let now = self.now;
        let Some((from, to)) = self.network.get(no).map(|line| (line.from, line.to)) else {
            return;
        };
        let cut = self.network.cut_until(from, to, now);
        let cut = cut.max(self.network.cut_until(to, from, now));
        let target = &self.gateways[to];
        let later = cut.max(Some(target.paused_until).filter(|until| *until > now));
        if let Some(until) = later {
            // It is tried again and again, or waits in the backlog.
            let time = until + self.dice.delay(300);
            return self.at(time, Event::Peer(PeerEvent::DialArrives(no)));
        }
        if !target.is_up() {
            self.network.remove(no);
            return self.tell_link(from, to, LinkInput::Broken(no));
        }
        let life = target.life;
        if let Some(line) = self.network.get_mut(no) {
            line.to_life = Some(life);
        }
        self.tell_link(from, to, LinkInput::Dialed(no));
    }

    pub(super) fn dial_ends(&mut self, no: LineNo) {
        let dialing = self.network.get(no).filter(|line| line.to_life.is_none());
        if let Some((from, to)) = dialing.map(|line| (line.from, line.to)) {
            self.network.remove(no);
            self.tell_link(from, to, LinkInput::Broken(no));
        }
    }

    /// Who dialed has closed the connection. What was sent may still arrive, or be thrown away.
    pub(super) fn abandon(&mut self, no: LineNo) {
        let thrown_away = self.dice.per_mille(200);
        let Some(line) = self.network.get_mut(no) else {
            return;
        };
        line.is_open = false;
        if line.to_life.is_none() || thrown_away {
            line.pipe(Way::There).clear();
        }
        self.network.tidy(no);
    }

    pub(super) fn push(&mut self, no: LineNo, way: Way, parcel: Parcel) {
        let Some(line) = self.network.get(no) else {
            return;
        };
        let (from, to) = line.ends(way);
        let earliest = self.now + self.peer_latency(from, to);
        if let Some(line) = self.network.get_mut(no) {
            line.pipe(way).push(earliest, through_the_wire(parcel));
        }
        self.plan_move(no, way, earliest);
    }

    pub(super) fn plan_move(&mut self, no: LineNo, way: Way, time: Real) {
        if let Some(line) = self.network.get_mut(no)
            && line.pipe(way).next().is_some()
            && line.pipe(way).moves_at.is_none_or(|planned| time < planned)
        {
            line.pipe(way).moves_at = Some(time);
            self.at(time, Event::Peer(PeerEvent::Moves(no, way)));
        }
    }

    pub(super) fn peer_latency(&mut self, from: usize, to: usize) -> Real {
        let most = match self.healed {
            true => 5,
            false => self.options.peer_latency_ms,
        };
        self.dice.delay(most) + self.network.slowness_ms(from, to, self.now)
    }

    pub(super) fn moves(&mut self, no: LineNo, way: Way) {
        let now = self.now;
        let Some(line) = self.network.get_mut(no) else {
            return;
        };
        let (from, to) = line.ends(way);
        if line.pipe(way).moves_at != Some(now) {
            return;
        }
        line.pipe(way).moves_at = None;
        let to_life = line.to_life;
        if let Some(until) = self.network.cut_until(from, to, now) {
            // Sent again and again.
            let time = until + self.dice.delay(1_000);
            return self.plan_move(no, way, time);
        }
        let receiver = &self.gateways[to];
        if way == Way::There {
            if !receiver.is_up() || to_life != Some(receiver.life) {
                return self.nobody_reads(no);
            }
            if receiver.paused_until > now {
                let time = receiver.paused_until;
                return self.plan_move(no, way, time);
            }
        }
        let parcel = self
            .network
            .get_mut(no)
            .and_then(|it| it.pipe(way).pop(now));
        let next = self.network.get_mut(no).and_then(|it| it.pipe(way).next());
        if let Some(next) = next {
            self.plan_move(no, way, next.max(now));
        }
        if let Some(parcel) = parcel {
            match way {
                Way::There => self.frame_comes(no, parcel),
                Way::Back => self.answer_comes(no, parcel),
            }
        }
        self.network.tidy(no);
    }

    /// The gateway that accepted the connection is gone: what was sent to it is lost.
    fn nobody_reads(&mut self, no: LineNo) {
        if let Some(line) = self.network.get_mut(no) {
            line.pipe(Way::There).clear();
        }
        self.network.tidy(no);
    }

    fn answer_comes(&mut self, no: LineNo, parcel: Parcel) {
        let open = self.network.get(no).filter(|line| line.is_open);
        let Some((from, to)) = open.map(|line| (line.from, line.to)) else {
            return;
        };
        let input = match parcel {
            Parcel::Frame(frame) => LinkInput::Heard(no, frame),
            Parcel::End => {
                self.abandon(no);
                LinkInput::Broken(no)
            }
        };
        self.tell_link(from, to, input);
    }
}

/// As it is written and read.
fn through_the_wire(parcel: Parcel) -> Parcel {
    match parcel {
        Parcel::Frame(frame) => match Frame::decode(&frame.encode()) {
            Some(read) => Parcel::Frame(read),
            None => unreachable!("a frame reads back"),
        },
        Parcel::End => Parcel::End,
    }
}
