//! The network between gateways: connections that keep order, and that a partition holds up, so
//! that what was sent can arrive very late, also when its sender does not wait for it any more.

use crate::clock::Real;
use holdfast_gateway::peer::Frame;
use std::collections::{BTreeMap, VecDeque};

/// The number of a connection, or of an attempt to make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineNo(pub(crate) u64);

/// Which way something goes on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Way {
    /// From who dialed.
    There,
    /// To who dialed.
    Back,
}

/// What is on its way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parcel {
    Frame(Frame),
    /// The other side has closed the connection.
    End,
}

/// One direction of a connection: what was sent arrives in order.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// With the time before which it cannot arrive.
    parcels: VecDeque<(Real, Parcel)>,
    /// When the next one is looked at; events for another time are void.
    pub(crate) moves_at: Option<Real>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// In which life of the gateway it was accepted; `None`: not yet.
    pub(crate) to_life: Option<u64>,
    /// Whether who dialed still has it.
    pub(crate) is_open: bool,
    there: Pipe,
    back: Pipe,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Network {
    lines: BTreeMap<LineNo, Line>,
    /// Until when nothing gets from one gateway to another.
    cut: BTreeMap<(usize, usize), Real>,
    /// Until when it takes so much longer.
    slow: BTreeMap<(usize, usize), (Real, u64)>,
}

impl Pipe {
    pub(crate) fn push(&mut self, earliest: Real, parcel: Parcel) {
        self.parcels.push_back((earliest, parcel));
    }

    /// When the first parcel arrives, unless something is in its way.
    pub(crate) fn next(&self) -> Option<Real> {
        self.parcels.front().map(|(earliest, _)| *earliest)
    }

    pub(crate) fn pop(&mut self, now: Real) -> Option<Parcel> {
        (self.next()? <= now)
            .then(|| self.parcels.pop_front())?
            .map(|(_, parcel)| parcel)
    }

    pub(crate) fn clear(&mut self) {
        self.parcels.clear();
    }
}

impl Line {
    pub(crate) fn new(from: usize, to: usize) -> Self {
        Self {
            from,
            to,
            to_life: None,
            is_open: true,
            there: Pipe::default(),
            back: Pipe::default(),
        }
    }

    pub(crate) fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::There => &mut self.there,
            Way::Back => &mut self.back,
        }
    }

    /// From whom to whom something goes this way.
    pub(crate) fn ends(&self, way: Way) -> (usize, usize) {
        match way {
            Way::There => (self.from, self.to),
            Way::Back => (self.to, self.from),
        }
    }
}

impl Network {
    pub(crate) fn insert(&mut self, no: LineNo, line: Line) {
        self.lines.insert(no, line);
    }

    pub(crate) fn get(&self, no: LineNo) -> Option<&Line> {
        self.lines.get(&no)
    }

    pub(crate) fn get_mut(&mut self, no: LineNo) -> Option<&mut Line> {
        self.lines.get_mut(&no)
    }

    pub(crate) fn remove(&mut self, no: LineNo) {
        self.lines.remove(&no);
    }

    /// The connections from or to this gateway.
    pub(crate) fn of(&self, gateway: usize) -> Vec<LineNo> {
        let is_of = |line: &Line| line.from == gateway || line.to == gateway;
        let of = self.lines.iter().filter(|(_, line)| is_of(line));
        of.map(|(no, _)| *no).collect()
    }

    /// Forgets a connection that nobody has and on which nothing is on its way.
    pub(crate) fn tidy(&mut self, no: LineNo) {
        if let Some(line) = self.lines.get(&no)
            && !line.is_open
            && line.there.next().is_none()
        {
            self.lines.remove(&no);
        }
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize, until: Real) {
        let cut = self.cut.entry((from, to)).or_default();
        *cut = until.max(*cut);
    }

    pub(crate) fn slow_down(&mut self, from: usize, to: usize, until: Real, by_ms: u64) {
        self.slow.insert((from, to), (until, by_ms));
    }

    /// Until when nothing gets through, if it does not now.
    pub(crate) fn cut_until(&self, from: usize, to: usize, now: Real) -> Option<Real> {
        let until = self.cut.get(&(from, to)).copied();
        until.filter(|until| *until > now)
    }

    pub(crate) fn slowness_ms(&self, from: usize, to: usize, now: Real) -> u64 {
        match self.slow.get(&(from, to)) {
            Some((until, by_ms)) if *until > now => *by_ms,
            _ => 0,
        }
    }

    /// Nothing is in the way of anything any more. Tells what is still on its way.
    pub(crate) fn heal(&mut self) -> Vec<(LineNo, Way)> {
        self.cut.clear();
        self.slow.clear();
        let numbers = self.lines.keys().copied();
        numbers
            .flat_map(|no| [(no, Way::There), (no, Way::Back)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_arrives_in_order_and_not_too_early() {
        let mut pipe = Pipe::default();
        pipe.push(10, Parcel::Frame(Frame::Ping));
        pipe.push(5, Parcel::End);
        assert_eq!(pipe.pop(9), None);
        assert_eq!(pipe.pop(10), Some(Parcel::Frame(Frame::Ping)));
        assert_eq!(pipe.pop(10), Some(Parcel::End));
        assert_eq!(pipe.pop(10), None);
    }

    #[test]
    fn a_cut_is_one_way_and_ends() {
        let mut network = Network::default();
        network.cut(0, 1, 10);
        assert_eq!(network.cut_until(0, 1, 9), Some(10));
        assert_eq!(network.cut_until(1, 0, 9), None);
        assert_eq!(network.cut_until(0, 1, 10), None);
    }
}
