"""What the dashboards show. `build.py` makes the JSON of it."""

from board import Board, Panel, Row


def stat(title, about, unit, query, **more):
    return Panel(title, about, unit, [(query, "")], kind="stat", width=4, height=4, **more)


RENEW = 'operation=~"renew.*"'

OVERVIEW = Board(
    "holdfast-overview", "Holdfast / Overview",
    "For the one on call: do clients get answers, are promises proven, and which part is the exception.",
    [
        Row("Now", [
            stat("Gateways ready", "Gateways that take clients. Fewer than were started: one is down, starting or "
                 "draining.", "none", "sum(holdfast_ready{$M})", bad_below=1),
            stat("Gateways not answering", "Targets of the job that Prometheus cannot scrape.", "none",
                 'sum(1 - up{$M})', bad_above=1),
            stat("Sessions not proven", "Pairs of a gateway and a cluster in which nothing can be promised now.",
                 "none", "sum(1 - holdfast_cluster_session_proven{$M})", bad_above=1),
            stat("Locks held", "By all gateways, in all clusters.", "short", "sum(holdfast_cluster_locks{$M})"),
            stat("Calls without an answer", "Part of the calls that were answered 503, which says nothing about the "
                 "lock. The objective allows 0.1 %.", "percentunit",
                 'sum(rate(holdfast_lock_calls_total{$M,outcome=~"$UNKNOWN"}[$__rate_interval])) '
                 "/ sum(rate(holdfast_lock_calls_total{$M}[$__rate_interval]))", bad_above=0.001),
            stat("Renewal p99", "99 of 100 requests to renew were answered within this.", "s",
                 "histogram_quantile(0.99, sum by (le) (rate(holdfast_http_request_duration_seconds_bucket"
                 "{$M," + RENEW + "}[$__rate_interval])))", bad_above=0.05),
        ]),
        Row("What clients get", [
            Panel("Calls", "Calls about single locks, alone or in batches. A fleet that only renews is a flat line.",
                  "ops", [("sum by (operation) (rate(holdfast_lock_calls_total{$M}[$__rate_interval]))",
                           "{{operation}}")]),
            Panel("Calls without an answer, by code", "503s: the client retries until its own deadline. "
                  "cluster_unavailable points to etcd, owner_unreachable to a gateway that is gone.", "ops",
                  [('sum by (outcome) (rate(holdfast_lock_calls_total{$M,outcome=~"$UNKNOWN"}[$__rate_interval])) > 0',
                    "{{outcome}}")], stacked=True, without_data="None"),
            Panel("Holds that were over when renewed", "Renewals answered 409: the holder came too late, or lost the "
                  "lock. A burst after a fault means that promises ran out during it.", "ops",
                  [('sum by (instance) (rate(holdfast_lock_calls_total{$M,operation="renew",outcome="ended"}'
                    "[$__rate_interval]))", "{{instance}}")]),
            Panel("Latency p99", "By operation, as the gateway measures it. A renewal needs no etcd, an acquire one "
                  "transaction.", "s",
                  [("histogram_quantile(0.99, sum by (le, operation) (rate(holdfast_http_request_duration_seconds_bucket"
                    '{$M,operation=~"(acquire|renew|release)(_batch)?"}[$__rate_interval])))', "{{operation}}")]),
            Panel("Requests per gateway", "How the load is spread. One gateway's line that ends while the others rise: "
                  "it is gone, its clients went over.", "reqps",
                  [("sum by (instance) (rate(holdfast_http_requests_total{$M}[$__rate_interval]))", "{{instance}}")],
                  stacked=True),
            Panel("Client connections", "Open connections per gateway, and those refused per second because there are too "
                  "many.", "short",
                  [("sum by (instance) (holdfast_http_connections{$M})", "{{instance}}"),
                   ("sum(rate(holdfast_http_connections_refused_total{$M}[$__rate_interval]))", "refused per second")],
                  stacked=True),
            Panel("Pressure", "How far each gateway stretches renewAfterMs because it does not keep up: at 100 % "
                  "clients are told to renew after half their TTL.", "percentunit",
                  [("max by (instance) (holdfast_pressure_ratio{$M})", "{{instance}}")]),
        ]),
        Row("Promises", [
            Panel("Sessions proven, by cluster", "Gateways whose session in the cluster is proven. A cluster's line at "
                  "0: nothing is promised there. All lines lower by one: a gateway is gone.", "none",
                  [("sum by (cluster) (holdfast_cluster_session_proven{$M})", "{{cluster}}")]),
            Panel("Age of the oldest proof, by cluster", "A round every third of the session's TTL (9 s by default) makes "
                  "it a saw between 0 and 3 s. At the TTL promises stop.", "s",
                  [("max by (cluster) (holdfast_cluster_proof_age_seconds{$M})", "{{cluster}}")], top=10, bad_above=8),
            Panel("Locks by gateway", "Who serves the locks. After a gateway's death its locks appear at the others "
                  "within seconds.", "short",
                  [("sum by (instance) (holdfast_cluster_locks{$M})", "{{instance}}")], stacked=True),
            Panel("Groups taken over", "Lease groups that a gateway took over from a session that is gone: a burst per "
                  "death, and nothing else.", "ops",
                  [("sum by (instance) (rate(holdfast_groups_claimed_total{$M}[$__rate_interval]))", "{{instance}}")]),
            Panel("Alerts firing", "The rules of this folder, as Prometheus sees them.", "none",
                  [('count by (alertname) (ALERTS{alertname=~"Holdfast.+",alertstate="firing"}) '
                    'or count by (alertstate) (ALERTS{alertname=~"Holdfast.+",alertstate="pending"})',
                    "{{alertname}}{{alertstate}}")], stacked=True, without_data="No alert"),
            Panel("Phase of each gateway", "Gateways by phase: serving, draining, finishing, done.", "none",
                  [("sum by (phase) (holdfast_phase{$M})", "{{phase}}")], stacked=True),
        ]),
        Row("What it costs", [
            Panel("Processor", "Cores in use per gateway.", "short",
                  [("sum by (instance) (rate(holdfast_process_cpu_seconds_total{$M}[$__rate_interval]))",
                    "{{instance}}")]),
            Panel("Memory", "Resident memory per gateway; a million locks take about half a gigabyte.", "bytes",
                  [("sum by (instance) (holdfast_process_resident_memory_bytes{$M})", "{{instance}}")]),
            Panel("File descriptors used", "Part of those that the process may have; every connection is one.",
                  "percentunit", [("holdfast_process_open_fds{$M} / holdfast_process_max_fds{$M}", "{{instance}}")], top=1,
                  bad_above=0.8),
        ]),
    ])

