//! The connections to all endpoints, and which one to use.

use super::auth::{Auth, AuthFailure};
use super::config::{ConfigError, EtcdConfig};
use super::endpoints::{Choice, EndpointIndex, Endpoints, Tried};
use super::flight::{Flight, Generation};
use super::link::{self, ConnectFailure, Link};
use super::target::Target;
use crate::DefiniteError;
use parking_lot::Mutex;
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

type Connecting = Flight<Link, ConnectFailure>;

/// An open connection, with a token that was good when it was obtained.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) link: Link,
    endpoint: EndpointIndex,
    lane: Lane,
    turn: usize,
    generation: Generation,
    token: Generation,
}

/// What one call has tried so far.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    tried: Tried,
    /// Connections found closed.
    closed: usize,
    reauthenticated: bool,
    /// Why the last endpoint was of no use.
    last: Option<String>,
}

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
            auth: Auth::new(config.credentials),
            started: started(),
            turn: AtomicUsize::new(0),
        })
    }

    /// A connection to the best endpoint that `attempts` has not tried in vain.
    pub(super) async fn acquire(
        &self,
        lane: Lane,
        attempts: &mut Attempts,
    ) -> Result<Connection, DefiniteError> {
        loop {
            let choice = self.endpoints.lock().choose(&attempts.tried, self.now());
            let endpoint = match choice {
                Choice::Use(endpoint) => endpoint,
                Choice::WaitThenUse(pause, endpoint) => {
                    tokio::time::sleep(pause).await;
                    endpoint
                }
                Choice::Exhausted => return Err(attempts.unreachable()),
            };
            match self.connect(lane, endpoint).await {
                Ok(connection) => return Ok(connection),
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
        let token = self.auth.ensure(&link.bare).await?;
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

    /// Something was sent and the outcome is unknown.
    pub(super) fn doubtful(&self, connection: &Connection) {
        let now = self.now();
        self.endpoints.lock().doubtful(connection.endpoint, now);
    }

    /// Nobody should use this connection any more; those who do may go on.
    pub(super) fn discard(&self, connection: &Connection) {
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

impl Attempts {
    /// Nothing was sent.
    pub(super) fn unreachable(&self) -> DefiniteError {
        let last = self.last.as_deref();
        DefiniteError::Unreachable(
            last.unwrap_or("no connection within the time limit")
                .to_owned(),
        )
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
