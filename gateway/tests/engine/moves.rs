//! Shards that move: two clusters, one gateway with an engine for each, and no time between a call and
//! its reply unless a test withholds it.

use holdfast_gateway::engine::{
    Answer, ClusterProof, Effect, Engine, Input, Settings, Table, Ticket, To,
};
use holdfast_gateway::names::{ClientId, LockName};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, Grant, Refusal, Release, ReleaseOutcome, Renew, RenewOutcome,
};
use holdfast_gateway::time::{Instant, Millis};
use holdfast_store::{
    Get, KeyRange, KeyValue, Model, ModelTime, Op, Put, Reply, StoreError, Txn, TxnOp, TxnOpReply,
};
use shard_map::records::{Guard, GuardState, Identity, Record, keys};
use shard_map::rollout::arriving;
use shard_map::{DeploymentId, Epoch, ShardId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

const SHARD: ShardId = ShardId(0);
const NAMES: [&str; 2] = ["a", "b"];
const A: usize = 0;
const B: usize = 1;

struct Pair {
    now: u64,
    models: [Model; 2],
    engines: Vec<Engine>,
    table: Arc<Table>,
    inbox: VecDeque<(usize, Input)>,
    answers: HashMap<Ticket, Answer>,
    tickets: u64,
    /// Calls to a cluster for which this says true get no answer and do nothing.
    withheld: fn(usize, &Op) -> bool,
}

impl Pair {
    /// A gateway whose sessions are proven; the shard is in `a`.
    fn ready() -> Self {
        let table = Arc::<Table>::default();
        let now = Instant::from_ms(1_000_000);
        let engine = |at: usize| {
            let settings = Settings {
                cluster: NAMES[at].into(),
                deployment: DeploymentId::from_random_bits(7),
                instance: "gateway".into(),
                peer_url: "http://gateway".into(),
                session_ttl: Millis::from_ms(9_000),
                group_ttl: Millis::from_secs(1_800),
            };
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
        };
        for at in [A, B] {
            let identity = Identity {
                deployment: DeploymentId::from_random_bits(7),
                cluster: NAMES[at].parse().unwrap(),
                beacon: None,
            };
            pair.put(at, keys::identity(), identity.to_value());
            let mut effects = Vec::new();
            pair.engines[at].start(now, &mut effects);
            pair.carry_out(at, effects);
            pair.inbox.push_back((at, Input::HomeSeen));
        }
        pair.put(A, keys::guard(SHARD), Guard::first().to_value());
        pair.run(4_000);
        pair
    }

    fn apply(&mut self, at: usize, op: &Op) -> Result<Reply, StoreError> {
        self.models[at].apply(ModelTime::from_ms(self.now), op)
    }

    fn put(&mut self, at: usize, key: holdfast_store::Key, value: Vec<u8>) {
        let put = Put {
            key,
            value,
            lease: None,
        };
        let txn = Txn {
            then: vec![TxnOp::Put(put)],
            ..Txn::default()
        };
        self.apply(at, &Op::Txn(txn)).unwrap();
    }

    fn read(&mut self, at: usize, prefix: &str) -> Vec<KeyValue> {
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
    fn shard_leaves(&mut self) {
        let leaving = Guard {
            epoch: Epoch(2),
            state: GuardState::Leaving,
            to: Some(NAMES[B].parse().unwrap()),
            ..Guard::first()
        };
        self.put(A, keys::guard(SHARD), leaving.to_value());
        let written = self.read(A, "/holdfast/shards/")[0].mod_revision;
        let here = arriving(&leaving, written, &NAMES[A].parse().unwrap()).unwrap();
        self.put(B, keys::guard(SHARD), here.to_value());
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call { id, op, .. } if !(self.withheld)(at, &op) => {
                    let result = self.apply(at, &op);
                    self.inbox.push_back((at, Input::Reply(id, result)));
                }
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

    fn drain(&mut self) {
        while let Some((at, input)) = self.inbox.pop_front() {
            let mut effects = Vec::new();
            let now = Instant::from_ms(self.now);
            self.engines[at].handle(now, [input], &mut effects);
            self.carry_out(at, effects);
        }
    }

    /// Lets so much time pass.
    fn run(&mut self, ms: u64) {
        self.run_with(ms, |_| {});
    }

    fn run_with(&mut self, ms: u64, each: impl Fn(&mut Self)) {
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

    fn ask(&mut self, at: usize, input: impl FnOnce(Ticket) -> Input) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.inbox.push_back((at, input(ticket)));
        self.drain();
        ticket
    }

    fn acquire(&mut self, at: usize, client: &str) -> Ticket {
        let acquire = Acquire {
            name: LockName::new("n").unwrap(),
            ttl: Millis::from_secs(30),
            client_id: ClientId::new(client).unwrap(),
            principal: None,
            request_id: None,
            metadata: None,
        };
        self.ask(at, |ticket| Input::Acquire(ticket, SHARD, acquire))
    }

    fn granted(&mut self, at: usize, client: &str) -> Grant {
        let ticket = self.acquire(at, client);
        self.run(200);
        match self.answers.remove(&ticket) {
            Some(Answer::Acquire(Ok(AcquireOutcome::Granted(grant)))) => grant,
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self, at: usize, grant: &Grant) -> Ticket {
        let release = Release {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            principal: None,
        };
        self.ask(at, |ticket| Input::Release(ticket, SHARD, release))
    }

    fn is_released(&self, ticket: Ticket) -> bool {
        let answer = self.answers.get(&ticket);
        matches!(answer, Some(Answer::Release(Ok(ReleaseOutcome::Released))))
    }

    fn renews_from_memory(&self, grant: &Grant) -> bool {
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

    fn records(&mut self) -> [usize; 2] {
        [A, B].map(|at| self.read(at, "/locks/").len())
    }
}

/// Whether it puts a value with this in it.
fn puts(op: &Op, part: &str) -> bool {
    fn any(txn: &Txn, part: &str) -> bool {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => String::from_utf8_lossy(&put.value).contains(part),
            TxnOp::Txn(inner) => any(inner, part),
            TxnOp::Get(_) | TxnOp::Delete(_) => false,
        })
    }
    matches!(op, Op::Txn(txn) if any(txn, part))
}

/// Whether it is a write that touches a key of this kind.
fn writes(op: &Op, part: &str) -> bool {
    matches!(op, Op::Txn(_)) && format!("{op:?}").contains(part)
}

#[test]
fn a_held_lock_moves_and_every_renewal_is_answered_from_memory() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.shard_leaves();
    pair.run_with(6_000, |pair| assert!(pair.renews_from_memory(&grant)));
    assert_eq!(pair.records(), [0, 1]);
    assert_eq!(pair.read(A, "/holdfast/groups/").len(), 0);
    let group = String::from_utf8(pair.read(B, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(!group.contains("from"), "{group}");
    let record = String::from_utf8(pair.read(B, "/locks/")[0].value.clone()).unwrap();
    assert!(
        record.contains(&format!("\"token\":{}", grant.token.0)),
        "{record}"
    );
    let again = pair.granted(B, "one");
    assert!(again.already_held);
    assert_eq!((again.lock_id, again.token), (grant.lock_id, grant.token));
}

#[test]
fn a_name_that_is_held_where_its_shard_comes_from_is_refused_where_it_goes() {
    let mut pair = Pair::ready();
    pair.withheld = |at, op| at == B && puts(op, "arriving");
    let grant = pair.granted(A, "one");
    pair.shard_leaves();
    let ticket = pair.acquire(B, "two");
    pair.run(200);
    let refused = Some(Refusal::Held);
    let found = match pair.answers.get(&ticket) {
        Some(Answer::Acquire(Ok(AcquireOutcome::Refused { reason, .. }))) => Some(*reason),
        _ => None,
    };
    assert_eq!(found, refused);
    assert!(
        pair.granted(B, "one").already_held,
        "re-entry goes to the owner"
    );
    assert!(pair.renews_from_memory(&grant));
}

#[test]
fn a_request_follows_the_guard_whatever_the_map_says_and_tokens_grow() {
    let mut pair = Pair::ready();
    let first = pair.granted(A, "one");
    let released = pair.release(A, &first);
    pair.shard_leaves();
    pair.run(3_000);
    assert!(pair.is_released(released));
    let second = pair.granted(A, "two");
    assert!(second.token > first.token);
    assert_eq!(pair.records(), [0, 1]);
}

#[test]
fn a_release_in_the_middle_of_a_move_leaves_no_copy_behind() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    // The copies are put, and the switch is not carried out.
    pair.withheld = |at, op| at == A && writes(op, "shards/0") && writes(op, "Delete");
    pair.shard_leaves();
    pair.run(3_000);
    assert_eq!(pair.records(), [1, 1]);
    let ticket = pair.release(A, &grant);
    pair.run(1_000);
    assert!(!pair.is_released(ticket), "a copy is still there");
    assert_eq!(pair.records(), [1, 1]);
}

#[test]
fn a_switch_is_refused_under_another_guard_and_the_move_is_undone() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.withheld = |at, op| at == B && puts(op, "arriving");
    pair.shard_leaves();
    pair.run(3_000);
    let marked = String::from_utf8(pair.read(A, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(marked.contains("\"to\":"), "{marked}");
    let back = Guard {
        epoch: Epoch(3),
        ..Guard::first()
    };
    pair.put(A, keys::guard(SHARD), back.to_value());
    pair.run_with(6_000, |pair| assert!(pair.renews_from_memory(&grant)));
    let group = String::from_utf8(pair.read(A, "/holdfast/groups/")[0].value.clone()).unwrap();
    assert!(!group.contains("\"to\":"), "{group}");
    assert_eq!(pair.records(), [1, 0]);
}

#[test]
fn a_renewal_that_an_engine_must_look_at_is_answered_after_the_move() {
    let mut pair = Pair::ready();
    let grant = pair.granted(A, "one");
    pair.shard_leaves();
    pair.run(5_000);
    let renew = Renew {
        lock_id: grant.lock_id.clone(),
        token: grant.token,
        ttl: Some(Millis::from_secs(60)),
        principal: None,
    };
    let ticket = pair.ask(A, |ticket| Input::Renew(ticket, SHARD, renew));
    pair.run(500);
    let answer = pair.answers.get(&ticket);
    assert!(matches!(
        answer,
        Some(Answer::Renew(Ok(RenewOutcome::Renewed(_))))
    ));
}