LOCKS = Board(
    "holdfast-locks", "Holdfast / Locks",
    "For those who own fleets of workers: how acquires, renewals and releases go, and how much reserve holders keep.",
    [
        Row("Holds", [
            Panel("Locks held, by cluster", "A lock's shard decides its cluster.", "short",
                  [("sum by (cluster) (holdfast_cluster_locks{$M})", "{{cluster}}")], stacked=True),
            Panel("Granted and ended", "Holds that began, and holds that ended because nobody renewed them. A fleet that "
                  "releases what it takes has no expiries.", "ops",
                  [("sum(rate(holdfast_locks_granted_total{$M}[$__rate_interval]))", "granted"),
                   ("sum(rate(holdfast_locks_expired_total{$M}[$__rate_interval]))", "expired"),
                   ('sum(rate(holdfast_lock_calls_total{$M,operation="release",outcome="ok"}[$__rate_interval]))',
                    "released")]),
            Panel("Locks lost by a gateway", "What a gateway had to forget because its session or a lease was not its own "
                  "any more. Another gateway may serve them: see the renewals that found their hold over.", "ops",
                  [("sum by (instance) (rate(holdfast_locks_lost_total{$M}[$__rate_interval]))", "{{instance}}")]),
        ]),
        Row("Renewals", [
            Panel("Renewals by outcome", "ok, ended (409), and the codes of answers that say nothing.", "ops",
                  [('sum by (outcome) (rate(holdfast_lock_calls_total{$M,operation="renew"}[$__rate_interval])) > 0',
                    "{{outcome}}")], stacked=True),
            Panel("TTL left at renewal", "What part of the TTL was left when a hold was renewed. A client that renews "
                  "after a third leaves two thirds. Near zero, the next slow answer loses the lock.", "percentunit",
                  [("histogram_quantile(0.01, sum by (le) (rate(holdfast_renewal_margin_ratio_bucket{$M}"
                    "[$__rate_interval])))", "1 % have less than"),
                   ("histogram_quantile(0.5, sum by (le) (rate(holdfast_renewal_margin_ratio_bucket{$M}"
                    "[$__rate_interval])))", "half have less than")], top=1, bad_below=0.2),
            Panel("Renewal latency", "Requests to renew, single and in batches.", "s",
                  [(f"histogram_quantile({quantile}, sum by (le) (rate(holdfast_http_request_duration_seconds_bucket"
                    "{$M," + RENEW + "}[$__rate_interval])))", name)
                   for quantile, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))], bad_above=0.05),
        ]),
        Row("Acquires and releases", [
            Panel("Acquires by outcome", "refused: someone else holds the name, which is what a lock is for.", "ops",
                  [('sum by (outcome) (rate(holdfast_lock_calls_total{$M,operation="acquire"}[$__rate_interval])) > 0',
                    "{{outcome}}")], stacked=True),
            Panel("Acquire latency", "One transaction in etcd, shared with other acquires. Those that wait in line wait here too.", "s",
                  [(f"histogram_quantile({quantile}, sum by (le) (rate(holdfast_http_request_duration_seconds_bucket"
                    '{$M,operation=~"acquire.*"}[$__rate_interval])))', name)
                   for quantile, name in ((0.5, "p50"), (0.99, "p99"))]),
            Panel("Requests that are wrong", "4xx: requests that must be changed, by code.", "reqps",
                  [('sum by (outcome) (rate(holdfast_http_requests_total{$M,outcome!~"ok|refused|ended|$UNKNOWN"}'
                    "[$__rate_interval])) > 0 or sum(rate(holdfast_http_requests_total{$M,outcome!~"
                    '"ok|refused|ended|$UNKNOWN"}[$__rate_interval]))', "{{outcome}}")], stacked=True),
        ]),
        Row("Waiting in line", [
            Panel("Requests that wait", "Requests with waitMs that stand in line, by gateway. A line that only grows: the "
                  "holder keeps the lock for longer than it takes others to come.", "short",
                  [("sum by (instance) (holdfast_waiting_requests{$M})", "{{instance}}")], stacked=True),
            Panel("Waits that are over", "granted: the lock came. timed_out: it did not, within waitMs. abandoned: the client "
                  "went away before.", "ops",
                  [("sum by (outcome) (rate(holdfast_waits_total{$M}[$__rate_interval]))", "{{outcome}}")], stacked=True),
            Panel("How long they wait", "Those who got the lock.", "s",
                  [(f"histogram_quantile({quantile}, sum by (le) (rate(holdfast_wait_duration_seconds_bucket{{$M}}"
                    "[$__rate_interval])))", name) for quantile, name in ((0.5, "p50"), (0.99, "p99"))]),
            Panel("Attempts per grant", "Attempts of those at the heads of lines over locks that they got. About one; more: "
                  "hints are lost, or the cluster refuses writes.", "none",
                  [('sum(rate(holdfast_wait_attempts_total{$M}[$__rate_interval])) / sum(rate(holdfast_waits_total'
                    '{$M,outcome="granted"}[$__rate_interval]))', "attempts")]),
            Panel("Names with a line", "For how many names requests wait.", "short",
                  [("sum by (cluster) (holdfast_waiting_names{$M})", "{{cluster}}")], stacked=True),
        ]),
    ])

