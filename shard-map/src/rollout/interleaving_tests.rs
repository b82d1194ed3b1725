//! Drivers that see old guards, die, and send late and twice; a goal that changes at any moment;
//! gateways that move groups and grant in between.

use super::*;
use crate::records::{Guard, GuardState, Record, keys};
use crate::{ClusterName, Epoch, MapVersion, ShardId, TokenBase};
use holdfast_store::{Compare, Model, ModelTime, Op, Put, Reply, Revision, Txn, TxnOp};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const SHARD: ShardId = ShardId(7);
/// More steps than any rollout of one shard with three groups takes.
const STEPS_MAX: usize = 60;

/// One thing that happens. `usize` says to whom, as far as there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// The operator turns the rollout around.
    Turn,
    /// A driver learns the goal and reads the cluster that is to be left.
    ReadOther(usize),
    /// A driver reads the goal.
    ReadGoal(usize),
    /// A driver decides on what it has read, and sends the write.
    Decide(usize),
    /// A write that was sent at any time before arrives, for the first time or once more.
    Deliver(usize),
    /// A driver is killed; another begins in its place.
    Kill(usize),
    /// A gateway begins to move a group.
    MoveBegins(usize),
    /// It switches, or finds that it must not.
    MoveSwitches(usize),
    /// It has revoked the old lease.
    MoveArrives(usize),
    /// The group's owner dies, and its heir undoes.
    MoveUndone(usize),
    /// A gateway reads the guard of a cluster.
    GateReads(usize),
    /// It grants the name under what it has read, if it may.
    Grants(usize),
    /// The holder releases.
    Releases,
}

fn act() -> impl Strategy<Value = Act> {
    let (two, any) = (0..2usize, 0..8usize);
    prop_oneof![
        1 => Just(Act::Turn),
        6 => two.clone().prop_map(Act::ReadOther),
        6 => two.clone().prop_map(Act::ReadGoal),
        8 => two.clone().prop_map(Act::Decide),
        8 => any.prop_map(Act::Deliver),
        1 => two.clone().prop_map(Act::Kill),
        3 => (0..4usize).prop_map(Act::MoveBegins),
        3 => (0..4usize).prop_map(Act::MoveSwitches),
        3 => (0..4usize).prop_map(Act::MoveArrives),
        1 => (0..4usize).prop_map(Act::MoveUndone),
        4 => two.clone().prop_map(Act::GateReads),
        4 => two.prop_map(Act::Grants),
        2 => Just(Act::Releases),
    ]
}

#[derive(Debug, Clone)]
struct Driver {
    map: MapVersion,
    goal: usize,
    other: Option<(GuardRead, Groups)>,
    here: Option<(GuardRead, Groups)>,
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            map: MapVersion::FIRST,
            goal: 0,
            other: None,
            here: None,
        }
    }
}

struct World {
    names: [ClusterName; 2],
    models: [Model; 2],
    /// Groups by cluster; the cluster that each says it comes from.
    groups: [BTreeMap<u32, Option<usize>>; 2],
    /// Moves that some gateway has begun: from where, and the guard it read there.
    moves: BTreeMap<u32, (usize, Revision)>,
    map: MapVersion,
    goal: usize,
    drivers: [Driver; 2],
    sent: Vec<GuardWrite>,
    gate: [Option<(Guard, Revision)>; 2],
    /// The group that the name's record is in.
    holder: Option<u32>,
    last_token: u64,
    next_group: u32,
    mistake: Mistake,
}

impl World {
    /// The shard is on the first cluster, with two groups, and is to go to the second.
    fn new(mistake: Mistake) -> Self {
        let mut world = Self {
            names: ["a", "b"].map(|name| name.parse().unwrap()),
            models: [Model::new(1, 1), Model::new(2, 1)],
            groups: [[(0, None), (1, None)].into(), BTreeMap::new()],
            moves: BTreeMap::new(),
            map: MapVersion(4),
            goal: 1,
            drivers: Default::default(),
            sent: Vec::new(),
            gate: [None, None],
            holder: None,
            last_token: 0,
            next_group: 2,
            mistake,
        };
        // It came here from elsewhere, with tokens beyond what the revisions here can make.
        let guard = Guard {
            epoch: Epoch(3),
            token_base: TokenBase::try_from(1_000).unwrap(),
            ..Guard::first()
        };
        world.put(0, Vec::new(), guard.to_value());
        world.last_token = 1_000;
        world
    }

    fn put(&mut self, at: usize, compare: Vec<Compare>, value: Vec<u8>) -> (bool, Revision) {
        self.apply(
            at,
            Txn {
                compare,
                then: vec![TxnOp::Put(Put {
                    key: keys::guard(SHARD),
                    value,
                    lease: None,
                })],
                or_else: Vec::new(),
            },
        )
    }

    fn apply(&mut self, at: usize, txn: Txn) -> (bool, Revision) {
        match self.models[at].apply(ModelTime::default(), &Op::Txn(txn)) {
            Ok(Reply::Txn(reply)) => (reply.succeeded, reply.header.revision),
            other => panic!("{other:?}"),
        }
    }

    fn guard(&self, at: usize) -> Option<(Guard, Revision)> {
        let record = self.models[at].get(&keys::guard(SHARD))?;
        let guard = Guard::from_value(&record.key, &record.value).unwrap();
        Some((guard, record.mod_revision))
    }

    fn read(&self, at: usize) -> (GuardRead, Groups) {
        let guard = self.guard(at);
        let guard = guard.map_or(GuardRead::Absent, |(guard, at)| {
            GuardRead::Present(guard, at)
        });
        let groups = &self.groups[at];
        let arriving = groups.values().filter(|from| from.is_some()).count() as u64;
        let all = groups.len() as u64;
        (guard, Groups { all, arriving })
    }

    fn act(&mut self, act: Act) -> Result<(), String> {
        match act {
            Act::Turn => {
                self.goal = 1 - self.goal;
                self.map = self.map.next();
            }
            Act::ReadOther(driver) => {
                let goal = self.goal;
                let other = Some(self.read(1 - goal));
                self.drivers[driver] = Driver {
                    map: self.map,
                    goal,
                    other,
                    here: None,
                };
            }
            Act::ReadGoal(driver) => {
                let here = self.read(self.drivers[driver].goal);
                self.drivers[driver].here = Some(here);
            }
            Act::Decide(driver) => self.decide(driver)?,
            Act::Deliver(at) if !self.sent.is_empty() => {
                let write = self.sent[at % self.sent.len()].clone();
                self.deliver(&write)?;
            }
            Act::Deliver(_) => {}
            Act::Kill(driver) => self.drivers[driver] = Driver::default(),
            Act::MoveBegins(at) => self.move_begins(at),
            Act::MoveSwitches(at) => self.move_switches(at),
            Act::MoveArrives(at) => self.move_arrives(at),
            Act::MoveUndone(at) => self.move_undone(at),
            Act::GateReads(at) => self.gate[at] = self.guard(at),
            Act::Grants(at) => self.grants(at)?,
            Act::Releases => {
                if let Some(group) = self.holder.take() {
                    for groups in &mut self.groups {
                        groups.remove(&group);
                    }
                    self.moves.remove(&group);
                }
            }
        }
        self.check()
    }

    fn decide(&mut self, driver: usize) -> Result<(), String> {
        let Driver {
            map,
            goal,
            other: Some(other),
            here: Some(here),
        } = self.drivers[driver].clone()
        else {
            return Ok(());
        };
        match self.next(map, goal, &other, &here) {
            Next::Write(write) => self.sent.push(write),
            Next::Broken(_) | Next::Elsewhere { .. } if self.mistake == Mistake::NONE => {
                // Reads of different moments may contradict each other; those of one may not.
                let (other, here) = (self.read(1 - goal), self.read(goal));
                if let Next::Broken(why) = self.next(map, goal, &other, &here) {
                    return Err(format!("broken: {why}: {other:?} {here:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn next(
        &self,
        map: MapVersion,
        goal: usize,
        other: &(GuardRead, Groups),
        here: &(GuardRead, Groups),
    ) -> Next {
        let other = Side::counted(&self.names[1 - goal], &other.0, other.1);
        let goal = Side::counted(&self.names[goal], &here.0, here.1);
        next_step(map, SHARD, goal, other, self.mistake)
    }

    fn deliver(&mut self, write: &GuardWrite) -> Result<(), String> {
        let at = self
            .names
            .iter()
            .position(|name| *name == write.cluster)
            .unwrap();
        let before = self.guard(at);
        let (written, _) = self.apply(at, write.txn());
        match before {
            Some((before, _)) if written && rank(&write.guard) <= rank(&before) => Err(format!(
                "a guard was lowered: {before:?} to {:?}",
                write.guard
            )),
            _ => Ok(()),
        }
    }

    /// A group in a cluster whose guard is leaving for one that is active.
    fn move_begins(&mut self, at: usize) {
        for from in 0..2 {
            let Some((guard, read_at)) = self.guard(from) else {
                continue;
            };
            let group = self.groups[from]
                .iter()
                .nth(at)
                .map(|(&group, &from)| (group, from));
            let Some((group, None)) = group else { continue };
            let goes = guard.state == GuardState::Leaving;
            let taken = self
                .guard(1 - from)
                .is_some_and(|(guard, _)| guard.state == GuardState::Active);
            if goes && taken && !self.moves.contains_key(&group) {
                self.moves.insert(group, (from, read_at));
                self.groups[1 - from].insert(group, Some(from));
            }
        }
    }

    fn move_switches(&mut self, at: usize) {
        let Some((&group, &(from, read_at))) = self.moves.iter().nth(at) else {
            return;
        };
        if !self.groups[from].contains_key(&group) {
            return;
        }
        match self.guard(from) {
            Some((_, now)) if now == read_at => {
                self.groups[from].remove(&group);
            }
            _ => self.undo(group, from),
        }
    }

    fn move_arrives(&mut self, at: usize) {
        let Some((&group, &(from, _))) = self.moves.iter().nth(at) else {
            return;
        };
        if !self.groups[from].contains_key(&group) {
            self.groups[1 - from].insert(group, None);
            self.moves.remove(&group);
        }
    }

    fn move_undone(&mut self, at: usize) {
        let Some((&group, &(from, _))) = self.moves.iter().nth(at) else {
            return;
        };
        if self.groups[from].contains_key(&group) {
            self.undo(group, from);
        }
    }

    fn undo(&mut self, group: u32, from: usize) {
        self.groups[1 - from].remove(&group);
        self.moves.remove(&group);
    }

    fn grants(&mut self, at: usize) -> Result<(), String> {
        let Some((guard, read_at)) = self.gate[at].clone() else {
            return Ok(());
        };
        let held_in = |cluster: usize| {
            let group = self.holder;
            group.is_some_and(|group| self.groups[cluster].contains_key(&group))
        };
        let held = held_in(at) || (guard.from.is_some() && held_in(1 - at));
        if guard.state != GuardState::Active || held {
            return Ok(());
        }
        let (granted, revision) = self.apply(
            at,
            Txn {
                compare: vec![Compare::mod_revision(keys::guard(SHARD), read_at)],
                then: vec![TxnOp::Put(Put {
                    key: "/locks/n".into(),
                    value: Vec::new(),
                    lease: None,
                })],
                or_else: Vec::new(),
            },
        );
        if !granted {
            return Ok(());
        }
        let token = guard.token_base.get() + revision.0.unsigned_abs();
        let group = self.next_group;
        self.next_group += 1;
        self.groups[at].insert(group, None);
        if let Some(holder) = self.holder.replace(group) {
            return Err(format!("granted twice: groups {holder} and {group}"));
        }
        if token <= std::mem::replace(&mut self.last_token, token) {
            return Err(format!("the token {token} is not above the one before"));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let active = |at: usize| {
            self.guard(at)
                .is_some_and(|(g, _)| g.state == GuardState::Active)
        };
        match active(0) && active(1) {
            true => Err("two clusters are active".into()),
            false => Ok(()),
        }
    }

    /// Nothing goes wrong any more: one driver, everything arrives.
    fn finish(&mut self) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            let (goal, other) = (self.goal, 1 - self.goal);
            let (o, h) = (self.read(other), self.read(goal));
            match self.next(self.map, goal, &o, &h) {
                Next::Done => return self.check_end(),
                Next::Write(write) => self.deliver(&write)?,
                Next::Groups { .. } => {
                    for group in 0..4 {
                        self.act(Act::MoveSwitches(group))?;
                        self.act(Act::MoveArrives(group))?;
                    }
                    (0..4).try_for_each(|group| self.act(Act::MoveBegins(group)))?;
                }
                next => return Err(format!("{next:?} from {o:?} and {h:?}")),
            }
            self.check()?;
        }
        Err("does not end".into())
    }

    fn check_end(&mut self) -> Result<(), String> {
        let left: BTreeSet<_> = self.groups[1 - self.goal].keys().collect();
        if !left.is_empty() {
            return Err(format!("groups {left:?} are left behind"));
        }
        // Nobody looks any more. What is still on its way arrives, and drivers wake that have slept
        // since they read home.
        let settled = [self.guard(0), self.guard(1)];
        for driver in self.drivers.clone() {
            let (other, here) = (self.read(1 - driver.goal), self.read(driver.goal));
            if let Next::Write(write) = self.next(driver.map, driver.goal, &other, &here) {
                self.sent.push(write);
            }
        }
        for write in std::mem::take(&mut self.sent) {
            self.deliver(&write)?;
        }
        match [self.guard(0), self.guard(1)] == settled {
            true => Ok(()),
            false => Err(format!("a late write has changed {settled:?}")),
        }
    }
}

/// (epoch, state) in the order in which a guard goes through them.
fn rank(guard: &Guard) -> (u64, u8) {
    let state = match (guard.state, &guard.from) {
        (GuardState::Active, Some(_)) => 0,
        (GuardState::Active, None) => 1,
        (GuardState::Leaving, _) => 2,
        (GuardState::Moved, _) => 3,
    };
    (guard.epoch.0, state)
}

fn run(acts: &[Act], mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake);
    acts.iter().try_for_each(|&act| world.act(act))?;
    world.finish()
}

proptest! {
    #![proptest_config(Config { cases: 2_000, ..Config::default() })]
    #[test]
    fn whatever_interleaves_no_guard_is_lowered_no_name_granted_twice_and_tokens_grow(
        acts in proptest::collection::vec(act(), 0..120),
    ) {
        prop_assert_eq!(run(&acts, Mistake::NONE), Ok(()));
    }
}

#[test]
fn each_deliberate_mistake_is_found() {
    for &mutation in Mutation::ALL {
        let mut runner = TestRunner::new_with_rng(
            Config {
                cases: 20_000,
                max_shrink_iters: 0,
                failure_persistence: None,
                ..Config::default()
            },
            proptest::test_runner::TestRng::deterministic_rng(
                proptest::test_runner::RngAlgorithm::ChaCha,
            ),
        );
        let found = runner.run(&proptest::collection::vec(act(), 0..120), |acts| {
            run(&acts, Mistake::of(mutation)).map_err(TestCaseError::fail)
        });
        assert!(
            matches!(found, Err(TestError::Fail(..))),
            "{mutation:?} is not found"
        );
    }
}
