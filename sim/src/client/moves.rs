//! What clients do by themselves.

use super::{Client, Doing, Mine};
use crate::clock::PartyClock;
use crate::faults::Fault;
use crate::options::WAIT_MS_MAX;
use crate::world::{Ask, Event, Phase, Request, World};
use holdfast_gateway::names::{ClientId, LockName, RequestId, Token};
use holdfast_gateway::service::{Acquire, ForceRelease, Release, Renew};
use holdfast_gateway::time::Millis;

impl World {
    pub(crate) fn wake_client(&mut self, client: usize, after_ms: u64) {
        self.clients[client].plan += 1;
        let plan = self.clients[client].plan;
        self.at(self.now + after_ms, Event::ClientWakes { client, plan });
    }

    pub(crate) fn wake_all(&mut self) {
        for client in 0..self.clients.len() {
            if !self.clients[client].is_quiet() {
                // It has something else to do than to wait for an answer.
                self.clients[client].waiting = None;
                self.wake_client(client, 0);
            }
        }
    }

    pub(crate) fn client_wakes(&mut self, client: usize, plan: u64) {
        if self.clients[client].plan != plan {
            return;
        }
        let paused_until = self.clients[client].paused_until;
        if paused_until > self.now {
            return self.wake_client(client, paused_until - self.now);
        }
        if let Some(request) = self.clients[client].waiting.take() {
            // No answer came in time: nothing is known, and another gateway may know.
            if self.request(request).wait_ms() == 0 {
                self.must_be_definite(request, "no answer");
            } else {
                let after = self.latency();
                self.at(self.now + after, Event::Disconnect(request));
            }
            self.other_gateway(client);
        } else if self.meets(Fault::AnyGateway, 700) || self.phase >= Phase::Hold {
            self.other_gateway(client);
        }
        match self.clients[client].doing.clone() {
            Doing::Idle => self.begin_something(client),
            Doing::Acquiring { .. } => self.acquire(client),
            Doing::Holding(mine) => self.hold_on(client, *mine),
            Doing::Releasing { mine, tries_left } => self.release(client, *mine, tries_left),
            Doing::Haunting { mine, times_left } => self.haunt(client, *mine, times_left),
            Doing::Quiet => {}
        }
    }

    pub(crate) fn other_gateway(&mut self, client: usize) {
        self.clients[client].gateway = self.dice.index(self.gateways.len());
    }

    /// Sends a request and waits for its answer for as long as this client is patient.
    fn ask(&mut self, client: usize, request: Request) {
        let no = self.send_request(request);
        self.clients[client].waiting = Some(no);
        let wait_ms = self.request(no).wait_ms();
        // Some go away while they wait.
        let stays = wait_ms == 0 || self.phase >= Phase::Hold || self.dice.per_mille(700);
        let wait_ms = if stays { wait_ms } else { 0 };
        let patience = wait_ms
            + if self.options.gentle || self.phase >= Phase::Settle {
                self.dice.between(500..=1_000)
            } else {
                self.dice.between(200..=5_500)
            };
        self.wake_client(client, patience);
    }

    fn new_request(&self, client: usize, ask: Ask, name: usize, ttl_ms: u64) -> Request {
        Request {
            ask,
            client,
            incarnation: self.clients[client].incarnation,
            name,
            hold: None,
            ttl_ms,
            wrong_token: false,
            sent: self.now,
            gateway: self.clients[client].gateway,
            is_calm: self.phase >= Phase::Hold,
        }
    }

    fn begin_something(&mut self, client: usize) {
        if self.phase > Phase::Settle {
            self.clients[client].doing = Doing::Quiet;
            return;
        }
        let name = self.dice.index(self.options.names);
        let request_id = self.meets(Fault::RequestIds, 500).then(|| self.number());
        let wait_ms = match self.meets(Fault::Waits, 700) {
            true => self.dice.between(200..=WAIT_MS_MAX),
            false => 0,
        };
        self.clients[client].doing = Doing::Acquiring {
            name,
            ttl_ms: self.dice.pick(&self.options.ttls_ms.clone()),
            request_id,
            wait_ms,
            tries_left: u32::try_from(self.dice.between(1..=30)).unwrap_or(1),
        };
        self.acquire(client);
    }

