#!/usr/bin/env python3
"""Checks dashboards and rules without a running Prometheus: files up to date, names known, runbooks there, the rules
that keep dashboards usable. With `.tools/prometheus` also what promtool says of the rules, and their unit tests.

    dashboards/check.py [--no-promtool]
"""

import pathlib
import re
import subprocess
import sys

from alerts import ALERTS, RECORDS
from board import COLUMNS, expression, places, to_json
from boards import BOARDS
import build

HERE = build.HERE
ROOT = HERE.parent
UNITS = {"none", "short", "s", "bytes", "ops", "reqps", "percentunit"}

# Metrics of etcd and of Prometheus itself that queries may name.
FOREIGN = {
    "up", "ALERTS", "etcd_server_has_leader", "etcd_server_leader_changes_seen_total",
    "etcd_mvcc_db_total_size_in_bytes", "etcd_server_quota_backend_bytes", "etcd_disk_wal_fsync_duration_seconds",
    "etcd_disk_backend_commit_duration_seconds", "etcd_server_proposals_committed_total",
    "etcd_server_proposals_failed_total", "grpc_server_msg_received_total",
}

WITHOUT_A_PANEL = {
    "holdfast_reload_failing": "says whether a changed file was refused; the log says why",
    "holdfast_reloads_total": "counts the same",
    "holdfast_tls_handshakes_failed_total": "scanners knock on every port; of use when a client cannot connect",
    "holdfast_process_tasks": "what it shows of clients, their connections show too; `make soak` compares it",
    "holdfast_build_info": "gives the variables of the dashboards and their annotation of versions",
}


def documented():
    """Every metric of docs/metrics.md, with its type."""
    rows = re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), re.M)
    return dict(rows)


def names_in(query):
    """The metrics that a query names, without the suffixes of histograms."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]', "", query)
    bare = re.sub(r"\b(by|on|unless on|ignoring)\s*\([^)]*\)", "", bare)
    found = set(re.findall(r"\b(?:holdfast|etcd|grpc|process|go|job|job_\w+)[\w:]*_\w+|\bup\b|\bALERTS\b", bare))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def dashboards():
    for board in BOARDS:
        json = to_json(board, BOARDS)
        if json["editable"] or not json["links"] or not json["annotations"]["list"]:
            yield f"{board.uid}: must be uneditable, with links and annotations"
        variables = {one["name"] for one in json["templating"]["list"]}
        if not {"datasource", "job", "instance"} <= variables:
            yield f"{board.uid}: lacks a variable"
        for panel in board.panels():
            yield from (f"{board.uid}, {panel.title}: {problem}" for problem in panel_problems(panel, variables))
        for item, (x, _, w, _) in places(board):
            if x + w > COLUMNS:
                yield f"{board.uid}: {item.title} is wider than the grid"
    uids = [board.uid for board in BOARDS]
    if len(set(uids)) < len(uids):
        yield "two dashboards have one uid"


def panel_problems(panel, variables):
    if len(panel.about) < 15 or not panel.about.endswith("."):
        yield "has no description that is a sentence"
    if panel.unit not in UNITS:
        yield f"has the unknown unit {panel.unit}"
    for query, _ in panel.queries:
        full = expression(query)
        for name, _ in re.findall(r"\b((?:holdfast|etcd|grpc)_\w+)(?!\{)(?=[\s)\[]|$)()", full):
            yield f"{name} has no matchers"
        for selector in re.findall(r"\b((?:holdfast|etcd|grpc)_\w+\{[^}]*\})", full):
            if "job=~" not in selector:
                yield f"{selector} does not choose a job"
        for window in re.findall(r"\[([^]]+)\]", full):
            if window != "$__rate_interval":
                yield f"a rate over [{window}] instead of $__rate_interval"
        if "vector(" in full:
            yield "makes up data"
        for name in re.findall(r"\$(\w+)", full):
            if name not in variables | {"__rate_interval"}:
                yield f"uses the unknown variable ${name}"


def names():
    known = documented()
    queries = [query for board in BOARDS for panel in board.panels() for query, _ in panel.queries]
    in_panels = set().union(*map(names_in, queries))
    rules = set().union(*(names_in(rule.query) for rule in [*ALERTS, *RECORDS]))
    recorded = {record.name for record in RECORDS}
    for name in sorted((in_panels | rules) - known.keys() - FOREIGN - recorded):
        yield f"a query names {name}, which docs/metrics.md does not"
    for name in sorted(known.keys() - in_panels - WITHOUT_A_PANEL.keys()):
        yield f"no panel shows {name}; say why in WITHOUT_A_PANEL"


def runbooks():
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.M)
    if sections != [alert.name for alert in ALERTS]:
        yield "docs/runbooks.md has not one section per alert, in the same order"


def stale():
    for path, content in build.files():
        if not path.exists() or path.read_text() != content:
            yield f"{path.relative_to(ROOT)} is not up to date: run dashboards/build.py"


def promtool():
    tool = ROOT / ".tools/prometheus/bin/promtool"
    for command in (["check", "rules", "recording.yml", "alerts.yml"], ["test", "rules", "tests/alerts.yml"]):
        done = subprocess.run([tool, *command], cwd=HERE / "rules", capture_output=True, text=True)
        if done.returncode != 0:
            yield f"promtool {' '.join(command)}:\n{done.stdout}{done.stderr}"


def main():
    checks = [stale, dashboards, names, runbooks]
    if sys.argv[1:] != ["--no-promtool"]:
        checks.append(promtool)
    problems = [problem for check in checks for problem in check()]
    for problem in problems:
        print(f"check-dashboards: {problem}")
    if problems:
        sys.exit(1)
    panels = sum(len(board.panels()) for board in BOARDS)
    print(f"check-dashboards: {len(BOARDS)} dashboards with {panels} panels, {len(ALERTS)} alerts, {len(RECORDS)} "
          "recording rules are as they should be")


if __name__ == "__main__":
    main()
