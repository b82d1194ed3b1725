//! A world for engines: gateways and one model cluster under virtual time, with links between
//! them that can be told to lose, delay or repeat what crosses them.

use holdfast_api::ErrorCode;
use holdfast_gateway::engine::{
    Answer, CallId, ClusterProof, Course, Effect, Engine, EngineStats, Heritage, Input, Owner,
    Settings, Table, Ticket,
};
use holdfast_gateway::names::{ClientId, LockName, RequestId};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, CloseOutcome, ForceRelease, Forward, ForwardOutcome, Grant, Release,
    ReleaseOutcome, Renew, RenewOutcome, ServiceError,
};
use holdfast_gateway::time::{Instant, Millis};
use holdfast_store::{
    DefiniteError, Get, Key, KeyRange, KeyValue, Model, ModelTime, Op, Put, Reply, StoreError, Txn,
    TxnOp, TxnOpReply,
};
use shard_map::records::{Guard, Identity, Record, keys};
use shard_map::{DeploymentId, ShardCount, ShardId};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;

pub const SESSION_TTL: u64 = 9_000;
pub const SHARDS: u32 = 4;

/// What a link does with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Request and reply take these times.
    Pass { request_ms: u64, reply_ms: u64 },
    /// The request is carried out, the reply is lost: the caller gives up at its timeout.
    LoseReply { request_ms: u64 },
    /// The caller gives up at its timeout, and the request arrives this much later.
    Late { request_ms: u64 },
    /// The request never arrives, and the caller cannot know.
    LoseRequest,
    /// The connection is refused.
    Refuse,
}

/// Decides the fate of each call: which gateway, what, at which time.
pub type Link = Box<dyn FnMut(usize, &Op, u64) -> Fate>;

enum Event {
    Arrive {
        gateway: usize,
        life: u64,
        call: CallId,
        op: Op,
        reply_ms: Option<u64>,
    },
    Return {
        gateway: usize,
        life: u64,
        call: CallId,
        result: Result<Reply, StoreError>,
    },
    Left {
        to: usize,
        heritage: Heritage,
    },
    Forwarded {
        back: Back,
        outcome: ForwardOutcome,
    },
    Freed {
        gateway: usize,
        life: u64,
        name: LockName,
        key: Key,
    },
}

/// Who has forwarded a request.
#[derive(Clone, Copy)]
struct Back {
    gateway: usize,
    life: u64,
    ticket: Ticket,
}

struct Gateway {
    engine: Option<Engine>,
    table: Arc<Table>,
    proof: Arc<ClusterProof>,
    life: u64,
    stopped: bool,
    /// Handles nothing until then (a process that is stopped and continues).
    paused_until: u64,
}

/// See the module.
pub struct World {
    pub now: u64,
    pub model: Model,
    pub link: Link,
    gateways: Vec<Gateway>,
    events: BTreeMap<(u64, u64), Event>,
    answers: HashMap<Ticket, Answer>,
    forwarded: HashMap<Ticket, Back>,
    /// How many requests have gone from one gateway to another.
    pub forwards: u64,
    /// What gateways that stop tell their heirs does not arrive.
    pub heritages_lost: bool,
    /// What is watched: by which gateway, for which name.
    watches: BTreeMap<(usize, LockName), Key>,
    /// Watches tell nothing.
    pub watches_lost: bool,
    counter: u64,
    principal_locks_max: Option<NonZeroU32>,
}

pub fn deployment() -> DeploymentId {
    DeploymentId::from_random_bits(7)
}

impl World {
    /// So many gateways that have just started, over a cluster with guards for every shard.
    pub fn new(gateways: usize) -> Self {
        Self::with(gateways, None)
    }

    /// As [`World::new`], and a principal may have so many locks at each gateway.
    pub fn with_quota(gateways: usize, locks_max: u32) -> Self {
        Self::with(gateways, NonZeroU32::new(locks_max))
    }

