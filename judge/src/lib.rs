//! The shadow judge: it knows the HTTP contract and nothing else. From what clients sent and were
//! told, by their own clocks, it finds what the contract forbids.
//!
//! It has no clock and no network: whoever drives the clients (the simulator in virtual time, the
//! chaos rig with real processes) gives it every request's answer, in the order in which they were
//! received, with the time. Times must not go backwards from one call to the next.
//!
//! ```
//! use holdfast_judge::{Asked, Client, Grant, Judge, PartyClock, Promise, Rule, Terms};
//!
//! let mut judge = Judge::new(Terms::default());
//! let clock = PartyClock::new(0, 0);
//! let promise = Promise { ttl_ms: 9_900, renew_after_ms: 3_000 };
//! for client in [Client(1, 0), Client(2, 0)] {
//!     let asked = Asked { client, clock, sent: 100, answered: 110, name: 7, shard: 0, wait_ms: 0 };
//!     let lock_id = format!("lock-of-{}", client.0);
//!     let grant = Grant { lock_id: &lock_id, token: 40 + client.0 as u64, promise, already_held: false, waited_ms: 0 };
//!     judge.granted(120, &asked, 10_000, &grant);
//! }
//! assert_eq!(judge.take_finding().unwrap().rule, Rule::OneHolder);
//! ```

mod answers;
mod clock;
mod hold;

pub use answers::{Asked, Grant, Promise, Refused};
pub use clock::{PartyClock, Real};
pub use hold::{Client, Hold, HoldNo};

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
    /// A grant to one before whom another stood in line.
    InLine,
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

/// What may be asked of the run. The default asks for ONE-HOLDER, and not that every renewed hold
/// lives.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Nothing happens after which ONE-HOLDER is not promised.
    pub one_holder: bool,
    /// Nothing happens that a live lock may not survive.
    pub no_loss: bool,
    /// All gateways may be down for longer than a promise lasts; what was promised may lapse, and
    /// comes back when it is renewed.
    pub may_lapse: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            one_holder: true,
            no_loss: false,
            may_lapse: true,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Judge {
    /// What is asked of the run from now on.
    pub terms: Terms,
    holds: Vec<Hold>,
    by_lock_id: BTreeMap<String, HoldNo>,
    by_name: BTreeMap<usize, BTreeSet<HoldNo>>,
    /// Names that somebody wants force-released; whether at once.
    forced: BTreeMap<usize, bool>,
    /// Guards that were taken away: by shard, from when on, until when.
    guard_gone: BTreeMap<u32, (Real, Real)>,
    finding: Option<Finding>,
}

impl Judge {
    /// A judge that has seen nothing.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            holds: Vec::new(),
            by_lock_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            forced: BTreeMap::new(),
            guard_gone: BTreeMap::new(),
            finding: None,
        }
    }

    /// The finding, if there is one.
    pub fn take_finding(&mut self) -> Option<Finding> {
        self.finding.take()
    }

    /// Whether anything was found.
    pub fn has_finding(&self) -> bool {
        self.finding.is_some()
    }

    /// Something is found, here or by whoever drives the clients. The first finding is the one that
    /// counts.
    pub fn find(&mut self, rule: Rule, at: Real, name: Option<usize>, text: String) {
        if self.finding.is_none() {
            self.finding = Some(Finding {
                rule,
                at,
                name,
                text,
            });
        }
    }

    /// What is known of a hold.
    pub fn hold(&self, hold: HoldNo) -> &Hold {
        &self.holds[hold.0]
    }

    /// The client gives the hold up: it sends a release, or forgets it.
    pub fn given_up(&mut self, hold: HoldNo, now: Real) {
        let hold = &mut self.holds[hold.0];
        hold.given_up_at = hold.given_up_at.or(Some(now));
    }

    /// An operator asks for the name to be force-released, and the request may arrive at any time from
    /// now on. Whoever holds it may lose it; with `immediate` before its promise ends.
    pub fn force_asked(&mut self, name: usize, immediate: bool) {
        *self.forced.entry(name).or_default() |= immediate;
    }

    /// Whether a hold of the name may be lost by a force-release.
    pub fn is_forced(&self, name: usize) -> bool {
        self.forced.contains_key(&name)
    }

    /// Whether it may be lost before its promise ends.
    pub(crate) fn is_forced_at_once(&self, name: usize) -> bool {
        self.forced.get(&name) == Some(&true)
    }

    /// A shard's guard is taken away for a time; grants are forbidden meanwhile.
    pub fn guard_goes(&mut self, shard: u32, from: Real, until: Real) {
        self.guard_gone.insert(shard, (from, until));
    }

    /// It is there again.
    pub fn guard_is_back(&mut self, shard: u32) {
        self.guard_gone.remove(&shard);
    }

    /// The names for which somebody has an unexpired promise, each hold's.
    pub fn all_promised(&self, now: Real) -> impl Iterator<Item = usize> {
        let promised = self.holds.iter().filter(move |hold| hold.is_promised(now));
        promised.map(|hold| hold.name)
    }

    /// Every lock id that a client was told.
    pub fn lock_ids(&self) -> impl Iterator<Item = &str> {
        self.by_lock_id.keys().map(String::as_str)
    }

    /// Who has an unexpired promise for the name.
    pub fn promised(&self, name: usize, now: Real) -> Vec<HoldNo> {
        let of_name = self.by_name.get(&name).into_iter().flatten().copied();
        of_name
            .filter(|hold| self.hold(*hold).is_promised(now))
            .collect()
    }
}
