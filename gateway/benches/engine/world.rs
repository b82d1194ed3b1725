//! One engine over a model cluster that answers at once, with as many holds as a benchmark wants.

use holdfast_gateway::engine::{
    Answer, CallId, ClusterProof, Effect, Engine, Input, Settings, Table, Ticket,
};
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::names::{ClientId, LockName, Token};
use holdfast_gateway::service::{Acquire, AcquireOutcome, Release, Renew};
use holdfast_gateway::time::{Instant, Millis};
use holdfast_store::{Model, ModelTime, Op, Put, Txn, TxnOp};
use shard_map::records::{Guard, Identity, Record, keys};
use shard_map::{DeploymentId, ShardCount, ShardId};
use std::sync::Arc;

const SHARDS: u32 = 256;
/// Requests that are given at one time: the engine takes no more than half its places for
/// acquires.
const AT_ONCE: usize = 16_384;

/// A hold, in little memory.
pub struct Hold {
    pub id: String,
    pub token: Token,
}

impl Hold {
    /// What was granted.
    pub fn of(answer: Answer) -> Self {
        match answer {
            Answer::Acquire(Ok(AcquireOutcome::Granted(grant))) => Self {
                id: grant.lock_id.to_text(),
                token: grant.token,
            },
            other => unreachable!("not granted: {other:?}"),
        }
    }
}

/// See the module.
pub struct World {
    pub now: Instant,
    pub table: Arc<Table>,
    engine: Engine,
    model: Model,
    shards: ShardCount,
    tickets: u64,
}

impl World {
    /// An engine whose session is proven.
    pub fn ready() -> Self {
        let shards = ShardCount::try_from(SHARDS).expect("a valid count");
        let deployment = DeploymentId::from_random_bits(7);
        let now = Instant::from_ms(1_000_000);
        let mut model = Model::new(1, 1);
        model.set_history_events_max(1);
        let identity = Identity {
            deployment,
            cluster: "a".parse().expect("a valid name"),
            beacon: None,
        };
        put(&mut model, now, keys::identity(), identity.to_value());
        for shard in shards.shards() {
            put(
                &mut model,
                now,
                keys::guard(shard),
                Guard::first().to_value(),
            );
        }
        let table = Arc::<Table>::default();
        let settings = Settings {
            cluster: "a".into(),
            deployment,
            instance: "bench".to_owned(),
            peer_url: "http://bench".to_owned(),
            session_ttl: Millis::from_secs(60),
            group_ttl: Millis::from_secs(1800),
        };
        let proof = ClusterProof::new("a".into());
        let engine = Engine::new(settings, [7; 32], now, Arc::clone(&table), proof);
        let mut world = Self {
            now,
            table,
            engine,
            model,
            shards,
            tickets: 0,
        };
        let mut effects = Vec::new();
        world.engine.start(world.now, &mut effects);
        world.carry_out(effects);
        world.give([Input::HomeSeen, Input::Tick]);
        world
    }

    /// Takes `count` locks with names of 24 bytes, as fast as the engine grants them.
    pub fn hold(&mut self, count: usize, ttl: Millis) -> Vec<Hold> {
        let mut held = Vec::with_capacity(count);
        while held.len() < count {
            let end = (held.len() + AT_ONCE).min(count);
            let wanted: Vec<_> = (held.len()..end).map(|n| self.wish(n, ttl)).collect();
            held.extend(self.give(wanted).into_iter().map(Hold::of));
        }
        held
    }

    /// Lets time pass, in steps that keep the session proven.
    pub fn pass(&mut self, time: Millis) {
        let end = self.now + time;
        while self.now < end {
            self.now = end.min(self.now + Millis::from_secs(10));
            self.give([Input::Tick]);
        }
    }

    /// Gives holds back.
    pub fn release(&mut self, holds: &[Hold]) {
        for holds in holds.chunks(AT_ONCE) {
            let wanted: Vec<_> = holds.iter().map(|hold| self.giving_back(hold)).collect();
            self.give(wanted);
        }
    }

    pub fn wish(&mut self, n: usize, ttl: Millis) -> Input {
        let name = name(n);
        let shard = self.shard_of(&name);
        let acquire = Acquire {
            name: LockName::new(&name).expect("a valid name"),
            ttl,
            client_id: ClientId::new("worker-7").expect("a valid id"),
            principal: None,
            request_id: None,
            wait: Millis::ZERO,
            metadata: None,
        };
        Input::Acquire(self.ticket(), shard, acquire)
    }

    fn giving_back(&mut self, hold: &Hold) -> Input {
        let lock_id = parse(&hold.id);
        let shard = self.shard_of(lock_id.name());
        let release = Release {
            lock_id,
            token: hold.token,
            principal: None,
        };
        Input::Release(self.ticket(), shard, release)
    }

    /// Hands inputs over and lets the cluster answer until nothing is on its way.
    pub fn give(&mut self, inputs: impl IntoIterator<Item = Input>) -> Vec<Answer> {
        let mut effects = Vec::new();
        self.engine.handle(self.now, inputs, &mut effects);
        self.carry_out(effects)
    }

    /// Only hands inputs over; the caller measures this.
    pub fn hand_over(&mut self, inputs: impl IntoIterator<Item = Input>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.engine.handle(self.now, inputs, &mut effects);
        effects
    }

    /// Lets the cluster answer, until nothing is on its way.
    pub fn carry_out(&mut self, mut effects: Vec<Effect>) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            let (replies, answered) = self.reply_to(effects);
            answers.extend(answered);
            if replies.is_empty() {
                return answers;
            }
            effects = self.hand_over(replies);
        }
    }

    /// What the cluster answers, and what the engine has answered.
    pub fn reply_to(&mut self, effects: Vec<Effect>) -> (Vec<Input>, Vec<Answer>) {
        let (mut replies, mut answers) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Watch(..) | Effect::Unwatch(_) => {}
                Effect::Call { id, op, .. } => replies.push(self.reply(id, &op)),
                Effect::Answer(_, answer) => answers.push(answer),
                Effect::Forward(..)
                | Effect::Bequeath(..)
                | Effect::Word(..)
                | Effect::Onward(..)
                | Effect::Stopped => {}
            }
        }
        (replies, answers)
    }

    fn reply(&mut self, id: CallId, op: &Op) -> Input {
        let now = ModelTime::from_ms(self.now.as_ms());
        Input::Reply(id, self.model.apply(now, op))
    }

    fn shard_of(&self, name: &str) -> ShardId {
        shard_map::shard_of(name, self.shards)
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}

/// A name of 24 bytes.
pub fn name(n: usize) -> String {
    format!("process_order:{n:010}")
}

pub fn parse(id: &str) -> LockId {
    LockId::parse(id).expect("a lock id that was granted")
}

pub fn renewal(hold: &Hold) -> Renew {
    Renew {
        lock_id: parse(&hold.id),
        token: hold.token,
        ttl: None,
        principal: None,
    }
}

fn put(model: &mut Model, now: Instant, key: holdfast_store::Key, value: Vec<u8>) {
    let put = Put {
        key,
        value,
        lease: None,
    };
    let txn = Txn {
        then: vec![TxnOp::Put(put)],
        ..Txn::default()
    };
    let applied = model.apply(ModelTime::from_ms(now.as_ms()), &Op::Txn(txn));
    applied.expect("the model has space");
}
