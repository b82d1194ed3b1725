//! Engines at work: when they run, and what becomes of their calls.

use super::hangs::Hanging;
use super::links::LinkAsker;
use super::{Event, ReplyPlan, World};
use crate::clock::{Real, Shows as _};
use crate::faults::Fault;
use crate::gateway::EngineAt;
use holdfast_gateway::engine::{CallId, Effect, Input, Onward, Ticket, To, Word};
use holdfast_gateway::time::Millis;
use holdfast_judge::Rule;
use holdfast_store::{DefiniteError, Op, Reply, StoreError};
use std::sync::Arc;

/// Something that crosses a link late arrives at most so much later.
const LATE_MS_MAX: u64 = 240_000;

impl World {
    fn is_current(&self, at: EngineAt) -> bool {
        let gateway = &self.gateways[at.gateway];
        gateway.life == at.life && gateway.is_up()
    }

    /// Puts an input into an engine's inbox.
    pub(crate) fn give(&mut self, at: EngineAt, input: Input) {
        if !self.is_current(at) {
            return;
        }
        let stall = match self.dice.between(0..=9) {
            0 => self.dice.between(1..=4),
            _ => 0,
        };
        self.gateways[at.gateway].engines[at.cluster]
            .inbox
            .push(input);
        self.plan_run(at, self.now + stall);
    }

    /// Has the engine run at that time, or earlier if it is to run earlier already.
    pub(crate) fn plan_run(&mut self, at: EngineAt, time: Real) {
        let task = &mut self.gateways[at.gateway].engines[at.cluster];
        if time < task.run_at {
            task.run_at = time;
            task.plan += 1;
            let plan = task.plan;
            self.at(time, Event::EngineRuns { at, plan });
        }
    }

    pub(crate) fn engine_runs(&mut self, at: EngineAt, plan: u64) {
        if !self.is_current(at) {
            return;
        }
        let now = self.now;
        let gateway = &mut self.gateways[at.gateway];
        let task = &mut gateway.engines[at.cluster];
        if task.plan != plan {
            return;
        }
        task.run_at = Real::MAX;
        let paused_until = gateway.paused_until.max(task.paused_until);
        if paused_until > now {
            return self.plan_run(at, paused_until);
        }
        let shown = gateway.clock.instant(now);
        let mut inputs = std::mem::take(&mut task.inbox);
        if task.engine.next_wakeup() <= shown {
            inputs.push(Input::Tick);
        }
        let mut effects = Vec::new();
        task.engine.handle(shown, inputs, &mut effects);
        let wakeup = task.engine.next_wakeup().as_ms();
        let next = gateway.clock.when(wakeup).max(now);
        self.carry_out(at, effects);
        if self.is_current(at) {
            self.plan_run(at, next);
        }
    }

