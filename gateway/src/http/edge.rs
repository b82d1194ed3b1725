//! From a request to its reply.

use super::body::{self, Budget};
use super::failure::Failure;
use super::guard;
use super::held::Replies;
use super::pressure::{self, Pressure, Seen};
use super::reply::{self, Reply};
use super::route::Route;
use super::{EdgeSettings, batch, operate, parse, single};
use crate::auth::{Auth, Caller, Who};
use crate::lifecycle::{Lifecycle, Phase};
use crate::limits;
use crate::logs::{self, Throttle};
use crate::metrics::{Metrics, Operation, Outcome, Stopwatch};
use crate::service::Locks;
use crate::time::{Clock, Millis};
use bytes::Bytes;
use holdfast_api::ErrorCode;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The lock API over a lock service.
pub struct Edge<L, C> {
    pub(super) locks: Arc<L>,
    pub(super) clock: C,
    pub(super) settings: EdgeSettings,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lifecycle: Lifecycle,
    pub(super) auth: Arc<Auth>,
    pub(super) pressure: Pressure,
    refusals: Mutex<Throttle>,
    bodies: Budget,
    /// Of HTTP/2 connections.
    pub(super) replies: Replies,
}

/// A reply, and how it counts.
pub(super) type Answer = Result<(Reply, Outcome), Failure>;

impl<L: Locks, C: Clock> Edge<L, C> {
    /// Puts the API in front of `locks`, for those whom `auth` knows.
    pub fn new(
        locks: Arc<L>,
        clock: C,
        settings: EdgeSettings,
        metrics: Arc<Metrics>,
        lifecycle: Lifecycle,
        auth: Arc<Auth>,
    ) -> Self {
        Self {
            locks,
            clock,
            settings,
            metrics,
            lifecycle,
            auth,
            pressure: Pressure::default(),
            refusals: Mutex::default(),
            bodies: Budget::new(limits::BODIES_BYTES_MAX),
            replies: Replies::new(limits::HTTP2_REPLIES_BYTES_MAX),
        }
    }

    /// Looks how hard it is to keep up; this look came so much later than planned.
    pub(super) fn look(&self, late: Millis) {
        let crowded = pressure::crowded(&self.locks.engines());
        let level = self.pressure.look(Seen { late, crowded });
        self.metrics.pressure(level);
    }

    /// Answers one request.
    pub(super) async fn answer(&self, caller: &Caller, request: Request<Incoming>) -> Reply {
        let took = Stopwatch::start();
        if let Some(fault) = guard::fault_of(&request) {
            let failure = Failure::new(fault.code(), fault.detail());
            return self.finish(None, Err(failure), took);
        }
        let (head, body) = request.into_parts();
        let Some(route) = Route::at(head.uri.path()) else {
            let detail = "no such route; GET /openapi.json lists them";
            let failure = Failure::new(ErrorCode::NotFound, detail);
            return self.finish(None, Err(failure), took);
        };
        // The guard lets nothing through that could follow a chunked body.
        let chunked = body.size_hint().exact().is_none();
        let answer = self.answer_on(route, caller, &head, body).await;
        let mut reply = self.finish(Some(route), answer, took);
        if chunked {
            reply::end_connection(&mut reply);
        }
        reply
    }

    /// All but the renewal are boxed: the HTTP library moves the future of every request about,
    /// and theirs are large.
    async fn answer_on(
        &self,
        route: Route,
        caller: &Caller,
        head: &Parts,
        body: Incoming,
    ) -> Answer {
        route.check(&head.method)?;
        // How to show credentials can be read without any.
        if route == Route::OpenApi {
            let reply = reply::static_json(holdfast_api::OPENAPI_JSON);
            return Ok((reply, Outcome::Ok));
        }
        let who = &identify(caller, &head.headers)?;
        if matches!(route, Route::Acquire | Route::AcquireBatch) && self.pressure.refuses_acquires()
        {
            let detail = "the gateway does not keep up; ask again later, or another one";
            return Err(Failure::overloaded(detail));
        }
        let body = match route.body_bytes_max() {
            Some(bytes_max) => self.read(head, body, bytes_max).await?,
            None => Bytes::new(),
        };
        let answer = match route {
            Route::Renew => single::renew(self, who, &body).await,
            Route::Acquire => Box::pin(single::acquire(self, who, &body)).await,
            Route::Release => Box::pin(single::release(self, who, &body)).await,
            Route::RenewBatch => Box::pin(batch::renew(self, who, &body)).await,
            Route::AcquireBatch => Box::pin(batch::acquire(self, who, &body)).await,
            Route::ReleaseBatch => Box::pin(batch::release(self, who, &body)).await,
            Route::ForceRelease => Box::pin(operate::force_release(self, who, &body)).await,
            Route::Inspect | Route::OpenApi => {
                Box::pin(operate::inspect(self, who, &head.uri)).await
            }
        };
        if let Err(failure) = &answer
            && failure.code == ErrorCode::Forbidden
        {
            self.audit_refusal(who, route);
        }
        answer
    }

