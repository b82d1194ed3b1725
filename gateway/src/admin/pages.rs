//! What the admin listener answers.

use super::readiness::readiness;
use crate::http::{Reply, fault_of};
use crate::lifecycle::Lifecycle;
use crate::map::MapStatus;
use crate::metrics::{Metrics, Present};
use crate::service::{ClusterHealth, Locks, ShardStatus};
use crate::time::Millis;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const ROUTES: &str = "/metrics, /livez, /readyz, /version, /debug/shards";

/// What the admin listener speaks about.
pub struct Admin<L> {
    /// The lock service.
    pub locks: Arc<L>,
    /// The metrics of this process.
    pub metrics: Arc<Metrics>,
    /// The map that it runs.
    pub map: watch::Receiver<MapStatus>,
    /// The phase of this process.
    pub lifecycle: Lifecycle,
    /// What runs its tasks, by the kind of thread.
    pub runtimes: Vec<(&'static str, Handle)>,
}

impl<L: Locks> Admin<L> {
    /// Answers one request.
    pub(super) fn answer<B>(&self, request: &Request<B>) -> Reply {
        if let Some(fault) = fault_of(request) {
            let status = StatusCode::from_u16(fault.code().status());
            let status = status.unwrap_or(StatusCode::BAD_REQUEST);
            return text(status, &fault.detail());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here");
            let allow = HeaderValue::from_static("GET, HEAD");
            reply.headers_mut().insert(ALLOW, allow);
            return reply;
        }
        match request.uri().path() {
            "/metrics" => self.metrics(),
            "/livez" => text(StatusCode::OK, "alive"),
            "/readyz" => self.readyz(),
            "/version" => json(&Version {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
            }),
            "/debug/shards" => self.shards(),
            _ => text(
                StatusCode::NOT_FOUND,
                &format!("no such page; the pages are {ROUTES}"),
            ),
        }
    }

    fn metrics(&self) -> Reply {
        let (clusters, phase) = (self.locks.clusters(), self.lifecycle.phase());
        let runtimes = self.runtimes.iter();
        let tasks: Vec<(&str, usize)> = runtimes
            .map(|(threads, runtime)| (*threads, runtime.metrics().num_alive_tasks()))
            .collect();
        let rendered = self.metrics.render(&Present {
            clusters: &clusters,
            engines: &self.locks.engines(),
            shards: &self.locks.shards(),
            map: &self.map.borrow(),
            tasks: &tasks,
            phase,
            ready: readiness(phase, &clusters).is_ok(),
        });
        reply(StatusCode::OK, METRICS, rendered)
    }

    fn readyz(&self) -> Reply {
        match readiness(self.lifecycle.phase(), &self.locks.clusters()) {
            Ok(()) => text(StatusCode::OK, "ready"),
            Err(why) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("not ready: {why}"),
            ),
        }
    }

    fn shards(&self) -> Reply {
        let (clusters, shards) = (self.locks.clusters(), self.locks.shards());
        json(&Shards {
            clusters: clusters.iter().map(ClusterView::of).collect(),
            shards: shards.iter().map(ShardView::of).collect(),
        })
    }
}

#[derive(Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Shards<'a> {
    clusters: Vec<ClusterView<'a>>,
    shards: Vec<ShardView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterView<'a> {
    name: &'a str,
    proven: bool,
    proof_age_ms: Option<u64>,
    groups: u64,
    locks: u64,
}

impl<'a> ClusterView<'a> {
    fn of(cluster: &'a ClusterHealth) -> Self {
        Self {
            name: &cluster.name,
            proven: cluster.proven,
            proof_age_ms: cluster.proof_age.map(Millis::as_ms),
            groups: cluster.groups,
            locks: cluster.locks,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShardView<'a> {
    shard: u32,
    cluster: &'a str,
    epoch: Option<u64>,
    state: Option<&'a str>,
    groups: u64,
    locks: u64,
    oldest_proof_ms: Option<u64>,
}

impl<'a> ShardView<'a> {
    fn of(shard: &'a ShardStatus) -> Self {
        Self {
            shard: shard.shard,
            cluster: &shard.cluster,
            epoch: shard.epoch,
            state: shard.state,
            groups: shard.groups,
            locks: shard.locks,
            oldest_proof_ms: shard.oldest_proof.map(Millis::as_ms),
        }
    }
}

fn json<T: Serialize>(body: &T) -> Reply {
    match serde_json::to_string(body) {
        Ok(body) => reply(StatusCode::OK, JSON, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn text(status: StatusCode, line: &str) -> Reply {
    reply(status, TEXT, format!("{line}\n"))
}

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}
