"""Dashboards and panels as values, and as Grafana's classic JSON."""

from dataclasses import dataclass, field

COLUMNS = 24  # of Grafana's grid

# The series of the gateways that are chosen above the dashboard. In queries: `{$M}`, `{$M,cluster="a"}`.
MATCHERS = 'job=~"$job",instance=~"$instance"'

# 503: an answer that says nothing about the lock. docs/metrics.md lists the codes.
UNKNOWN = "cluster_unavailable|owner_unreachable|outcome_unknown|shard_moving|draining|overloaded"


@dataclass
class Panel:
    title: str
    about: str  # what it shows, and what is good or bad about it
    unit: str  # one of Grafana's
    queries: list  # (PromQL, legend)
    kind: str = "timeseries"  # or "stat"
    width: int = 8
    height: int = 7
    stacked: bool = False
    top: float = None  # the axis reaches at least so far
    bad_above: float = None  # turns red there
    bad_below: float = None
    without_data: str = None  # what it says then, when that is good news


@dataclass
class Row:
    title: str
    panels: list


@dataclass
class Board:
    uid: str
    title: str
    about: str
    rows: list
    variables: list = field(default_factory=list)  # (name, label, query) beside the usual ones

    def panels(self):
        return [panel for row in self.rows for panel in row.panels]


def expression(query):
    return query.replace("$M", MATCHERS).replace("$UNKNOWN", UNKNOWN)


def places(board):
    """Each row and panel with its (x, y, w, h), from left to right and from top to bottom."""
    y = 0
    for row in board.rows:
        yield row, (0, y, COLUMNS, 1)
        y, x, height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                y, x, height = y + height, 0, 0
            yield panel, (x, y, panel.width, panel.height)
            x, height = x + panel.width, max(height, panel.height)
        y += height


def to_json(board, boards):
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "tags": ["holdfast"],
        "editable": False,
        "graphTooltip": 1,  # one crosshair for all panels
        "schemaVersion": 38,
        "version": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {"type": "link", "title": other.title, "url": f"/d/{other.uid}", "keepTime": True,
             "includeVars": True, "targetBlank": False}
            for other in boards if other is not board
        ],
        "annotations": {"list": [annotation(*one) for one in ANNOTATIONS]},
        "templating": {"list": [datasource(), *(variable(*one) for one in [*VARIABLES, *board.variables])]},
        "panels": [item_json(number, item, place) for number, (item, place) in enumerate(places(board), 1)],
    }


VARIABLES = [
    ("job", "Job", "label_values(holdfast_build_info, job)"),
    ("instance", "Gateway", 'label_values(holdfast_build_info{job=~"$job"}, instance)'),
]

ANNOTATIONS = [
    ("A gateway started", "blue", "resets(holdfast_process_cpu_seconds_total{$M}[1m]) > 0", "{{instance}}"),
    ("A new version", "purple",
     "count by (job, version) (holdfast_build_info{$M}) unless count by (job, version) "
     "(holdfast_build_info{$M} offset 2m)", "{{version}}"),
    ("The map changed", "orange", "changes(holdfast_map_version{$M}[1m]) > 0", "{{instance}}"),
]

PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}


def datasource():
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
            "current": {}, "hide": 0, "refresh": 1}


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": PROMETHEUS,
            "query": {"query": query, "refId": name}, "definition": query, "refresh": 2, "sort": 1,
            "multi": True, "includeAll": True, "allValue": ".+", "current": {"text": "All", "value": "$__all"}}


def annotation(name, color, query, text):
    return {"name": name, "datasource": PROMETHEUS, "enable": True, "iconColor": color,
            "expr": expression(query), "step": "15s", "titleFormat": name, "textFormat": text}


def item_json(number, item, place):
    x, y, w, h = place
    grid = {"x": x, "y": y, "w": w, "h": h}
    if isinstance(item, Row):
        return {"id": number, "type": "row", "title": item.title, "collapsed": False, "gridPos": grid, "panels": []}
    targets = [
        {"refId": chr(ord("A") + at), "datasource": PROMETHEUS, "expr": expression(query),
         "legendFormat": legend, "range": True}
        for at, (query, legend) in enumerate(item.queries)
    ]
    return {"id": number, "type": item.kind, "title": item.title, "description": item.about,
            "datasource": PROMETHEUS, "gridPos": grid, "targets": targets,
            "fieldConfig": {"defaults": defaults(item), "overrides": []}, "options": options(item)}


def defaults(panel):
    steps = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    found = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.without_data:
        found["noValue"] = panel.without_data
    if panel.top is not None:
        found["max" if panel.unit == "percentunit" else "softMax"] = panel.top
    if panel.kind == "timeseries":
        found["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if panel.stacked else 8, "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "line" if len(steps) > 1 else "off"},
        }
    return found


def options(panel):
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "graphMode": "area"}
    return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}}
