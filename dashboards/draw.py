"""Draws a dashboard from what Prometheus answers to its queries: layout, titles, units, legends, as SVG.

    dashboards/draw.py http://127.0.0.1:9095 OUT [--minutes 15] [--title TEXT]      one SVG per dashboard, and index.html

Written by hand, so that it needs nothing but Python; Grafana draws the same JSON with more comfort.
"""

import argparse
import html
import json
import math
import pathlib
import time
import urllib.parse
import urllib.request

from board import Row, places, to_json
from boards import BOARDS

UNIT_W, UNIT_H, GAP = 60, 26, 6  # of Grafana's grid, in pixels
COLORS = ["#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#37872d", "#fade2a", "#c15c17",
          "#e0b400", "#1f60c4", "#8f3bb8", "#ffa6b0", "#96d98d"]
POINTS = 90
ANNOTATION_COLORS = {"blue": "#5794f2", "purple": "#b877d9", "orange": "#ff780a"}


class Prometheus:
    def __init__(self, url, end, seconds, rate_interval):
        self.url, self.end, self.seconds, self.rate_interval = url, end, seconds, rate_interval

    def ask(self, query):
        """The series of a query over the whole time: (labels, [(time, value)])."""
        for name, value in (("$__rate_interval", self.rate_interval), ("$job", "holdfast.*"), ("$instance", ".+"),
                            ("$etcd_job", "etcd"), ("$loadgen_job", "loadgen")):
            query = query.replace(name, value)
        step = max(1, round(self.seconds / POINTS))
        asked = urllib.parse.urlencode({"query": query, "start": self.end - self.seconds, "end": self.end, "step": step})
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{asked}", timeout=30) as reply:
            answer = json.load(reply)
        assert answer["status"] == "success", (query, answer)
        return [(one["metric"], [(at, float(value)) for at, value in one["values"]])
                for one in answer["data"]["result"]]


def legend(template, labels):
    for name, value in labels.items():
        template = template.replace("{{%s}}" % name, value)
    while "{{" in template:  # a label that this series does not have
        head, _, tail = template.partition("{{")
        template = head + tail.partition("}}")[2]
    return template.strip() or "value"


def shown(value, unit):
    if value is None or math.isnan(value):
        return "no data"
    if math.isinf(value):
        return "∞"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if abs(value) >= factor or name == "µs":
                return f"{value / factor:.3g} {name}" if value else "0 s"
    suffix = {"ops": "/s", "reqps": "/s"}.get(unit, "")
    steps = ((2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB")) if unit == "bytes" else ((1e6, " M"), (1e3, " k"))
    for factor, name in steps:
        if abs(value) >= factor:
            return f"{value / factor:.3g}{name}{suffix}"
    return f"{value:.3g}{' B' if unit == 'bytes' else ''}{suffix}"


def text(x, y, content, size=11, color="#ccccdc", anchor="start", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(content)}</text>')


def draw_stat(panel, box, series):
    x, y, w, h = box
    values = [value for _, value in series[0][1]] if series else []
    last = values[-1] if values else None
    bad = last is not None and (panel.bad_above is not None and last >= panel.bad_above
                                or panel.bad_below is not None and last < panel.bad_below)
    color = "#3a3f46" if last is None else "#a3262f" if bad else "#2f6b3a"
    return [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="{color}"/>',
            text(x + 8, y + 18, panel.title, 12, "#fff", weight="bold"),
            text(x + w / 2, y + h / 2 + 22, shown(last, panel.unit), 26, "#fff", "middle", "bold")]


def stack(series):
    total, stacked = {}, []
    for name, points in series:
        points = [(at, total.get(at, 0) + (0 if math.isnan(value) else value)) for at, value in points]
        total.update(points)
        stacked.append((name, points))
    return stacked


def without_level_points(piece):
    """A level stretch needs its two ends only, which keeps the files small."""
    kept = [point for before, point, after in zip(piece, piece[1:], piece[2:])
            if not before[1] == point[1] == after[1]]
    return [piece[0], *kept, piece[-1]]


def nice_top(value):
    if value <= 0:
        return 1
    unit = 10 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 2.5, 5, 10) if unit * step >= value * 0.999)


