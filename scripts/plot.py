"""A plot of latency over time as SVG, written by hand so that it needs nothing but Python."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 380, 70, 20, 50, 45
LINES = {"p50": "#73bf69", "p99": "#f2495c"}
SHADE = "#5794f2"


def latency_plot(title, points, spans):
    """`points`: (seconds, p50 ms, p99 ms), a missing value is None; `spans`: name -> (from, to) in seconds."""
    values = [value for _, *both in points for value in both if value]
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values)))
    seconds = max(at for at, *_ in points)

    def x(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * at / seconds

    def y(value):
        part = math.log10(value / low) / max(1, math.log10(high / low))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def text(at_x, at_y, words, anchor="middle", fill="#333"):
        return f'<text x="{at_x:.0f}" y="{at_y:.0f}" text-anchor="{anchor}" fill="{fill}">{html.escape(words)}</text>'

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', text(LEFT, 20, title, "start", "#000")]
    for name, (begin, end) in spans.items():
        out.append(f'<rect x="{x(begin):.1f}" y="{TOP}" width="{x(end) - x(begin):.1f}" '
                   f'height="{HEIGHT - TOP - BOTTOM}" fill="{SHADE}" fill-opacity="0.12"/>')
        out.append(text((x(begin) + x(end)) / 2, TOP + 14, f"{name}, {end - begin:.0f} s", fill=SHADE))
    tick = low
    while tick <= high * 1.001:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, y(tick) + 4, f"{tick:g} ms", "end"))
        tick *= 10
    step = next(step for step in (5, 10, 20, 30, 60, 120, 300, 3600) if seconds / step <= 12 or step == 3600)
    for at in range(0, int(seconds) + 1, step):
        out.append(text(x(at), HEIGHT - BOTTOM + 18, f"{at} s"))
    for number, (name, color) in enumerate(LINES.items()):
        line = [(x(at), y(both[number])) for at, *both in points if both[number]]
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="'
                   + " ".join(f"{at:.1f},{value:.1f}" for at, value in line) + '"/>')
        out.append(text(WIDTH - RIGHT - 60 * (len(LINES) - 1 - number), 20, name, "end", color))
    return "\n".join([*out, "</svg>"]) + "\n"
