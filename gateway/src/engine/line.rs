//! Waiting in line for a name that is held: who stands where. Pure.
//!
//! A waiter is a key in etcd, `{name}\0{place}`; a name's places grow strictly in the order in which
//! they were taken, across all gateways, because a place is taken under the compare that none is as
//! great ([`crate::engine::waiting`]). So the first key is the head of the line, whoever reads it, and
//! "nobody stands before me" is an empty range.

use crate::engine::acquire::Job;
use crate::engine::tickets::Ticket;
use crate::limits;
use crate::names::{ClientId, LockName, PrincipalTag};
use crate::time::{Instant, Millis};
use holdfast_store::{Key, LeaseId, Revision};
use shard_map::ShardId;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// A place in the line of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(pub(crate) u64);

/// One of this gateway's waiters.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) place: Place,
    pub(crate) lease: LeaseId,
    pub(crate) ticket: Ticket,
    /// `None` while an attempt has it.
    pub(crate) job: Option<Job>,
}

/// Who is at the head of a line, as far as is known: the truth is what a grant compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Head {
    #[default]
    Unknown,
    /// The first of this gateway's.
    Mine,
    /// One of another gateway.
    Other(Place),
}

/// What of a line is on its way. One thing at a time, so that what comes later finds things as the
/// earlier has left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Busy {
    #[default]
    No,
    Joining,
    Leaving,
    /// The waiter at this place tries to get the lock.
    Trying(Place),
}

/// This gateway's part of the line of one name.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) shard: ShardId,
    /// In the order of their places.
    pub(crate) standing: VecDeque<Standing>,
    /// Those who have no place yet, in the order in which they came.
    pub(crate) joining: VecDeque<Job>,
    /// Places that are given up.
    pub(crate) leaving: Vec<(Place, LeaseId)>,
    pub(crate) busy: Busy,
    pub(crate) head: Head,
    /// The name may be free: the head tries.
    pub(crate) try_now: bool,
    /// Somebody should look who holds the name, and who is at the head.
    pub(crate) look_now: bool,
    pub(crate) looking: bool,
    look_at: Instant,
    /// This gateway's own writes have changed it at this revision: what was read before is old.
    pub(crate) as_of: Revision,
    /// Those whose wait is over, and who are told when it is known how the name is held.
    pub(crate) timed_out: Vec<Ticket>,
    /// Whoever tries has gone to another engine to look, and comes back before this.
    pub(crate) away_until: Option<Instant>,
    /// What is watched: its end is a reason to look.
    pub(crate) watched: Option<Key>,
}

impl Line {
    fn new(shard: ShardId) -> Self {
        Self {
            shard,
            standing: VecDeque::new(),
            joining: VecDeque::new(),
            leaving: Vec::new(),
            busy: Busy::No,
            head: Head::Unknown,
            try_now: false,
            look_now: false,
            looking: false,
            look_at: Instant::NEVER,
            as_of: Revision::ABSENT,
            timed_out: Vec::new(),
            away_until: None,
            watched: None,
        }
    }

    fn len(&self) -> usize {
        self.standing.len() + self.joining.len()
    }

    /// What is to be done next, if anything.
    pub(crate) fn next(&self) -> Next {
        let head_waits = self
            .standing
            .front()
            .is_some_and(|first| first.job.is_some());
        match self.busy {
            Busy::No if !self.leaving.is_empty() => Next::Leave,
            Busy::No if self.try_now && self.head == Head::Mine && head_waits => Next::Try,
            Busy::No if !self.joining.is_empty() => Next::Join,
            Busy::No if self.standing.is_empty() => Next::End,
            _ if self.look_now && !self.looking => Next::Look,
            _ => Next::Nothing,
        }
    }

    /// The waiter at this place.
    pub(crate) fn at(&mut self, place: Place) -> Option<&mut Standing> {
        let at = self.standing.binary_search_by_key(&place, |it| it.place);
        self.standing.get_mut(at.ok()?)
    }
}

/// See [`Line::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    Join,
    Leave,
    Try,
    Look,
    /// Nobody is left in it.
    End,
}

/// Whose request it is that waits. The same client id of another principal is another client.
type Whose = (PrincipalTag, ClientId);

/// One request that waits.
#[derive(Debug)]
struct Wait {
    name: LockName,
    whose: Whose,
    since: Instant,
    until: Instant,
    place: Option<Place>,
}

/// With more waiters [`Lines::are_sound`] looks at nothing: it would take too long for tests.
const SOUND_CHECKED_MAX: usize = 64;

