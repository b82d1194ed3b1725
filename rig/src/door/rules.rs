//! Which calls a trick is played on.

use std::collections::BTreeMap;
use std::time::Duration;

/// A call of etcd's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `KV.Txn`.
    Txn,
    /// `Lease.LeaseGrant`.
    LeaseGrant,
    /// `Lease.LeaseRevoke`.
    LeaseRevoke,
    /// `Lease.LeaseKeepAlive`, a stream.
    KeepAlive,
    /// `Watch.Watch`, a stream.
    Watch,
    /// Any other.
    Other,
}

impl Call {
    /// Of the path of a request.
    pub(super) fn of(path: &str) -> Self {
        match path {
            "/etcdserverpb.KV/Txn" => Self::Txn,
            "/etcdserverpb.Lease/LeaseGrant" => Self::LeaseGrant,
            "/etcdserverpb.Lease/LeaseRevoke" => Self::LeaseRevoke,
            "/etcdserverpb.Lease/LeaseKeepAlive" => Self::KeepAlive,
            "/etcdserverpb.Watch/Watch" => Self::Watch,
            _ => Self::Other,
        }
    }

    /// Whether requests and answers are streams that stay open.
    pub(super) fn is_stream(self) -> bool {
        matches!(self, Self::KeepAlive | Self::Watch)
    }
}

/// What is done to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trick {
    /// etcd carries it out; nobody is ever told.
    LoseAnswer,
    /// etcd carries it out; the caller sees the stream break.
    BreakAnswer,
    /// It is carried out so much later, whether or not anybody waits for it then.
    ApplyLate(Duration),
    /// It is answered "no space" and never reaches etcd.
    RefuseForSpace,
    /// etcd carries it out, and it is answered "no space", as the write is that uses it up.
    ApplyAndRefuseForSpace,
    /// Every keepalive of the stream is answered with a TTL of 0.
    TtlZero,
    /// No keepalive of the stream is answered.
    Silence,
    /// The stream is ended without an answer.
    CloseStream,
    /// What the watch would tell of changes is swallowed.
    SwallowEvents,
}

/// A trick, and the calls that it is played on.
#[derive(Debug, Clone)]
pub struct Rule {
    trick: Trick,
    call: Call,
    containing: Vec<u8>,
    times_left: u64,
    every: u64,
    seen: u64,
}

impl Rule {
    /// The trick, played on each call of this kind.
    #[must_use]
    pub fn new(trick: Trick, call: Call) -> Self {
        Self {
            trick,
            call,
            containing: Vec::new(),
            times_left: u64::MAX,
            every: 1,
            seen: 0,
        }
    }

    /// Only on calls whose message contains these bytes. Not for streams, whose messages are yet
    /// to come.
    #[must_use]
    pub fn containing(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.containing = bytes.into();
        self
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times_left = times;
        self
    }

    /// Only on one of so many.
    #[must_use]
    pub fn every(mut self, every: u64) -> Self {
        self.every = every.max(1);
        self
    }

    fn picks(&mut self, call: Call, message: &[u8]) -> bool {
        let is_meant = self.call == call
            && self.times_left > 0
            && (self.containing.is_empty() || contains(message, &self.containing));
        if !is_meant {
            return false;
        }
        self.seen += 1;
        let is_picked = self.seen.is_multiple_of(self.every);
        self.times_left -= u64::from(is_picked);
        is_picked
    }
}

/// The rules in force, and what was played.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    played: BTreeMap<Trick, u64>,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn played(&self, trick: Trick) -> u64 {
        self.played.get(&trick).copied().unwrap_or(0)
    }

    pub(super) fn all_played(&self) -> Vec<(String, u64)> {
        let played = self.played.iter();
        played
            .map(|(trick, times)| (format!("{trick:?}"), *times))
            .collect()
    }

    /// What to do with this call. The first rule that picks it counts.
    pub(super) fn pick(&mut self, call: Call, message: &[u8]) -> Option<Trick> {
        let trick = self
            .rules
            .iter_mut()
            .find_map(|rule| rule.picks(call, message).then_some(rule.trick))?;
        *self.played.entry(trick).or_default() += 1;
        Some(trick)
    }
}

pub(super) fn contains(message: &[u8], bytes: &[u8]) -> bool {
    message.windows(bytes.len()).any(|window| window == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(rules: &mut Rules, message: &[u8]) -> bool {
        rules.pick(Call::Txn, message).is_some()
    }

    #[test]
    fn a_rule_picks_calls_of_its_kind_with_its_bytes_so_often_as_it_says() {
        let mut rules = Rules::default();
        let rule = Rule::new(Trick::LoseAnswer, Call::Txn);
        rules.add(rule.containing("/locks/a").times(1));
        assert_eq!(rules.pick(Call::LeaseGrant, b"/locks/a"), None);
        assert!(!picked(&mut rules, b"/locks/b"));
        assert!(picked(&mut rules, b"put /locks/a"));
        assert!(!picked(&mut rules, b"put /locks/a"));
        assert_eq!(rules.played(Trick::LoseAnswer), 1);
    }

    #[test]
    fn a_rule_for_every_third_call_picks_the_third() {
        let mut rules = Rules::default();
        rules.add(Rule::new(Trick::LoseAnswer, Call::Txn).every(3));
        let picks: Vec<bool> = (0..6).map(|_| picked(&mut rules, b"")).collect();
        assert_eq!(picks, [false, false, true, false, false, true]);
    }
}
