"""Recording rules and alerts as values. `build.py` makes Prometheus's files and promtool's tests of it.

Each alert has the series that make it fire, and some that must not. In `fires` and `quiet`: series and values in
promtool's notation, one value every 30 seconds, looked at after `at`.
"""

from dataclasses import dataclass

from board import UNKNOWN

OBJECTIVE = 0.001  # the part of all calls that may stay without an answer


@dataclass
class Record:
    name: str
    query: str


@dataclass
class Alert:
    name: str
    query: str
    wait: str  # true for so long before it fires
    severity: str  # page: somebody must come now; ticket: within days
    summary: str
    fires: list  # (series, values)
    quiet: list
    labels: dict  # of the alert that fires
    at: str = "20m"

    @property
    def section(self):
        return f"docs/runbooks.md#{self.name.lower()}"


def errors(window):
    return (f'sum by (job) (rate(holdfast_lock_calls_total{{outcome=~"{UNKNOWN}"}}[{window}])) / '
            f"sum by (job) (rate(holdfast_lock_calls_total[{window}]))")


RECORDS = [
    *[Record(f"job:holdfast_lock_call_errors:ratio_rate{window}", errors(window))
      for window in ("5m", "30m", "1h", "6h")],
    Record("job_operation:holdfast_lock_calls:rate5m",
           "sum by (job, operation) (rate(holdfast_lock_calls_total[5m]))"),
    Record("job_operation:holdfast_http_request_duration_seconds:p99_rate5m",
           "histogram_quantile(0.99, sum by (job, operation, le) "
           "(rate(holdfast_http_request_duration_seconds_bucket[5m])))"),
    Record("job_cluster:holdfast_cluster_locks:sum", "sum by (job, cluster) (holdfast_cluster_locks)"),
    Record("job_cluster:holdfast_etcd_requests:rate5m",
           "sum by (job, cluster) (rate(holdfast_etcd_requests_total[5m]))"),
]

JOB = {"job": "holdfast"}
GATEWAY = {"job": "holdfast", "instance": "g1"}
CLUSTER = {"job": "holdfast", "cluster": "a"}
BOTH = {"job": "holdfast", "instance": "g1", "cluster": "a"}
ETCD = {"job": "etcd", "instance": "e1"}


def series(name, labels, **more):
    inside = ",".join(f'{key}="{value}"' for key, value in {**labels, **more}.items())
    return f"{name}{{{inside}}}"


def calls(good, bad, times):
    name = "holdfast_lock_calls_total"
    return [(series(name, GATEWAY, operation="renew", outcome="ok"), f"0+{good}x{times}"),
            (series(name, GATEWAY, operation="renew", outcome="cluster_unavailable"), f"0+{bad}x{times}")]


def burns(rate, long, short):
    factor = f"{rate} * {OBJECTIVE}"
    return (f"job:holdfast_lock_call_errors:ratio_rate{long} > {factor} and "
            f"job:holdfast_lock_call_errors:ratio_rate{short} > {factor}")


def renew_times(slow):
    """All renewals take at most 10 ms, or between 100 and 250 ms."""
    name, renew = "holdfast_http_request_duration_seconds_bucket", {**GATEWAY, "operation": "renew"}
    fast = "0x60" if slow else "0+100x60"
    return [(series(name, renew, le="0.01"), fast), (series(name, renew, le="0.1"), fast),
            (series(name, renew, le="0.25"), "0+100x60"), (series(name, renew, le="+Inf"), "0+100x60")]


def gauge(name, labels, value, **more):
    return [(series(name, labels, **more), f"{value}x80")]


def grows(name, labels, by, **more):
    return [(series(name, labels, **more), f"0+{by}x80")]


def margins(thin):
    name = "holdfast_renewal_margin_ratio_bucket"
    return [(series(name, BOTH, le="0.2"), f"0+{thin}x80"), (series(name, BOTH, le="+Inf"), "0+100x80")]


