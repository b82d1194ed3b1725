//! Taking places in the line of a name, and giving them up: the writes of [`crate::engine::waiting`].

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::leases::Hook;
use crate::engine::line::{Busy, Place, Standing};
use crate::engine::looking::Shown;
use crate::engine::outcome::Found;
use crate::engine::records;
use crate::engine::waiting::head_of;
use crate::engine::writes::WriteOp;
use crate::limits;
use crate::names::LockName;
use holdfast_store::{Compare, Get, Key, KeyRange, LeaseId, Put, Revision, Txn, TxnOp};

/// Waiters that are to be put into the line of a name, in their order.
#[derive(Debug)]
pub(crate) struct Join {
    name: LockName,
    /// The first of them; each has the next number.
    first: Place,
    jobs: Vec<(Job, LeaseId)>,
}

/// Places in the line of a name that are given up.
#[derive(Debug)]
pub(crate) struct Leave {
    name: LockName,
    places: Vec<(Place, LeaseId)>,
}

/// Places that one revision may give: those of one join.
const PLACES_PER_REVISION: u64 = 16;

const _: () = assert!(limits::JOINS_AT_ONCE_MAX as u64 <= PLACES_PER_REVISION);

impl Join {
    pub(crate) fn lock_key(&self) -> Key {
        records::lock_key(self.name.as_str())
    }

    /// What tells whether it has happened.
    pub(crate) fn first_key(&self) -> Key {
        records::waiter_key(self.name.as_str(), self.first)
    }

