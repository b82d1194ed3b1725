//! Requests of clients on their way to gateways, and answers on their way back.

use super::links::LinkAsker;
use super::{Asker, Event, Open, World};
use crate::clock::{Real, Shows as _};
use crate::faults::Fault;
use crate::gateway::EngineAt;
use holdfast_gateway::engine::{Answer, Course, Input, Owner, Ticket};
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, CloseOutcome, ForceRelease, Forward, ForwardOutcome, Release,
    ReleaseOutcome, Renew, RenewOutcome,
};
use holdfast_gateway::time::Millis;
use holdfast_judge::{Asked, Client, HoldNo, Rule};
use shard_map::ShardId;
use std::sync::Arc;

/// How long a gateway may take to answer, by its own clock.
const ANSWER_MS_MAX: u64 = 5_000;

/// So late a gateway notices that a client has gone.
const NOTICED_MS_MAX: u64 = 100;

/// What clients sent longer ago than this is not on its way any more once everything works.
const STRAY_MS: u64 = 10_000;

/// The number of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestNo(pub(crate) usize);

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
    ForceRelease(ForceRelease),
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) ask: Ask,
    pub(crate) client: usize,
    pub(crate) incarnation: u64,
    pub(crate) name: usize,
    pub(crate) hold: Option<HoldNo>,
    /// What a promise may be made for.
    pub(crate) ttl_ms: u64,
    pub(crate) wrong_token: bool,
    pub(crate) sent: Real,
    pub(crate) gateway: usize,
    /// Sent when everything works, about a lock that is held: it must be answered definitely.
    pub(crate) is_calm: bool,
}

impl Request {
    /// How long it may wait in line.
    pub(crate) fn wait_ms(&self) -> u64 {
        match &self.ask {
            Ask::Acquire(acquire) => acquire.wait.as_ms(),
            _ => 0,
        }
    }
}

/// The number of a request's arrival at a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ArrivalNo(u64);

/// A request that a gateway has not answered.
#[derive(Debug)]
pub(crate) struct Arrival {
    request: RequestNo,
    gateway: usize,
    life: u64,
    time: Real,
}

/// When a thread has read the clock, in which life of its gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadAt {
    time: Real,
    life: u64,
}

/// What a client is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Answer(Box<Answer>),
    /// Nothing is known: the session is not proven, the connection broke.
    Unknown(&'static str),
}

impl World {
    pub(crate) fn request(&self, request: RequestNo) -> &Request {
        &self.requests[request.0]
    }

    /// Sends a request to a gateway.
    pub(crate) fn send_request(&mut self, request: Request) -> RequestNo {
        let no = RequestNo(self.requests.len());
        let (gateway, name, client) = (request.gateway, request.name, request.client);
        let kind = match &request.ask {
            Ask::Acquire(_) => "acquire",
            Ask::Renew(_) => "renew",
            Ask::Release(_) => "release",
            Ask::ForceRelease(_) => "force-release",
        };
        let token = request.hold.map(|hold| self.judge.hold(hold).token);
        let note = (
            kind,
            no,
            "by",
            client,
            request.incarnation,
            "to",
            gateway,
            token,
        );
        self.trace.note(self.now, Some(name), &note);
        self.figures.event(kind);
        self.requests.push(request);
        let share = self.options.request_faults_per_mille;
        if self.meets(Fault::RequestDoubled, share) {
            let other = self.dice.index(self.gateways.len());
            let after = match self.dice.coin() {
                true => self.latency(),
                false => self.dice.delay(60_000),
            };
            let event = Event::RequestArrives {
                request: no,
                gateway: other,
                read: None,
            };
            self.at(self.now + after, event);
        }
        if !self.meets(Fault::RequestLost, share) {
            let event = Event::RequestArrives {
                request: no,
                gateway,
                read: None,
            };
            let after = self.client_latency();
            self.at(self.now + after, event);
        }
        no
    }

