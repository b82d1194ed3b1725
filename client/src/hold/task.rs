//! The shell around [`HoldState`]: sends what it asks for, waits as long as it says.

use super::Status;
use super::state::{Ask, Event, HoldState, Patience, Step};
use crate::client::Client;
use crate::clock::Instant;
use crate::error::{Cause, Error};
use crate::types::{LockId, Token};
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Where a release's answer goes.
pub(super) type Responder = oneshot::Sender<Result<(), Error>>;

type Asked = Pin<Box<dyn Future<Output = Event> + Send>>;

pub(super) fn runtime_ended() -> Error {
    Error::unknown(Cause::NotSent("the runtime has ended".to_owned()))
}

pub(super) struct Task {
    pub(super) client: Client,
    pub(super) lock_id: LockId,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) state: HoldState,
    pub(super) status: watch::Sender<Status>,
    pub(super) wishes: Wishes,
}

impl Task {
    pub(super) async fn run(mut self) {
        let clock = self.client.clock();
        let mut asked: Option<Asked> = None;
        let mut released = Ok(());
        loop {
            let wake = match self.state.step(clock.now()) {
                Step::Send(ask, timeout) => {
                    // Replacing an unanswered request closes its connection.
                    asked = Some(self.ask(ask, timeout));
                    continue;
                }
                Step::SignalLoss(loss) => {
                    asked = None;
                    self.status.send_modify(|status| status.loss = Some(loss));
                    continue;
                }
                Step::Over => return self.wishes.answer(released),
                Step::Wait(wake) => wake,
            };
            let event = tokio::select! {
                event = answer(&mut asked) => event,
                patience = self.wishes.next() => Event::Release(patience),
                () = self.client.sleep_until_or_forever(wake) => continue,
            };
            if let Event::Released(answer) = &event {
                released.clone_from(answer);
            }
            self.on(event, clock.now());
        }
    }

    fn on(&mut self, event: Event, now: Instant) {
        self.state.on(event, now);
        let until = self.state.until();
        self.status.send_if_modified(|status| {
            let grown = status.until != until;
            status.until = until;
            grown
        });
    }

    fn ask(&self, ask: Ask, timeout: Duration) -> Asked {
        let client = self.client.clone();
        let (lock_id, token, ttl) = (self.lock_id.clone(), self.token, self.ttl);
        Box::pin(async move {
            match ask {
                Ask::Renew => {
                    let answer = client.renew_within(&lock_id, token, Some(ttl), timeout);
                    Event::Renewed(answer.await)
                }
                Ask::Release => {
                    Event::Released(client.release_within(&lock_id, token, timeout).await)
                }
            }
        })
    }
}

async fn answer(asked: &mut Option<Asked>) -> Event {
    match asked {
        Some(request) => {
            let event = request.await;
            *asked = None;
            event
        }
        None => pending().await,
    }
}

/// What the holder wants: nothing for now, a release, or to be left alone.
pub(super) struct Wishes {
    release: Option<oneshot::Receiver<Responder>>,
    responder: Option<Responder>,
}

impl Wishes {
    pub(super) fn new(release: oneshot::Receiver<Responder>) -> Self {
        Self {
            release: Some(release),
            responder: None,
        }
    }

    async fn next(&mut self) -> Patience {
        if let Some(release) = &mut self.release {
            let wish = release.await;
            self.release = None;
            self.responder = wish.ok();
            match self.responder {
                Some(_) => Patience::UntilAnswered,
                None => Patience::UntilDeadline,
            }
        } else if let Some(responder) = &mut self.responder {
            responder.closed().await;
            self.responder = None;
            Patience::UntilDeadline
        } else {
            pending().await
        }
    }

    fn answer(self, released: Result<(), Error>) {
        if let Some(responder) = self.responder {
            // Nobody waits any more: then nobody needs the answer.
            let _ = responder.send(released);
        }
    }
}