    pub(crate) fn carry_out(&mut self, at: EngineAt, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(ticket, answer) => self.answered(at, ticket, answer),
                Effect::Stopped => self.engine_stopped(at),
                Effect::Call { id, op, timeout } => self.send(at, id, op, timeout),
                Effect::Word(to, word) => self.say(at, to, word),
                Effect::Onward(ticket, to, onward) => self.send_on(at, ticket, &to, onward),
                Effect::Watch(name, key, _) => drop(self.watches.insert((at, name), key)),
                Effect::Unwatch(name) => drop(self.watches.remove(&(at, name))),
                Effect::Bequeath(owner, heritage) => self.bequeath(at, &owner, &heritage),
                Effect::Forward(ticket, owner, forward) => {
                    self.note_entry(ticket);
                    let cluster = &self.gateways[at.gateway].engines[at.cluster].cluster;
                    let cluster = Arc::clone(cluster);
                    let asker = LinkAsker::Engine(at, ticket);
                    self.forward(at.gateway, &owner, cluster, forward, asker);
                }
            }
        }
    }

    /// Carries a word to another engine; a few are lost, as where too many wait.
    fn say(&mut self, at: EngineAt, to: Arc<str>, word: Word) {
        let lost = !self.healed && self.dice.per_mille(5);
        let from = Arc::clone(&self.gateways[at.gateway].engines[at.cluster].cluster);
        let note = ("word", at.gateway, &from, format!("{word:?}"), lost);
        self.trace.note(self.now, None, &note);
        match self.neighbour(at, &To::Cluster(to), 0) {
            Some(to) if !lost => self.give(to, Input::Word(from, word)),
            _ => self.figures.event("words lost"),
        }
    }

    /// The engine of another cluster, of the same gateway.
    fn neighbour(&self, at: EngineAt, to: &To, shard: u32) -> Option<EngineAt> {
        let gateway = &self.gateways[at.gateway];
        let cluster = match to {
            To::Cluster(name) => gateway.engines.iter().position(|it| it.cluster == *name)?,
            To::Before => gateway.routes.before[shard as usize],
        };
        Some(EngineAt { cluster, ..at })
    }

    /// A request goes on in another engine.
    fn send_on(&mut self, at: EngineAt, ticket: Ticket, to: &To, onward: Box<Onward>) {
        let next = self.neighbour(at, to, onward.shard().0);
        let Some(next) = next else {
            unreachable!("every cluster has an engine");
        };
        if let Some(open) = self.open.get_mut(&ticket) {
            open.at = next;
        } else if let Some(at) = self.abandoned.get_mut(&ticket) {
            *at = next;
            self.will_be_abandoned(ticket);
        } else {
            unreachable!("a request is answered once");
        }
        self.give(next, Input::Onward(ticket, onward));
    }

    fn send(&mut self, at: EngineAt, call: CallId, op: Op, timeout: Millis) {
        let clock = self.gateways[at.gateway].clock;
        let give_up = clock.when(clock.read(self.now) + timeout.as_ms());
        let kind = kind_of(&op);
        self.trace
            .note(self.now, None, &(kind, at.gateway, at.cluster, call));
        let refused = || StoreError::from(DefiniteError::Unreachable("refused".to_owned()));
        if let Some((until, refuses)) = self.cut.get(&(at.gateway, at.cluster))
            && *until > self.now
        {
            return match refuses {
                true => self.returns(self.now + 1, at, call, Err(refused())),
                false => self.returns(give_up, at, call, Err(given_up())),
            };
        }
        let hanging = self.hanging(at, &op);
        if hanging == Hanging::Gone {
            return self.returns(give_up, at, call, Err(given_up()));
        }
        let share = self.options.call_faults_per_mille;
        if self.meets(Fault::CallRefused, share) {
            return self.returns(self.now + 1, at, call, Err(refused()));
        }
        if self.meets(Fault::CallLost, share) {
            return self.returns(give_up, at, call, Err(given_up()));
        }
        let op = Arc::new(op);
        let (there, mut back) = (self.latency(), self.latency());
        if let Hanging::Late(ms) = hanging {
            back += ms;
        }
        let lost = self.meets(Fault::ReplyLost, share);
        let late = self.meets(Fault::CallLate, share);
        let there = match late {
            true => give_up - self.now + self.dice.delay(LATE_MS_MAX),
            false => there,
        };
        let arrives = self.now + there;
        let plan = ReplyPlan {
            takes: back,
            give_up,
        };
        let in_time = plan.is_in_time(arrives);
        // On a stream an answer comes when it comes, though nobody waits for it any more.
        let comes = !lost && !late && (in_time || matches!(*op, Op::KeepAlive { .. }));
        let reply = comes.then_some(plan);
        if !(comes && in_time) {
            if self.options.has(Fault::SlowLinks) && !in_time && !late && !self.healed {
                self.figures.fault(Fault::SlowLinks);
            }
            self.returns(give_up, at, call, Err(given_up()));
        }
        let fault = match (&*op, reply) {
            (Op::Txn(_), Some(_)) => Fault::WriteDoubled,
            _ => Fault::CallDoubled,
        };
        if self.meets(fault, share) {
            let again = arrives + self.dice.delay(LATE_MS_MAX);
            self.call_comes(again, at, call, Arc::clone(&op), None);
        }
        self.call_comes(arrives, at, call, op, reply);
    }

    fn call_comes(
        &mut self,
        time: Real,
        at: EngineAt,
        call: CallId,
        op: Arc<Op>,
        reply: Option<ReplyPlan>,
    ) {
        let event = Event::CallArrives {
            at,
            call,
            op,
            reply,
        };
        self.at(time, event);
    }

    fn returns(
        &mut self,
        time: Real,
        at: EngineAt,
        call: CallId,
        result: Result<Reply, StoreError>,
    ) {
        self.at(time, Event::CallReturns { at, call, result });
    }

    pub(crate) fn latency(&mut self) -> Real {
        let max = if self.healed {
            5
        } else {
            self.options.latency_ms
        };
        self.dice.delay(max)
    }

    pub(crate) fn call_arrives(
        &mut self,
        at: EngineAt,
        call: CallId,
        op: &Op,
        reply: Option<ReplyPlan>,
    ) {
        if reply.is_none() && self.refused.contains(&(at, call)) {
            // What was refused before anything was done has no copy that could come later.
            return;
        }
        let in_time = reply.filter(|plan| plan.is_in_time(self.now));
        if self.clusters[at.cluster].down_until > self.now {
            let Some(ReplyPlan { takes, give_up }) = in_time else {
                return;
            };
            return match self.dice.coin() {
                true => {
                    self.refused.insert((at, call));
                    let error = DefiniteError::Unreachable("no leader".to_owned());
                    self.returns(self.now + takes, at, call, Err(error.into()));
                }
                false => self.returns(give_up, at, call, Err(given_up())),
            };
        }
        let faults = self.faults_now();
        let cluster = &mut self.clusters[at.cluster];
        let result = cluster.serve(self.now, op, &faults, &mut self.dice, &mut self.figures);
        let overtaken = cluster.overtaken.take();
        if let Some(text) = overtaken {
            self.judge.find(Rule::InLine, self.now, None, text);
        }
        let failed = result.is_err();
        self.trace.note(
            self.now,
            None,
            &("applied", at.gateway, at.cluster, call, failed),
        );
        if let Some(ReplyPlan { takes, give_up }) = reply {
            let time = match (&result, op) {
                // What is missing is waited for until the caller's time is up.
                (Ok(Reply::KeepAlive(answers)), Op::KeepAlive { leases })
                    if answers.len() < leases.len() =>
                {
                    give_up.max(self.now)
                }
                _ => self.now + takes,
            };
            self.returns(time, at, call, result);
        }
    }
}

fn given_up() -> StoreError {
    StoreError::Ambiguous("given up".to_owned())
}

fn kind_of(op: &Op) -> &'static str {
    match op {
        Op::Txn(_) => "txn",
        Op::LeaseGrant { .. } => "lease grant",
        Op::LeaseRevoke { .. } => "lease revoke",
        Op::LeaseKeys { .. } => "lease keys",
        Op::KeepAlive { .. } => "keepalive",
        Op::Alarms => "alarms",
    }
}
