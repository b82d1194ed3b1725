//! What clients and operators ask, and what they are answered.

use super::{SHARDS, World};
use holdfast_gateway::engine::{Answer, EngineStats, Input, Table, Ticket};
use holdfast_gateway::names::{ClientId, LockName, RequestId};
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, CloseOutcome, ForceRelease, Grant, Release, ReleaseOutcome, Renew,
    RenewOutcome, ServiceError,
};
use holdfast_gateway::time::{Instant, Millis};
use shard_map::{ShardCount, ShardId};
use std::sync::Arc;

impl World {
    /// What a gateway's engine shares with those who renew.
    pub fn table(&self, gateway: usize) -> Arc<Table> {
        Arc::clone(&self.gateways[gateway].table)
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.counter += 1;
        Ticket(self.counter)
    }

    pub fn begin_acquire(&mut self, gateway: usize, acquire: Acquire) -> Ticket {
        let ticket = self.ticket();
        let shard = shard_of(acquire.name.as_str());
        self.give(gateway, Input::Acquire(ticket, shard, acquire));
        ticket
    }

    /// Whether a request has been answered.
    pub fn has_answered(&self, ticket: Ticket) -> bool {
        self.answers.contains_key(&ticket)
    }

    /// The answer to an acquire that waits, when it comes within so long.
    pub fn answer_in_line(
        &mut self,
        ticket: Ticket,
        ms: u64,
    ) -> Option<Result<AcquireOutcome, ServiceError>> {
        let came = self.run_until(ms, |world| world.has_answered(ticket));
        match came.then(|| self.answers.remove(&ticket)).flatten()? {
            Answer::Acquire(answer) => Some(answer),
            other => panic!("{other:?}"),
        }
    }

    /// What an engine has counted.
    pub fn stats(&self, gateway: usize) -> Arc<EngineStats> {
        self.gateways[gateway].engine.as_ref().unwrap().stats()
    }

    pub fn begin_release(&mut self, gateway: usize, grant: &Grant) -> Ticket {
        let release = Release {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            principal: None,
        };
        self.begin_release_of(gateway, release)
    }

    pub fn begin_release_of(&mut self, gateway: usize, release: Release) -> Ticket {
        let ticket = self.ticket();
        let shard = shard_of(release.lock_id.name());
        self.give(gateway, Input::Release(ticket, shard, release));
        ticket
    }

    /// As a gateway does it: from memory if that can answer.
    pub fn begin_renew(&mut self, gateway: usize, renew: Renew) -> Ticket {
        let ticket = self.ticket();
        let now = Instant::from_ms(self.now);
        if let Some(Ok(told)) = self.gateways[gateway].table.renew(now, &renew) {
            let answer = Answer::Renew(Ok(RenewOutcome::Renewed(told)));
            self.answers.insert(ticket, answer);
            return ticket;
        }
        let shard = shard_of(renew.lock_id.name());
        self.give(gateway, Input::Renew(ticket, shard, renew));
        ticket
    }

    pub fn answer(&mut self, ticket: Ticket) -> Answer {
        let came = self.run_until(5_000, |world| world.answers.contains_key(&ticket));
        assert!(came, "a request is answered within five seconds");
        self.answers.remove(&ticket).unwrap()
    }

    pub fn acquire(
        &mut self,
        gateway: usize,
        acquire: Acquire,
    ) -> Result<AcquireOutcome, ServiceError> {
        let ticket = self.begin_acquire(gateway, acquire);
        match self.answer(ticket) {
            Answer::Acquire(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn release(
        &mut self,
        gateway: usize,
        grant: &Grant,
    ) -> Result<ReleaseOutcome, ServiceError> {
        let ticket = self.begin_release(gateway, grant);
        match self.answer(ticket) {
            Answer::Release(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn renew(&mut self, gateway: usize, grant: &Grant) -> Result<RenewOutcome, ServiceError> {
        self.renew_for(gateway, grant, None)
    }

    pub fn renew_for(
        &mut self,
        gateway: usize,
        grant: &Grant,
        ttl_ms: Option<u64>,
    ) -> Result<RenewOutcome, ServiceError> {
        let renew = Renew {
            lock_id: grant.lock_id.clone(),
            token: grant.token,
            ttl: ttl_ms.map(Millis::from_ms),
            principal: None,
        };
        let ticket = self.begin_renew(gateway, renew);
        match self.answer(ticket) {
            Answer::Renew(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn begin_force_release(&mut self, gateway: usize, name: &str, immediate: bool) -> Ticket {
        let ticket = self.ticket();
        let force = ForceRelease {
            name: LockName::new(name).unwrap(),
            immediate,
        };
        self.give(gateway, Input::ForceRelease(ticket, shard_of(name), force));
        ticket
    }

    pub fn force_release(
        &mut self,
        gateway: usize,
        name: &str,
        immediate: bool,
    ) -> Result<CloseOutcome, ServiceError> {
        let ticket = self.begin_force_release(gateway, name, immediate);
        match self.answer(ticket) {
            Answer::Close(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// A grant that must succeed.
    pub fn hold(&mut self, gateway: usize, acquire: Acquire) -> Grant {
        match self.acquire(gateway, acquire) {
            Ok(AcquireOutcome::Granted(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }
}

pub fn shard_of(name: &str) -> ShardId {
    shard_map::shard_of(name, ShardCount::try_from(SHARDS).unwrap())
}

/// A wish for a lock, with a TTL of 30 s.
pub fn wish(client: &str, name: &str) -> Acquire {
    Acquire {
        name: LockName::new(name).unwrap(),
        ttl: Millis::from_secs(30),
        client_id: ClientId::new(client).unwrap(),
        principal: None,
        request_id: None,
        wait: Millis::ZERO,
        metadata: None,
    }
}

/// The same, waiting for so long if need be.
pub fn patient(client: &str, name: &str, wait_ms: u64) -> Acquire {
    Acquire {
        wait: Millis::from_ms(wait_ms),
        ..wish(client, name)
    }
}

pub fn with_request(acquire: Acquire, request: &str) -> Acquire {
    Acquire {
        request_id: Some(RequestId::new(request).unwrap()),
        ..acquire
    }
}

pub fn with_ttl(acquire: Acquire, ttl_ms: u64) -> Acquire {
    Acquire {
        ttl: Millis::from_ms(ttl_ms),
        ..acquire
    }
}