    fn with(gateways: usize, principal_locks_max: Option<NonZeroU32>) -> Self {
        let mut world = Self {
            now: 1_000_000,
            model: Model::new(1, 1),
            link: Box::new(|_, _, _| Fate::Pass {
                request_ms: 1,
                reply_ms: 1,
            }),
            gateways: Vec::new(),
            events: BTreeMap::new(),
            answers: HashMap::new(),
            forwarded: HashMap::new(),
            forwards: 0,
            heritages_lost: false,
            watches: BTreeMap::new(),
            watches_lost: false,
            counter: 0,
            principal_locks_max,
        };
        let identity = Identity {
            deployment: deployment(),
            cluster: "a".parse().unwrap(),
            beacon: None,
        };
        world.put(keys::identity(), identity.to_value());
        for shard in 0..SHARDS {
            world.put(keys::guard(ShardId(shard)), Guard::first().to_value());
        }
        for _ in 0..gateways {
            let gateway = world.gateways.len();
            world.gateways.push(Gateway {
                engine: None,
                table: Arc::default(),
                proof: ClusterProof::new("a".into()),
                life: 0,
                stopped: false,
                paused_until: 0,
            });
            world.start(gateway);
        }
        world
    }

    /// One gateway whose session is proven.
    pub fn ready() -> Self {
        let mut world = Self::new(1);
        world.run_until_proven(0);
        world
    }

    pub fn put(&mut self, key: Key, value: Vec<u8>) {
        self.write(Txn {
            then: vec![TxnOp::Put(Put {
                key,
                value,
                lease: None,
            })],
            ..Txn::default()
        });
    }

    pub fn write(&mut self, txn: Txn) {
        self.model
            .apply(ModelTime::from_ms(self.now), &Op::Txn(txn))
            .unwrap();
    }

    pub fn by_hand(&mut self, op: &Op) {
        self.model.apply(ModelTime::from_ms(self.now), op).unwrap();
    }

