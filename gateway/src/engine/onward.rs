//! Requests that go on in another engine of the same gateway, because their shard moves.
//!
//! The map says which engine is asked first; the guards say where a name may be granted. A guard that
//! is `leaving` or `moved` sends a request on to the cluster that it names. While a guard says `from`,
//! a name that is not here is looked for there, *after* the guard was read: the request travels to the
//! other engine, which answers it if the name has a record there, and sends it back if not. Then it
//! counts, as long as the guard here is the one that was read (its revision is compared by the grant).
//!
//! A request keeps the time at which it was asked and is answered in time, wherever that is.

use crate::engine::acquire::Job;
use crate::engine::closing::ForceJob;
use crate::engine::cold::{ColdAsk, ColdJob};
use crate::engine::mutation::Mutation;
use crate::engine::tickets::{Answer, Kind, Ticket, Trouble, Via};
use crate::engine::{Effect, Engine};
use crate::limits;
use crate::service::{ForceRelease, Forward};
use crate::time::Instant;
use holdfast_store::Revision;
use shard_map::ShardId;
use std::sync::Arc;

/// Which engine a request goes on in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// That of this cluster.
    Cluster(Arc<str>),
    /// That of the cluster which had the shard before, as far as the map tells; no guard here says.
    Before,
}

/// A request on its way to another engine.
#[derive(Debug)]
pub struct Onward {
    pub(crate) shard: ShardId,
    pub(crate) what: What,
    pub(crate) via: Via,
    /// When it was asked.
    pub(crate) since: Instant,
    /// How often it has gone on.
    pub(crate) hops: u8,
}

impl Onward {
    /// The shard of its name.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Whether its client may go before it is answered.
    pub fn may_wait(&self) -> bool {
        matches!(&self.what, What::Acquire(job) if job.may_wait())
    }

    /// The answer where this gateway has no engine for the other cluster.
    pub fn unanswerable(&self, cluster: &Arc<str>) -> Answer {
        let error = Trouble::Moving.to_error(cluster);
        match &self.what {
            What::Acquire(_) => Answer::Acquire(Err(error)),
            What::Hold(Forward::Renew(_), _) => Answer::Renew(Err(error)),
            What::Hold(Forward::Release(_), _) => Answer::Release(Err(error)),
            What::Hold(Forward::Close(_), _) | What::Force(..) => Answer::Close(Err(error)),
        }
    }
}

#[derive(Debug)]
pub(crate) enum What {
    Acquire(Job),
    Hold(Forward, Option<Look>),
    Force(ForceRelease, Option<Look>),
}

/// A name is looked for in the cluster that its shard comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The cluster whose guard says so,
    by: Arc<str>,
    /// and the revision of that guard. It was read before this began.
    guard: Revision,
    /// The name had no record there.
    absent: bool,
}

impl Engine {
    /// A request comes from another engine of this gateway.
    pub(crate) fn on_onward(&mut self, ticket: Ticket, onward: Onward) {
        let Onward {
            shard,
            what,
            via,
            since,
            hops,
        } = onward;
        let kind = match &what {
            What::Acquire(_) => Kind::Acquire,
            What::Hold(forward, _) => Kind::of(forward),
            What::Force(..) => Kind::Close,
        };
        let opened = match &what {
            What::Acquire(job) => self.open_acquire(ticket, &job.acquire, via, (since, hops)),
            _ => self.open_ticket_since(ticket, kind, via, (since, hops)),
        };
        if !opened {
            return;
        }
        match what {
            What::Acquire(mut job) => {
                job.ticket = ticket;
                if self.is_to_look(job.look.as_ref()) {
                    self.queue_cold(ColdJob::new(shard, ColdAsk::Look(Box::new(job))));
                } else if job.may_wait() {
                    self.wait_goes_on(job);
                } else {
                    self.queue_acquire(job);
                }
            }
            What::Force(force, look) => {
                let job = ForceJob {
                    ticket,
                    shard,
                    force,
                };
                self.queue_cold(ColdJob::new(shard, ColdAsk::Force(job)).with_look(look));
            }
            What::Hold(forward, look) => self.go_on_with_hold(ticket, shard, forward, look),
        }
    }

    /// Whether this engine is the one that looks.
    pub(crate) fn is_to_look(&self, look: Option<&Look>) -> bool {
        look.is_some_and(|look| !look.absent && look.by != self.settings.cluster)
    }

    /// Whether the name had no record where the guard of this revision says it came from.
    pub(crate) fn has_looked(&self, look: Option<&Look>, guard: Revision) -> bool {
        look.is_some_and(|look| {
            look.absent
                && look.by == self.settings.cluster
                && (look.guard == guard || self.mutated(Mutation::LookBeforeGuard))
        })
    }

    /// What the source is asked; the guard of this revision says that it is the source.
    pub(crate) fn look_for(&self, guard: Revision) -> Look {
        Look {
            by: Arc::clone(&self.settings.cluster),
            guard,
            absent: false,
        }
    }

    /// The name has no record here, and was looked for from there: the request goes back.
    pub(crate) fn back_from_look(&self, look: Look) -> (To, Look) {
        let to = To::Cluster(Arc::clone(&look.by));
        let absent = Look {
            absent: true,
            ..look
        };
        (to, absent)
    }

    /// The request is answered by another engine. `None` of what is left to do here.
    pub(crate) fn go_on(&mut self, ticket: Ticket, to: To, shard: ShardId, what: What) {
        let Some((via, since, hops)) = self.tickets.of_onward(ticket) else {
            return;
        };
        // One that waits ends in time, wherever it goes.
        let waits = matches!(&what, What::Acquire(job) if job.may_wait());
        if hops >= limits::ONWARD_HOPS_MAX && !waits {
            return self.fail(ticket, Trouble::Moving);
        }
        self.tickets.close(ticket);
        self.stats.onward.add(1);
        let onward = Onward {
            shard,
            what,
            via,
            since,
            hops: hops.saturating_add(1),
        };
        self.out.push(Effect::Onward(ticket, to, Box::new(onward)));
    }

    pub(crate) fn acquire_goes_on(&mut self, to: To, mut job: Job) {
        if self.lines.has(job.ticket) {
            let comes_back = job.look.as_ref().is_some_and(|look| {
                !look.absent && look.by == self.settings.cluster && job.place.is_some()
            });
            match comes_back {
                true => self.goes_to_look(&job),
                false => job = self.leaves_line(job),
            }
        }
        self.go_on(job.ticket, to, job.shard, What::Acquire(job));
    }

    /// A request about a hold goes on; a rewrite never does.
    pub(crate) fn hold_goes_on(&mut self, to: To, job: &ColdJob, look: Option<Look>) {
        match job.to_onward(look) {
            Some(what) => self.go_on(job.ticket(), to, job.shard(), what),
            None => self.fail(job.ticket(), Trouble::Moving),
        }
    }
}
