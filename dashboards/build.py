#!/usr/bin/env python3
"""Writes Grafana's and Prometheus's files from boards.py and alerts.py.

    dashboards/build.py                     writes grafana/*.json, rules/*.yml and rules/tests/alerts.yml
    dashboards/build.py --check             exits with 1 when a file is not what would be written
    dashboards/build.py --hurry FILE        writes all rules there, each `for:` at most two seconds, for tests with
                                            real faults; the queries are the same
"""

import json
import pathlib
import re
import sys

from alerts import ALERTS, RECORDS
from board import to_json
from boards import BOARDS

HERE = pathlib.Path(__file__).resolve().parent
DO_NOT_EDIT = "# Written by dashboards/build.py; change dashboards/alerts.py instead.\n"


def files():
    for board in BOARDS:
        yield HERE / f"grafana/{board.uid}.json", json.dumps(to_json(board, BOARDS), indent=1) + "\n"
    yield HERE / "rules/recording.yml", DO_NOT_EDIT + records_yaml()
    yield HERE / "rules/alerts.yml", DO_NOT_EDIT + alerts_yaml()
    yield HERE / "rules/tests/alerts.yml", DO_NOT_EDIT + tests_yaml()


def text(value):
    return json.dumps(value, ensure_ascii=False)


def records_yaml():
    lines = ["groups:", "  - name: holdfast-recording", "    rules:"]
    for record in RECORDS:
        lines += [f"      - record: {record.name}", f"        expr: {text(record.query)}"]
    return "\n".join(lines) + "\n"


def alerts_yaml(longest_wait=None):
    lines = ["groups:", "  - name: holdfast-alerts", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {text(alert.query)}",
            f"        for: {alert.wait if longest_wait is None or alert.wait == '0s' else longest_wait}",
            f"        labels: {{severity: {alert.severity}}}",
            "        annotations:",
            f"          summary: {text(alert.summary)}",
            f"          runbook: {text(alert.section)}",
        ]
    return "\n".join(lines) + "\n"


def tests_yaml():
    lines = ["rule_files: [../recording.yml, ../alerts.yml]", "evaluation_interval: 30s", "tests:"]
    for alert in ALERTS:
        for name, given, fires in (("fires", alert.fires, True), ("stays quiet", alert.quiet, False)):
            lines += [f"  - name: {alert.name} {name}", "    interval: 30s", "    input_series:"]
            for series, values in given:
                lines += [f"      - series: {text(series)}", f"        values: {text(values)}"]
            lines += ["    alert_rule_test:", f"      - eval_time: {alert.at}", f"        alertname: {alert.name}"]
            if fires:
                labels = {**alert.labels, "severity": alert.severity}
                summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels[label[1]], alert.summary)
                lines += ["        exp_alerts:", f"          - exp_labels: {text(labels)}",
                          f"            exp_annotations: {text({'summary': summary, 'runbook': alert.section})}"]
            else:
                lines.append("        exp_alerts: []")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--hurry"]:
        alerts = alerts_yaml(longest_wait="2s").removeprefix("groups:\n")
        pathlib.Path(sys.argv[2]).write_text(records_yaml() + alerts)
        return
    stale = []
    for path, content in files():
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != content:
                stale.append(str(path.relative_to(HERE)))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    if stale:
        sys.exit(f"build: not up to date, run dashboards/build.py: {', '.join(stale)}")


if __name__ == "__main__":
    main()