    /// What the cluster has in this range.
    pub fn read(&mut self, range: KeyRange) -> Vec<KeyValue> {
        let op = Op::Txn(Txn::read([Get::all(range)]));
        match self.model.apply(ModelTime::from_ms(self.now), &op) {
            Ok(Reply::Txn(reply)) => match reply.ops.into_iter().next() {
                Some(TxnOpReply::Get(get)) => get.kvs,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub fn locks(&mut self) -> usize {
        self.read(KeyRange::prefix("/locks/")).len()
    }

    /// How many groups each session has.
    pub fn groups_by_session(&mut self) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for kv in self.read(KeyRange::prefix("/holdfast/groups/")) {
            let key = kv.key.as_str().unwrap().to_owned();
            let session = key.split('/').nth(3).unwrap().to_owned();
            *count.entry(session).or_default() += 1;
        }
        count
    }

    /// Whether a gateway would forward a request about this hold.
    /// Puts every group under a session that has ended, as if it had been claimed wrongly.
    pub fn give_groups_away(&mut self) {
        for kv in self.read(KeyRange::prefix("/holdfast/groups/")) {
            let group = kv.key.as_str().unwrap().rsplit('/').next().unwrap();
            let put = Put {
                key: format!("/holdfast/groups/{:016x}/{group}", 7).into(),
                value: kv.value,
                lease: kv.lease,
            };
            self.write(Txn {
                then: vec![
                    TxnOp::Delete(KeyRange::one(kv.key.clone())),
                    TxnOp::Put(put),
                ],
                ..Txn::default()
            });
        }
    }

    pub fn knows_another_owner(&self, gateway: usize, grant: &Grant) -> bool {
        let entry = &self.gateways[gateway];
        let owners = entry.engine.as_ref().unwrap().owners();
        let course = Course::of_request(&owners, &entry.table, &"a".into(), &grant.lock_id);
        matches!(course, Course::Owner(_))
    }

    /// Starts a gateway anew; what it knew is gone.
    pub fn start(&mut self, gateway: usize) {
        self.counter += 1;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.counter.to_be_bytes());
        let entry = &mut self.gateways[gateway];
        entry.table = Arc::new(Table::new(self.principal_locks_max));
        entry.proof = ClusterProof::new("a".into());
        entry.life += 1;
        entry.stopped = false;
        entry.paused_until = 0;
        let settings = Settings {
            cluster: "a".into(),
            deployment: deployment(),
            instance: format!("gateway-{gateway}"),
            peer_url: format!("http://gateway-{gateway}"),
            session_ttl: Millis::from_ms(SESSION_TTL),
            group_ttl: Millis::from_secs(1800),
        };
        let now = Instant::from_ms(self.now);
        let mut engine = Engine::new(
            settings,
            seed,
            now,
            Arc::clone(&entry.table),
            Arc::clone(&entry.proof),
        );
        let mut effects = Vec::new();
        engine.start(now, &mut effects);
        engine.handle(now, [Input::HomeSeen], &mut effects);
        entry.engine = Some(engine);
        self.carry_out(gateway, effects);
    }

    /// kill -9.
    pub fn kill(&mut self, gateway: usize) {
        self.gateways[gateway].engine = None;
        self.gateways[gateway].life += 1;
    }

    /// SIGSTOP for so long.
    pub fn pause(&mut self, gateway: usize, ms: u64) {
        self.gateways[gateway].paused_until = self.now + ms;
    }

    pub fn is_proven(&self, gateway: usize) -> bool {
        let gateway = &self.gateways[gateway];
        gateway.engine.is_some() && gateway.proof.is_proven(Instant::from_ms(self.now))
    }

    pub fn has_stopped(&self, gateway: usize) -> bool {
        self.gateways[gateway].stopped
    }

    pub fn give(&mut self, gateway: usize, input: Input) {
        let now = Instant::from_ms(self.now);
        let entry = &mut self.gateways[gateway];
        let Some(engine) = &mut entry.engine else {
            return;
        };
        let mut effects = Vec::new();
        engine.handle(now, [input], &mut effects);
        self.carry_out(gateway, effects);
    }

    fn carry_out(&mut self, gateway: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(ticket, answer) if self.forwarded.contains_key(&ticket) => {
                    let back = self.forwarded.remove(&ticket).unwrap();
                    let outcome = answer.into_forwarded();
                    let outcome = outcome.expect("an acquire is never forwarded");
                    self.at(self.now + 1, Event::Forwarded { back, outcome });
                }
                Effect::Answer(ticket, answer) => {
                    assert!(
                        self.answers.insert(ticket, answer).is_none(),
                        "answered twice"
                    );
                }
                Effect::Forward(ticket, owner, forward) => {
                    let back = Back {
                        gateway,
                        life: self.gateways[gateway].life,
                        ticket,
                    };
                    self.forward(back, &owner, forward);
                }
                Effect::Bequeath(owner, heritage) => {
                    let urls = (0..self.gateways.len()).map(|to| format!("http://gateway-{to}"));
                    let to = urls
                        .into_iter()
                        .position(|url| url == *owner.peer_url)
                        .unwrap();
                    if !self.heritages_lost {
                        self.at(self.now + 1, Event::Left { to, heritage });
                    }
                }
                // There is one cluster, so there is nowhere to go on.
                Effect::Onward(ticket, _, onward) => {
                    let answer = onward.unanswerable(&"a".into());
                    self.carry_out(gateway, vec![Effect::Answer(ticket, answer)]);
                }
                Effect::Word(..) => {}
                Effect::Watch(name, key, _) => {
                    self.watches.insert((gateway, name), key);
                }
                Effect::Unwatch(name) => drop(self.watches.remove(&(gateway, name))),
                Effect::Stopped => self.gateways[gateway].stopped = true,
                Effect::Call { id, op, timeout } => self.send(gateway, id, op, timeout),
            }
        }
    }

    /// Carries a forwarded request to its owner's gateway, and the answer back.
    fn forward(&mut self, back: Back, owner: &Owner, forward: Forward) {
        let to = self
            .gateways
            .iter()
            .enumerate()
            .position(|(gateway, entry)| {
                format!("http://gateway-{gateway}") == *owner.peer_url
                    && entry.engine.is_some()
                    && entry.paused_until <= self.now
            });
        let now = Instant::from_ms(self.now);
        let Some(to) = to else {
            let error = ServiceError {
                code: ErrorCode::OwnerUnreachable,
                detail: "unreachable",
                retry_after: Millis::from_ms(500),
                cluster: None,
            };
            let outcome = ForwardOutcome::Failed(error);
            return self.at(self.now + 1, Event::Forwarded { back, outcome });
        };
        self.forwards += 1;
        let hop = match Course::of_forwarded(&self.gateways[to].table, now, &forward) {
            Course::Engine(hop) => hop,
            Course::Answer(outcome) => {
                return self.at(self.now + 1, Event::Forwarded { back, outcome });
            }
            Course::Owner(_) => panic!("what was forwarded goes no further"),
        };
        let ticket = self.ticket();
        self.forwarded.insert(ticket, back);
        let shard = shard_of(forward.lock_id().name());
        self.give(to, hop.input(ticket, shard, forward));
    }

    /// Tells those who watch keys that are gone.
    fn tell_freed(&mut self) {
        let watched: Vec<_> = self
            .watches
            .iter()
            .map(|(at, key)| (at.clone(), key.clone()))
            .collect();
        for ((gateway, name), key) in watched {
            if self.read(KeyRange::one(key.clone())).is_empty() {
                self.watches.remove(&(gateway, name.clone()));
                let life = self.gateways[gateway].life;
                let freed = Event::Freed {
                    gateway,
                    life,
                    name,
                    key,
                };
                if !self.watches_lost {
                    self.at(self.now + 1, freed);
                }
            }
        }
    }

    fn send(&mut self, gateway: usize, call: CallId, op: Op, timeout: Millis) {
        let life = self.gateways[gateway].life;
        let given_up = self.now + timeout.as_ms();
        let unknown = Err(StoreError::Ambiguous("given up".to_owned()));
        let arrive = |op, reply_ms| Event::Arrive {
            gateway,
            life,
            call,
            op,
            reply_ms,
        };
        let back = |result| Event::Return {
            gateway,
            life,
            call,
            result,
        };
        match (self.link)(gateway, &op, self.now) {
            Fate::Pass {
                request_ms,
                reply_ms,
            } => {
                self.at(self.now + request_ms, arrive(op, Some(reply_ms)));
            }
            Fate::LoseReply { request_ms } => {
                self.at(self.now + request_ms, arrive(op, None));
                self.at(given_up, back(unknown));
            }
            Fate::Late { request_ms } => {
                self.at(given_up, back(unknown));
                self.at(given_up + request_ms, arrive(op, None));
            }
            Fate::LoseRequest => self.at(given_up, back(unknown)),
            Fate::Refuse => {
                let refused = DefiniteError::Unreachable("connection refused".to_owned());
                self.at(self.now + 1, back(Err(refused.into())));
            }
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.counter += 1;
        self.events.insert((time, self.counter), event);
    }

    /// When the next thing happens.
    fn next_time(&self) -> u64 {
        let ticks = self.gateways.iter().filter_map(|gateway| {
            let wakeup = gateway.engine.as_ref()?.next_wakeup().as_ms();
            Some(wakeup.max(gateway.paused_until))
        });
        let events = self.events.keys().next().map(|(time, _)| *time);
        ticks.chain(events).min().unwrap_or(u64::MAX).max(self.now)
    }

    fn step(&mut self) {
        self.now = self.next_time();
        self.model.advance(ModelTime::from_ms(self.now));
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let event = entry.remove();
            self.happen(event);
        }
        for gateway in 0..self.gateways.len() {
            let entry = &self.gateways[gateway];
            let due = entry.engine.as_ref().is_some_and(|engine| {
                engine.next_wakeup().as_ms() <= self.now && entry.paused_until <= self.now
            });
            if due {
                self.give(gateway, Input::Tick);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Freed {
                gateway,
                life,
                name,
                key,
            } => {
                if self.gateways[gateway].life == life {
                    self.give(gateway, Input::Freed(name, key));
                }
            }
            Event::Left { to, heritage } => self.give(to, Input::Heritage(heritage)),
            Event::Forwarded { back, outcome } => {
                if self.gateways[back.gateway].life == back.life {
                    self.give(back.gateway, Input::ForwardAnswered(back.ticket, outcome));
                }
            }
            Event::Arrive {
                gateway,
                life,
                call,
                op,
                reply_ms,
            } => {
                let result = self.model.apply(ModelTime::from_ms(self.now), &op);
                self.tell_freed();
                if let Some(reply_ms) = reply_ms {
                    let back = Event::Return {
                        gateway,
                        life,
                        call,
                        result,
                    };
                    self.at(self.now + reply_ms, back);
                }
            }
            Event::Return {
                gateway,
                life,
                call,
                result,
            } => {
                let entry = &self.gateways[gateway];
                if entry.life != life {
                    return;
                }
                if entry.paused_until > self.now {
                    let later = entry.paused_until;
                    self.at(
                        later,
                        Event::Return {
                            gateway,
                            life,
                            call,
                            result,
                        },
                    );
                    return;
                }
                self.give(gateway, Input::Reply(call, result));
            }
        }
    }

    /// Lets so much time pass.
    pub fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.next_time() <= end {
            self.step();
        }
        self.now = end;
        self.model.advance(ModelTime::from_ms(end));
    }

    /// Lets time pass until `done`, for at most so long; tells whether it came.
    pub fn run_until(&mut self, ms: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + ms;
        while !done(self) {
            if self.next_time() > end {
                return false;
            }
            self.step();
        }
        true
    }

    pub fn run_until_proven(&mut self, gateway: usize) {
        assert!(
            self.run_until(60_000, |world| world.is_proven(gateway)),
            "not proven"
        );
    }

    /// What a gateway's engine shares with those who renew.
    pub fn table(&self, gateway: usize) -> Arc<Table> {
        Arc::clone(&self.gateways[gateway].table)
    }

    fn ticket(&mut self) -> Ticket {
        self.counter += 1;
        Ticket(self.counter)
    }

    pub fn begin_acquire(&mut self, gateway: usize, acquire: Acquire) -> Ticket {
        let ticket = self.ticket();
        let shard = shard_of(acquire.name.as_str());
        self.give(gateway, Input::Acquire(ticket, shard, acquire));
        ticket
    }

    /// Whether a request has been answered.
    pub fn has_answered(&self, ticket: Ticket) -> bool {
        self.answers.contains_key(&ticket)
    }

    /// The answer to an acquire that waits, when it comes within so long.
    pub fn answer_in_line(
        &mut self,
        ticket: Ticket,
        ms: u64,
    ) -> Option<Result<AcquireOutcome, ServiceError>> {
        let came = self.run_until(ms, |world| world.has_answered(ticket));
        match came.then(|| self.answers.remove(&ticket)).flatten()? {
            Answer::Acquire(answer) => Some(answer),
            other => panic!("{other:?}"),
        }
    }

    /// What an engine has counted.
    pub fn stats(&self, gateway: usize) -> Arc<EngineStats> {
        self.gateways[gateway].engine.as_ref().unwrap().stats()
    }

    /// The keys of waiters.
    pub fn waiters(&mut self) -> usize {
        self.read(KeyRange::prefix("/holdfast/waiters/")).len()
    }

    pub fn begin_release(&mut self, gateway: usize, grant: &Grant) -> Ticket {
        let release = Release {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            principal: None,
        };
        self.begin_release_of(gateway, release)
    }

    pub fn begin_release_of(&mut self, gateway: usize, release: Release) -> Ticket {
        let ticket = self.ticket();
        let shard = shard_of(release.lock_id.name());
        self.give(gateway, Input::Release(ticket, shard, release));
        ticket
    }

    /// As a gateway does it: from memory if that can answer.
    pub fn begin_renew(&mut self, gateway: usize, renew: Renew) -> Ticket {
        let ticket = self.ticket();
        let now = Instant::from_ms(self.now);
        if let Some(Ok(told)) = self.gateways[gateway].table.renew(now, &renew) {
            let answer = Answer::Renew(Ok(RenewOutcome::Renewed(told)));
            self.answers.insert(ticket, answer);
            return ticket;
        }
        let shard = shard_of(renew.lock_id.name());
        self.give(gateway, Input::Renew(ticket, shard, renew));
        ticket
    }

    pub fn answer(&mut self, ticket: Ticket) -> Answer {
        let came = self.run_until(5_000, |world| world.answers.contains_key(&ticket));
        assert!(came, "a request is answered within five seconds");
        self.answers.remove(&ticket).unwrap()
    }

    pub fn acquire(
        &mut self,
        gateway: usize,
        acquire: Acquire,
    ) -> Result<AcquireOutcome, ServiceError> {
        let ticket = self.begin_acquire(gateway, acquire);
        match self.answer(ticket) {
            Answer::Acquire(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn release(
        &mut self,
        gateway: usize,
        grant: &Grant,
    ) -> Result<ReleaseOutcome, ServiceError> {
        let ticket = self.begin_release(gateway, grant);
        match self.answer(ticket) {
            Answer::Release(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn renew(&mut self, gateway: usize, grant: &Grant) -> Result<RenewOutcome, ServiceError> {
        self.renew_for(gateway, grant, None)
    }

    pub fn renew_for(
        &mut self,
        gateway: usize,
        grant: &Grant,
        ttl_ms: Option<u64>,
    ) -> Result<RenewOutcome, ServiceError> {
        let renew = Renew {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            ttl: ttl_ms.map(Millis::from_ms),
            principal: None,
        };
        let ticket = self.begin_renew(gateway, renew);
        match self.answer(ticket) {
            Answer::Renew(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn begin_force_release(&mut self, gateway: usize, name: &str, immediate: bool) -> Ticket {
        let ticket = self.ticket();
        let force = ForceRelease {
            name: LockName::new(name).unwrap(),
            immediate,
        };
        self.give(gateway, Input::ForceRelease(ticket, shard_of(name), force));
        ticket
    }

    pub fn force_release(
        &mut self,
        gateway: usize,
        name: &str,
        immediate: bool,
    ) -> Result<CloseOutcome, ServiceError> {
        let ticket = self.begin_force_release(gateway, name, immediate);
        match self.answer(ticket) {
            Answer::Close(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// A grant that must succeed.
    pub fn hold(&mut self, gateway: usize, acquire: Acquire) -> Grant {
        match self.acquire(gateway, acquire) {
            Ok(AcquireOutcome::Granted(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }
}

pub fn shard_of(name: &str) -> ShardId {
    shard_map::shard_of(name, ShardCount::try_from(SHARDS).unwrap())
}

/// A wish for a lock, with a TTL of 30 s.
pub fn wish(client: &str, name: &str) -> Acquire {
    Acquire {
        name: LockName::new(name).unwrap(),
        ttl: Millis::from_secs(30),
        client_id: ClientId::new(client).unwrap(),
        principal: None,
        request_id: None,
        wait: Millis::ZERO,
        metadata: None,
    }
}

/// The same, waiting for so long if need be.
pub fn patient(client: &str, name: &str, wait_ms: u64) -> Acquire {
    Acquire {
        wait: Millis::from_ms(wait_ms),
        ..wish(client, name)
    }
}

pub fn with_request(acquire: Acquire, request: &str) -> Acquire {
    Acquire {
        request_id: Some(RequestId::new(request).unwrap()),
        ..acquire
    }
}

pub fn with_ttl(acquire: Acquire, ttl_ms: u64) -> Acquire {
    Acquire {
        ttl: Millis::from_ms(ttl_ms),
        ..acquire
    }
}

/// Whether this is a batch that grants a lock.
pub fn is_grant(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => put.key.as_bytes().starts_with(b"/locks/"),
            _ => false,
        })
    })
}

/// Whether this is a batch that puts a waiter.
pub fn is_join(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => put.key.as_bytes().starts_with(b"/holdfast/waiters/"),
            _ => false,
        })
    })
}

/// Whether this is a batch that closes a record.
pub fn is_close(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Put(put) => String::from_utf8_lossy(&put.value).contains("\"closed\":"),
            _ => false,
        })
    })
}

/// Whether this is a batch that deletes a lock's record.
pub fn is_delete(op: &Op) -> bool {
    has_nested(op, |txn| {
        txn.then.iter().any(|op| match op {
            TxnOp::Delete(range) => range.start.as_bytes().starts_with(b"/locks/"),
            _ => false,
        })
    })
}

fn has_nested(op: &Op, test: impl Fn(&Txn) -> bool) -> bool {
    fn any(txn: &Txn, test: &dyn Fn(&Txn) -> bool) -> bool {
        txn.then.iter().any(|op| match op {
            TxnOp::Txn(inner) => test(inner) || any(inner, test),
            _ => false,
        })
    }
    matches!(op, Op::Txn(txn) if any(txn, &test))
}
