//! The shadow judge: it knows the HTTP contract and nothing else. From what clients sent and were
//! told, by their own clocks, it finds what the contract forbids.

mod answers;
mod hold;

pub(crate) use answers::Asked;
pub(crate) use hold::{Hold, HoldNo};

use crate::clock::Real;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two holds of one name with unexpired promises.
    OneHolder,
    /// A token that does not grow, or is not the hold's own.
    Fence,
    /// An answer that is not true, or no answer, or two.
    OneAnswer,
    /// A live lock was lost, though nothing happened that it should not survive; or nothing is
    /// known of one, though everything works.
    LiveLock,
    /// A grant that a guard does not admit.
    Epoch,
    /// Something in etcd that nobody holds, or a name that does not become free.
    NoGhost,
    /// The engine panicked: one of its own checks failed.
    Inside,
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// World time in milliseconds.
    pub at: u64,
    /// The number of the lock's name; none: of no single one.
    pub name: Option<usize>,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} ms", self.rule, self.at)?;
        if let Some(name) = self.name {
            write!(f, ", name n{name}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// What may be asked of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Nothing happens after which ONE-HOLDER is not promised.
    pub(crate) one_holder: bool,
    /// Nothing happens that a live lock may not survive.
    pub(crate) no_loss: bool,
    /// All gateways may be down for longer than a promise lasts; what was promised may lapse, and
    /// comes back when it is renewed.
    pub(crate) may_lapse: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) terms: Terms,
    holds: Vec<Hold>,
    by_lock_id: BTreeMap<String, HoldNo>,
    by_name: BTreeMap<usize, BTreeSet<HoldNo>>,
    /// Guards that were taken away: by shard, from when on, until when.
    guard_gone: BTreeMap<u32, (Real, Real)>,
    finding: Option<Finding>,
}

impl Judge {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            terms,
            holds: Vec::new(),
            by_lock_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            guard_gone: BTreeMap::new(),
            finding: None,
        }
    }

    pub(crate) fn take_finding(&mut self) -> Option<Finding> {
        self.finding.take()
    }

    pub(crate) fn has_finding(&self) -> bool {
        self.finding.is_some()
    }

    /// The first finding is the one that counts.
    pub(crate) fn find(&mut self, rule: Rule, at: Real, name: Option<usize>, text: String) {
        if self.finding.is_none() {
            self.finding = Some(Finding {
                rule,
                at,
                name,
                text,
            });
        }
    }

    pub(crate) fn hold(&self, hold: HoldNo) -> &Hold {
        &self.holds[hold.0]
    }

    /// The client gives the hold up: it sends a release, or forgets it.
    pub(crate) fn given_up(&mut self, hold: HoldNo, now: Real) {
        let hold = &mut self.holds[hold.0];
        hold.given_up_at = hold.given_up_at.or(Some(now));
    }

    pub(crate) fn guard_goes(&mut self, shard: u32, from: Real, until: Real) {
        self.guard_gone.insert(shard, (from, until));
    }

    pub(crate) fn guard_is_back(&mut self, shard: u32) {
        self.guard_gone.remove(&shard);
    }

    /// Who has an unexpired promise for the name.
    pub(crate) fn promised(&self, name: usize, now: Real) -> Vec<HoldNo> {
        let of_name = self.by_name.get(&name).into_iter().flatten().copied();
        of_name
            .filter(|hold| self.hold(*hold).is_promised(now))
            .collect()
    }
}