    /// The client disappears; another one takes its place.
    pub(crate) fn disappear(&mut self, client: usize) {
        if let Doing::Holding(mine) | Doing::Releasing { mine, .. } = &self.clients[client].doing {
            let no = mine.no;
            self.judge.given_up(no, self.now);
        }
        let entry = &mut self.clients[client];
        entry.incarnation += 1;
        entry.waiting = None;
        entry.doing = if self.phase > Phase::Settle {
            Doing::Quiet
        } else {
            Doing::Idle
        };
        let after = self.dice.between(50..=3_000);
        self.wake_client(client, after);
    }

    fn acquire(&mut self, client: usize) {
        let Doing::Acquiring {
            name,
            ttl_ms,
            request_id,
            wait_ms,
            tries_left,
        } = self.clients[client].doing.clone()
        else {
            return;
        };
        if tries_left == 0 || self.meets(Fault::ClientGone, 30) {
            return self.disappear(client);
        }
        self.clients[client].doing = Doing::Acquiring {
            name,
            ttl_ms,
            request_id,
            wait_ms,
            tries_left: tries_left - 1,
        };
        self.send_acquire(client, name, ttl_ms, request_id, wait_ms);
    }

    fn send_acquire(
        &mut self,
        client: usize,
        name: usize,
        ttl_ms: u64,
        request_id: Option<u64>,
        wait_ms: u64,
    ) {
        let who = format!("client-{client}-{}", self.clients[client].incarnation);
        let (Ok(lock_name), Ok(client_id)) =
            (LockName::new(&Self::name(name)), ClientId::new(&who))
        else {
            return;
        };
        let acquire = Acquire {
            name: lock_name,
            ttl: Millis::from_ms(ttl_ms),
            client_id,
            principal: None,
            request_id: request_id.and_then(|id| RequestId::new(&format!("r{id}")).ok()),
            wait: Millis::from_ms(wait_ms),
            metadata: None,
        };
        let request = self.new_request(client, Ask::Acquire(acquire), name, ttl_ms);
        self.ask(client, request);
    }

    /// It has no patience with whoever holds the name that it wants.
    pub(super) fn force_release(&mut self, client: usize) {
        let Some(name) = self.clients[client].name() else {
            return;
        };
        let Ok(lock_name) = LockName::new(&Self::name(name)) else {
            return;
        };
        let force = ForceRelease {
            name: lock_name,
            immediate: self.dice.per_mille(250),
        };
        self.judge.force_asked(name, force.immediate);
        let request = self.new_request(client, Ask::ForceRelease(force), name, 0);
        self.ask(client, request);
    }

    fn hold_on(&mut self, client: usize, mine: Mine) {
        if !self.options.has(Fault::ClientPaused) || self.phase >= Phase::Hold {
            self.judge.must_be_promised(self.now, mine.no);
        }
        let is_over = self.phase == Phase::Release || mine.until <= self.now;
        if is_over && self.phase != Phase::Hold {
            if self.meets(Fault::ClientGone, 300) {
                return self.disappear(client);
            }
            self.judge.given_up(mine.no, self.now);
            return self.release(client, mine, 60);
        }
        if self.meets(Fault::ClientPaused, 60) {
            let ms = self.dice.between(500..=mine.ttl_ms * 2);
            self.clients[client].paused_until = self.now + ms;
            return self.wake_client(client, ms);
        }
        if self.meets(Fault::ReEntry, 100) {
            let ttl_ms = self.ttl_of(&mine);
            return self.send_acquire(client, mine.name, ttl_ms, mine.request_id, 0);
        }
        self.renew(client, &mine);
    }