SHARDS = Board(
    "holdfast-shards", "Holdfast / Shards and etcd",
    "Each cluster: proofs, what the gateways ask of it, what waits for it, and how its etcd does.",
    [
        Row("Proofs and groups", [
            Panel("Sessions proven", "1 while the gateway can promise in that cluster.", "none",
                  [("holdfast_cluster_session_proven{$M}", "{{cluster}} {{instance}}")], top=1),
            Panel("Age of the last proof", "A saw between 0 and 3 s; at 9 s (the session's TTL) promises stop.", "s",
                  [("max by (cluster) (holdfast_cluster_proof_age_seconds{$M})", "{{cluster}}")], top=10, bad_above=8),
            Panel("Lease groups", "Up to 1,000 locks share one; a group costs a keepalive per quarter of an hour.", "short",
                  [("sum by (cluster) (holdfast_cluster_groups{$M})", "{{cluster}}")], stacked=True),
            Panel("Proofs and sessions that ended", "Promises stopped because nothing was proven in time (voided), or "
                  "because etcd had ended the session (lost).", "ops",
                  [("sum by (cluster) (rate(holdfast_proofs_voided_total{$M}[$__rate_interval]))", "voided {{cluster}}"),
                   ("sum by (cluster) (rate(holdfast_sessions_lost_total{$M}[$__rate_interval]))", "lost {{cluster}}")]),
            Panel("Groups claimed and lost", "Claimed: taken over from a session that is gone. Lost: not as this gateway "
                  "wrote it.", "ops",
                  [("sum by (cluster) (rate(holdfast_groups_claimed_total{$M}[$__rate_interval]))", "claimed {{cluster}}"),
                   ("sum by (cluster) (rate(holdfast_groups_lost_total{$M}[$__rate_interval]))", "lost {{cluster}}")]),
            Panel("Doubts", "Batches with an unknown outcome, the fences that settled them, locks looked up by name, and "
                  "differences found between tables and etcd.", "ops",
                  [("sum(rate(holdfast_unknown_outcomes_total{$M}[$__rate_interval]))", "unknown outcomes"),
                   ("sum(rate(holdfast_fences_total{$M}[$__rate_interval]))", "fences"),
                   ("sum(rate(holdfast_cold_lookups_total{$M}[$__rate_interval]))", "look-ups"),
                   ("sum(rate(holdfast_survey_findings_total{$M}[$__rate_interval]))", "findings")]),
        ]),
        Row("What the gateways ask of etcd", [
            Panel("Requests, by what for", "A fleet that only renews costs rounds and keepalives.", "reqps",
                  [("sum by (call) (rate(holdfast_etcd_requests_total{$M}[$__rate_interval])) > 0", "{{call}}")],
                  stacked=True),
            Panel("Requests per renewal", "etcd never sees a renewal: the more are renewed, the nearer to zero.", "none",
                  [("sum(rate(holdfast_etcd_requests_total{$M}[$__rate_interval])) / sum(rate("
                    'holdfast_lock_calls_total{$M,operation="renew"}[$__rate_interval]))', "requests per renewal")]),
            Panel("Latency p99", "From a request to etcd to its answer, or to where it was given up.", "s",
                  [("histogram_quantile(0.99, sum by (le, cluster) (rate(holdfast_etcd_request_duration_seconds_bucket"
                    "{$M}[$__rate_interval])))", "{{cluster}}")]),
            Panel("Failures", "Refused: certainly not done. Unknown: perhaps done; fenced and read again.", "reqps",
                  [("sum by (cluster, outcome) (rate(holdfast_etcd_request_failures_total{$M}[$__rate_interval]))",
                    "{{outcome}} {{cluster}}")], stacked=True),
            Panel("Writes per batch", "The mean. More under load, which is what makes etcd reach further.", "none",
                  [("sum by (cluster) (rate(holdfast_batch_writes_sum{$M}[$__rate_interval])) / "
                    "sum by (cluster) (rate(holdfast_batch_writes_count{$M}[$__rate_interval]))", "{{cluster}}")]),
            Panel("What waits", "In the queues, and requests without an answer. Past 65,536 commands new requests are "
                  "answered `overloaded`.", "short",
                  [("sum by (queue) (holdfast_queue_depth{$M})", "{{queue}}"),
                   ("sum(holdfast_requests_open{$M})", "requests open"),
                   ("sum(holdfast_etcd_requests_in_flight{$M})", "etcd requests in flight")]),
            Panel("Requests passed on to the owner", "known: the owner stood in the table. looked_up: after a look-up in "
                  "etcd. Many with several gateways behind one address.", "reqps",
                  [("sum by (route) (rate(holdfast_forwards_total{$M}[$__rate_interval]))", "{{route}}")]),
        ]),
        Row("etcd itself", [
            Panel("Members with a leader", "By member. Missing: it cannot be scraped.", "none",
                  [('sum by (instance) (etcd_server_has_leader{job=~"$etcd_job"})', "{{instance}}")], stacked=True),
            Panel("Leader changes", "Each is a short pause of the cluster.", "ops",
                  [('sum by (instance) (rate(etcd_server_leader_changes_seen_total{job=~"$etcd_job"}[$__rate_interval]))',
                    "{{instance}}")]),
            Panel("Space used", "Part of the quota. When it is used up acquires are answered 503; renewals go on.",
                  "percentunit",
                  [('etcd_mvcc_db_total_size_in_bytes{job=~"$etcd_job"} / etcd_server_quota_backend_bytes'
                    '{job=~"$etcd_job"}', "{{instance}}")], top=1, bad_above=0.8),
            Panel("Disk p99", "fsync of the log, and commit of the database. Above 100 ms leaders change.", "s",
                  [("histogram_quantile(0.99, sum by (le, instance) (rate(etcd_disk_wal_fsync_duration_seconds_bucket"
                    '{job=~"$etcd_job"}[$__rate_interval])))', "fsync {{instance}}"),
                   ("histogram_quantile(0.99, sum by (le, instance) (rate(etcd_disk_backend_commit_duration_seconds_bucket"
                    '{job=~"$etcd_job"}[$__rate_interval])))', "commit {{instance}}")], bad_above=0.1),
            Panel("Proposals", "Committed writes, and those that failed.", "ops",
                  [('sum by (instance) (rate(etcd_server_proposals_committed_total{job=~"$etcd_job"}[$__rate_interval]))',
                    "{{instance}}"),
                   ('sum(rate(etcd_server_proposals_failed_total{job=~"$etcd_job"}[$__rate_interval]))', "failed")]),
            Panel("Messages received", "Unary calls and messages on streams.", "reqps",
                  [('sum by (instance) (rate(grpc_server_msg_received_total{job=~"$etcd_job"}[$__rate_interval]))',
                    "{{instance}}")]),
        ]),
    ],
    [("etcd_job", "etcd", "label_values(etcd_server_has_leader, job)")])