    fn client_latency(&mut self) -> Real {
        self.dice.delay(if self.healed { 5 } else { 80 })
    }

    /// A request has come to a gateway; a thread may have read the clock before its process was
    /// stopped, and go on now.
    pub(crate) fn request_arrives(&mut self, no: RequestNo, gateway: usize, read: Option<ReadAt>) {
        let process = &self.gateways[gateway];
        let sent = self.requests[no.0].sent;
        if self.healed && self.now > sent + STRAY_MS {
            return;
        }
        let (client, until) = (self.requests[no.0].client, process.paused_until);
        if self.is_cut_off(client, gateway) || self.gone.contains(&no) {
            return;
        }
        if !process.is_up() {
            return self.tell(no, Told::Unknown("no gateway"));
        }
        if until > self.now {
            let (time, life) = (process.paused_from, process.life);
            let read = (sent < time && self.dice.coin()).then_some(ReadAt { time, life });
            let event = Event::RequestArrives {
                request: no,
                gateway,
                read,
            };
            return self.at(until, event);
        }
        let read = read.filter(|read| read.life == process.life);
        if read.is_some() {
            self.figures.event("clocks read before a stop");
        }
        let arrival = ArrivalNo(self.number());
        let entry = Arrival {
            request: no,
            gateway,
            life: self.gateways[gateway].life,
            time: self.now,
        };
        self.arrivals.insert(arrival, entry);
        self.serve(arrival, read.map_or(self.now, |read| read.time));
    }

    /// What a gateway does with a client's request, as its service does.
    fn serve(&mut self, arrival: ArrivalNo, read: Real) {
        let Some(&Arrival {
            request, gateway, ..
        }) = self.arrivals.get(&arrival)
        else {
            return;
        };
        let request = &self.requests[request.0];
        let process = &self.gateways[gateway];
        let shown = process.clock.instant(read);
        if let Ask::Renew(renew) = &request.ask {
            match process.table.renew(shown, renew) {
                Some(Ok(told)) => {
                    let answer = Answer::Renew(Ok(RenewOutcome::Renewed(told)));
                    self.figures.event("renewed from memory");
                    return self.reply(arrival, Told::Answer(Box::new(answer)));
                }
                Some(Err(_)) => return self.reply(arrival, Told::Unknown("unproven")),
                None => {}
            }
        }
        let shard = Self::shard_of(request.name);
        let course = match &request.ask {
            Ask::Acquire(acquire) => {
                let acquire = acquire.clone();
                let input = |ticket| Input::Acquire(ticket, shard, acquire);
                return self.ask_engine(arrival, input);
            }
            Ask::ForceRelease(force) => {
                let force = force.clone();
                let input = |ticket| Input::ForceRelease(ticket, shard, force);
                return self.ask_engine(arrival, input);
            }
            Ask::Renew(Renew { lock_id, .. }) | Ask::Release(Release { lock_id, .. }) => {
                let task = &process.engines[self.cluster_for(gateway, request)];
                Course::of_request(&task.owners, &process.table, &task.cluster, lock_id)
            }
        };
        self.follow(arrival, course);
    }

    /// The cluster whose engine a gateway asks first.
    fn cluster_for(&self, gateway: usize, request: &Request) -> usize {
        let lock_id = match &request.ask {
            Ask::Acquire(_) | Ask::ForceRelease(_) => None,
            Ask::Renew(renew) => Some(&renew.lock_id),
            Ask::Release(release) => Some(&release.lock_id),
        };
        self.cluster_at(gateway, Self::shard_of(request.name), lock_id)
    }

    pub(super) fn cluster_at(&self, gateway: usize, shard: ShardId, id: Option<&LockId>) -> usize {
        let process = &self.gateways[gateway];
        let clusters = process.engines.iter().map(|it| (&it.cluster, &*it.owners));
        let by_hold = id.and_then(|id| Course::place_of_hold(&process.table, clusters, id));
        by_hold.unwrap_or(process.routes.by_shard[shard.0 as usize])
    }