    /// Notes for operators that somebody has no right to what was asked; at most one line in ten
    /// seconds, with their number.
    fn audit_refusal(&self, who: &Who, route: Route) {
        if let Some(count) = self.refusals.lock().log(self.clock.now()) {
            tracing::warn!(
                target: logs::AUDIT,
                principal = who.as_str(),
                route = route.path(),
                count,
                "refused: no right to that name"
            );
        }
    }

    /// Reads a body that must be said to be JSON and be no larger than `bytes_max`.
    async fn read(&self, head: &Parts, body: Incoming, bytes_max: usize) -> Result<Bytes, Failure> {
        check_type(&head.headers)?;
        let timeout = self.settings.timeouts.body;
        body::read(body, bytes_max, timeout, &self.bodies).await
    }

    /// Reads a body that is one JSON object.
    pub(super) fn parse<'a, T: Deserialize<'a>>(&self, body: &'a [u8]) -> Result<T, Failure> {
        parse::object(body, &self.settings.bounds)
    }

    fn finish(&self, route: Option<Route>, answer: Answer, took: Stopwatch) -> Reply {
        let (mut reply, outcome) = match answer {
            Ok(answered) => answered,
            Err(failure) => {
                // A path that is no route is not repeated: nobody knows what is in it.
                let instance = route.map_or("/", Route::path);
                let reply = reply::problem(&failure, instance);
                (reply, Outcome::Failed(failure.code))
            }
        };
        if self.lifecycle.phase() != Phase::Serving {
            reply::end_connection(&mut reply);
        }
        let operation = route.map_or(Operation::Other, operation_of);
        self.metrics.request(operation, outcome, took);
        reply
    }
}

/// Who sends a request with these headers.
fn identify(caller: &Caller, headers: &HeaderMap) -> Result<Who, Failure> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let authorization = match (sent.next(), sent.next()) {
        (None, _) => None,
        (Some(one), None) => Some(one.as_bytes()),
        // No header of the right form looks like this.
        (Some(_), Some(_)) => Some(&b""[..]),
    };
    Ok(caller.identify(authorization)?)
}

/// A reply of JSON, and how it counts.
pub(super) fn json<T: Serialize>(status: StatusCode, body: &T, outcome: Outcome) -> Answer {
    Ok((reply::json(status, body), outcome))
}

fn operation_of(route: Route) -> Operation {
    match route {
        Route::Acquire => Operation::Acquire,
        Route::Renew => Operation::Renew,
        Route::Release => Operation::Release,
        Route::AcquireBatch => Operation::AcquireBatch,
        Route::RenewBatch => Operation::RenewBatch,
        Route::ReleaseBatch => Operation::ReleaseBatch,
        Route::Inspect => Operation::Inspect,
        Route::ForceRelease => Operation::ForceRelease,
        Route::OpenApi => Operation::OpenApi,
    }
}

/// The body must be said to be plain JSON.
fn check_type(headers: &HeaderMap) -> Result<(), Failure> {
    let said = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !said.is_some_and(is_json) {
        let detail = "send the header `content-type: application/json` (with curl: `--json`)";
        return Err(Failure::new(ErrorCode::UnsupportedMediaType, detail));
    }
    let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
        let detail = "send `content-type: application/json` without a content encoding";
        return Err(Failure::new(ErrorCode::UnsupportedMediaType, detail));
    }
    Ok(())
}

/// Whether a content type is JSON's, whatever its parameters.
fn is_json(said: &[u8]) -> bool {
    const JSON: &[u8] = b"application/json";
    if said == JSON {
        return true;
    }
    let media_type = said.split(|byte| *byte == b';').next();
    media_type.is_some_and(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(JSON))
}
