//! The phases of a run. First things go wrong, and nothing forbidden may happen. Then everything
//! works again, and everything must become as it should be.

use super::World;
use crate::clock::Real;
use crate::faults::Fault;
use crate::options::WAIT_MS_MAX;
use holdfast_judge::Rule;
use std::collections::BTreeSet;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// What they like.
    Safety,
    /// The same, while all is well again.
    Settle,
    /// Those who hold go on, the others do nothing.
    Hold,
    /// Those who hold release.
    Release,
    /// Everyone who is left acquires a name of their own, and releases it.
    Final,
}

/// Late calls arrive for so long after a run's faults.
const LATE_CALLS_MS: u64 = 250_000;
/// The last open group of a shard is retired after ten minutes, and looked for every five seconds.
const LAST_GROUPS_MS: u64 = 620_000;

impl World {
    /// All phases, until something is found.
    pub(crate) fn run_phases(&mut self) {
        let begin = self.now;
        self.run_until(begin + self.options.safety_ms);
        self.begin_phase(Phase::Settle);
        self.heal();
        let session = self.options.session_ttl_ms;
        self.run_until(self.now + session + 12_000 + self.rollouts_take());
        self.check_rollouts();
        self.begin_phase(Phase::Hold);
        self.choose_holders();
        // Of those that are gone, one may still be in line: its gateway cannot know.
        let wait = if self.options.has(Fault::Waits) {
            WAIT_MS_MAX
        } else {
            0
        };
        self.run_until(self.now + wait + self.options.ttl_ms_max * 102 / 100 + session + 8_000);
        self.check_held();
        self.begin_phase(Phase::Release);
        self.wake_all();
        let end = self.now + 8_000;
        self.run_while(end, |world| {
            !world.clients.iter().all(|client| client.is_quiet())
        });
        self.check_free("after every hold was released");
        self.begin_phase(Phase::Final);
        self.acquire_every_name();
        let end = self.now + 8_000;
        self.run_while(end, |world| {
            !world.clients.iter().all(|client| client.is_quiet())
        });
        self.check_quiet();
        self.check_lines();
        self.check_free("after every name was acquired and released");
        if self.options.long_tail {
            self.figures.event("long tails");
            self.run_until(self.now + LATE_CALLS_MS + LAST_GROUPS_MS + self.options.group_ttl_ms);
            self.check_tidy();
        }
        self.check_unanswered();
        self.collect_stats();
    }

    fn begin_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.trace.note(self.now, None, &phase);
    }

    /// The names that have a record, and how many records there are.
    fn records(&mut self) -> (BTreeSet<String>, usize) {
        let now = self.now;
        let mut names = BTreeSet::new();
        let mut count = 0;
        for cluster in &mut self.clusters {
            for kv in cluster.read(now, "/locks/") {
                count += 1;
                names.extend(
                    kv.key
                        .as_str()
                        .and_then(|key| key.strip_prefix("/locks/"))
                        .map(str::to_owned),
                );
            }
        }
        (names, count)
    }

    /// etcd holds exactly what is held.
    fn check_held(&mut self) {
        if self.judge.has_finding() {
            return;
        }
        let now = self.now;
        let held: BTreeSet<_> = (0..self.options.names)
            .filter(|name| !self.judge.promised(*name, now).is_empty())
            .map(Self::name)
            .collect();
        let (records, count) = self.records();
        let exact = self.judge.terms.one_holder;
        if records.difference(&held).next().is_some() || exact && records != held {
            let text = format!("held are {held:?}, and etcd has {records:?}");
            self.judge.find(Rule::NoGhost, now, None, text);
        }
        if count != records.len() {
            let text = format!(
                "{count} records of {} names: some are in two clusters",
                records.len()
            );
            self.judge.find(Rule::NoGhost, now, None, text);
        }
        self.figures
            .events_add("holds at the end", held.len() as u64);
        self.check_sessions();
    }

    /// One session for each gateway, and no group without one.
    fn check_sessions(&mut self) {
        let now = self.now;
        for cluster in 0..self.clusters.len() {
            let suffixes = |kvs: Vec<holdfast_store::KeyValue>, prefix: &str| -> Vec<String> {
                let name = |kv: &holdfast_store::KeyValue| {
                    kv.key.as_str()?.strip_prefix(prefix).map(str::to_owned)
                };
                kvs.iter().filter_map(name).collect()
            };
            let prefix = "/holdfast/sessions/";
            let sessions = suffixes(self.clusters[cluster].read(now, prefix), prefix);
            let prefix = "/holdfast/groups/";
            let groups = suffixes(self.clusters[cluster].read(now, prefix), prefix);
            let orphan = groups.iter().find(|group| {
                !sessions
                    .iter()
                    .any(|session| group.starts_with(session.as_str()))
            });
            if sessions.len() != self.gateways.len() || orphan.is_some() {
                let text = format!(
                    "cluster {cluster} has {} sessions of {} gateways; a group without one: {}",
                    sessions.len(),
                    self.gateways.len(),
                    orphan.is_some()
                );
                self.judge.find(Rule::NoGhost, now, None, text);
            }
        }
    }

    fn check_free(&mut self, when: &str) {
        if self.judge.has_finding() {
            return;
        }
        let (names, count) = self.records();
        if count > 0 {
            let text = format!("etcd has {names:?} {when}");
            self.judge.find(Rule::NoGhost, self.now, None, text);
        }
    }

    /// Nobody stands in line any more.
    fn check_lines(&mut self) {
        let now = self.now;
        for cluster in 0..self.clusters.len() {
            let waiters = self.clusters[cluster].read(now, "/holdfast/waiters/");
            if !waiters.is_empty() && !self.judge.has_finding() {
                let text = format!("cluster {cluster} has {waiters:?}, and nobody waits");
                self.judge.find(Rule::NoGhost, now, None, text);
            }
        }
    }

    fn check_quiet(&mut self) {
        let now: Real = self.now;
        let waiting = self.clients.iter().find(|client| !client.is_quiet());
        if let Some(client) = waiting
            && !self.judge.has_finding()
        {
            let name = client.name();
            let text = "a free name is not granted and released within eight seconds".to_owned();
            self.judge.find(Rule::NoGhost, now, name, text);
        }
    }

    /// Nothing is left but sessions, and two leases for each.
    fn check_tidy(&mut self) {
        if self.judge.has_finding() {
            return;
        }
        let now = self.now;
        for cluster in 0..self.clusters.len() {
            let groups = self.clusters[cluster].read(now, "/holdfast/groups/").len();
            let leases = self.clusters[cluster].leases(now).len();
            if groups > 0 || leases > 2 * self.gateways.len() {
                let text =
                    format!("cluster {cluster} has {groups} groups and {leases} leases left");
                self.judge.find(Rule::NoGhost, now, None, text);
            }
        }
        self.check_sessions();
    }
}
