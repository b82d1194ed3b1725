//! The connections to all endpoints, and which one to use.

use super::attempts::{Attempts, Connection, Waiting};
use super::auth::{Auth, AuthFailure};
use super::config::{ConfigError, EtcdConfig};
use super::endpoints::{Choice, EndpointIndex, Endpoints};
use super::flight::Flight;
use super::link::{self, ConnectFailure, Link};
use super::target::Target;
use crate::DefiniteError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// What a connection is for. Kept apart so that none waits behind another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Calls with one reply.
    Calls,
    /// Keepalive bursts.
    KeepAlives,
    /// Watches.
    Watches,
}

/// All endpoints of a cluster.
#[derive(Debug)]
pub(super) struct Pool {
    members: Vec<Member>,
    endpoints: Mutex<Endpoints>,
    /// Why an endpoint was last of no use, for calls that come while all are paused.
    problem: Mutex<Option<String>>,
    auth: Auth,
    started: Instant,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Member {
    target: Target,
    calls: Vec<Connecting>,
    keepalives: Connecting,
    watches: Connecting,
}

type Connecting = Flight<Arc<Link>, ConnectFailure>;

impl Pool {
    /// Connects to nothing yet.
    pub(super) fn new(config: EtcdConfig) -> Result<Self, ConfigError> {
        if config.endpoints.is_empty() {
            return Err(ConfigError::NoEndpoints);
        }
        if config.connections == 0 {
            return Err(ConfigError::NoConnections);
        }
        let members = config.endpoints.iter().map(|url| {
            Ok(Member {
                target: Target::new(url, &config)?,
                calls: (0..config.connections).map(|_| Flight::new()).collect(),
                keepalives: Flight::new(),
                watches: Flight::new(),
            })
        });
        let members = members.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            endpoints: Mutex::new(Endpoints::new(members.len(), config.first_endpoint)),
            members,
            problem: Mutex::new(None),
            auth: Auth::new(config.credentials),
            started: started(),
            turn: AtomicUsize::new(0),
        })
    }

    /// A connection to the best endpoint that `attempts` has not tried in vain. From its return
    /// on, `attempts` waits for a reply over it.
    pub(super) async fn acquire(
        &self,
        lane: Lane,
        attempts: &mut Attempts,
    ) -> Result<Connection, DefiniteError> {
        loop {
            attempts.waiting = Waiting::Nothing;
            let choice = self.endpoints.lock().choose(&attempts.tried, self.now());
            let endpoint = match choice {
                Choice::Use(endpoint) => endpoint,
                Choice::WaitThenUse(pause, endpoint) => {
                    attempts.last.clone_from(&self.problem.lock());
                    tokio::time::sleep(pause).await;
                    endpoint
                }
                Choice::Exhausted => return Err(attempts.unreachable()),
            };
            attempts.waiting = Waiting::Endpoint(endpoint);
            match self.connect(lane, endpoint).await {
                Ok(connection) => {
                    attempts.waiting = Waiting::Reply(connection.clone());
                    return Ok(connection);
                }
                Err(AuthFailure::Denied(text)) => return Err(DefiniteError::Denied(text)),
                Err(AuthFailure::NotReached(text)) => {
                    self.unreachable(endpoint, text, attempts);
                }
            }
        }
    }

    async fn connect(
        &self,
        lane: Lane,
        endpoint: EndpointIndex,
    ) -> Result<Connection, AuthFailure> {
        let member = &self.members[endpoint.0];
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let open = || link::connect(member.target.clone(), self.auth.cell());
        let connecting = member.lane(lane, turn).get(open).await;
        let (link, generation) =
            connecting.map_err(|ConnectFailure(text)| AuthFailure::NotReached(text))?;
        let ensured = self.auth.ensure(&link.bare).await;
        let token = ensured.map_err(|failure| failure.at(&member.target.url))?;
        Ok(Connection {
            link,
            endpoint,
            lane,
            turn,
            generation,
            token,
        })
    }

    /// The endpoint gave an answer, good or bad.
    pub(super) fn answered(&self, connection: &Connection) {
        self.endpoints.lock().answered(connection.endpoint);
    }

    /// Something was sent to it and the outcome is unknown.
    pub(super) fn doubtful(&self, connection: &Connection) {
        self.prefer_another(connection.endpoint);
    }

    /// The call's time is over. Whatever it waited for is slow or silently dead: later calls find
    /// out on another connection, preferably to another endpoint.
    pub(super) fn gave_up(&self, attempts: &Attempts) {
        match &attempts.waiting {
            Waiting::Nothing => {}
            Waiting::Endpoint(endpoint) => self.prefer_another(*endpoint),
            Waiting::Reply(connection) => {
                self.prefer_another(connection.endpoint);
                self.discard(connection);
            }
        }
    }

    fn prefer_another(&self, endpoint: EndpointIndex) {
        let now = self.now();
        self.endpoints.lock().doubtful(endpoint, now);
    }

    /// Nobody should use this connection any more; those who do may go on.
    fn discard(&self, connection: &Connection) {
        self.members[connection.endpoint.0]
            .lane(connection.lane, connection.turn)
            .discard(connection.generation);
    }

    /// The connection turned out to be closed. Each of an endpoint's connections may be, after a
    /// restart; if a fresh one is closed too, the endpoint is of no use.
    pub(super) fn closed(&self, connection: &Connection, text: String, attempts: &mut Attempts) {
        self.discard(connection);
        attempts.closed += 1;
        if attempts.closed > self.members[connection.endpoint.0].calls.len() {
            self.elsewhere(connection, text, attempts);
        }
    }

    /// The endpoint refused for a reason of its own.
    pub(super) fn elsewhere(&self, connection: &Connection, text: String, attempts: &mut Attempts) {
        let text = format!("{}: {text}", self.url(connection));
        self.unreachable(connection.endpoint, text, attempts);
    }

    /// The token was refused. False when there is no point in trying another one.
    pub(super) fn token_refused(&self, connection: &Connection, attempts: &mut Attempts) -> bool {
        let again = self.auth.discard(connection.token) && !attempts.reauthenticated;
        attempts.reauthenticated = true;
        again
    }

    /// The endpoint's URL.
    pub(super) fn url(&self, connection: &Connection) -> &str {
        &self.members[connection.endpoint.0].target.url
    }

    fn unreachable(&self, endpoint: EndpointIndex, text: String, attempts: &mut Attempts) {
        tracing::debug!(why = %text, "etcd endpoint not usable");
        let now = self.now();
        self.endpoints.lock().unreachable(endpoint, now);
        attempts.tried.add(endpoint);
        *self.problem.lock() = Some(text.clone());
        attempts.last = Some(text);
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Member {
    fn lane(&self, lane: Lane, turn: usize) -> &Connecting {
        match lane {
            Lane::Calls => &self.calls[turn % self.calls.len()],
            Lane::KeepAlives => &self.keepalives,
            Lane::Watches => &self.watches,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the store reads the clock, for pauses of endpoints; their \
              choice takes the time as an argument"
)]
fn started() -> Instant {
    Instant::now()
}
