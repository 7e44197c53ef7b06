"""Accounts as notebooks show them."""

from __future__ import annotations

from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._report import Report

WIDTH, HEIGHT = 360, 80
# A shorter run has no course.
SECONDS_LEAST = 1.0


def report_html(report: Report, samples: Sequence[tuple[float, int]]) -> str:
    """The account as a table, and rows per second as a plot."""
    data, rows = report.data, report.rows
    entries = [
        ("state", data["state"]),
        ("into", f"{data['target']} {data['table']}"),
        ("read", f"{rows.read:,}"),
        ("written", f"{rows.written:,}"),
        *((name, f"{count:,}") for count, name in rows._terms()),
        ("time", f"{data['seconds']:.2f} s, {int(data['rows_per_second']):,} rows/s"),
        ("how", f"{data['method']}, {_counted(data['jobs'], 'job')}, {_counted(data['commits'], 'commit')}, {data['durability']}"),
    ]
    if data["error"]:
        entries.append(("error", data["error"]))
    if data["rejects"]:
        entries.append(("rejects", data["rejects"]))
    entries += [("note", note) for note in data["notes"]]
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in entries
    )
    return f"<div><table>{lines}</table>{plot(samples)}</div>"


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def plot(samples: Sequence[tuple[float, int]]) -> str:
    """Rows per second over the time of a run, as SVG; nothing where it was too short."""
    rates = [
        (after[0], (after[1] - before[1]) / (after[0] - before[0]))
        for before, after in zip([(0.0, 0), *samples], samples)
        if after[0] > before[0]
    ]
    if not rates or rates[-1][0] < SECONDS_LEAST:
        return ""
    most = max(rate for _, rate in rates) or 1.0
    end = rates[-1][0]
    points = " ".join(
        f"{WIDTH * at / end:.1f},{HEIGHT - (HEIGHT - 4) * rate / most:.1f}" for at, rate in rates
    )
    label = f"rows/s over {end:.1f} s, at most {int(most):,}"
    return (
        f"<svg width='{WIDTH}' height='{HEIGHT + 16}' viewBox='0 0 {WIDTH} {HEIGHT + 16}' role='img' "
        f"aria-label='{escape(label)}'><polyline fill='none' stroke='#3572b0' stroke-width='1.5' points='{points}'/>"
        f"<line x1='0' y1='{HEIGHT}' x2='{WIDTH}' y2='{HEIGHT}' stroke='#999'/>"
        f"<text x='0' y='{HEIGHT + 12}' font-size='10' fill='#666'>{escape(label)}</text></svg>"
    )