ROLLOUTS = Board(
    "holdfast-rollouts", "Holdfast / Rollouts",
    "While a map changes: do all gateways run the same map, what do the shards' guards say, what is refused.",
    [
        Row("The map", [
            Panel("Map version, by gateway", "All lines meet within seconds of a change. One that stays behind refuses or "
                  "does not see the new map.", "none", [("holdfast_map_version{$M}", "{{instance}}")]),
            Panel("Looks at home that brought no map", "unreachable: home does not answer. refused: what it has must not be "
                  "run. disk: the copy for a start without home is old.", "none",
                  [("sum by (problem) (holdfast_map_problem{$M})", "{{problem}}"),
                   ("sum(holdfast_map_disk_problem{$M})", "disk"),
                   ("sum(1 - holdfast_map_home_seen{$M})", "home not seen yet")], stacked=True, bad_above=1),
            Panel("Shards by cluster", "As the map has it.", "none",
                  [("max by (cluster) (holdfast_map_shards{$M})", "{{cluster}}")], stacked=True),
            Panel("Shards on their way", "Shards that the map has between two clusters. It falls to 0; a level line is a "
                  "rollout that is stuck.", "none", [("max(holdfast_map_shards_moving{$M})", "moving")]),
            Panel("Guards by state", "Guards that are not active, as each gateway has last read them. It does not read again "
                  "where it has nothing left, so leaving and moved together are the shards that have gone from there. "
                  "unread: not needed so far.", "none", [('sum by (state) (holdfast_shard_guards{$M,state!="active"})', "{{state}}")]),
            Panel("Locks by cluster", "What a rollout moves.", "short",
                  [("sum by (cluster) (holdfast_cluster_locks{$M})", "{{cluster}}")], stacked=True),
        ]),
        Row("What moves", [
            Panel("Groups that move", "Lease groups that left a cluster per second, by cluster, and moves that were undone "
                  "and begin anew. Undone ones that go on: the goal cannot be written, or the guards were changed.", "ops",
                  [('sum by (cluster) (rate(holdfast_group_moves_total{$M,step="done"}[$__rate_interval]))',
                    "out of {{cluster}}"),
                   ('sum(rate(holdfast_group_moves_total{$M,step="undone"}[$__rate_interval]))', "undone"),
                   ("sum(rate(holdfast_guards_written_total{$M}[$__rate_interval]))", "guards written for the driver")],
                  stacked=True),
            Panel("Requests that went on in another cluster", "Names are looked for where their shard comes from, and asked "
                  "for where it goes. Each costs a look-up in the other cluster.", "reqps",
                  [("sum by (cluster) (rate(holdfast_onward_requests_total{$M}[$__rate_interval]))",
                    "from {{cluster}}")], stacked=True),
        ]),
        Row("What it does to clients", [
            Panel("Calls refused for now", "503 by code. shard_moving is what a rollout costs acquires; renewals have none.",
                  "ops", [('sum by (operation, outcome) (rate(holdfast_lock_calls_total{$M,outcome=~"$UNKNOWN"}'
                           "[$__rate_interval])) > 0", "{{operation}} {{outcome}}")], stacked=True,
                  without_data="None"),
            Panel("Renewals", "A rollout must not show here.", "ops",
                  [('sum by (instance) (rate(holdfast_lock_calls_total{$M,operation="renew",outcome="ok"}'
                    "[$__rate_interval]))", "{{instance}}")], stacked=True),
            Panel("Requests to etcd, by cluster", "Both clusters of a move work harder.", "reqps",
                  [("sum by (cluster) (rate(holdfast_etcd_requests_total{$M}[$__rate_interval]))", "{{cluster}}")]),
        ]),
    ])