/// The lines in which this gateway has waiters, in one cluster.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    by_name: BTreeMap<LockName, Line>,
    by_ticket: HashMap<Ticket, Wait>,
    by_client: HashMap<Whose, usize>,
    /// When waits are over.
    ends: BTreeSet<(Instant, Ticket)>,
    /// When lines are looked at, whatever is heard.
    looks: BTreeSet<(Instant, LockName)>,
    /// Lines of which something has changed.
    changed: BTreeSet<LockName>,
    watches: usize,
}

/// Why nobody more may stand in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The line, or all lines together.
    Lines,
    /// This client waits too often.
    Client,
}

impl Lines {
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(crate) fn names(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn get_mut(&mut self, name: &LockName) -> Option<&mut Line> {
        self.by_name.get_mut(name)
    }

    pub(crate) fn get(&self, name: &LockName) -> Option<&Line> {
        self.by_name.get(name)
    }

    pub(crate) fn of_shard(&self, shard: ShardId) -> Vec<LockName> {
        let of_shard = self.by_name.iter().filter(|(_, line)| line.shard == shard);
        of_shard.map(|(name, _)| name.clone()).collect()
    }

    /// Puts a request at the end of its line, or forgets it.
    pub(crate) fn join(&mut self, job: Job, until: Instant) -> Result<(), Full> {
        let owner = PrincipalTag::of(job.acquire.principal.as_ref());
        let whose = (owner, job.acquire.client_id.clone());
        let of_client = self.by_client.get(&whose).copied();
        let of_name = self.by_name.get(&job.acquire.name).map_or(0, Line::len);
        if of_client.unwrap_or(0) >= limits::WAITS_PER_CLIENT_MAX {
            return Err(Full::Client);
        }
        if of_name >= limits::WAITS_PER_NAME_MAX || self.len() >= limits::WAITS_MAX {
            return Err(Full::Lines);
        }
        let name = job.acquire.name.clone();
        let wait = Wait {
            name: name.clone(),
            whose: whose.clone(),
            since: job.came_at,
            until,
            place: None,
        };
        self.by_ticket.insert(job.ticket, wait);
        *self.by_client.entry(whose).or_default() += 1;
        self.ends.insert((until, job.ticket));
        let shard = job.shard;
        let line = self
            .by_name
            .entry(name.clone())
            .or_insert_with(|| Line::new(shard));
        line.joining.push_back(job);
        self.changed.insert(name);
        Ok(())
    }

    /// Whether this request waits.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// When the wait of this request ends.
    pub(crate) fn until(&self, ticket: Ticket) -> Option<Instant> {
        self.by_ticket.get(&ticket).map(|wait| wait.until)
    }

    /// How long this request has waited at `now`.
    pub(crate) fn waited(&self, ticket: Ticket, now: Instant) -> Option<Millis> {
        let wait = self.by_ticket.get(&ticket);
        wait.map(|wait| now.since(wait.since))
    }

    /// The request has this place now.
    pub(crate) fn placed(&mut self, ticket: Ticket, place: Place) {
        if let Some(wait) = self.by_ticket.get_mut(&ticket) {
            wait.place = Some(place);
        }
    }

    /// The request has another ticket now.
    pub(crate) fn rename(&mut self, old: Ticket, new: Ticket) {
        if let Some(wait) = self.by_ticket.remove(&old) {
            self.ends.remove(&(wait.until, old));
            self.ends.insert((wait.until, new));
            self.by_ticket.insert(new, wait);
        }
    }

    /// The request waits no more: its place is given up, unless an attempt has it.
    pub(crate) fn over(&mut self, ticket: Ticket) {
        let Some(wait) = self.by_ticket.remove(&ticket) else {
            return;
        };
        self.ends.remove(&(wait.until, ticket));
        if let Some(count) = self.by_client.get_mut(&wait.whose) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&wait.whose);
            }
        }
        let Some(line) = self.by_name.get_mut(&wait.name) else {
            return;
        };
        match wait.place {
            None => line.joining.retain(|job| job.ticket != ticket),
            Some(place) => {
                if line.at(place).is_some_and(|it| it.job.is_some()) {
                    line.give_up(place);
                }
            }
        }
        self.changed.insert(wait.name);
    }

    /// A request whose wait is over, if there is one.
    pub(crate) fn pop_ended(&mut self, now: Instant) -> Option<(Ticket, LockName)> {
        let (until, ticket) = self.ends.first().copied()?;
        (until <= now).then_some(())?;
        self.ends.remove(&(until, ticket));
        let wait = self.by_ticket.get(&ticket)?;
        Some((ticket, wait.name.clone()))
    }

    /// Has the line looked at then at the latest.
    pub(crate) fn look_by(&mut self, name: &LockName, at: Instant) {
        if let Some(line) = self.by_name.get_mut(name) {
            self.looks.remove(&(line.look_at, name.clone()));
            line.look_at = at;
            self.looks.insert((at, name.clone()));
        }
    }

    /// The lines that are to be looked at now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<LockName> {
        let mut due = Vec::new();
        while let Some((at, name)) = self.looks.first().cloned() {
            if at > now {
                break;
            }
            self.looks.remove(&(at, name.clone()));
            due.push(name);
        }
        due
    }

    /// Whether an attempt has this request.
    pub(crate) fn is_trying(&self, ticket: Ticket) -> bool {
        let wait = self.by_ticket.get(&ticket);
        let trying = wait.and_then(|wait| {
            let line = self.by_name.get(&wait.name)?;
            Some(line.busy == Busy::Trying(wait.place?))
        });
        trying == Some(true)
    }

    /// The request has no place any more, and joins anew.
    pub(crate) fn unplaced(&mut self, ticket: Ticket) {
        if let Some(wait) = self.by_ticket.get_mut(&ticket) {
            wait.place = None;
        }
    }

    /// The name, if somebody should look at its line and nobody does yet.
    pub(crate) fn begin_look(&mut self, name: &LockName) -> Option<LockName> {
        let line = self.by_name.get_mut(name)?;
        if !line.look_now || line.looking {
            return None;
        }
        line.look_now = false;
        line.looking = true;
        Some(name.clone())
    }

    pub(crate) fn touch_all(&mut self) {
        self.changed.extend(self.by_name.keys().cloned());
    }

    pub(crate) fn look_all(&mut self) {
        self.by_name
            .values_mut()
            .for_each(|line| line.look_now = true);
        self.touch_all();
    }

    pub(crate) fn look(&mut self, name: &LockName) {
        if let Some(line) = self.by_name.get_mut(name) {
            line.look_now = true;
            self.changed.insert(name.clone());
        }
    }

    /// Something about the line is different.
    pub(crate) fn touch(&mut self, name: &LockName) {
        self.changed.insert(name.clone());
    }

    /// What must hold of them when nothing is left to be done at this moment.
    pub(crate) fn are_sound(&self) -> bool {
        let is_seen_to = |name: &LockName, line: &Line| {
            let scheduled = self.looks.contains(&(line.look_at, name.clone()));
            line.busy != Busy::No || line.looking || scheduled || line.standing.is_empty()
        };
        self.len() > SOUND_CHECKED_MAX
            || self.by_ticket.values().all(|wait| {
                let line = self.by_name.get(&wait.name);
                line.is_some_and(|line| {
                    line.standing
                        .iter()
                        .map(|it| it.place)
                        .is_sorted_by(|one, next| one < next)
                        && is_seen_to(&wait.name, line)
                })
            })
    }

    pub(crate) fn take_changed(&mut self) -> BTreeSet<LockName> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        let end = self.ends.first().map(|(at, _)| *at);
        let look = self.looks.first().map(|(at, _)| *at);
        end.into_iter().chain(look).min()
    }

    /// Nobody is left in it.
    pub(crate) fn end(&mut self, name: &LockName) -> Option<Line> {
        let line = self.by_name.remove(name)?;
        self.looks.remove(&(line.look_at, name.clone()));
        if line.watched.is_some() {
            self.watches -= 1;
        }
        Some(line)
    }

    /// Takes note of what is watched for the line; tells whether it may be.
    pub(crate) fn watch(&mut self, name: &LockName, key: Option<Key>) -> bool {
        let Some(line) = self.by_name.get_mut(name) else {
            return false;
        };
        if line.watched.is_some() {
            self.watches -= 1;
        }
        let may = key.is_none() || self.watches < limits::WATCHES_MAX;
        line.watched = key.filter(|_| may);
        if line.watched.is_some() {
            self.watches += 1;
        }
        may
    }

    pub(crate) fn watched_names(&self) -> Vec<LockName> {
        let watched = self
            .by_name
            .iter()
            .filter(|(_, line)| line.watched.is_some());
        watched.map(|(name, _)| name.clone()).collect()
    }
}

impl Line {
    /// Gives a place up.
    pub(crate) fn give_up(&mut self, place: Place) {
        if let Ok(at) = self.standing.binary_search_by_key(&place, |it| it.place)
            && let Some(it) = self.standing.remove(at)
        {
            self.leaving.push((place, it.lease));
            self.look_now = true;
        }
    }
}
