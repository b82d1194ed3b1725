//! What clients make of answers.

use super::{Doing, Mine};
use crate::clock::Real;
use crate::faults::Fault;
use crate::world::{Ask, Event, Phase, Request, RequestNo, Told, World};
use holdfast_gateway::engine::Answer;
use holdfast_gateway::service::{
    AcquireOutcome, CloseOutcome, Grant, Refusal, ReleaseOutcome, RenewOutcome, Renewed,
    ServiceError,
};
use holdfast_gateway::time::Millis;
use holdfast_judge::{Promise, Refused, Rule};

impl World {
    pub(crate) fn answer_arrives(&mut self, no: RequestNo, told: Told, answered: Real) {
        let request = self.request(no).clone();
        let client = request.client;
        if self.clients[client].waiting != Some(no) {
            return;
        }
        let paused_until = self.clients[client].paused_until;
        if paused_until > self.now {
            let event = Event::AnswerArrives {
                request: no,
                answer: told,
                answered,
            };
            return self.at(paused_until, event);
        }
        self.clients[client].waiting = None;
        match told {
            Told::Unknown(why) => {
                self.must_be_definite(no, why);
                self.unknown(client, why);
            }
            Told::Answer(answer) => {
                let said = crate::world::summary(&answer);
                let note = ("told", no, client, said);
                self.trace.note(self.now, Some(request.name), &note);
                self.figures.event(said.0);
                match *answer {
                    Answer::Acquire(Ok(AcquireOutcome::Granted(grant))) => {
                        self.told_granted(no, answered, &request, &grant);
                    }
                    Answer::Acquire(Ok(AcquireOutcome::Refused { reason, free_in })) => {
                        let asked = self.asked(no, answered);
                        let refused = Refused {
                            free_in_ms: free_in.as_ms(),
                            timed_out: matches!(reason, Refusal::Timeout(_)),
                        };
                        self.judge.refused(self.now, &asked, refused);
                        self.told_refused(client, reason);
                    }
                    Answer::Renew(Ok(outcome)) => {
                        self.told_renewal(no, answered, &request, outcome);
                    }
                    Answer::Release(Ok(outcome)) => self.told_release(&request, outcome),
                    Answer::Close(Ok(outcome)) => self.told_force_release(&request, outcome),
                    Answer::Acquire(Err(error))
                    | Answer::Renew(Err(error))
                    | Answer::Release(Err(error))
                    | Answer::Close(Err(error)) => {
                        self.must_be_definite(no, error.code.as_str());
                        self.told_error(client, &error);
                    }
                }
            }
        }
    }

    /// When everything works, any gateway answers definitely, its own locks or not.
    pub(super) fn must_be_definite(&mut self, no: RequestNo, told: &str) {
        let request = self.request(no);
        if request.is_calm && self.judge.terms.one_holder {
            let (name, gateway) = (request.name, request.gateway);
            let text = format!("{told} through gateway {gateway}, and everything works");
            self.judge.find(Rule::LiveLock, self.now, Some(name), text);
        }
    }

    fn unknown(&mut self, client: usize, why: &'static str) {
        self.figures.event(why);
        self.other_gateway(client);
        let after = self.dice.between(20..=400);
        self.wake_client(client, after);
    }

    fn told_error(&mut self, client: usize, error: &ServiceError) {
        self.other_gateway(client);
        let most = error.retry_after.as_ms().clamp(20, 500);
        let after = self.dice.between(20..=most);
        self.wake_client(client, after);
    }

    fn told_granted(&mut self, no: RequestNo, answered: Real, request: &Request, grant: &Grant) {
        let client = request.client;
        let asked = self.asked(no, answered);
        let lock_id = grant.lock_id.to_text();
        let judged = holdfast_judge::Grant {
            lock_id: &lock_id,
            token: grant.token.0,
            promise: promise(grant.told),
            already_held: grant.already_held,
            waited_ms: grant.waited.map_or(0, Millis::as_ms),
        };
        let hold = self
            .judge
            .granted(self.now, &asked, request.ttl_ms, &judged);
        let Ask::Acquire(_) = &request.ask else {
            return;
        };
        let renew_after = grant.told.renew_after.as_ms();
        match &mut self.clients[client].doing {
            Doing::Holding(mine) if mine.no == hold => {}
            // What was re-entered had ended; this is a new hold.
            Doing::Holding(mine) => {
                let old = mine.no;
                mine.no = hold;
                mine.lock_id = grant.lock_id.clone();
                mine.token = grant.token;
                self.judge.given_up(old, self.now);
            }
            Doing::Acquiring {
                name,
                ttl_ms,
                request_id,
                ..
            } => {
                let mut mine = Mine {
                    no: hold,
                    name: *name,
                    lock_id: grant.lock_id.clone(),
                    token: grant.token,
                    ttl_ms: *ttl_ms,
                    request_id: *request_id,
                    until: self.now,
                };
                if self.phase != Phase::Final {
                    let ttl = mine.ttl_ms;
                    mine.until = self.now + self.dice.between(100..=ttl * 4);
                }
                self.clients[client].doing = Doing::Holding(Box::new(mine));
            }
            _ => return,
        }
        self.wake_to_renew(client, renew_after);
    }

    fn wake_to_renew(&mut self, client: usize, renew_after_ms: u64) {
        let soon = self.phase == Phase::Final || self.dice.per_mille(200);
        let after = if soon {
            self.dice.between(1..=50)
        } else {
            renew_after_ms
        };
        self.wake_client(client, after);
    }

    fn told_refused(&mut self, client: usize, reason: Refusal) {
        if let Doing::Holding(mine) = &self.clients[client].doing {
            // It holds the name as far as it knows, and somebody else does.
            let left = self.judge.hold(mine.no).is_promised(self.now);
            let name = mine.name;
            let is_wrong = self.judge.terms.one_holder && !self.judge.is_forced(name);
            if left && reason == Refusal::Held && is_wrong {
                let text = "the holder is told that somebody else holds the name".to_owned();
                self.judge.find(Rule::OneAnswer, self.now, Some(name), text);
            }
            return self.wake_client(client, 20);
        }
        if reason == Refusal::HeldByYou {
            self.figures.event("held by you");
        }
        if self.phase == Phase::Safety && self.meets(Fault::ForceRelease, 100) {
            return self.force_release(client);
        }
        let after = self.dice.between(20..=1_500);
        self.wake_client(client, after);
    }

    fn told_force_release(&mut self, request: &Request, outcome: CloseOutcome) {
        if let CloseOutcome::Closed { token, .. } = outcome {
            self.judge.force_released(self.now, request.name, token.0);
        }
        let after = self.dice.between(20..=500);
        self.wake_client(request.client, after);
    }

    fn told_renewal(
        &mut self,
        no: RequestNo,
        answered: Real,
        request: &Request,
        outcome: RenewOutcome,
    ) {
        let (client, Some(hold)) = (request.client, request.hold) else {
            return;
        };
        match outcome {
            RenewOutcome::Renewed(_) if request.wrong_token => {
                self.judge.wrong_token_renewed(self.now, hold);
            }
            RenewOutcome::Renewed(told) => {
                let asked = self.asked(no, answered);
                self.judge
                    .renewed(self.now, &asked, hold, request.ttl_ms, promise(told));
                self.wake_to_renew(client, told.renew_after.as_ms());
            }
            // It says nothing about the hold.
            RenewOutcome::Ended(_) if request.wrong_token => self.wake_client(client, 20),
            RenewOutcome::Ended(ended) => {
                self.judge.ended(self.now, hold, &format!("{ended:?}"));
                if matches!(self.clients[client].doing, Doing::Holding(_)) {
                    self.clients[client].doing = Doing::Idle;
                }
                let after = self.dice.between(20..=2_000);
                self.wake_client(client, after);
            }
        }
    }

    fn told_release(&mut self, request: &Request, outcome: ReleaseOutcome) {
        let (client, Some(hold)) = (request.client, request.hold) else {
            return;
        };
        if outcome == ReleaseOutcome::TokenMismatch {
            self.judge.mismatch(self.now, hold, !request.wrong_token);
            return self.wake_client(client, 20);
        }
        self.judge.released(self.now, hold);
        let Doing::Releasing { mine, .. } = self.clients[client].doing.clone() else {
            return;
        };
        self.clients[client].doing = match self.meets(Fault::RenewAfterRelease, 400) {
            true => Doing::Haunting {
                mine,
                times_left: 3,
            },
            false => Doing::Idle,
        };
        let after = self.dice.between(0..=1_000);
        self.wake_client(client, after);
    }
}

/// As the judge takes it.
fn promise(told: Renewed) -> Promise {
    Promise {
        ttl_ms: told.ttl.as_ms(),
        renew_after_ms: told.renew_after.as_ms(),
    }
}
