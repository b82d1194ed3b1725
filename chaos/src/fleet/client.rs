//! One client: requests over HTTP, each reported to the court.

use super::reply::Answer;
use crate::court::{Court, Sent, now};
use bytes::Bytes;
use holdfast_api::{
    AcquireRequest, ForceReleaseRequest, RefusalReason, ReleaseRequest, RenewRequest,
};
use holdfast_client::{Connection, Target};
use holdfast_judge::{Client as Who, Grant, HoldNo, Promise, Real, Refused};
use http::HeaderValue;
use std::sync::Arc;
use std::time::Duration;

/// A gateway answers within five seconds; a little more covers the way.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(5_500);

const ACQUIRE: &str = "/api/v1/locks/acquire";
const RENEW: &str = "/api/v1/locks/renew";
const RELEASE: &str = "/api/v1/locks/release";
const FORCE_RELEASE: &str = "/api/v1/locks/force-release";

/// A hold that a client has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its number in the court.
    pub no: HoldNo,
    /// The number of the name.
    pub name: usize,
    /// The handle.
    pub lock_id: String,
    /// The fencing token.
    pub token: u64,
    /// What was asked for.
    pub ttl_ms: u64,
    /// When to renew, from when this was told.
    pub renew_after_ms: u64,
}

/// A client of several gateways.
#[derive(Debug)]
pub struct Client {
    court: Arc<Court>,
    who: Who,
    prefix: Arc<str>,
    gateways: Vec<Gateway>,
}

#[derive(Debug)]
struct Gateway {
    target: Target,
    bearer: Option<HeaderValue>,
    kept: Option<Connection>,
}

impl Client {
    /// A client of its own number; names begin with `prefix`.
    #[must_use]
    pub fn new(court: Arc<Court>, number: usize, prefix: Arc<str>, targets: &[Target]) -> Self {
        let gateway = |target: &Target| Gateway {
            target: target.clone(),
            bearer: None,
            kept: None,
        };
        Self {
            court,
            who: Who(number, 0),
            prefix,
            gateways: targets.iter().map(gateway).collect(),
        }
    }

    /// The same, with this credential.
    #[must_use]
    pub fn with_bearer(mut self, bearer: &HeaderValue) -> Self {
        for gateway in &mut self.gateways {
            gateway.bearer = Some(bearer.clone());
        }
        self
    }

    /// The same client, with connections of its own.
    #[must_use]
    pub fn twin(&self) -> Self {
        let gateway = |gateway: &Gateway| Gateway {
            target: gateway.target.clone(),
            bearer: gateway.bearer.clone(),
            kept: None,
        };
        Self {
            court: Arc::clone(&self.court),
            who: self.who,
            prefix: Arc::clone(&self.prefix),
            gateways: self.gateways.iter().map(gateway).collect(),
        }
    }

    /// Who it is, for the court.
    #[must_use]
    pub fn who(&self) -> Who {
        self.who
    }

    /// The court that it reports to.
    #[must_use]
    pub fn court(&self) -> &Arc<Court> {
        &self.court
    }

    /// How many gateways it knows.
    #[must_use]
    pub fn gateways(&self) -> usize {
        self.gateways.len()
    }

    /// Disappears for ever, and another client takes its place.
    pub fn become_another(&mut self) {
        self.who.1 += 1;
    }

    /// The text of a name.
    #[must_use]
    pub fn name(&self, name: usize) -> String {
        format!("{}{name}", self.prefix)
    }

    fn sent(&self, name: usize) -> Sent {
        Sent {
            client: self.who,
            name,
            at: now(),
            wait_ms: 0,
        }
    }

    /// Acquires a name through one gateway, or through two at once: then the answer that comes
    /// first counts.
    pub async fn acquire(
        &mut self,
        through: usize,
        also: Option<usize>,
        name: usize,
        ttl_ms: u64,
    ) -> (Answer, Option<Held>) {
        let body = self.acquisition(name, ttl_ms, None);
        let sent = self.sent(name);
        let answer = self
            .ask(through, also, ACQUIRE, body, Answer::to_acquire)
            .await;
        let held = self.take(sent, ttl_ms, &answer);
        (answer, held)
    }

    /// Waits in line for a name, and goes away if it is not answered within `patience`.
    pub async fn acquire_in_line(
        &mut self,
        through: usize,
        name: usize,
        ttl_ms: u64,
        wait_ms: u64,
        patience: Duration,
    ) -> (Answer, Option<Held>) {
        let body = self.acquisition(name, ttl_ms, Some(wait_ms));
        let sent = Sent {
            wait_ms,
            ..self.sent(name)
        };
        let asked = post(&mut self.gateways[through], ACQUIRE, body, patience).await;
        let answer = self.understood(asked, Answer::to_acquire);
        let held = self.take(sent, ttl_ms, &answer);
        (answer, held)
    }

    fn acquisition(&self, name: usize, ttl_ms: u64, wait_ms: Option<u64>) -> Bytes {
        let client_id = format!("client-{}-{}", self.who.0, self.who.1);
        json(&AcquireRequest {
            name: self.name(name).into(),
            ttl_ms,
            client_id: client_id.into(),
            wait_ms,
            metadata: None,
            request_id: None,
        })
    }