    pub(crate) fn bytes(&self) -> usize {
        let one = self.name.as_str().len() + limits::CLIENT_ID_BYTES_MAX + 256;
        self.jobs.len() * one
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> + use<> {
        let leases: Vec<_> = self.jobs.iter().map(|(_, lease)| *lease).collect();
        leases.into_iter()
    }

    /// What was read after they were put.
    pub(crate) fn shown(&self, found: &Found, revision: Revision) -> Shown {
        let read = self.jobs.len();
        Shown {
            revision,
            record: found.get(read).cloned(),
            head: found.get(read + 1).cloned(),
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let first = self.first.0;
        (first..).take(self.jobs.len()).map(Place)
    }
}

impl Leave {
    pub(crate) fn lock_key(&self) -> Key {
        records::lock_key(self.name.as_str())
    }

    pub(crate) fn first_key(&self) -> Option<Key> {
        let (place, _) = self.places.first()?;
        Some(records::waiter_key(self.name.as_str(), *place))
    }
}

impl Engine {
    /// A place that no place of the line is as great as, as far as this gateway has seen.
    pub(crate) fn next_place(&self, name: &LockName) -> Place {
        let seen = (self.seen.0.cast_unsigned() + 1) * PLACES_PER_REVISION;
        let last = self.lines.get(name).and_then(|line| line.standing.back());
        let after_last = last.map_or(0, |last| last.place.0 + 1);
        Place(seen.max(after_last))
    }

    /// Sends the next of those who want to join. False: there is no lease for them yet.
    pub(crate) fn join_line(&mut self, name: &LockName) -> bool {
        let Some(session) = self.session.live().map(|live| live.lease) else {
            return false;
        };
        let first = self.next_place(name);
        let mut jobs = Vec::new();
        while jobs.len() < limits::JOINS_AT_ONCE_MAX {
            let Some(line) = self
                .lines
                .get_mut(name)
                .filter(|line| !line.joining.is_empty())
            else {
                break;
            };
            match self.line_leases.take(session) {
                Hook::On(lease) => {
                    let job = line.joining.pop_front();
                    jobs.extend(job.map(|job| (job, lease)));
                }
                Hook::Coming => break,
                Hook::None => {
                    self.ask_line_lease();
                    break;
                }
            }
        }
        let Some(line) = self.lines.get_mut(name).filter(|_| !jobs.is_empty()) else {
            return false;
        };
        line.busy = Busy::Joining;
        let name = name.clone();
        self.queue_write(WriteOp::Join(Box::new(Join { name, first, jobs })));
        true
    }

    pub(crate) fn compile_join(&self, join: &Join) -> Txn {
        let name = join.name.as_str();
        let later = KeyRange {
            start: records::waiter_key(name, join.first),
            ..records::waiters_of(name)
        };
        let put = |(place, (job, lease)): (Place, &(Job, LeaseId))| {
            let record = records::WaiterRecord {
                instance: self.settings.instance.clone(),
                client_id: job.acquire.client_id.as_str().to_owned(),
            };
            TxnOp::Put(Put {
                key: records::waiter_key(name, place),
                value: serde_json::to_vec(&record).unwrap_or_default(),
                lease: Some(*lease),
            })
        };
        let mut then: Vec<_> = join.places().zip(&join.jobs).map(put).collect();
        let lock = KeyRange::one(records::lock_key(name));
        then.push(TxnOp::Get(Get::all(lock)));
        then.push(TxnOp::Get(head_of(name)));
        Txn {
            compare: vec![Compare::absent(later)],
            then,
            // The revision of the answer tells enough.
            or_else: Vec::new(),
        }
    }

    /// They stand in line since this revision. `shown`: the record and the head, if they were read.
    pub(crate) fn joined(&mut self, join: Join, shown: Option<Shown>) {
        let Join { name, first, jobs } = join;
        for (place, (job, lease)) in (first.0..).map(Place).zip(jobs) {
            let ticket = job.ticket;
            let waits = self.lines.has(ticket);
            if waits {
                self.lines.placed(ticket, place);
            }
            let Some(line) = self.lines.get_mut(&name) else {
                return;
            };
            let job = Some(Job {
                place: Some(place),
                ..job
            });
            line.standing.push_back(Standing {
                place,
                lease,
                ticket,
                job,
            });
            if !waits {
                line.give_up(place);
            }
        }
        self.write_over(&name);
        match shown {
            Some(shown) => self.shown(&name, &shown),
            None => self.lines.look(&name),
        }
        self.line_follows(&name);
    }

    /// Another gateway has given later places; or it is certain that nothing was put.
    pub(crate) fn join_refused(&mut self, join: Join) {
        let Join { name, jobs, .. } = join;
        for (job, lease) in jobs.into_iter().rev() {
            self.lease_freed(lease);
            if self.lines.has(job.ticket)
                && let Some(line) = self.lines.get_mut(&name)
            {
                line.joining.push_front(job);
            }
        }
        self.write_over(&name);
    }

    /// None of the keys is there, as far as is known: they are taken away all the same, and places anew.
    pub(crate) fn join_lost(&mut self, join: Join) {
        let Join { name, first, jobs } = join;
        let Some(line) = self.lines.get_mut(&name) else {
            return;
        };
        let places = (first.0..).map(Place);
        let places = places.zip(jobs.iter().map(|(_, lease)| *lease));
        line.leaving.extend(places);
        for (job, _) in jobs.into_iter().rev() {
            if self.lines.has(job.ticket)
                && let Some(line) = self.lines.get_mut(&name)
            {
                line.joining.push_front(job);
            }
        }
        self.write_over(&name);
    }

    pub(crate) fn leave_line(&mut self, name: &LockName) {
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        line.busy = Busy::Leaving;
        let rest = line
            .leaving
            .split_off(line.leaving.len().min(limits::JOINS_AT_ONCE_MAX));
        let places = std::mem::replace(&mut line.leaving, rest);
        let name = name.clone();
        self.queue_write(WriteOp::Leave(Box::new(Leave { name, places })));
    }

    /// Nobody else writes these keys, so they need no compare but the session's.
    pub(crate) fn compile_leave(&self, leave: &Leave) -> Txn {
        let name = leave.name.as_str();
        let delete = |(place, _): &(Place, LeaseId)| {
            TxnOp::Delete(KeyRange::one(records::waiter_key(name, *place)))
        };
        Txn {
            then: leave.places.iter().map(delete).collect(),
            ..Txn::default()
        }
    }

    pub(crate) fn left(&mut self, leave: Leave) {
        for (_, lease) in leave.places {
            self.lease_freed(lease);
        }
        self.write_over(&leave.name);
        self.lines.look(&leave.name);
    }

    /// It is certain that the keys are still there.
    pub(crate) fn not_left(&mut self, leave: Leave) {
        if let Some(line) = self.lines.get_mut(&leave.name) {
            line.leaving.extend(leave.places);
        }
        self.write_over(&leave.name);
    }

    pub(crate) fn write_over(&mut self, name: &LockName) {
        if let Some(line) = self.lines.get_mut(name) {
            line.busy = Busy::No;
            line.as_of = self.seen;
        }
        self.lines.touch(name);
    }
}