GENERATOR = 'job=~"$loadgen_job"'

LOAD = Board(
    "holdfast-load", "Holdfast / Load tests",
    "A run of loadgen beside the gateways: what the generator saw, and what it cost them.",
    [
        Row("The generator", [
            Panel("Locks", "The run holds as many as it wants, or the gateways do not keep up.", "short",
                  [("sum(holdfast_loadgen_locks_wanted{%s})" % GENERATOR, "wanted"),
                   ("sum(holdfast_loadgen_locks_held{%s})" % GENERATOR, "held"),
                   ("sum(holdfast_cluster_locks{$M})", "held, say the gateways")]),
            Panel("Renewals", "Sent by the generator, and counted by the gateways. A gap is lost on the way.", "ops",
                  [('sum(rate(holdfast_loadgen_calls_total{%s,operation="renew",outcome="renewed"}[$__rate_interval]))'
                    % GENERATOR, "generator"),
                   ('sum(rate(holdfast_lock_calls_total{$M,operation="renew",outcome="ok"}[$__rate_interval]))',
                    "gateways")]),
            Panel("Renewal p99", "The generator counts from when a renewal was due, retries included; the gateway from the "
                  "request's head. A gap is the network, the generator itself, or a fault.", "s",
                  [("histogram_quantile(0.99, sum by (le) (rate(holdfast_loadgen_renewal_duration_seconds_bucket{%s}"
                    "[$__rate_interval])))" % GENERATOR, "generator"),
                   ("histogram_quantile(0.99, sum by (le) (rate(holdfast_http_request_duration_seconds_bucket{$M,"
                    + RENEW + "}[$__rate_interval])))", "gateways")]),
            Panel("Answers other than success", "By operation and outcome.", "ops",
                  [('sum by (operation, outcome) (rate(holdfast_loadgen_calls_total{%s,outcome!~'
                    '"renewed|granted|released|already_held"}[$__rate_interval])) > 0 or sum(rate('
                    'holdfast_loadgen_unknown_total{%s}[$__rate_interval]))' % (GENERATOR, GENERATOR),
                    "{{operation}} {{outcome}}")], stacked=True),
            Panel("Broken promises", "Locks lost although they were renewed in time, and answers that the contract forbids. "
                  "Locks are lost in an outage that lasts longer than their TTL; a finding is a bug.", "ops",
                  [("sum(rate(holdfast_loadgen_lost_locks_total{%s}[$__rate_interval]))" % GENERATOR, "lost locks"),
                   ("sum(rate(holdfast_loadgen_findings_total{%s}[$__rate_interval]))" % GENERATOR, "findings")]),
            Panel("Does the generator keep up?", "Renewals that it left out because it was a whole interval late, tries that "
                  "it repeated, connections that it opened or could not open.", "ops",
                  [("sum(rate(holdfast_loadgen_missed_renewals_total{%s}[$__rate_interval]))" % GENERATOR, "missed"),
                   ("sum(rate(holdfast_loadgen_retries_total{%s}[$__rate_interval]))" % GENERATOR, "retries"),
                   ("sum(rate(holdfast_loadgen_connects_total{%s}[$__rate_interval]))" % GENERATOR, "connects"),
                   ("sum(rate(holdfast_loadgen_connect_failures_total{%s}[$__rate_interval]))" % GENERATOR,
                    "failed connects")]),
        ]),
        Row("What it costs the gateways", [
            Panel("Processor time per request", "Of all gateways together.", "s",
                  [("sum(rate(holdfast_process_cpu_seconds_total{$M}[$__rate_interval])) / "
                    "sum(rate(holdfast_http_requests_total{$M}[$__rate_interval]))", "gateways"),
                   ("sum(rate(holdfast_process_cpu_seconds_total{$M}[$__rate_interval])) / "
                    "sum(rate(holdfast_loadgen_requests_total{%s}[$__rate_interval]))" % GENERATOR,
                    "per request sent")]),
            Panel("Memory", "Resident memory per gateway.", "bytes",
                  [("sum by (instance) (holdfast_process_resident_memory_bytes{$M})", "{{instance}}")]),
            Panel("Requests to etcd", "Rounds and keepalives while a fleet only renews.", "reqps",
                  [("sum by (call) (rate(holdfast_etcd_requests_total{$M}[$__rate_interval])) > 0", "{{call}}")],
                  stacked=True),
        ]),
    ],
    [("loadgen_job", "loadgen", "label_values(holdfast_loadgen_locks_wanted, job)")])

BOARDS = [OVERVIEW, LOCKS, SHARDS, ROLLOUTS, LOAD]
