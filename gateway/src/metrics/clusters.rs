//! What is said of each cluster of the map. A cluster that leaves the map takes its series along.

use super::exposition::{Exposition, Kind};
use super::flag;
use crate::engine::{EngineStats, EtcdCall, Spread};
use crate::service::{ClusterHealth, EngineFigures};
use crate::time::Millis;

/// One family: its name, what it says, and its value for a cluster.
type Family<T> = (&'static str, Kind, &'static str, fn(&T) -> Option<f64>);

const HEALTH: [Family<ClusterHealth>; 4] = [
    (
        "holdfast_cluster_session_proven",
        Kind::Gauge,
        "1 while this gateway's session in the cluster is proven.",
        |cluster| Some(flag(cluster.proven)),
    ),
    (
        "holdfast_cluster_proof_age_seconds",
        Kind::Gauge,
        "How long ago the last proof was obtained.",
        |cluster| cluster.proof_age.map(seconds),
    ),
    (
        "holdfast_cluster_groups",
        Kind::Gauge,
        "Lease groups that this gateway owns in the cluster.",
        |cluster| Some(cluster.groups as f64),
    ),
    (
        "holdfast_cluster_locks",
        Kind::Gauge,
        "Locks that this gateway owns in the cluster.",
        |cluster| Some(cluster.locks as f64),
    ),
];

const ENGINE: [Family<EngineStats>; 18] = [
    (
        "holdfast_locks_granted_total",
        Kind::Counter,
        "Locks granted, and the client told.",
        |stats| Some(stats.granted.get() as f64),
    ),
    (
        "holdfast_locks_expired_total",
        Kind::Counter,
        "Holds that ended because nobody renewed them in time.",
        |stats| Some(stats.expired.get() as f64),
    ),
    (
        "holdfast_locks_lost_total",
        Kind::Counter,
        "Locks whose lease group or session turned out not to be this gateway's any more; another \
         gateway may serve them.",
        |stats| Some(stats.locks_lost.get() as f64),
    ),
    (
        "holdfast_groups_claimed_total",
        Kind::Counter,
        "Lease groups taken over from sessions that are gone.",
        |stats| Some(stats.claims.get() as f64),
    ),
    (
        "holdfast_groups_lost_total",
        Kind::Counter,
        "Lease groups whose key was not as this gateway wrote it.",
        |stats| Some(stats.groups_lost.get() as f64),
    ),
    (
        "holdfast_sessions_lost_total",
        Kind::Counter,
        "Sessions of this gateway that etcd has ended.",
        |stats| Some(stats.sessions_lost.get() as f64),
    ),
    (
        "holdfast_proofs_voided_total",
        Kind::Counter,
        "Times that nothing was promised any more because nothing was proven in time.",
        |stats| Some(stats.proofs_voided.get() as f64),
    ),
    (
        "holdfast_survey_findings_total",
        Kind::Counter,
        "Differences found between tables and etcd's records.",
        |stats| Some(stats.survey_findings.get() as f64),
    ),
    (
        "holdfast_unknown_outcomes_total",
        Kind::Counter,
        "Batches of which it was unknown at first whether etcd applied them.",
        |stats| Some(stats.unknown_outcomes.get() as f64),
    ),
    (
        "holdfast_fences_total",
        Kind::Counter,
        "Fences sent, to have late writes refused.",
        |stats| Some(stats.fences.get() as f64),
    ),
    (
        "holdfast_cold_lookups_total",
        Kind::Counter,
        "Locks looked up in etcd by name because no table knew them.",
        |stats| Some(stats.cold_lookups.get() as f64),
    ),
    (
        "holdfast_guards_written_total",
        Kind::Counter,
        "Guards that this gateway wrote itself, because a shard had left for the cluster and its guard there had not \
         followed.",
        |stats| Some(stats.guards_written.get() as f64),
    ),
    (
        "holdfast_onward_requests_total",
        Kind::Counter,
        "Requests that went on in another cluster, because their shard moves.",
        |stats| Some(stats.onward.get() as f64),
    ),
    (
        "holdfast_requests_open",
        Kind::Gauge,
        "Requests that the cluster's engine has not answered yet.",
        |stats| Some(stats.requests_open.get() as f64),
    ),
    (
        "holdfast_etcd_requests_in_flight",
        Kind::Gauge,
        "Requests to etcd without an answer so far.",
        |stats| Some(stats.etcd_in_flight.get() as f64),
    ),
    (
        "holdfast_wait_attempts_total",
        Kind::Counter,
        "Attempts of those at the heads of lines to get the lock; about one for each that gets it.",
        |stats| Some(stats.wait_attempts.get() as f64),
    ),
    (
        "holdfast_waiting_names",
        Kind::Gauge,
        "Names for which requests to this gateway wait in line.",
        |stats| Some(stats.lines.get() as f64),
    ),
    (
        "holdfast_waiting_requests",
        Kind::Gauge,
        "Requests to this gateway that wait in line.",
        |stats| Some(stats.waiting.get() as f64),
    ),
];

