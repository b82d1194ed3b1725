//! Carries out one operation.

use super::attempts::{Attempts, Connection, Waiting};
use super::failure::{self, Failure};
use super::keepalive;
use super::link::Link;
use super::pool::{Lane, Pool};
use super::reply::{self, Malformed};
use super::request::Request;
use super::version::EtcdVersion;
use crate::{DefiniteError, KeepAliveAnswer, Op, Reply, StoreError};
use etcd_client::{AlarmAction, AlarmType, LeaseGrantOptions, LeaseTimeToLiveOptions};
use std::time::Duration;

/// What is known of a call while it runs; what remains of it when its time is over.
#[derive(Default)]
struct Progress {
    attempts: Attempts,
    /// To keepalives, so far.
    answers: Vec<KeepAliveAnswer>,
}

/// Carries out `op` within `timeout`.
pub(super) async fn call(pool: &Pool, op: &Op, timeout: Duration) -> Result<Reply, StoreError> {
    if let Op::KeepAlive { leases } = op
        && leases.is_empty()
    {
        return Ok(Reply::KeepAlive(Vec::new()));
    }
    let mut progress = Progress::default();
    match tokio::time::timeout(timeout, attempts(pool, op, &mut progress)).await {
        Ok(result) => result,
        Err(_) => time_over(pool, op, timeout, progress),
    }
}

async fn attempts(pool: &Pool, op: &Op, progress: &mut Progress) -> Result<Reply, StoreError> {
    loop {
        let connection = pool.acquire(lane(op), &mut progress.attempts).await?;
        let failure = match send(op, &connection.link, &mut progress.answers).await {
            Ok(reply) => {
                pool.answered(&connection);
                return Ok(reply);
            }
            Err(failure) => failure,
        };
        let attempts = &mut progress.attempts;
        let end = conclude(pool, &connection, failure, attempts);
        if !progress.answers.is_empty() {
            return Ok(Reply::KeepAlive(std::mem::take(&mut progress.answers)));
        }
        if let Some(error) = end {
            return Err(error);
        }
    }
}

/// Notes what a failure says of endpoint and token. `None`: nothing was done, try again.
pub(super) fn conclude(
    pool: &Pool,
    connection: &Connection,
    failure: Failure,
    attempts: &mut Attempts,
) -> Option<StoreError> {
    match failure {
        Failure::Closed(text) => {
            pool.closed(connection, text, attempts);
            None
        }
        Failure::Elsewhere(text) => {
            pool.elsewhere(connection, text, attempts);
            None
        }
        Failure::Token(text) => {
            let again = pool.token_refused(connection, attempts);
            (!again).then_some(StoreError::Definite(DefiniteError::Denied(text)))
        }
        Failure::Answered(error) => {
            pool.answered(connection);
            Some(error)
        }
        Failure::Unknown(text) => {
            pool.doubtful(connection);
            let text = format!("{}: {text}", pool.url(connection));
            Some(StoreError::Ambiguous(text))
        }
    }
}

/// Asks a member for its version within `timeout`. Reads only, so any failure may be tried again.
pub(super) async fn version(pool: &Pool, timeout: Duration) -> Result<EtcdVersion, StoreError> {
    let unknown = |text: String| StoreError::Ambiguous(text);
    let ask = async {
        let connection = pool.acquire(Lane::Calls, &mut Attempts::default()).await?;
        let mut client = connection.link.client.maintenance_client();
        let status = client
            .status()
            .await
            .map_err(|error| unknown(error.to_string()))?;
        status.version().parse().map_err(unknown)
    };
    let asked = tokio::time::timeout(timeout, ask).await;
    asked.unwrap_or_else(|_| Err(unknown(format!("no answer within {timeout:?}"))))
}

fn time_over(
    pool: &Pool,
    op: &Op,
    timeout: Duration,
    progress: Progress,
) -> Result<Reply, StoreError> {
    // A burst that was answered in part waits for an expired lease, not for the member.
    if progress.answers.is_empty() {
        pool.gave_up(&progress.attempts);
    }
    match (&progress.attempts.waiting, op) {
        (Waiting::Nothing | Waiting::Endpoint(_), _) => Err(progress.attempts.unreachable().into()),
        (Waiting::Reply(_), Op::KeepAlive { .. }) => Ok(Reply::KeepAlive(progress.answers)),
        (Waiting::Reply(connection), _) => Err(StoreError::Ambiguous(format!(
            "{}: no answer within {timeout:?}",
            pool.url(connection)
        ))),
    }
}

fn lane(op: &Op) -> Lane {
    match op {
        Op::KeepAlive { .. } => Lane::KeepAlives,
        Op::Txn(_)
        | Op::LeaseGrant { .. }
        | Op::LeaseRevoke { .. }
        | Op::LeaseKeys { .. }
        | Op::Alarms => Lane::Calls,
    }
}

async fn send(op: &Op, link: &Link, answers: &mut Vec<KeepAliveAnswer>) -> Result<Reply, Failure> {
    let lease_client = || link.client.lease_client();
    let failed = |error| failure::of_client_error(&error);
    let reply = match op {
        Op::Txn(txn) => {
            let request = Request::new(txn);
            let sent = link.kv.clone().txn(request.txn).await;
            reply::txn(sent.map_err(failed)?.0, request.has_extra_read)
        }
        Op::LeaseGrant { lease, ttl_s } => {
            let options = LeaseGrantOptions::new().with_id(lease.0);
            let sent = lease_client().grant(i64::from(*ttl_s), Some(options)).await;
            reply::lease_granted(sent.map_err(failed)?.0)
        }
        Op::LeaseRevoke { lease } => {
            let sent = lease_client().revoke(lease.0).await;
            reply::lease_revoked(sent.map_err(failed)?.0)
        }
        Op::LeaseKeys { lease } => {
            let options = LeaseTimeToLiveOptions::new().with_keys();
            let sent = lease_client().time_to_live(lease.0, Some(options)).await;
            reply::lease_keys(sent.map_err(failed)?.0)
        }
        Op::KeepAlive { leases } => {
            keepalive::burst(link.wire.clone(), leases, answers).await?;
            Ok(Reply::KeepAlive(std::mem::take(answers)))
        }
        Op::Alarms => {
            let mut client = link.client.maintenance_client();
            let sent = client.alarm(AlarmAction::Get, AlarmType::None, None).await;
            Ok(reply::alarms(&sent.map_err(failed)?.0))
        }
    };
    reply.map_err(|error: Malformed| Failure::Unknown(error.to_string()))
}
