//! Requests of clients on their way to gateways, and answers on their way back.

use super::{Event, Open, World};
use crate::clock::Real;
use crate::faults::Fault;
use crate::gateway::EngineAt;
use crate::judge::{Asked, HoldNo, Rule};
use holdfast_gateway::engine::{Answer, FastRenewal, Input, Ticket};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, Release, ReleaseOutcome, Renew, RenewOutcome,
};

/// How long a gateway may take to answer, by its own clock.
const ANSWER_MS_MAX: u64 = 5_000;

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
            };
            self.at(self.now + after, event);
        }
        if !self.meets(Fault::RequestLost, share) {
            let event = Event::RequestArrives {
                request: no,
                gateway,
            };
            let after = self.client_latency();
            self.at(self.now + after, event);
        }
        no
    }

    fn client_latency(&mut self) -> Real {
        self.dice.delay(if self.healed { 5 } else { 80 })
    }

    pub(crate) fn request_arrives(&mut self, no: RequestNo, gateway: usize) {
        let process = &self.gateways[gateway];
        if self.healed && self.now > self.requests[no.0].sent + STRAY_MS {
            return;
        }
        if !process.is_up() {
            return self.tell(no, Told::Unknown("no gateway"));
        }
        if process.paused_until > self.now {
            let event = Event::RequestArrives {
                request: no,
                gateway,
            };
            return self.at(process.paused_until, event);
        }
        let shown = process.clock.instant(self.now);
        let request = &self.requests[no.0];
        if let Ask::Renew(renew) = &request.ask {
            match process.table.renew(shown, renew) {
                (FastRenewal::Renewed(told), _) => {
                    let answer = Answer::Renew(Ok(RenewOutcome::Renewed(told)));
                    self.figures.event("renewed from memory");
                    return self.tell(no, Told::Answer(Box::new(answer)));
                }
                (FastRenewal::Unproven | FastRenewal::Loading, Some(_)) => {
                    return self.tell(no, Told::Unknown("unproven"));
                }
                (FastRenewal::Unproven | FastRenewal::Loading, None)
                | (FastRenewal::AskEngine, _) => {}
            }
        }
        let shard = Self::shard_of(request.name);
        let cluster = self.cluster_of(shard.0);
        if !process.engines[cluster].proof.is_proven(shown) {
            return self.tell(no, Told::Unknown("unproven"));
        }
        if process.engines[cluster].stopped {
            return self.tell(no, Told::Unknown("draining"));
        }
        let at = EngineAt {
            gateway,
            cluster,
            life: process.life,
        };
        let ask = request.ask.clone();
        let ticket = Ticket(self.number());
        let open = Open {
            request: no,
            at,
            arrived: self.now,
        };
        self.open.insert(ticket, open);
        let input = match ask {
            Ask::Acquire(acquire) => Input::Acquire(ticket, shard, acquire),
            Ask::Renew(renew) => Input::Renew(ticket, shard, renew),
            Ask::Release(release) => Input::Release(ticket, shard, release),
        };
        self.give(at, input);
    }

    /// An engine has answered.
    pub(crate) fn answered(&mut self, ticket: Ticket, answer: Answer) {
        let Some(open) = self.open.remove(&ticket) else {
            let text = "a request is answered twice".to_owned();
            return self.judge.find(Rule::OneAnswer, self.now, None, text);
        };
        self.check_in_time(&open);
        let name = self.request(open.request).name;
        self.trace.note(
            self.now,
            Some(name),
            &("answered", open.request, summary(&answer)),
        );
        self.tell(open.request, Told::Answer(Box::new(answer)));
    }

    fn check_in_time(&mut self, open: &Open) {
        let gateway = &self.gateways[open.at.gateway];
        let task = gateway.engines.get(open.at.cluster);
        let last_pause = gateway
            .paused_until
            .max(task.map_or(0, |task| task.paused_until));
        let took = gateway.clock.read(self.now)
            - gateway
                .clock
                .read(open.arrived)
                .min(gateway.clock.read(self.now));
        if took > ANSWER_MS_MAX && last_pause <= open.arrived {
            let name = self.request(open.request).name;
            let text = format!("request {} is answered after {took} ms", open.request.0);
            self.judge.find(Rule::OneAnswer, self.now, Some(name), text);
        }
    }

    /// Requests of processes that still run and do not answer.
    pub(crate) fn check_unanswered(&mut self) {
        let open = std::mem::take(&mut self.open);
        for open in open.values() {
            if self.gateways[open.at.gateway].life == open.at.life {
                self.check_in_time(open);
            }
        }
        self.open = open;
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
            client: (request.client, request.incarnation),
            clock: self.clients[request.client].clock,
            sent: request.sent,
            answered,
            name: request.name,
            shard: Self::shard_of(request.name).0,
        }
    }
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
        Answer::Acquire(Err(error)) | Answer::Renew(Err(error)) | Answer::Release(Err(error)) => {
            (error.code.as_str(), error.retry_after.as_ms())
        }
    }
}
