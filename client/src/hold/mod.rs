//! A lock that is held: renewed in the background until it is released, dropped or lost.

pub mod state;
#[cfg(test)]
mod state_tests;
mod task;

pub use state::Loss;

use crate::client::Client;
use crate::clock::{Clock, Instant};
use crate::error::Error;
use crate::types::{Granted, LockId, Token};
use state::HoldState;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use task::{Responder, Task, Wishes};
use tokio::sync::{oneshot, watch};

/// A lock that is held. A background task renews it.
///
/// The holder may work while [`Hold::is_held`] is true, and must stop when [`Hold::lost`]
/// completes. No client can rule out that it is suspended between a check and the write that
/// follows, so the resource should refuse writes with an older [`Hold::token`].
///
/// Dropping a hold releases it in the background, as far as that succeeds before the promise
/// ends and the runtime runs on. [`Hold::release`] makes sure.
pub struct Hold {
    name: String,
    lock_id: LockId,
    token: Token,
    clock: Arc<dyn Clock>,
    status: watch::Receiver<Status>,
    release: oneshot::Sender<Responder>,
}

/// What the background task tells the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Status {
    until: Instant,
    loss: Option<Loss>,
}

impl Hold {
    /// Must be called within a tokio runtime.
    pub(crate) fn start(client: Client, name: String, ttl: Duration, granted: Granted) -> Self {
        let clock = client.clock();
        let state = HoldState::new(
            granted.promise,
            client.request_timeout(),
            client.next_seed(),
        );
        let (status, status_seen) = watch::channel(Status {
            until: state.until(),
            loss: None,
        });
        let (release, wishes) = oneshot::channel();
        let task = Task {
            client,
            lock_id: granted.lock_id.clone(),
            token: granted.token,
            ttl,
            state,
            status,
            wishes: Wishes::new(wishes),
        };
        tokio::spawn(task.run());
        Self {
            name,
            lock_id: granted.lock_id,
            token: granted.token,
            clock,
            status: status_seen,
            release,
        }
    }

    /// What is locked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token: give it to the resource with every write.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The handle of the hold; a bearer secret.
    pub fn lock_id(&self) -> &LockId {
        &self.lock_id
    }

    /// The end of the present promise, on the client's clock. Renewals move it on.
    pub fn until(&self) -> Instant {
        self.status.borrow().until
    }

    /// Whether the lock is held at this moment. Reads the clock, so it is right even when the
    /// background task has not run since the machine was suspended.
    pub fn is_held(&self) -> bool {
        let status = *self.status.borrow();
        status.loss.is_none() && self.clock.now() < status.until
    }

    /// Completes when the hold is lost: when its promise ends without a renewal, or when the
    /// gateway says that it is over. Never completes once the hold has been released or dropped.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut status = self.status.clone();
        async move {
            if let Ok(status) = status.wait_for(|status| status.loss.is_some()).await
                && let Some(loss) = status.loss
            {
                return loss;
            }
            std::future::pending().await
        }
    }

    /// Gives the lock back, and repeats that until it is answered. `Ok`: this hold does not hold
    /// the name any more.
    ///
    /// Dropping the future goes on in the background as dropping the hold does.
    ///
    /// # Errors
    /// [`Error::Refused`] when the gateway knows the hold by another token;
    /// [`Error::Unknown`] when the runtime ends.
    pub async fn release(self) -> Result<(), Error> {
        let (responder, answer) = oneshot::channel();
        // The task outlives the handle; if it is gone, so is the runtime, and so is the answer.
        let _ = self.release.send(responder);
        answer.await.unwrap_or_else(|_| Err(task::runtime_ended()))
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.name)
            .field("token", &self.token)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}
