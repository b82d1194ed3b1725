//! Requests that wait while their shard moves: they go to look where it comes from, or go on where it
//! goes.

use crate::engine::Engine;
use crate::engine::acquire::Job;
use crate::engine::line::Busy;
use crate::engine::onward::To;
use crate::engine::step::Left;
use crate::limits;
use crate::names::LockName;
use shard_map::ShardId;
use std::sync::Arc;

impl Engine {
    /// Those who went to look and do not come back have been answered there.
    pub(crate) fn give_up_those_away(&mut self, name: &LockName) {
        let now = self.now;
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        if let Busy::Trying(place) = line.busy
            && line.away_until.is_some_and(|until| until <= now)
        {
            line.away_until = None;
            line.busy = Busy::No;
            let ticket = line.at(place).map(|it| it.ticket);
            line.give_up(place);
            ticket
                .into_iter()
                .for_each(|ticket| self.lines.over(ticket));
            self.lines.touch(name);
        }
    }

    /// Takes a request that tries out of its line; it is not answered by that.
    pub(crate) fn leaves_line(&mut self, mut job: Job) -> Job {
        self.lines.over(job.ticket);
        if let Some(place) = job.place.take() {
            if let Some(line) = self.lines.get_mut(&job.acquire.name) {
                if line.busy == Busy::Trying(place) {
                    line.busy = Busy::No;
                }
                line.give_up(place);
            }
            self.lines.touch(&job.acquire.name);
        }
        job
    }

    /// A request that tries is away, to be looked for where its shard comes from.
    pub(crate) fn goes_to_look(&mut self, job: &Job) {
        let back_by = self.now + limits::REQUEST_TIMEOUT;
        if let Some(line) = self.lines.get_mut(&job.acquire.name) {
            line.away_until = Some(back_by);
        }
        self.lines.look_by(&job.acquire.name, back_by);
    }

    /// A request that waits has come from another engine, or back from it.
    pub(crate) fn wait_goes_on(&mut self, mut job: Job) {
        let was_held = std::mem::take(&mut job.held_there);
        let asked_as = job.place.and_then(|place| {
            let line = self.lines.get_mut(&job.acquire.name)?;
            let is_away = line.busy == Busy::Trying(place) && line.away_until.take().is_some();
            let it = line.at(place).filter(|_| is_away)?;
            Some(std::mem::replace(&mut it.ticket, job.ticket))
        });
        match asked_as {
            Some(ticket) => self.lines.rename(ticket, job.ticket),
            // Its place is none any more.
            None => job.place = None,
        }
        match (was_held, job.place) {
            (false, _) => self.acquire_anew(job),
            (true, Some(_)) => self.held_elsewhere(job),
            // Of the hold nothing is known here but that its TTL is well below that of its lease.
            (true, None) => self.stand_in_line(job, self.settings.group_ttl),
        }
    }

    /// The name is held in the cluster that its shard comes from: nothing here tells when it is not.
    pub(crate) fn held_elsewhere(&mut self, job: Job) {
        let name = job.acquire.name.clone();
        self.attempt_over(job, None);
        let at = self.now + limits::SOURCE_LOOK_INTERVAL;
        self.lines.look_by(&name, at);
    }

    /// The shard has left, as this guard says: those who wait for its names go on where it goes, in
    /// their order.
    pub(crate) fn lines_go_on(&mut self, shard: ShardId) {
        if self.leaves_for(shard).is_some() {
            for name in self.lines.of_shard(shard) {
                self.line_follows(&name);
            }
        }
    }

    /// Where the shard goes, and the guard that says so.
    fn leaves_for(&mut self, shard: ShardId) -> Option<(To, Left)> {
        let cluster = Arc::clone(&self.settings.cluster);
        let (to, guard, at) = self.shard_mut(shard).goal()?;
        let guard = guard.clone();
        Some((To::Cluster(to), Left { cluster, guard, at }))
    }

    /// If the shard of this name has left, those who wait for it go on. One that tries, or is just
    /// joining, does so afterwards.
    pub(crate) fn line_follows(&mut self, name: &LockName) {
        let Some(shard) = self.lines.get(name).map(|line| line.shard) else {
            return;
        };
        let Some((to, left)) = self.leaves_for(shard) else {
            return;
        };
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        let standing = line.standing.iter_mut().filter_map(|it| it.job.take());
        let mut jobs: Vec<Job> = standing.collect();
        let places: Vec<_> = line.standing.iter().map(|it| it.place).collect();
        let trying = line.busy;
        for place in places {
            if trying != Busy::Trying(place) {
                line.give_up(place);
            }
        }
        jobs.extend(line.joining.drain(..));
        self.lines.touch(name);
        for job in jobs {
            self.lines.over(job.ticket);
            let job = Job {
                place: None,
                left: Some(Box::new(left.clone())),
                ..job
            };
            self.acquire_goes_on(to.clone(), job);
        }
    }
}
