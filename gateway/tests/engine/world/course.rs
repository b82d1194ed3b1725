//! The course of time: what engines want done, what crosses the links, and what happens when.

use super::{Fate, World, shard_of};
use holdfast_api::ErrorCode;
use holdfast_gateway::engine::{CallId, Course, Effect, Heritage, Input, Owner, Ticket};
use holdfast_gateway::names::LockName;
use holdfast_gateway::service::{Forward, ForwardOutcome, ServiceError};
use holdfast_gateway::time::{Instant, Millis};
use holdfast_store::{DefiniteError, Key, KeyRange, ModelTime, Op, Reply, StoreError};

pub(super) enum Event {
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
pub(super) struct Back {
    gateway: usize,
    life: u64,
    ticket: Ticket,
}

impl World {
    pub(super) fn carry_out(&mut self, gateway: usize, effects: Vec<Effect>) {
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
}