/// One family with a label of its own beside the cluster.
struct ByLabel {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    label: &'static str,
    values: fn(&EngineFigures) -> Vec<(&'static str, u64)>,
}

const BY_LABEL: [ByLabel; 6] = [
    ByLabel {
        name: "holdfast_etcd_requests_total",
        kind: Kind::Counter,
        help: "Requests sent to etcd, by what for. None is sent for a renewal.",
        label: "call",
        values: |engine| {
            let calls = EtcdCall::ALL.into_iter();
            let count = |call: EtcdCall| (call.as_str(), engine.stats.calls(call).get());
            calls.map(count).collect()
        },
    },
    ByLabel {
        name: "holdfast_etcd_request_failures_total",
        kind: Kind::Counter,
        help: "Requests to etcd that failed: certainly not done (refused), or perhaps done (unknown).",
        label: "outcome",
        values: |engine| {
            vec![
                ("refused", engine.stats.etcd_refused.get()),
                ("unknown", engine.stats.etcd_ambiguous.get()),
            ]
        },
    },
    ByLabel {
        name: "holdfast_forwards_total",
        kind: Kind::Counter,
        help: "Requests that the gateway was asked about which owns the lock: known at once, or \
               after a look-up.",
        label: "route",
        values: |engine| {
            vec![
                ("known", engine.stats.forwarded_at_once.get()),
                ("looked_up", engine.stats.forwarded.get()),
            ]
        },
    },
    ByLabel {
        name: "holdfast_group_moves_total",
        kind: Kind::Counter,
        help: "Moves of lease groups out of the cluster, by what came of them: begun, done, undone.",
        label: "step",
        values: |engine| {
            vec![
                ("begun", engine.stats.moves.get()),
                ("done", engine.stats.moved.get()),
                ("undone", engine.stats.moves_undone.get()),
            ]
        },
    },
    ByLabel {
        name: "holdfast_queue_depth",
        kind: Kind::Gauge,
        help: "What waits: requests for the engine, acquires and other writes for a batch, deletes \
               of expired holds.",
        label: "queue",
        values: |engine| {
            vec![
                ("commands", engine.commands_queued as u64),
                ("acquires", engine.stats.queued_acquires.get()),
                ("writes", engine.stats.queued_writes.get()),
                ("expiries", engine.stats.queued_expiries.get()),
            ]
        },
    },
    ByLabel {
        name: "holdfast_waits_total",
        kind: Kind::Counter,
        help: "Waits in line that are over: with the lock, in vain, because the client went away, or \
               with a lock that was given back because it had gone.",
        label: "outcome",
        values: |engine| {
            vec![
                ("granted", engine.stats.waits_granted.get()),
                ("timed_out", engine.stats.waits_timed_out.get()),
                ("abandoned", engine.stats.waits_abandoned.get()),
                ("undone", engine.stats.waits_undone.get()),
            ]
        },
    },
];

const BATCH_WRITES: &str = "holdfast_batch_writes";
const ETCD_DURATION: &str = "holdfast_etcd_request_duration_seconds";
const WAITED: &str = "holdfast_wait_duration_seconds";
const MARGIN: &str = "holdfast_renewal_margin_ratio";

/// Writes all of them.
pub(super) fn render(out: &mut Exposition, health: &[ClusterHealth], engines: &[EngineFigures]) {
    for (name, kind, help, value) in HEALTH {
        let values = health
            .iter()
            .map(|cluster| (&*cluster.name, value(cluster)));
        family(out, (name, kind, help), values);
    }
    for (name, kind, help, value) in ENGINE {
        let values = engines
            .iter()
            .map(|engine| (&*engine.cluster, value(&engine.stats)));
        family(out, (name, kind, help), values);
    }
    for ByLabel {
        name,
        kind,
        help,
        label,
        values,
    } in BY_LABEL
    {
        out.family(name, kind, help);
        for engine in engines {
            for (of, value) in values(engine) {
                let labels = [("cluster", &*engine.cluster), (label, of)];
                out.sample(name, &labels, value as f64);
            }
        }
    }
    render_spreads(out, engines);
}

fn family<'a>(
    out: &mut Exposition,
    (name, kind, help): (&str, Kind, &str),
    values: impl Iterator<Item = (&'a str, Option<f64>)>,
) {
    out.family(name, kind, help);
    for (cluster, value) in values {
        if let Some(value) = value {
            out.sample(name, &[("cluster", cluster)], value);
        }
    }
}

fn render_spreads(out: &mut Exposition, engines: &[EngineFigures]) {
    let help = "Writes per transaction sent to etcd.";
    render_spread(out, engines, (BATCH_WRITES, help, 1.0), |engine| {
        &engine.stats.batch_sizes
    });
    let help = "Time from a request to etcd to its answer, or to where it was given up.";
    render_spread(out, engines, (ETCD_DURATION, help, 0.001), |engine| {
        &engine.stats.etcd_times
    });
    let help = "What part of a hold's TTL was left when it was renewed from memory.";
    render_spread(out, engines, (MARGIN, help, 0.01), |engine| {
        engine.proof.margins()
    });
    let help = "How long those waited in line who got the lock.";
    render_spread(out, engines, (WAITED, help, 0.001), |engine| {
        &engine.stats.waited
    });
}

/// One histogram with a series for each cluster; `unit` is what a recorded one is worth.
fn render_spread<const N: usize>(
    out: &mut Exposition,
    engines: &[EngineFigures],
    (name, help, unit): (&str, &str, f64),
    spread: impl Fn(&EngineFigures) -> &Spread<N>,
) {
    out.family(name, Kind::Histogram, help);
    for engine in engines {
        let labels = [("cluster", &*engine.cluster)];
        out.spread(name, &labels, spread(engine), unit);
    }
}

fn seconds(time: Millis) -> f64 {
    time.as_ms() as f64 / 1000.0
}
