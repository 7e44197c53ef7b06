"""Curves as SVG, for pages that are read on a light ground or a dark one."""

import math
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 340, 60, 190, 16, 46
COLOURS = ["#2f7de1", "#e0652b", "#2f9e58", "#a45be0", "#b98a10", "#12929e", "#d6417f", "#7a5c3e"]
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#7a8291}.grid{stroke:#7a829155}.curve{fill:none;stroke-width:2}"
    ".published{stroke-dasharray:5 4}"
)


def curves(series, x_title, y_title):
    """`series` is a list of (name, is it published, [(x, y)]); both axes go by powers of ten.

    A published one is dashed, in the colour of the measured one in its place among those (the first in that of
    the first, and so on, whatever stands between), so no two lines look alike.
    """
    points = [(x, y) for _, _, values in series for x, y in values if x > 0 and y > 0]
    if not points:
        return None
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = (10 ** edge for edge in decades([y for _, y in points]))
    place = lambda value, low, high: (math.log10(value / low) / math.log10(high / low)) if high > low else 0.5
    x_at = lambda x: LEFT + place(x, low_x, high_x) * (WIDTH - LEFT - RIGHT)
    y_at = lambda y: HEIGHT - BOTTOM - place(y, low_y, high_y) * (HEIGHT - TOP - BOTTOM)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(y_title)} over {escape(x_title)}"><style>{STYLE}</style>'
    ]
    for power in range(round(math.log10(low_y)), round(math.log10(high_y)) + 1):
        y = y_at(10**power)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:g}</text>')
    for x in sorted({x for x, _ in points}):
        out.append(f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>')
    drawn = {False: 0, True: 0}
    for at, (name, is_published, values) in enumerate(series):
        colour, way = COLOURS[drawn[is_published] % len(COLOURS)], "curve published" if is_published else "curve"
        drawn[is_published] += 1
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in sorted(values) if x > 0 and y > 0)
        out.append(f'<polyline class="{way}" stroke="{colour}" points="{path}"/>')
        y = TOP + 8 + 18 * at
        line = f'x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{y}" y2="{y}"'
        out.append(f'<line class="{way}" stroke="{colour}" {line}/>')
        out.append(f'<text x="{WIDTH - RIGHT + 38}" y="{y + 4}">{escape(name)}</text>')
    return "".join([*out, "</svg>\n"])


def decades(values):
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
