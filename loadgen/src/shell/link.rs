//! One connection: takes jobs, sends them, brings back the answers, and finds another target when
//! its own does not answer.

use super::worker::Hub;
use crate::checker::At;
use crate::fleet::Job;
use crate::limits::{CONNECT_TIMEOUT, REHOME_AFTER};
use holdfast_client::backoff::Backoff;
use holdfast_client::{Cause, Clock as _, Connection, Error, Instant, NoReply, RawReply};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Sleep;

pub(super) struct Link {
    hub: Rc<Hub>,
    index: usize,
    /// The index of its own target, and of the one that it uses.
    home: usize,
    target: usize,
    watchdog: Watchdog,
}

impl Link {
    pub(super) fn new(hub: Rc<Hub>, index: usize) -> Self {
        let home = match hub.plan.prefer_first {
            true => 0,
            false => (hub.share.first_connection + index) % hub.plan.targets.len(),
        };
        let watchdog = Watchdog::new(hub.plan.timeout);
        Self {
            hub,
            index,
            home,
            target: home,
            watchdog,
        }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new(self.index as u64);
        loop {
            match self.connect().await {
                Ok(connection) => {
                    backoff.reset();
                    self.hub.fleet().stats.connects += 1;
                    if self.serve(connection).await == Next::Stop {
                        return;
                    }
                }
                Err(error) => {
                    self.hub.fleet().stats.connect_failures += 1;
                    self.hub.fleet().trouble(&error);
                    self.turn();
                    // Only when every target was tried is it worth waiting.
                    if self.target == self.home {
                        tokio::time::sleep(backoff.pause(None)).await;
                    }
                }
            }
        }
    }

    async fn connect(&self) -> Result<Connection, NoReply> {
        let target = &self.hub.plan.targets[self.target];
        let opening = Connection::open_with(target, &self.hub.access);
        match tokio::time::timeout(CONNECT_TIMEOUT, opening).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(NoReply::NotSent(format!("{target}: no connection in time"))),
        }
    }

    fn turn(&mut self) {
        self.target = (self.target + 1) % self.hub.plan.targets.len();
    }

    async fn serve(&mut self, mut connection: Connection) -> Next {
        let opened = self.hub.clock.now();
        while let Some(job) = self.hub.next_job(self.index).await {
            let (path, body) = self.hub.fleet().request(&job);
            let sent = self.hub.clock.now();
            let outcome = self
                .watchdog
                .guard(connection.post(path, body), sent, || self.hub.clock.now())
                .await;
            let at = At {
                sent,
                received: self.hub.clock.now(),
            };
            let lasts = outcome.is_ok() && connection.is_usable();
            if !self.land(job, at, outcome) {
                self.turn();
                return Next::Reconnect;
            }
            let homesick = self.target != self.home && at.received >= opened + REHOME_AFTER;
            if homesick {
                self.target = self.home;
            }
            if homesick || !lasts {
                return Next::Reconnect;
            }
        }
        Next::Stop
    }

    /// Hands the answer in; `false` when the target is to be left.
    fn land(&self, job: Job, at: At, outcome: Outcome) -> bool {
        let mut fleet = self.hub.fleet();
        let reply = match outcome {
            // The connection was closed while nothing was under way: no fault of the target.
            Some(Err(NoReply::NotSent(_))) => {
                fleet.unsent(job, at.received);
                return true;
            }
            Some(Ok(reply)) => Ok(reply),
            Some(Err(NoReply::Broken(why))) => Err(unknown(Cause::Broken(why))),
            None => Err(unknown(Cause::Timeout)),
        };
        let answered = reply.is_ok();
        let answer = fleet.read(&job, reply, at.sent);
        fleet.answer(job, at, answer);
        answered
    }
}

/// `None`: no answer in time.
type Outcome = Option<Result<RawReply, NoReply>>;

trait Lasts {
    fn is_ok(&self) -> bool;
}

impl Lasts for Outcome {
    fn is_ok(&self) -> bool {
        matches!(self, Some(Ok(_)))
    }
}

#[derive(PartialEq, Eq)]
enum Next {
    Reconnect,
    Stop,
}

fn unknown(cause: Cause) -> Error {
    Error::Unknown {
        cause,
        retry_after: None,
    }
}

/// A time limit for one request after the other that does not set a timer for each: the one timer
/// runs on, and when it fires it is set anew to where the present request's limit is.
struct Watchdog {
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Watchdog {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            timer: Box::pin(tokio::time::sleep(timeout)),
        }
    }

    async fn guard<T>(
        &mut self,
        request: impl Future<Output = T>,
        sent: Instant,
        now: impl Fn() -> Instant,
    ) -> Option<T> {
        tokio::pin!(request);
        loop {
            tokio::select! {
                biased;
                outcome = &mut request => return Some(outcome),
                () = &mut self.timer => {
                    let passed = now().since(sent);
                    let left = self.timeout.saturating_sub(passed);
                    self.timer.set(tokio::time::sleep(if left.is_zero() { self.timeout } else { left }));
                    if left.is_zero() {
                        return None;
                    }
                }
            }
        }
    }
}