ALERTS = [
    Alert("HoldfastErrorBudgetBurnsFast", burns(14.4, "1h", "5m"), "2m", "page",
          "Clients of {{ $labels.job }} get no answer to more than 1.4 % of their calls",
          calls(100, 10, 200), calls(10000, 5, 200), JOB, "70m"),
    Alert("HoldfastErrorBudgetBurnsSlowly", burns(6, "6h", "30m"), "15m", "ticket",
          "Clients of {{ $labels.job }} get no answer to more than 0.6 % of their calls, for hours",
          calls(1000, 8, 900), calls(1000, 3, 900), JOB, "420m"),
    Alert("HoldfastRenewalsSlow",
          'job_operation:holdfast_http_request_duration_seconds:p99_rate5m{operation=~"renew.*"} > 0.05', "10m",
          "ticket", "Of the requests to {{ $labels.operation }} one in a hundred takes longer than 50 ms",
          renew_times(True), renew_times(False), {**JOB, "operation": "renew"}),
    Alert("HoldfastRenewalsFindHoldsOver",
          'sum by (job) (rate(holdfast_lock_calls_total{operation="renew",outcome="ended"}[5m])) > 0.01 * '
          'sum by (job) (rate(holdfast_lock_calls_total{operation="renew"}[5m]))', "5m", "ticket",
          "More than 1 % of the renewals of {{ $labels.job }} find their hold over",
          calls(100, 0, 80) + grows("holdfast_lock_calls_total", GATEWAY, 5, operation="renew", outcome="ended"),
          calls(1000, 0, 80) + grows("holdfast_lock_calls_total", GATEWAY, 5, operation="renew", outcome="ended"), JOB),
    Alert("HoldfastRenewalMarginsThin",
          'sum by (job) (rate(holdfast_renewal_margin_ratio_bucket{le="0.2"}[5m])) > 0.01 * '
          'sum by (job) (rate(holdfast_renewal_margin_ratio_bucket{le="+Inf"}[5m]))', "10m", "ticket",
          "More than 1 % of the renewals of {{ $labels.job }} come with less than a fifth of the TTL left",
          margins(5), margins(0), JOB),
    Alert("HoldfastGatewayDown", 'up{job=~"holdfast.*"} == 0', "1m", "page",
          "Gateway {{ $labels.instance }} does not answer Prometheus",
          gauge("up", GATEWAY, 0), gauge("up", GATEWAY, 1), GATEWAY),
    Alert("HoldfastGatewayNotReady", "holdfast_ready == 0", "2m", "page",
          "Gateway {{ $labels.instance }} runs and takes no clients",
          gauge("holdfast_ready", GATEWAY, 0), gauge("holdfast_ready", GATEWAY, 1), GATEWAY),
    Alert("HoldfastConnectionsRefused", "increase(holdfast_http_connections_refused_total[5m]) > 0", "0s", "page",
          "Gateway {{ $labels.instance }} refuses connections: it has as many as it may",
          grows("holdfast_http_connections_refused_total", GATEWAY, 1),
          gauge("holdfast_http_connections_refused_total", GATEWAY, 7), GATEWAY),
    Alert("HoldfastClusterUnreachable",
          "max by (job, cluster) (holdfast_cluster_session_proven) == 0", "30s", "page",
          "No gateway can promise anything in cluster {{ $labels.cluster }}",
          gauge("holdfast_cluster_session_proven", BOTH, 0),
          gauge("holdfast_cluster_session_proven", BOTH, 0)
          + gauge("holdfast_cluster_session_proven", {**BOTH, "instance": "g2"}, 1), CLUSTER),
    Alert("HoldfastSessionNotProven",
          "holdfast_cluster_session_proven == 0 and on (job, cluster) "
          "max by (job, cluster) (holdfast_cluster_session_proven) == 1", "1m", "page",
          "Gateway {{ $labels.instance }} cannot promise anything in cluster {{ $labels.cluster }}, and others can",
          gauge("holdfast_cluster_session_proven", BOTH, 0)
          + gauge("holdfast_cluster_session_proven", {**BOTH, "instance": "g2"}, 1),
          gauge("holdfast_cluster_session_proven", BOTH, 0), BOTH),
    Alert("HoldfastProofsAgeing",
          "max by (job, cluster) (holdfast_cluster_proof_age_seconds) > 6", "15s", "ticket",
          "A proof in cluster {{ $labels.cluster }} is older than two rounds",
          gauge("holdfast_cluster_proof_age_seconds", BOTH, 7), gauge("holdfast_cluster_proof_age_seconds", BOTH, 3),
          CLUSTER),
    Alert("HoldfastTakeoverStorm",
          "sum by (job, cluster) (increase(holdfast_groups_claimed_total[15m])) > "
          "2 * sum by (job, cluster) (holdfast_cluster_groups) and "
          "sum by (job, cluster) (increase(holdfast_groups_claimed_total[15m])) > 20", "0s", "page",
          "Lease groups of cluster {{ $labels.cluster }} change hands again and again",
          grows("holdfast_groups_claimed_total", BOTH, 20) + gauge("holdfast_cluster_groups", BOTH, 100),
          grows("holdfast_groups_claimed_total", BOTH, 5) + gauge("holdfast_cluster_groups", BOTH, 100), CLUSTER),
    Alert("HoldfastLocksLost", "sum by (job, cluster) (increase(holdfast_locks_lost_total[5m])) > 0", "0s", "page",
          "Gateways had to forget locks in cluster {{ $labels.cluster }}",
          grows("holdfast_locks_lost_total", BOTH, 3), gauge("holdfast_locks_lost_total", BOTH, 3), CLUSTER),
    Alert("HoldfastUnknownOutcomes",
          "sum by (job, cluster) (rate(holdfast_unknown_outcomes_total[5m])) > 0.1", "5m", "ticket",
          "Cluster {{ $labels.cluster }} leaves batches without a definite answer",
          grows("holdfast_unknown_outcomes_total", BOTH, 6), grows("holdfast_unknown_outcomes_total", BOTH, 1), CLUSTER),
    Alert("HoldfastSurveyFindings", "sum by (job, cluster) (increase(holdfast_survey_findings_total[15m])) > 0", "0s",
          "ticket", "What gateways know of cluster {{ $labels.cluster }} and what etcd has were not the same",
          grows("holdfast_survey_findings_total", BOTH, 1), gauge("holdfast_survey_findings_total", BOTH, 2), CLUSTER),
    Alert("HoldfastMapVersionsDiverge",
          "max by (job) (holdfast_map_version) != min by (job) (holdfast_map_version)", "2m", "page",
          "Gateways of {{ $labels.job }} run different versions of the shard map",
          gauge("holdfast_map_version", GATEWAY, 3) + gauge("holdfast_map_version", {**GATEWAY, "instance": "g2"}, 4),
          gauge("holdfast_map_version", GATEWAY, 4) + gauge("holdfast_map_version", {**GATEWAY, "instance": "g2"}, 4),
          JOB),
    Alert("HoldfastMapRefused", 'holdfast_map_problem{problem="refused"} == 1', "30s", "page",
          "Gateway {{ $labels.instance }} refuses the shard map that home has",
          gauge("holdfast_map_problem", GATEWAY, 1, problem="refused"),
          gauge("holdfast_map_problem", GATEWAY, 0, problem="refused"), {**GATEWAY, "problem": "refused"}),
    Alert("HoldfastHomeUnreachable", 'holdfast_map_problem{problem="unreachable"} == 1', "1m", "ticket",
          "Gateway {{ $labels.instance }} does not reach home and goes on with the map that it has",
          gauge("holdfast_map_problem", GATEWAY, 1, problem="unreachable"),
          gauge("holdfast_map_problem", GATEWAY, 0, problem="unreachable"), {**GATEWAY, "problem": "unreachable"}),
    Alert("HoldfastMapNotSaved", "holdfast_map_disk_problem == 1", "10m", "ticket",
          "Gateway {{ $labels.instance }} cannot keep the map on disk",
          gauge("holdfast_map_disk_problem", GATEWAY, 1), gauge("holdfast_map_disk_problem", GATEWAY, 0), GATEWAY),
    Alert("HoldfastRolloutStuck",
          "max by (job) (holdfast_map_shards_moving) > 0 and max by (job) (holdfast_map_shards_moving) >= "
          "max by (job) (holdfast_map_shards_moving offset 15m)", "15m", "ticket",
          "Shards of {{ $labels.job }} are on their way and do not get further",
          gauge("holdfast_map_shards_moving", GATEWAY, 8),
          [(series("holdfast_map_shards_moving", GATEWAY), "80-1x80")], JOB, "35m"),
    Alert("HoldfastQueueGrows", 'sum by (job, instance, cluster) (holdfast_queue_depth) > 4000', "1m", "page",
          "Requests pile up in gateway {{ $labels.instance }} before cluster {{ $labels.cluster }}",
          gauge("holdfast_queue_depth", BOTH, 5000, queue="commands"),
          gauge("holdfast_queue_depth", BOTH, 100, queue="commands"), BOTH),
    Alert("HoldfastFileDescriptorsShort", "holdfast_process_open_fds / holdfast_process_max_fds > 0.8", "5m", "ticket",
          "Gateway {{ $labels.instance }} will soon have no file descriptor for another client",
          gauge("holdfast_process_open_fds", GATEWAY, 900) + gauge("holdfast_process_max_fds", GATEWAY, 1024),
          gauge("holdfast_process_open_fds", GATEWAY, 500) + gauge("holdfast_process_max_fds", GATEWAY, 1024), GATEWAY),
    Alert("HoldfastEtcdSpaceShort",
          "etcd_mvcc_db_total_size_in_bytes / etcd_server_quota_backend_bytes > 0.8", "1m", "page",
          "etcd {{ $labels.instance }} has used four fifths of its space",
          gauge("etcd_mvcc_db_total_size_in_bytes", ETCD, 900) + gauge("etcd_server_quota_backend_bytes", ETCD, 1000),
          gauge("etcd_mvcc_db_total_size_in_bytes", ETCD, 500) + gauge("etcd_server_quota_backend_bytes", ETCD, 1000),
          ETCD),
    Alert("HoldfastEtcdSpaceRunsOut",
          "predict_linear(etcd_mvcc_db_total_size_in_bytes[6h], 4 * 86400) > etcd_server_quota_backend_bytes and "
          "etcd_mvcc_db_total_size_in_bytes > 0.3 * etcd_server_quota_backend_bytes", "30m", "ticket",
          "etcd {{ $labels.instance }} will have used up its space within four days, at the present pace",
          [(series("etcd_mvcc_db_total_size_in_bytes", ETCD), "400000+10x900")]
          + [(series("etcd_server_quota_backend_bytes", ETCD), "500000x900")],
          [(series("etcd_mvcc_db_total_size_in_bytes", ETCD), "400000x900")]
          + [(series("etcd_server_quota_backend_bytes", ETCD), "500000x900")], ETCD, "60m"),
    Alert("HoldfastEtcdNoLeader", "etcd_server_has_leader == 0", "15s", "page",
          "etcd {{ $labels.instance }} has no leader",
          gauge("etcd_server_has_leader", ETCD, 0), gauge("etcd_server_has_leader", ETCD, 1), ETCD),
]
