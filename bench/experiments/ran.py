"""Runs of the program, and the published figures that they are set beside."""

import csv
import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import data

# The library lays the same figures over charts of its own.
PUBLISHED = data.ROOT / "crates" / "tonnage" / "src" / "measure" / "published"
# Flushes whose median is told.
FLUSHES = 200


@dataclass
class Point:
    """One thing that the published run showed, and whether this one does."""

    text: str
    published: str
    measured: str
    # None where it cannot be told.
    same: bool | None
    # Why they may differ: what is known of the set-up and of the databases, or counted. Told only where they do.
    note: str = ""


@dataclass
class Found:
    """What an experiment has found: lines of a page, charts by their file names, points."""

    title: str
    lines: list = field(default_factory=list)
    points: list = field(default_factory=list)
    charts: dict = field(default_factory=dict)


def published(name):
    """Records of a published run, numbers as numbers, and what it was."""
    with open(PUBLISHED / name, newline="") as file:
        about = file.readline().lstrip("# ").strip().rstrip(".")
        return [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)], about


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


class Report:
    """What one `tonnage bench` says."""

    def __init__(self, report):
        self.report = report
        self.product = report["product"]
        self.cells = report["cells"]

    def cell(self, **wanted):
        """The cell of a setting; none where it was not measured."""
        fits = lambda cell: all(cell["setting"][name] == value for name, value in wanted.items())
        return next((cell for cell in self.cells if fits(cell)), None)

    def rate(self, **wanted):
        cell = self.cell(**wanted)
        return cell["rows_per_second"]["median"] if cell else None

    def noise(self):
        steadiness = self.report["reference"]["steadiness"]
        return steadiness["noise"] if steadiness else None


def a_row(cell, name):
    """The median of a figure of a cell's runs, over its rows; none where it was not told."""
    values = [run[name] / max(run["rows"], 1) for run in cell["runs"] if run[name] is not None]
    return statistics.median(values) if values else None


def bench(url, *options, directory=None):
    return Report(said("bench", url, *options, directory=directory))


def explain(url, table, *options):
    return said("explain", url, table, *options)


def said(command, *arguments, directory=None):
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        words = [data.TONNAGE, "-q", command, *arguments, "--yes", "--report", report]
        data.run(words, cwd=directory)
        return json.loads(report.read_text())


def over(measured, by):
    """A ratio; none where one of the two is missing."""
    return measured / by if measured and by else None


def at_least(measured, least):
    """Whether something is so large; none where it was not measured."""
    return None if measured is None else measured >= least


def span(values):
    """The least and the greatest as times, of those that there are."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    ends = dict.fromkeys([times(min(values)), times(max(values))])
    return " to ".join(ends)


@dataclass
class Peak:
    """Where a curve is highest, and how much lower it is at its end."""

    best: int
    last: int
    fell: float

    @classmethod
    def of(cls, rates):
        """Of rates by jobs; none of fewer than three."""
        if len(rates) < 3:
            return None
        best, last = max(rates, key=rates.get), max(rates)
        return cls(int(best), int(last), 1 - rates[last] / rates[best])

    def falls(self, noise):
        """Whether it is lower behind the peak; none where that is within the noise."""
        if self.best == self.last:
            return False
        return None if self.fell <= (noise or 0) else True

    def __str__(self):
        return f"peak at {self.best} of {self.last}, {self.fell:.0%} lower at the end"


def times(value):
    if value is None:
        return "-"
    return f"{value:.0f}x" if value >= 9.95 else f"{value:.2g}x"


def short(value):
    if value is None:
        return "-"
    for least, unit in [(1e6, "M"), (1e3, "k")]:
        if value >= least:
            return f"{value / least:.3g}{unit}"
    return f"{value:.3g}"


def percent(value):
    return "-" if value is None else f"{value:.0%}"


def table(head, rows):
    yield "| " + " | ".join(map(str, head)) + " |"
    yield "|" + "|".join(["---"] * len(head)) + "|"
    for row in rows:
        yield "| " + " | ".join(str(value) for value in row) + " |"
    yield ""


def flush_millis(directory):
    """What it takes to write 8 KiB and have them on the disk of `directory`: the median, milliseconds."""
    taken = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        for _ in range(FLUSHES):
            os.pwrite(file.fileno(), b"x" * 8192, 0)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e3


def servers_directory():
    """Where the servers of scripts/with-servers keep their data."""
    return Path(os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent
