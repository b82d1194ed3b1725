//! Two clusters, one gateway with an engine for each, and no time between a call and its reply unless
//! a test withholds it.

use crate::world::{identity, put, settings, wish};
use holdfast_gateway::engine::{Answer, ClusterProof, Effect, Engine, Input, Table, Ticket, To};
use holdfast_gateway::names::Principal;
use holdfast_gateway::service::{Acquire, AcquireOutcome, Grant, Release, ReleaseOutcome, Renew};
use holdfast_gateway::time::{Instant, Millis};
use holdfast_store::{
    Get, KeyRange, KeyValue, Model, ModelTime, Op, Reply, StoreError, Txn, TxnOp, TxnOpReply,
};
use shard_map::records::{Guard, GuardState, Record, keys};
use shard_map::rollout::arriving;
use shard_map::{Epoch, ShardId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

pub const SHARD: ShardId = ShardId(0);
pub const NAMES: [&str; 2] = ["a", "b"];
pub const A: usize = 0;
pub const B: usize = 1;

/// See the module.
pub struct Pair {
    pub now: u64,
    pub models: [Model; 2],
    pub engines: Vec<Engine>,
    pub table: Arc<Table>,
    pub inbox: VecDeque<(usize, Input)>,
    pub answers: HashMap<Ticket, Answer>,
    pub tickets: u64,
    /// Calls to a cluster for which this says true get no answer and do nothing.
    pub withheld: fn(usize, &Op) -> bool,
    /// Those for which this says true are done, and their replies come when they are let go.
    pub held_back: fn(usize, &Op) -> bool,
    pub late: Vec<(usize, Input)>,
    /// Words between the engines that contain this are lost.
    pub lost_word: &'static str,
}

impl Pair {
    /// A gateway whose sessions are proven; the shard is in `a`.
    pub fn ready() -> Self {
        Self::with_table(Arc::default())
    }

    pub fn with_table(table: Arc<Table>) -> Self {
        let now = Instant::from_ms(1_000_000);
        let engine = |at: usize| {
            let settings = settings(NAMES[at], 0);
            let proof = ClusterProof::new(NAMES[at].into());
            let seed = [u8::try_from(at).unwrap() + 1; 32];
            Engine::new(settings, seed, now, Arc::clone(&table), proof)
        };
        let mut pair = Self {
            now: now.as_ms(),
            models: [Model::new(1, 1), Model::new(2, 2)],
            engines: vec![engine(A), engine(B)],
            table: Arc::clone(&table),
            inbox: VecDeque::new(),
            answers: HashMap::new(),
            tickets: 0,
            withheld: |_, _| false,
            held_back: |_, _| false,
            late: Vec::new(),
            lost_word: "none of them",
        };
        for at in [A, B] {
            pair.put(at, keys::identity(), identity(NAMES[at]));
            let mut effects = Vec::new();
            pair.engines[at].start(now, &mut effects);
            pair.carry_out(at, effects);
            pair.inbox.push_back((at, Input::HomeSeen));
        }
        pair.put(A, keys::guard(SHARD), Guard::first().to_value());
        pair.run(4_000);
        pair
    }

    pub fn apply(&mut self, at: usize, op: &Op) -> Result<Reply, StoreError> {
        self.models[at].apply(ModelTime::from_ms(self.now), op)
    }

    pub fn put(&mut self, at: usize, key: holdfast_store::Key, value: Vec<u8>) {
        self.apply(at, &Op::Txn(put(key, value))).unwrap();
    }

    pub fn read(&mut self, at: usize, prefix: &str) -> Vec<KeyValue> {
        let get = Get::all(KeyRange::prefix(holdfast_store::Key::from(prefix)));
        match self.apply(at, &Op::Txn(Txn::read([get]))).unwrap() {
            Reply::Txn(reply) => match reply.ops.into_iter().next() {
                Some(TxnOpReply::Get(get)) => get.kvs,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Steps 2 and 3: the shard leaves `a` for `b`.
    pub fn shard_leaves(&mut self) {
        let here = self.shard_begins_to_leave(2);
        self.put(B, keys::guard(SHARD), here.to_value());
    }

    /// Step 2 alone. Returns what step 3 has to write.
    pub fn shard_begins_to_leave(&mut self, epoch: u64) -> Guard {
        self.one_begins_to_leave(SHARD, epoch)
    }

    pub fn one_begins_to_leave(&mut self, shard: ShardId, epoch: u64) -> Guard {
        let leaving = Guard {
            epoch: Epoch(epoch),
            state: GuardState::Leaving,
            to: Some(NAMES[B].parse().unwrap()),
            ..Guard::first()
        };
        self.put(A, keys::guard(shard), leaving.to_value());
        let written = self.read(A, &format!("/holdfast/shards/{shard}"))[0].mod_revision;
        arriving(&leaving, written, &NAMES[A].parse().unwrap()).unwrap()
    }

    /// The last steps: nothing of the shard is left in `a`.
    pub fn shard_has_left(&mut self) {
        let (left, here) = (self.guard(A), self.guard(B));
        let moved = Guard {
            state: GuardState::Moved,
            ..left
        };
        let settled = Guard { from: None, ..here };
        self.put(A, keys::guard(SHARD), moved.to_value());
        self.put(B, keys::guard(SHARD), settled.to_value());
    }

    /// So many groups in `a`, of a shard each, with a lock.
    pub fn groups_of_shards(&mut self, count: u32) {
        for shard in (0..count).map(ShardId) {
            self.put(A, keys::guard(shard), Guard::first().to_value());
            let ticket = self.acquire_in(A, shard, "one", &format!("n{shard}"));
            self.grant_of(ticket);
        }
    }

    /// Groups in `a` whose key says that they move.
    pub fn marked(&mut self) -> usize {
        let groups = self.read(A, "/holdfast/groups/");
        let says_to = |kv: &&KeyValue| String::from_utf8_lossy(&kv.value).contains("\"to\":");
        groups.iter().filter(says_to).count()
    }

    /// The state of the shard's guard there, as operators are shown it.
    pub fn shown(&self, at: usize) -> Option<&'static str> {
        let statuses = self.engines[at].shard_statuses();
        let of_shard = statuses.iter().find(|status| status.shard == SHARD.0);
        of_shard.and_then(|status| status.state)
    }

    pub fn guard(&mut self, at: usize) -> Guard {
        let read = self.read(at, "/holdfast/shards/").swap_remove(0);
        Guard::from_value(&read.key, &read.value).unwrap()
    }

    pub fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Watch(..) | Effect::Unwatch(_) => {}
                Effect::Call { id, op, .. } if !(self.withheld)(at, &op) => {
                    let result = self.apply(at, &op);
                    match (self.held_back)(at, &op) {
                        true => self.late.push((at, Input::Reply(id, result))),
                        false => self.inbox.push_back((at, Input::Reply(id, result))),
                    }
                }
                Effect::Word(_, word) if format!("{word:?}").contains(self.lost_word) => {}
                Effect::Answer(ticket, answer) => {
                    assert!(self.answers.insert(ticket, answer).is_none());
                }
                Effect::Word(to, word) => {
                    let to = NAMES.iter().position(|name| **name == *to).unwrap();
                    self.inbox
                        .push_back((to, Input::Word(NAMES[at].into(), word)));
                }
                Effect::Onward(ticket, To::Cluster(to), onward) => {
                    let to = NAMES.iter().position(|name| **name == *to).unwrap();
                    self.inbox.push_back((to, Input::Onward(ticket, onward)));
                }
                Effect::Onward(ticket, To::Before, onward) => {
                    self.inbox
                        .push_back((1 - at, Input::Onward(ticket, onward)));
                }
                Effect::Call { .. }
                | Effect::Forward(..)
                | Effect::Bequeath(..)
                | Effect::Stopped => {}
            }
        }
    }

    pub fn drain(&mut self) {
        while let Some((at, input)) = self.inbox.pop_front() {
            let mut effects = Vec::new();
            let now = Instant::from_ms(self.now);
            self.engines[at].handle(now, [input], &mut effects);
            self.carry_out(at, effects);
        }
    }

    /// Lets so much time pass.
    pub fn run(&mut self, ms: u64) {
        self.run_with(ms, |_| {});
    }

    /// As [`Self::run`], of a long quiet time.
    pub fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 990;
            self.run(10);
        }
    }

    /// The replies that were held back come now.
    pub fn let_go(&mut self) {
        self.inbox.extend(self.late.drain(..));
        self.drain();
    }

    pub fn run_with(&mut self, ms: u64, each: impl Fn(&mut Self)) {
        let end = self.now + ms;
        self.drain();
        while self.now < end {
            self.now += 10;
            for at in [A, B] {
                self.inbox.push_back((at, Input::Tick));
            }
            self.drain();
            each(self);
        }
    }

    pub fn ask(&mut self, at: usize, input: impl FnOnce(Ticket) -> Input) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.inbox.push_back((at, input(ticket)));
        self.drain();
        ticket
    }

    pub fn acquire(&mut self, at: usize, client: &str) -> Ticket {
        self.acquire_name(at, client, "n")
    }

    pub fn acquire_name(&mut self, at: usize, client: &str, name: &str) -> Ticket {
        self.acquire_in(at, SHARD, client, name)
    }

    pub fn acquire_in(&mut self, at: usize, shard: ShardId, client: &str, name: &str) -> Ticket {
        self.acquire_as(None, at, shard, client, name)
    }

    pub fn acquire_for(
        &mut self,
        principal: Option<&Principal>,
        at: usize,
        client: &str,
        name: &str,
    ) -> Ticket {
        self.acquire_as(principal, at, SHARD, client, name)
    }

    fn acquire_as(
        &mut self,
        principal: Option<&Principal>,
        at: usize,
        shard: ShardId,
        client: &str,
        name: &str,
    ) -> Ticket {
        let acquire = Acquire {
            principal: principal.cloned(),
            ..wish(client, name)
        };
        self.ask(at, |ticket| Input::Acquire(ticket, shard, acquire))
    }

    /// Asks for "n", and waits for it for so long.
    pub fn wait_for_name(&mut self, at: usize, client: &str, wait_ms: u64) -> Ticket {
        let acquire = Acquire {
            wait: Millis::from_ms(wait_ms),
            ..wish(client, "n")
        };
        self.ask(at, |ticket| Input::Acquire(ticket, SHARD, acquire))
    }

    /// Renews a hold for longer than its record says, which the engine has to look at.
    pub fn ask_for_longer(&mut self, at: usize, grant: &Grant, ttl_s: u64) -> Ticket {
        let renew = Renew {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            ttl: Some(Millis::from_secs(ttl_s)),
            principal: None,
        };
        self.ask(at, |ticket| Input::Renew(ticket, SHARD, renew))
    }

    pub fn granted(&mut self, at: usize, client: &str) -> Grant {
        let ticket = self.acquire(at, client);
        self.grant_of(ticket)
    }

    pub fn grant_of(&mut self, ticket: Ticket) -> Grant {
        self.run(200);
        match self.answers.remove(&ticket) {
            Some(Answer::Acquire(Ok(AcquireOutcome::Granted(grant)))) => grant,
            other => panic!("{other:?}"),
        }
    }

    pub fn release(&mut self, at: usize, grant: &Grant) -> Ticket {
        let release = Release {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            principal: None,
        };
        self.ask(at, |ticket| Input::Release(ticket, SHARD, release))
    }

    pub fn is_released(&self, ticket: Ticket) -> bool {
        let answer = self.answers.get(&ticket);
        matches!(answer, Some(Answer::Release(Ok(ReleaseOutcome::Released))))
    }

    pub fn renews_from_memory(&self, grant: &Grant) -> bool {
        let renew = Renew {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            ttl: None,
            principal: None,
        };
        matches!(
            self.table.renew(Instant::from_ms(self.now), &renew),
            Some(Ok(_))
        )
    }

    pub fn records(&mut self) -> [usize; 2] {
        [A, B].map(|at| self.read(at, "/locks/").len())
    }
}

/// Whether it puts a value with this in it.
pub fn puts(op: &Op, part: &str) -> bool {
    pub fn any(txn: &Txn, part: &str) -> bool {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => String::from_utf8_lossy(&put.value).contains(part),
            TxnOp::Txn(inner) => any(inner, part),
            TxnOp::Get(_) | TxnOp::Delete(_) => false,
        })
    }
    matches!(op, Op::Txn(txn) if any(txn, part))
}

/// Whether it is a write that touches a key of this kind.
pub fn writes(op: &Op, part: &str) -> bool {
    matches!(op, Op::Txn(_)) && format!("{op:?}").contains(part)
}
