//! Every metric of the gateway: declared here, resolved at start, with its zero series there from
//! the start. Label values are enums, or names from the shard map.
//!
//! Counting costs one atomic addition. What can be asked for (clusters, phases, connections) is
//! asked for when somebody scrapes. Two kinds of families are written by hand: those whose series
//! come and go with the shard map, because the exporter keeps a series for ever, and the latency
//! histograms, because the exporter keeps every single value until it is scraped.

mod clusters;
mod exposition;
mod labels;
mod latency;
mod map;
mod process;

#[cfg(test)]
mod document_tests;

pub use labels::{LockCall, Operation, Outcome, Reloaded};
pub use latency::Stopwatch;

use crate::lifecycle::Phase;
use crate::map::MapStatus;
use crate::service::{ClusterHealth, EngineFigures, ShardStatus};
use exposition::{Exposition, Kind};
use labels::OUTCOMES;
use latency::Latency;
use metrics::{Counter, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const REQUESTS: &str = "holdfast_http_requests_total";
const DURATION: &str = "holdfast_http_request_duration_seconds";
const LOCK_CALLS: &str = "holdfast_lock_calls_total";
const HANDSHAKES_FAILED: &str = "holdfast_tls_handshakes_failed_total";
const RELOADS: &str = "holdfast_reloads_total";
const RELOAD_FAILING: &str = "holdfast_reload_failing";
const CONNECTIONS: &str = "holdfast_http_connections";
const PRESSURE: &str = "holdfast_pressure_ratio";
const CONNECTIONS_REFUSED: &str = "holdfast_http_connections_refused_total";

/// The metrics of this process.
pub struct Metrics {
    requests: [[Counter; OUTCOMES]; Operation::ALL.len()],
    lock_calls: [[Counter; OUTCOMES]; LockCall::ALL.len()],
    durations: [Latency; Operation::ALL.len()],
    connections: AtomicU64,
    connections_refused: Counter,
    /// In thousandths.
    pressure: AtomicU32,
    handshakes_failed: Counter,
    reloads: [[Counter; 2]; Reloaded::ALL.len()],
    reload_failing: [AtomicBool; Reloaded::ALL.len()],
    handle: PrometheusHandle,
}

/// What is asked for when somebody scrapes.
pub struct Present<'a> {
    /// How the clusters look.
    pub clusters: &'a [ClusterHealth],
    /// What their engines have done.
    pub engines: &'a [EngineFigures],
    /// The shards that the engines know.
    pub shards: &'a [ShardStatus],
    /// The map that runs.
    pub map: &'a MapStatus,
    /// How many tasks have not ended, by the kind of thread that runs them.
    pub tasks: &'a [(&'static str, usize)],
    /// Where the process is between its start and its end.
    pub phase: Phase,
    /// Whether `/readyz` says yes.
    pub ready: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        describe(&recorder);
        let by_outcome = |family: &'static str, operation: &'static str| {
            let outcomes: Vec<Outcome> = Outcome::all().collect();
            std::array::from_fn(|at| {
                let labels = [("operation", operation), ("outcome", outcomes[at].as_str())];
                counter(&recorder, family, &labels)
            })
        };
        Self {
            requests: Operation::ALL.map(|operation| by_outcome(REQUESTS, operation.as_str())),
            lock_calls: LockCall::ALL.map(|call| by_outcome(LOCK_CALLS, call.as_str())),
            durations: Default::default(),
            connections: AtomicU64::new(0),
            connections_refused: counter(&recorder, CONNECTIONS_REFUSED, &[]),
            pressure: AtomicU32::new(0),
            handshakes_failed: counter(&recorder, HANDSHAKES_FAILED, &[]),
            reloads: Reloaded::ALL.map(|what| {
                ["refused", "ok"].map(|outcome| {
                    let labels = [("what", what.as_str()), ("outcome", outcome)];
                    counter(&recorder, RELOADS, &labels)
                })
            }),
            reload_failing: Default::default(),
            handle: recorder.handle(),
        }
    }
}

impl Metrics {
    /// A request was answered.
    pub fn request(&self, operation: Operation, outcome: Outcome, took: Stopwatch) {
        self.requests[operation as usize][outcome.index()].increment(1);
        self.durations[operation as usize].record(took.nanos());
    }

    /// So many calls about locks were answered so.
    pub fn lock_calls(&self, call: LockCall, outcome: Outcome, count: u64) {
        self.lock_calls[call as usize][outcome.index()].increment(count);
    }

    /// A client connected.
    pub fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection ended.
    pub fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// So hard is it to keep up, in thousandths.
    pub fn pressure(&self, level: u32) {
        self.pressure.store(level, Ordering::Relaxed);
    }