def draw_series(panel, box, series, prometheus, marks):
    x, y, w, h = box
    out = [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="#181b1f" stroke="#2c3036"/>',
           text(x + 8, y + 16, panel.title, 12, weight="bold")]
    names, width, lines = [], 0, 1
    for number, (name, _) in enumerate(series[:14]):
        length = 18 + 6.2 * len(name)
        if width + length > w - 16 and width:
            lines, width = lines + 1, 0
        names.append((width, lines - 1, name, COLORS[number % len(COLORS)]))
        width += length
    left, right, top, bottom = x + 54, x + w - 8, y + 26, y + h - 22 - 13 * lines
    drawn = stack(series) if panel.stacked else series
    values = [value for _, points in drawn for _, value in points if math.isfinite(value)]
    highest = nice_top(max([*values, panel.top or 0, 0]))
    at_x = lambda at: left + (at - (prometheus.end - prometheus.seconds)) / prometheus.seconds * (right - left)
    at_y = lambda value: bottom - min(value, highest) / highest * (bottom - top)
    for part in (0, 0.5, 1):
        level = at_y(highest * part)
        out.append(f'<path d="M{left:.0f} {level:.0f}H{right:.0f}" stroke="#2c3036"/>')
        out.append(text(left - 5, level + 4, shown(highest * part, panel.unit), 10, "#8e8e9a", "end"))
    for part in (0, 0.5, 1):
        ago = round(prometheus.seconds * (1 - part))
        name = f"-{ago // 60}:{ago % 60:02} min" if ago else "now"
        out.append(text(left + (right - left) * part, bottom + 13, name, 10, "#8e8e9a",
                        ("start", "middle", "end")[round(part * 2)]))
    for limit in (panel.bad_above, panel.bad_below):
        if limit is not None and 0 < limit <= highest:
            out.append(f'<path d="M{left:.0f} {at_y(limit):.0f}H{right:.0f}" stroke="#f2495c" stroke-dasharray="6 4"/>')
    for at, color in marks:
        out.append(f'<path d="M{at_x(at):.0f} {top:.0f}V{bottom:.0f}" stroke="{color}" stroke-dasharray="2 3"/>')
    step = prometheus.seconds / POINTS
    for number, (_, points) in reversed(list(enumerate(drawn[:14]))):
        color, pieces, before = COLORS[number % len(COLORS)], [], None
        for at, value in points:
            if math.isfinite(value):
                if before is None or at - before > 2.5 * step:
                    pieces.append([])
                pieces[-1].append((round(at_x(at)), round(at_y(value))))
                before = at
        for piece in pieces:
            if len(piece) == 1:
                piece = [piece[0], (piece[0][0] + 1, piece[0][1])]
            piece = without_level_points(piece)
            line = " ".join(f"{px} {py}" for px, py in piece)
            if panel.stacked:
                area = f"M{piece[0][0]} {bottom:.0f}L{line} L{piece[-1][0]} {bottom:.0f}Z"
                out.append(f'<path d="{area}" fill="{color}" fill-opacity="0.45" stroke="none"/>')
            out.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.5"/>')
    if not series:
        out.append(text((left + right) / 2, (top + bottom) / 2, panel.without_data or "No data", 13, "#8e8e9a", "middle"))
    for offset, line, name, color in names:
        base = bottom + 28 + 13 * line
        out.append(f'<rect x="{x + 8 + offset:.0f}" y="{base - 6}" width="10" height="4" fill="{color}"/>')
        out.append(text(x + 21 + offset, base, name, 10, "#a8a8b3"))
    return out


def marks_of(board, prometheus):
    found = []
    for one in to_json(board, BOARDS)["annotations"]["list"]:
        for _, points in prometheus.ask(one["expr"]):
            # The condition holds for a while; the mark is where it began.
            begins = [at for number, (at, _) in enumerate(points) if not number or at - points[number - 1][0] > 20]
            found += [(at, ANNOTATION_COLORS[one["iconColor"]]) for at in begins]
    return found


def draw(board, prometheus, title):
    """The dashboard as SVG, and the titles of panels without data."""
    marks, out, empty, height = marks_of(board, prometheus), [], [], 0
    for item, (x, y, w, h) in places(board):
        box = (x * UNIT_W + GAP, y * UNIT_H + 46, w * UNIT_W - GAP, h * UNIT_H - GAP)
        height = max(height, box[1] + box[3] + GAP)
        if isinstance(item, Row):
            out.append(text(box[0] + 4, box[1] + 15, f"▾ {item.title}", 13, weight="bold"))
            continue
        asked = [(query, template) for query, template in zip(
            (target["expr"] for target in queries_of(board, item)), (template for _, template in item.queries))]
        series = [(legend(template, labels), points) for query, template in asked
                  for labels, points in prometheus.ask(query)]
        if not series:
            empty.append(item.title)
        out += draw_stat(item, box, series) if item.kind == "stat" else draw_series(item, box, series, prometheus, marks)
    width = 24 * UNIT_W + GAP
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="DejaVu Sans, Verdana, sans-serif">',
            f'<rect width="{width}" height="{height}" fill="#111217"/>',
            text(GAP + 4, 26, f"{board.title}  ·  {title}", 17, "#fff", weight="bold")]
    return "\n".join([*head, *out, "</svg>"]) + "\n", empty


def queries_of(board, panel):
    for item in to_json(board, BOARDS)["panels"]:
        if item["title"] == panel.title and item["type"] == panel.kind:
            return item["targets"]
    raise KeyError(panel.title)


def draw_all(prometheus, folder, title):
    folder.mkdir(parents=True, exist_ok=True)
    page = [f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title><body style='background:#111217'>"]
    for board in BOARDS:
        svg, _ = draw(board, prometheus, title)
        name = f"{board.uid.removeprefix('holdfast-')}.svg"
        (folder / name).write_text(svg)
        page.append(f"<p><img src='{name}' alt='{html.escape(board.title)}' style='width:100%'></p>")
    (folder / "index.html").write_text("\n".join(page) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prometheus")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--title", default="now")
    args = parser.parse_args()
    draw_all(Prometheus(args.prometheus, time.time(), args.minutes * 60, "20s"), args.out, args.title)


if __name__ == "__main__":
    main()