    /// The TTL that is asked for: the hold's own, or another.
    fn ttl_of(&mut self, mine: &Mine) -> u64 {
        if self.meets(Fault::LongerTtl, 250) {
            let longer = mine.ttl_ms * self.dice.between(11..=30) / 10;
            longer.min(self.options.ttl_ms_max)
        } else if self.meets(Fault::ShorterTtl, 250) {
            (mine.ttl_ms / self.dice.between(2..=4)).max(500)
        } else {
            mine.ttl_ms
        }
    }

    fn renew(&mut self, client: usize, mine: &Mine) {
        let ttl_ms = self.ttl_of(mine);
        let says_ttl = ttl_ms != mine.ttl_ms || self.dice.coin();
        let wrong_token = self.meets(Fault::WrongToken, 50);
        self.send_renew(client, mine, says_ttl.then_some(ttl_ms), wrong_token);
    }

    fn send_renew(&mut self, client: usize, mine: &Mine, ttl_ms: Option<u64>, wrong_token: bool) {
        let renew = Renew {
            lock_id: mine.lock_id.clone(),
            token: Token(mine.token.0 + u64::from(wrong_token)),
            ttl: ttl_ms.map(Millis::from_ms),
            principal: None,
        };
        // Without a TTL of its own a renewal is for the hold's, which may be any that was asked.
        let at_most = ttl_ms.unwrap_or(self.options.ttl_ms_max);
        let mut request = self.new_request(client, Ask::Renew(renew), mine.name, at_most);
        request.hold = Some(mine.no);
        request.wrong_token = wrong_token;
        self.ask(client, request);
    }

    pub(crate) fn release(&mut self, client: usize, mine: Mine, tries_left: u32) {
        if tries_left == 0 {
            return self.disappear(client);
        }
        let wrong_token = self.meets(Fault::WrongToken, 50);
        let release = Release {
            lock_id: mine.lock_id.clone(),
            token: Token(mine.token.0 + u64::from(wrong_token)),
            principal: None,
        };
        let mut request = self.new_request(client, Ask::Release(release), mine.name, 0);
        request.hold = Some(mine.no);
        request.wrong_token = wrong_token;
        self.clients[client].doing = Doing::Releasing {
            mine: Box::new(mine),
            tries_left: tries_left - 1,
        };
        self.ask(client, request);
    }

    fn haunt(&mut self, client: usize, mine: Mine, times_left: u32) {
        if times_left == 0 {
            self.clients[client].doing = Doing::Idle;
            return self.begin_something(client);
        }
        self.other_gateway(client);
        self.send_renew(client, &mine, None, false);
        self.clients[client].doing = Doing::Haunting {
            mine: Box::new(mine),
            times_left: times_left - 1,
        };
    }

    /// Some of those who hold go on for ever; everyone else disappears.
    pub(crate) fn choose_holders(&mut self) {
        if self.judge.terms.one_holder {
            self.judge.terms.no_loss = true;
            self.judge.terms.may_lapse = false;
        }
        for client in 0..self.clients.len() {
            let stays = match &self.clients[client].doing {
                Doing::Holding(mine) => {
                    let hold = self.judge.hold(mine.no);
                    hold.is_promised(self.now) && hold.left_ms(self.now) > mine.ttl_ms / 2
                }
                _ => false,
            };
            if !(stays && self.dice.coin()) {
                self.disappear(client);
            }
        }
    }

    /// A client of its own for each name.
    pub(crate) fn acquire_every_name(&mut self) {
        self.judge.terms.no_loss = false;
        for name in 0..self.options.names {
            let client = self.clients.len();
            self.clients.push(Client::new(PartyClock::new(0, 0)));
            self.clients[client].doing = Doing::Acquiring {
                name,
                ttl_ms: 5_000,
                request_id: None,
                wait_ms: 0,
                tries_left: 200,
            };
            self.wake_client(client, 0);
        }
    }
}