    /// A client of the public listener did not get through its TLS handshake.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.increment(1);
    }

    /// Files have changed and were read; `good`: what they say counts now.
    pub fn reloaded(&self, what: Reloaded, good: bool) {
        self.reloads[what as usize][usize::from(good)].increment(1);
        self.reload_failing[what as usize].store(!good, Ordering::Relaxed);
    }

    /// A connection was refused because there are too many.
    pub fn connection_refused(&self) {
        self.connections_refused.increment(1);
    }

    /// Everything, in the text format of Prometheus.
    pub fn render(&self, present: &Present<'_>) -> String {
        let mut out = Exposition::after(self.handle.render());
        self.render_process(&mut out, present);
        process::render(&mut out, present.tasks);
        map::render(&mut out, present.map, present.shards);
        clusters::render(&mut out, present.clusters, present.engines);
        out.family(
            DURATION,
            Kind::Histogram,
            "Time from a request's head to its answer.",
        );
        for operation in Operation::ALL {
            let latency = &self.durations[operation as usize];
            latency.render(&mut out, DURATION, ("operation", operation.as_str()));
        }
        out.into_text()
    }

    fn render_process(&self, out: &mut Exposition, present: &Present<'_>) {
        let version = env!("CARGO_PKG_VERSION");
        out.family(
            "holdfast_build_info",
            Kind::Gauge,
            "Always 1; the label says what runs.",
        );
        out.sample("holdfast_build_info", &[("version", version)], 1.0);
        out.family("holdfast_ready", Kind::Gauge, "1 while /readyz says yes.");
        out.sample("holdfast_ready", &[], flag(present.ready));
        out.family("holdfast_phase", Kind::Gauge, "1 for the present phase.");
        for phase in Phase::ALL {
            let labels = [("phase", phase.as_str())];
            out.sample("holdfast_phase", &labels, flag(phase == present.phase));
        }
        out.family(CONNECTIONS, Kind::Gauge, "Open client connections.");
        let connections = self.connections.load(Ordering::Relaxed);
        out.sample(CONNECTIONS, &[], connections as f64);
        out.family(
            PRESSURE,
            Kind::Gauge,
            "How far renewAfterMs is stretched: 0 not at all, 1 up to half the TTL.",
        );
        let pressure = self.pressure.load(Ordering::Relaxed);
        out.sample(PRESSURE, &[], f64::from(pressure) / 1_000.0);
        out.family(
            RELOAD_FAILING,
            Kind::Gauge,
            "1 while a changed file is refused and what was read before goes on.",
        );
        for what in Reloaded::ALL {
            let failing = self.reload_failing[what as usize].load(Ordering::Relaxed);
            out.sample(RELOAD_FAILING, &[("what", what.as_str())], flag(failing));
        }
    }
}

fn describe(recorder: &PrometheusRecorder) {
    for (family, help) in [
        (
            REQUESTS,
            "Requests answered, by what they asked for and how it went.",
        ),
        (
            LOCK_CALLS,
            "Calls about one lock, alone or in a batch, by how they went.",
        ),
        (
            CONNECTIONS_REFUSED,
            "Connections refused because there are too many.",
        ),
        (
            HANDSHAKES_FAILED,
            "Connections of clients whose TLS handshake failed.",
        ),
        (
            RELOADS,
            "Files that were read anew because they had changed.",
        ),
    ] {
        recorder.describe_counter(family.into(), None, help.into());
    }
}

fn counter(
    recorder: &PrometheusRecorder,
    family: &'static str,
    labels: &[(&'static str, &'static str)],
) -> Counter {
    let labels: Vec<Label> = labels
        .iter()
        .map(|(name, value)| Label::from_static_parts(name, value))
        .collect();
    let metadata = Metadata::new(module_path!(), Level::INFO, None);
    recorder.register_counter(&Key::from_parts(family, labels), &metadata)
}

/// 1 for yes.
fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;
    use std::sync::Arc;

    fn render(metrics: &Metrics, clusters: &[ClusterHealth]) -> String {
        metrics.render(&Present {
            clusters,
            engines: &[],
            shards: &[],
            map: &MapStatus::default(),
            tasks: &[],
            phase: Phase::Serving,
            ready: true,
        })
    }

    fn check(text: &str, line: &str) {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in:\n{text}"
        );
    }

    #[test]
    fn every_series_is_zero_before_anything_happens() {
        let text = render(&Metrics::default(), &[]);
        for operation in Operation::ALL {
            for outcome in Outcome::all() {
                let labels = format!(
                    "operation=\"{}\",outcome=\"{}\"",
                    operation.as_str(),
                    outcome.as_str()
                );
                check(&text, &format!("{REQUESTS}{{{labels}}} 0"));
            }
        }
        check(&text, &format!("{CONNECTIONS_REFUSED} 0"));
        check(&text, &format!("{DURATION}_count{{operation=\"renew\"}} 0"));
    }

    #[test]
    fn what_is_counted_is_counted_under_its_own_labels() {
        let metrics = Metrics::default();
        for outcome in Outcome::all() {
            metrics.lock_calls(LockCall::Renew, outcome, 7);
        }
        metrics.request(Operation::Renew, Outcome::Ended, Stopwatch::start());
        let text = render(&metrics, &[]);
        for outcome in Outcome::all() {
            let labels = format!("operation=\"renew\",outcome=\"{}\"", outcome.as_str());
            check(&text, &format!("{LOCK_CALLS}{{{labels}}} 7"));
        }
        check(
            &text,
            &format!("{REQUESTS}{{operation=\"renew\",outcome=\"ended\"}} 1"),
        );
        check(&text, &format!("{DURATION}_count{{operation=\"renew\"}} 1"));
    }

    #[test]
    fn a_cluster_that_left_the_map_has_no_series() {
        let metrics = Metrics::default();
        let cluster = ClusterHealth {
            name: Arc::from("a\"b"),
            proven: true,
            proof_age: Some(Millis::from_ms(1500)),
            groups: 2,
            locks: 1001,
        };
        let with = render(&metrics, std::slice::from_ref(&cluster));
        check(
            &with,
            r#"holdfast_cluster_session_proven{cluster="a\"b"} 1"#,
        );
        check(
            &with,
            r#"holdfast_cluster_proof_age_seconds{cluster="a\"b"} 1.5"#,
        );
        check(&with, r#"holdfast_cluster_locks{cluster="a\"b"} 1001"#);
        assert!(!render(&metrics, &[]).contains("cluster=\"a"));
    }
}
