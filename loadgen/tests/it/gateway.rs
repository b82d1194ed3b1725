//! A gateway in memory, with faults.

use bytes::Bytes;
use holdfast_api::{
    AcquireBatch, AcquireRequest, ReleaseBatch, ReleaseRequest, RenewBatch, RenewRequest, paths,
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How the gateway misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Of ten requests one is answered 503, and the replies to two are lost.
    Flaky,
    /// All grants of a name have one token.
    OneToken,
    /// Whoever asks gets the lock.
    GrantHeld,
    /// Every request is answered 401.
    Unauthenticated,
}

struct Hold {
    client: String,
    id: String,
    token: u64,
}

#[derive(Default)]
struct State {
    holds: HashMap<String, Hold>,
    tokens: u64,
    requests: u64,
}

/// The locks; several listeners may serve them, as several gateways do.
pub(crate) struct Gateway {
    fault: Fault,
    state: Mutex<State>,
    renewals: watch::Sender<u64>,
    pub(crate) authorization: Mutex<Option<String>>,
}

/// One listener. Ends, with all its connections, when it is dropped.
pub(crate) struct Listener {
    pub(crate) url: String,
    accepting: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Gateway {
    pub(crate) fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            fault,
            state: Mutex::default(),
            renewals: watch::channel(0).0,
            authorization: Mutex::default(),
        })
    }

    pub(crate) async fn listen(self: &Arc<Self>) -> Listener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let accepting = tokio::spawn(accept(listener, Arc::clone(self)));
        Listener { url, accepting }
    }

    /// How many locks are held.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().holds.len()
    }

    /// Waits until so many renewals more than now were answered.
    pub(crate) async fn renewals_more(&self, count: u64) {
        let mut renewals = self.renewals.subscribe();
        let end = *renewals.borrow() + count;
        renewals
            .wait_for(|renewals| *renewals >= end)
            .await
            .unwrap();
    }

    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let path = request.uri().path().to_owned();
        let authorization = request.headers().get("authorization");
        *self.authorization.lock() = authorization.map(|value| value.to_str().unwrap().to_owned());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut state = self.state.lock();
        state.requests += 1;
        let turn = state.requests % 10;
        match self.fault {
            Fault::Flaky if turn == 3 => {
                return Ok(response(
                    503,
                    &json!({ "code": "outcome_unknown", "retryAfterMs": 1 }),
                ));
            }
            Fault::Unauthenticated => {
                return Ok(response(
                    401,
                    &json!({ "code": "unauthenticated", "detail": "who?" }),
                ));
            }
            _ => {}
        }
        let answer = self.serve(&mut state, &path, &body);
        if self.fault == Fault::Flaky && (turn == 5 || turn == 8) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(answer)
    }

    fn serve(&self, state: &mut State, path: &str, body: &[u8]) -> Response<Full<Bytes>> {
        match path {
            paths::ACQUIRE => {
                let one: AcquireRequest<'_> = serde_json::from_slice(body).unwrap();
                response(200, &self.acquire(state, &one))
            }
            paths::ACQUIRE_BATCH => {
                let all: AcquireBatch<'_> = serde_json::from_slice(body).unwrap();
                let all = all.acquisitions.iter().map(|one| self.acquire(state, one));
                results(all.collect())
            }
            paths::RENEW => {
                let one: RenewRequest<'_> = serde_json::from_slice(body).unwrap();
                let reply = self.renew(state, &one);
                response(if reply["renewed"] == true { 200 } else { 409 }, &reply)
            }
            paths::RENEW_BATCH => {
                let all: RenewBatch<'_> = serde_json::from_slice(body).unwrap();
                let all = all.renewals.iter().map(|one| self.renew(state, one));
                results(all.collect())
            }
            paths::RELEASE => {
                let one: ReleaseRequest<'_> = serde_json::from_slice(body).unwrap();
                release(state, &one);
                response(204, &Value::Null)
            }
            paths::RELEASE_BATCH => {
                let all: ReleaseBatch<'_> = serde_json::from_slice(body).unwrap();
                let all = all.releases.iter().map(|one| release(state, one));
                results(all.collect())
            }
            _ => response(404, &json!({ "code": "not_found" })),
        }
    }

    fn acquire(&self, state: &mut State, one: &AcquireRequest<'_>) -> Value {
        let mut reply = json!({ "acquired": true, "expiresAt": "", "ttlMs": one.ttl_ms * 99 / 100,
                                "renewAfterMs": one.ttl_ms / 3 });
        let held = state.holds.get(&*one.name);
        match held {
            Some(hold) if hold.client == one.client_id => {
                reply["alreadyHeld"] = true.into();
            }
            Some(_) if self.fault != Fault::GrantHeld => {
                return json!({ "acquired": false, "expiresAt": "", "reason": "held" });
            }
            _ => {
                state.tokens += 1;
                let one_token = self.fault == Fault::OneToken;
                let hold = Hold {
                    client: one.client_id.to_string(),
                    id: format!("lock-{}", state.tokens),
                    token: if one_token { 5 } else { state.tokens },
                };
                state.holds.insert(one.name.to_string(), hold);
            }
        }
        let hold = &state.holds[&*one.name];
        reply["lockId"] = hold.id.as_str().into();
        reply["fencingToken"] = hold.token.into();
        reply
    }

    fn renew(&self, state: &State, one: &RenewRequest<'_>) -> Value {
        self.renewals.send_modify(|renewals| *renewals += 1);
        if state.holds.values().any(|hold| hold.id == one.lock_id) {
            json!({ "renewed": true, "expiresAt": "", "ttlMs": 29_700, "renewAfterMs": 9_700 })
        } else {
            json!({ "renewed": false, "reason": "expired" })
        }
    }
}

fn release(state: &mut State, one: &ReleaseRequest<'_>) -> Value {
    state.holds.retain(|_, hold| hold.id != *one.lock_id);
    json!({ "released": true })
}

fn results(results: Vec<Value>) -> Response<Full<Bytes>> {
    response(200, &json!({ "results": results }))
}

fn response(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    Response::builder()
        .status(status)
        .body(body.into())
        .unwrap()
}

async fn accept(listener: TcpListener, gateway: Arc<Gateway>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let gateway = Arc::clone(&gateway);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.answer(request).await }
            });
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
