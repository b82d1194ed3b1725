//! The task around it: asks home, waits, and stops with the gateway.

use super::member::{Ask, Member};
use crate::lifecycle::{Lifecycle, Phase};
use crate::limits;
use crate::map::MapSource;
use crate::time::{Clock, Instant, Millis};
use holdfast_store::{LeaseId, Op, Reply, Store, Txn};
use shard_map::ClusterName;
use shard_map::rollout::{Driver, Home, Turn, TurnError, read_home, take_turn};
use std::sync::Arc;

/// The stores of the clusters that this gateway serves.
pub type StoresOf = dyn Fn(&ClusterName) -> Option<Arc<dyn Store>> + Send + Sync;

/// Makes random bits.
type Random = dyn Fn() -> u64 + Send + Sync;

/// See the [module](super). Spawn [`RolloutTask::run`] once.
pub struct RolloutTask<C> {
    member: Member,
    driver: Option<Driver>,
    /// Since when a cluster of the rollout has not answered this driver.
    blind_since: Option<Instant>,
    home: Arc<dyn Store>,
    source: MapSource,
    stores: Box<StoresOf>,
    clock: Arc<C>,
    random: Box<Random>,
}

impl<C: Clock> RolloutTask<C> {
    /// The part of the gateway `instance`, which others reach at `peer_url`.
    pub fn new(
        (instance, peer_url): (String, String),
        home: Arc<dyn Store>,
        source: MapSource,
        stores: Box<StoresOf>,
        clock: Arc<C>,
        random: Box<Random>,
    ) -> Self {
        Self {
            member: Member::new(instance, peer_url),
            driver: None,
            blind_since: None,
            home,
            source,
            stores,
            clock,
            random,
        }
    }

    /// Runs until the gateway drains; then leaves home, so that another is elected at once. Ending it
    /// earlier is safe: its lease ends.
    pub async fn run(mut self, lifecycle: Lifecycle) {
        tokio::select! {
            () = self.go_on() => {}
            () = lifecycle.reached(Phase::Draining) => {}
        }
        if let Some(lease) = self.member.lease() {
            let revoke = self
                .home
                .call(Op::LeaseRevoke { lease }, limits::CALL_TIMEOUT.to_std());
            // If it fails the lease ends by itself.
            let _ = revoke.await;
        }
    }

    async fn go_on(&mut self) {
        loop {
            let pause = match self.seen_home().await {
                Some(home) => {
                    self.keep_up(home.driver.is_none()).await;
                    self.drive(home.driver.as_deref()).await
                }
                None => limits::ROLLOUT_LOOK,
            };
            tokio::time::sleep(pause.to_std()).await;
        }
    }

    async fn seen_home(&self) -> Option<Home> {
        let read: Txn = read_home();
        let reply = self
            .home
            .call(Op::Txn(read), limits::CALL_TIMEOUT.to_std())
            .await;
        match reply {
            Ok(Reply::Txn(reply)) => Home::from_reply(reply).ok(),
            // The map's source says in the log that home does not answer.
            _ => None,
        }
    }

    /// Lease, report and candidacy.
    async fn keep_up(&mut self, nobody_is_elected: bool) {
        let mut stand = nobody_is_elected;
        loop {
            let (now, status) = (self.clock.now(), self.source.status().borrow().clone());
            let Some(ask) = self.member.next(now, &status, stand) else {
                return;
            };
            let fresh = LeaseId::from_random_bits((self.random)());
            stand &= !matches!(ask, Ask::Report(_));
            let call = self.home.call(ask.op(fresh), limits::CALL_TIMEOUT.to_std());
            let outcome = call.await;
            let failed = outcome.is_err();
            self.member.heard(ask, fresh, now, &outcome);
            if failed {
                return;
            }
            if matches!(outcome, Ok(Reply::KeepAlive(_))) {
                return;
            }
        }
    }

    /// A turn of the driver, if this gateway is elected. How long to wait before the next look.
    async fn drive(&mut self, elected: Option<&str>) -> Millis {
        if elected != Some(self.member.instance()) {
            self.driver = None;
            self.blind_since = None;
            return limits::ROLLOUT_LOOK;
        }
        let turn = take_turn(
            &mut self.driver,
            self.member.instance(),
            &*self.home,
            &*self.stores,
            self.clock.unix_ms(),
        );
        let turn = turn.await;
        self.resign_if_blind(&turn).await;
        match turn {
            Ok(Turn::Wrote) => limits::ROLLOUT_AGAIN,
            Ok(Turn::Waits | Turn::Blind) => limits::ROLLOUT_WAIT,
            Ok(Turn::Ended) => {
                tracing::info!("the rollout has ended");
                limits::ROLLOUT_LOOK
            }
            Ok(Turn::Idle) => limits::ROLLOUT_LOOK,
            Err(error) => {
                tracing::warn!(%error, "a turn of the rollout came to nothing");
                limits::ROLLOUT_LOOK
            }
        }
    }
    /// A driver that cannot reach a cluster lets another one try, which may reach it.
    async fn resign_if_blind(&mut self, turn: &Result<Turn, TurnError>) {
        let now = self.clock.now();
        if !matches!(turn, Ok(Turn::Blind)) {
            self.blind_since = None;
            return;
        }
        let since = *self.blind_since.get_or_insert(now);
        if now.since(since) >= limits::DRIVER_BLIND
            && let Some(lease) = self.member.resign(now)
        {
            tracing::warn!(
                "a cluster of the rollout does not answer: another gateway may drive it"
            );
            self.blind_since = None;
            let revoke = Op::LeaseRevoke { lease };
            // If it fails the lease ends by itself.
            let _ = self.home.call(revoke, limits::CALL_TIMEOUT.to_std()).await;
        }
    }
}