    fn follow(&mut self, arrival: ArrivalNo, course: Course) {
        let Some(&Arrival {
            request, gateway, ..
        }) = self.arrivals.get(&arrival)
        else {
            return;
        };
        let request = &self.requests[request.0];
        let shard = Self::shard_of(request.name);
        let forward = match &request.ask {
            Ask::Renew(renew) => Forward::Renew(renew.clone()),
            Ask::Release(release) => Forward::Release(release.clone()),
            Ask::Acquire(_) | Ask::ForceRelease(_) => {
                unreachable!("only requests about a hold have a course")
            }
        };
        match course {
            Course::Answer(outcome) => {
                let told = told(&forward, outcome);
                self.reply(arrival, told);
            }
            Course::Engine(hop) => {
                self.ask_engine(arrival, |ticket| hop.input(ticket, shard, forward));
            }
            Course::Owner(owner) => {
                let cluster = self.cluster_for(gateway, request);
                let cluster = Arc::clone(&self.gateways[gateway].engines[cluster].cluster);
                let asker = LinkAsker::Client(arrival, Arc::clone(&owner));
                self.forward(gateway, &owner, cluster, forward, asker);
            }
        }
    }

    /// The gateway that was taken for the owner has said something, or nothing.
    pub(super) fn owner_answered(
        &mut self,
        arrival: ArrivalNo,
        owner: &Owner,
        outcome: ForwardOutcome,
    ) {
        let Some(entry) = self.arrivals.get(&arrival) else {
            return;
        };
        let request = &self.requests[entry.request.0];
        let process = &self.gateways[entry.gateway];
        if process.life != entry.life {
            return;
        }
        let shown = process.clock.read(self.now);
        let took = shown.saturating_sub(process.clock.read(entry.time));
        let cluster = self.cluster_for(entry.gateway, request);
        let cluster = &process.engines[cluster].cluster;
        let course = Course::after_owner(owner, cluster, Millis::from_ms(took), Some(outcome));
        self.follow(arrival, course);
    }

    fn ask_engine(&mut self, arrival: ArrivalNo, input: impl FnOnce(Ticket) -> Input) {
        let Some(&Arrival {
            request,
            gateway,
            life,
            ..
        }) = self.arrivals.get(&arrival)
        else {
            return;
        };
        let cluster = self.cluster_for(gateway, &self.requests[request.0]);
        let process = &self.gateways[gateway];
        let shown = process.clock.instant(self.now);
        if !process.engines[cluster].proof.is_proven(shown) {
            return self.reply(arrival, Told::Unknown("unproven"));
        }
        let at = EngineAt {
            gateway,
            cluster,
            life,
        };
        let ticket = Ticket(self.number());
        let open = Open {
            asker: Asker::Client(arrival),
            at,
            arrived: self.now,
        };
        self.open.insert(ticket, open);
        self.give(at, input(ticket));
    }

    /// An engine has answered.
    pub(crate) fn answered(&mut self, at: EngineAt, ticket: Ticket, answer: Answer) {
        if self.abandoned.remove(&ticket).is_some() {
            // The shell finds that nobody waits for it.
            if let Answer::Acquire(Ok(AcquireOutcome::Granted(grant))) = answer {
                self.give(at, Input::Undelivered(grant.lock_id));
            }
            return;
        }
        let Some(open) = self.open.remove(&ticket) else {
            let text = "a request is answered twice".to_owned();
            return self.judge.find(Rule::OneAnswer, self.now, None, text);
        };
        let arrival = match open.asker {
            Asker::Client(arrival) => arrival,
            Asker::Peer(line, no) => {
                self.check_in_time(open.at, open.arrived, None);
                return self.call_answered(line, no, answer);
            }
        };
        let Some(request) = self.arrivals.get(&arrival).map(|entry| entry.request) else {
            return;
        };
        let name = self.request(request).name;
        let note = ("answered", request, summary(&answer));
        self.trace.note(self.now, Some(name), &note);
        if self.is_undelivered(at, request, &answer) {
            return self.reply(arrival, Told::Unknown("the connection broke"));
        }
        self.reply(arrival, Told::Answer(Box::new(answer)));
    }

    /// A client that has waited may go in the moment in which it is answered, and ask again before its
    /// gateway has noticed.
    fn is_undelivered(&mut self, at: EngineAt, request: RequestNo, answer: &Answer) -> bool {
        let Answer::Acquire(Ok(AcquireOutcome::Granted(grant))) = answer else {
            return false;
        };
        let may_wait = self.request(request).wait_ms() > 0;
        if !may_wait || self.healed || !self.meets(Fault::AnswerToNobody, 100) {
            return false;
        }
        let after = self.dice.between(0..=500);
        let lock_id = Box::new(grant.lock_id.clone());
        self.at(self.now + after, Event::Undelivered(at, lock_id));
        true
    }

    pub(super) fn ask_of(&self, arrival: ArrivalNo) -> Option<&Ask> {
        let request = self.arrivals.get(&arrival)?.request;
        Some(&self.requests[request.0].ask)
    }

    /// A gateway answers a request.
    fn reply(&mut self, arrival: ArrivalNo, answer: Told) {
        let Some(entry) = self.arrivals.remove(&arrival) else {
            return;
        };
        self.check_arrival(&entry);
        if self.is_cut_off(self.request(entry.request).client, entry.gateway) {
            return;
        }
        self.tell(entry.request, answer);
    }

    /// A client that waited for an answer has gone; its gateway notices, wherever the request is.
    pub(super) fn disconnected(&mut self, request: RequestNo) {
        self.gone.insert(request);
        let of_request = |asker: &Asker| match asker {
            Asker::Client(arrival) => {
                let entry = self.arrivals.get(arrival);
                entry
                    .filter(|entry| entry.request == request)
                    .map(|_| *arrival)
            }
            Asker::Peer(..) => None,
        };
        let open = self.open.iter();
        let found: Vec<_> = open
            .filter_map(|(ticket, open)| Some((*ticket, of_request(&open.asker)?, open.at)))
            .collect();
        for (ticket, arrival, at) in found {
            self.figures.fault(Fault::Waits);
            self.open.remove(&ticket);
            self.arrivals.remove(&arrival);
            self.abandoned.insert(ticket, at);
            self.will_be_abandoned(ticket);
        }
    }

    /// It takes a gateway a moment to notice that a client has gone.
    pub(super) fn will_be_abandoned(&mut self, ticket: Ticket) {
        let after = self.dice.between(0..=NOTICED_MS_MAX);
        self.at(self.now + after, Event::Abandoned(ticket));
    }

    /// It has noticed, and the request is not answered yet.
    pub(super) fn abandoned(&mut self, ticket: Ticket) {
        if let Some(at) = self.abandoned.get(&ticket) {
            self.give(*at, Input::Abandoned(ticket));
        }
    }

    fn check_arrival(&mut self, entry: &Arrival) {
        let request = self.request(entry.request);
        let (request, name) = (entry.request, request.name);
        let at = EngineAt {
            gateway: entry.gateway,
            cluster: 0,
            life: entry.life,
        };
        self.check_in_time(at, entry.time, Some((request, name)));
    }

    fn check_in_time(&mut self, at: EngineAt, arrived: Real, of: Option<(RequestNo, usize)>) {
        let gateway = &self.gateways[at.gateway];
        // It may have gone from one engine to another.
        let tasks = gateway.engines.iter().map(|task| task.paused_until);
        let last_pause = tasks.fold(gateway.paused_until, Real::max);
        let shown = gateway.clock.read(self.now);
        let took = shown - gateway.clock.read(arrived).min(shown);
        let wait = of.map_or(0, |(request, _)| self.request(request).wait_ms());
        if took > ANSWER_MS_MAX + wait && last_pause <= arrived {
            let what = match of {
                Some((request, _)) => format!("request {}", request.0),
                None => "a forwarded request".to_owned(),
            };
            let name = of.map(|(_, name)| name);
            let text = format!("{what} is answered after {took} ms");
            self.judge.find(Rule::OneAnswer, self.now, name, text);
        }
    }

    /// Requests of processes that still run and do not answer.
    pub(crate) fn check_unanswered(&mut self) {
        let arrivals = std::mem::take(&mut self.arrivals);
        for entry in arrivals.values() {
            if self.gateways[entry.gateway].life == entry.life {
                self.check_arrival(entry);
            }
        }
        for open in std::mem::take(&mut self.open).into_values() {
            if self.gateways[open.at.gateway].life == open.at.life {
                self.check_in_time(open.at, open.arrived, None);
            }
        }
    }

    fn tell(&mut self, request: RequestNo, answer: Told) {
        let share = self.options.request_faults_per_mille;
        if self.meets(Fault::AnswerLost, share) {
            return;
        }
        let event = Event::AnswerArrives {
            request,
            answer,
            answered: self.now,
        };
        let after = self.client_latency();
        self.at(self.now + after, event);
    }

    pub(crate) fn asked(&self, request: RequestNo, answered: Real) -> Asked {
        let request = self.request(request);
        Asked {
            client: Client(request.client, request.incarnation),
            clock: self.clients[request.client].clock,
            sent: request.sent,
            answered,
            name: request.name,
            shard: Self::shard_of(request.name).0,
            wait_ms: request.wait_ms(),
        }
    }
}

fn told(forward: &Forward, outcome: ForwardOutcome) -> Told {
    let answer = match (forward, outcome) {
        (Forward::Renew(_), ForwardOutcome::Renew(outcome)) => Answer::Renew(Ok(outcome)),
        (Forward::Release(_), ForwardOutcome::Release(outcome)) => Answer::Release(Ok(outcome)),
        (Forward::Renew(_), ForwardOutcome::Failed(error)) => Answer::Renew(Err(error)),
        (Forward::Release(_), ForwardOutcome::Failed(error)) => Answer::Release(Err(error)),
        _ => return Told::Unknown("another answer than was asked for"),
    };
    Told::Answer(Box::new(answer))
}

/// An answer without what must not be printed.
pub(crate) fn summary(answer: &Answer) -> (&'static str, u64) {
    match answer {
        Answer::Acquire(Ok(AcquireOutcome::Granted(grant))) if grant.already_held => {
            ("held already", grant.token.0)
        }
        Answer::Acquire(Ok(AcquireOutcome::Granted(grant))) => ("granted", grant.token.0),
        Answer::Acquire(Ok(AcquireOutcome::Refused { free_in, .. })) => {
            ("refused", free_in.as_ms())
        }
        Answer::Renew(Ok(RenewOutcome::Renewed(told))) => ("renewed", told.ttl.as_ms()),
        Answer::Renew(Ok(RenewOutcome::Ended(_))) => ("ended", 0),
        Answer::Release(Ok(ReleaseOutcome::Released)) => ("released", 0),
        Answer::Release(Ok(ReleaseOutcome::TokenMismatch)) => ("token mismatch", 0),
        Answer::Close(Ok(CloseOutcome::Closed { token, .. })) => ("force-released", token.0),
        Answer::Close(Ok(CloseOutcome::NotHeld)) => ("nothing to force-release", 0),
        Answer::Acquire(Err(error))
        | Answer::Renew(Err(error))
        | Answer::Release(Err(error))
        | Answer::Close(Err(error)) => (error.code.as_str(), error.retry_after.as_ms()),
    }
}