    fn take(&self, sent: Sent, ttl_ms: u64, answer: &Answer) -> Option<Held> {
        match answer {
            Answer::Granted {
                lock_id,
                token,
                promise,
                already_held,
                waited_ms,
            } => {
                let grant = Grant {
                    lock_id,
                    token: *token,
                    promise: *promise,
                    already_held: *already_held,
                    waited_ms: *waited_ms,
                };
                Some(Held {
                    no: self.court.granted(sent, ttl_ms, &grant),
                    name: sent.name,
                    lock_id: lock_id.clone(),
                    token: *token,
                    ttl_ms,
                    renew_after_ms: renew_after(sent.at + waited_ms, *promise),
                })
            }
            Answer::Refused { reason, free_in_ms } => {
                let refused = Refused {
                    free_in_ms: *free_in_ms,
                    timed_out: *reason == RefusalReason::Timeout,
                };
                self.court.refused(sent, refused);
                None
            }
            _ => None,
        }
    }

    /// Renews a hold.
    pub async fn renew(&mut self, through: usize, also: Option<usize>, held: &mut Held) -> Answer {
        let request = RenewRequest {
            lock_id: held.lock_id.as_str().into(),
            fencing_token: held.token,
            ttl_ms: Some(held.ttl_ms),
        };
        let sent = self.sent(held.name);
        let answer = self
            .ask(through, also, RENEW, json(&request), Answer::to_renew)
            .await;
        match &answer {
            Answer::Renewed(promise) => {
                held.renew_after_ms = renew_after(sent.at, *promise);
                self.court.renewed(sent, held.no, held.ttl_ms, *promise);
            }
            Answer::Ended(why) => self.court.ended(sent, held.no, &format!("{why:?}")),
            _ => {}
        }
        answer
    }

    /// Gives a hold back.
    pub async fn release(&mut self, through: usize, also: Option<usize>, held: &Held) -> Answer {
        self.court.given_up(self.who, held.no);
        let request = ReleaseRequest {
            lock_id: held.lock_id.as_str().into(),
            fencing_token: held.token,
        };
        let sent = self.sent(held.name);
        let answer = self
            .ask(through, also, RELEASE, json(&request), Answer::to_release)
            .await;
        match &answer {
            Answer::Released => self.court.released(sent, held.no),
            Answer::Mismatch => self.court.mismatch(held.no),
            _ => {}
        }
        answer
    }

    /// Ends whatever hold the name has: when its promise ends, or at once.
    pub async fn force_release(&mut self, through: usize, name: usize, immediate: bool) -> Answer {
        self.court.force_asked(name, immediate);
        let request = ForceReleaseRequest {
            name: self.name(name).into(),
            reason: "it is in the way".into(),
            immediate: Some(immediate),
        };
        let (path, read) = (FORCE_RELEASE, Answer::to_force_release);
        let answer = self.ask(through, None, path, json(&request), read).await;
        if let Answer::Forced { token, .. } = answer {
            self.court.force_released(name, token);
        }
        answer
    }

    /// A renewal that the court does not hear of, as with an id that is nobody's.
    pub async fn renew_unreported(&mut self, through: usize, lock_id: &str, token: u64) -> Answer {
        let request = RenewRequest {
            lock_id: lock_id.into(),
            fencing_token: token,
            ttl_ms: None,
        };
        self.ask(through, None, RENEW, json(&request), Answer::to_renew)
            .await
    }

    async fn ask(
        &mut self,
        through: usize,
        also: Option<usize>,
        path: &'static str,
        body: Bytes,
        read: impl Fn(&holdfast_client::RawReply) -> Answer,
    ) -> Answer {
        let asked = match also {
            Some(also) if also != through => {
                self.court.count(|counts| counts.doubled += 1);
                let [one, two] = self.two(through, also);
                tokio::select! {
                    raw = post(one, path, body.clone(), ANSWER_TIMEOUT) => raw,
                    raw = post(two, path, body, ANSWER_TIMEOUT) => raw,
                }
            }
            _ => post(&mut self.gateways[through], path, body, ANSWER_TIMEOUT).await,
        };
        self.understood(asked, read)
    }

    fn understood(
        &self,
        asked: Result<holdfast_client::RawReply, String>,
        read: impl Fn(&holdfast_client::RawReply) -> Answer,
    ) -> Answer {
        let answer = match asked {
            Ok(raw) => read(&raw),
            Err(why) => Answer::Unknown(why),
        };
        if matches!(answer, Answer::Unknown(_)) {
            self.court.count(|counts| counts.unknown += 1);
        }
        answer
    }

    /// Two different ones.
    fn two(&mut self, one: usize, two: usize) -> [&mut Gateway; 2] {
        let (low, high) = (one.min(two), one.max(two));
        let (head, tail) = self.gateways.split_at_mut(high);
        [&mut head[low], &mut tail[0]]
    }
}

#[expect(clippy::expect_used, reason = "structs of texts and numbers are JSON")]
fn json(request: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(request).expect("it is JSON").into()
}

/// When to renew from now on: what is told counts from when it was asked, and a slow machine may have told
/// it when most of that had passed.
fn renew_after(from: Real, promise: Promise) -> u64 {
    (from + promise.renew_after_ms).saturating_sub(now())
}

/// A connection is kept only while it answers.
async fn post(
    gateway: &mut Gateway,
    path: &'static str,
    body: Bytes,
    patience: Duration,
) -> Result<holdfast_client::RawReply, String> {
    let kept = gateway.kept.take().filter(Connection::is_usable);
    let asking = async {
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(&gateway.target, gateway.bearer.as_ref()).await?,
        };
        let raw = connection.post(path, body).await?;
        Ok::<_, holdfast_client::NoReply>((connection, raw))
    };
    match tokio::time::timeout(patience, asking).await {
        Ok(Ok((connection, raw))) => {
            gateway.kept = Some(connection);
            Ok(raw)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}
