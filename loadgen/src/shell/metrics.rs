//! What Prometheus is told while a run goes on. The text is written by hand: all of it is figures
//! that the workers publish anyway, asked for at most every few seconds.

use super::control::{Control, Snapshot};
use crate::outcome::{Op, Outcome};
use crate::plan::Plan;
use crate::stats::LATENCY_BOUNDS_US;
use anyhow::Context as _;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Serves `/metrics` at `address` for as long as the runtime lives.
///
/// # Errors
/// When it cannot listen there.
pub(super) async fn listen(
    address: SocketAddr,
    plan: Arc<Plan>,
    control: Arc<Control>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (--metrics-listen)"))?;
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors, say: they come back.
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let (plan, control) = (Arc::clone(&plan), Arc::clone(&control));
            tokio::spawn(async move {
                let service = service_fn(|request: http::Request<_>| {
                    let reply = answer(request.uri().path(), &plan, &control);
                    std::future::ready(Ok::<_, Infallible>(reply))
                });
                // A connection that breaks is the asker's business.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(())
}

const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

fn answer(path: &str, plan: &Plan, control: &Control) -> Response<Full<Bytes>> {
    let (status, body) = match path {
        "/metrics" => (StatusCode::OK, render(plan.locks, &control.total())),
        _ => (StatusCode::NOT_FOUND, "the page is /metrics\n".to_owned()),
    };
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, text);
    reply
}

fn render(locks: u32, total: &Snapshot) -> String {
    let mut out = String::new();
    let figures = &total.figures;
    let gauges = [
        (
            "locks_wanted",
            "Locks that this run is to hold.",
            u64::from(locks),
        ),
        ("locks_held", "Locks that are held.", u64::from(total.held)),
    ];
    for (name, help, value) in gauges {
        single(&mut out, name, "gauge", help, value);
    }
    let counters = [
        (
            "requests_total",
            "HTTP requests that were answered, or given up.",
            figures.requests,
        ),
        ("retries_total", "Repeated tries.", figures.retries),
        (
            "unknown_total",
            "Answers, and missing answers, that say nothing about the lock.",
            total.unknown,
        ),
        (
            "lost_locks_total",
            "Locks that a holder has lost while it renewed them in time.",
            total.lost,
        ),
        (
            "findings_total",
            "Answers that the contract forbids.",
            total.findings,
        ),
        (
            "missed_renewals_total",
            "Renewals that were not sent because the one before was a whole interval late.",
            figures.missed,
        ),
        ("connects_total", "Connections opened.", figures.connects),
        (
            "connect_failures_total",
            "Failed tries to open a connection.",
            figures.connect_failures,
        ),
    ];
    for (name, help, value) in counters {
        single(&mut out, name, "counter", help, value);
    }
    outcomes(&mut out, &figures.outcomes);
    latency(&mut out, &figures.within, figures.renewals_us);
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}"
    );
}

const PREFIX: &str = "holdfast_loadgen_";

fn single(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{PREFIX}{name} {value}");
}

fn outcomes(out: &mut String, counts: &[Vec<u64>]) {
    head(
        out,
        "calls_total",
        "counter",
        "What was asked about one lock each, by what came of it.",
    );
    for (op, counts) in Op::ALL.iter().zip(counts) {
        for (outcome, count) in Outcome::names().zip(counts) {
            let op = op.name();
            let _ = writeln!(
                out,
                "{PREFIX}calls_total{{operation=\"{op}\",outcome=\"{outcome}\"}} {count}"
            );
        }
    }
}

fn latency(out: &mut String, within: &[u64], sum_us: u64) {
    const NAME: &str = "renewal_duration_seconds";
    let help = "From when a renewal was due to its answer, repeated tries included.";
    head(out, NAME, "histogram", help);
    let mut total = 0;
    let bounds = LATENCY_BOUNDS_US
        .iter()
        .map(|us| (*us as f64 / 1e6).to_string());
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(within) {
        total += count;
        let _ = writeln!(out, "{PREFIX}{NAME}_bucket{{le=\"{bound}\"}} {total}");
    }
    let _ = writeln!(out, "{PREFIX}{NAME}_sum {}", sum_us as f64 / 1e6);
    let _ = writeln!(out, "{PREFIX}{NAME}_count {total}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Phase;
    use crate::stats::{Figures, Stats};
    use holdfast_client::Instant;

    fn of(figures: Figures) -> String {
        let mut total = Snapshot::default();
        total.figures.merge(&figures);
        render(7, &total)
    }

    fn check(text: &str, lines: &[&str]) {
        for line in lines {
            let there = text.lines().any(|found| found == *line);
            assert!(there, "no {line} in:\n{text}");
        }
    }

    #[test]
    fn every_series_is_zero_from_the_start() {
        let text = of(Figures::default());
        check(
            &text,
            &[
                "holdfast_loadgen_locks_wanted 7",
                "holdfast_loadgen_lost_locks_total 0",
                r#"holdfast_loadgen_calls_total{operation="renew",outcome="renewed"} 0"#,
                r#"holdfast_loadgen_renewal_duration_seconds_bucket{le="+Inf"} 0"#,
            ],
        );
    }

    #[test]
    fn what_two_workers_did_is_added_up() {
        let mut stats = Stats::new();
        stats.outcome(Phase::Hold, Op::Renew, Outcome::RENEWED);
        let received = Instant::from_micros(250);
        stats.latency(Phase::Hold, Op::Renew, Instant::ZERO, received, None);
        let mut both = stats.figures();
        both.merge(&stats.figures());
        check(
            &of(both),
            &[
                r#"holdfast_loadgen_calls_total{operation="renew",outcome="renewed"} 2"#,
                r#"holdfast_loadgen_renewal_duration_seconds_bucket{le="0.0001"} 0"#,
                r#"holdfast_loadgen_renewal_duration_seconds_bucket{le="0.00025"} 2"#,
                "holdfast_loadgen_renewal_duration_seconds_sum 0.0005",
            ],
        );
    }

    #[test]
    fn docs_metrics_md_has_a_row_for_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        let document = std::fs::read_to_string(path).unwrap();
        let rows = |line: &&str| line.starts_with("| `holdfast_loadgen_");
        let written: Vec<&str> = document.lines().filter(rows).collect();
        let text = of(Figures::default());
        let kind = |name: &str| {
            let begin = format!("# TYPE {name} ");
            text.lines()
                .find_map(|line| line.strip_prefix(&begin))
                .unwrap()
        };
        let helps = text
            .lines()
            .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
        let row = |(name, help): (&str, &str)| {
            let labels = if name.ends_with("calls_total") {
                "`operation`, `outcome`"
            } else {
                ""
            };
            format!("| `{name}` | {} | {labels} | {help} |", kind(name))
        };
        let expected: Vec<String> = helps.map(row).collect();
        assert!(
            written == expected,
            "the table must be:\n{}",
            expected.join("\n")
        );
    }
}
