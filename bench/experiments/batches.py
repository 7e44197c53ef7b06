"""E2: batch size at 0 and 70 ms a round trip, for INSERT, UPDATE and DELETE."""

from dataclasses import dataclass

import mariadb
import postgres
import ran
from chart import curves
from fit import fit
from ran import Found, Point, a_row, short, times

# Rows of a run by the rows of a batch: small batches far away take minutes otherwise. A rate is a rate.
ROWS = {1: 500, 10: 2_000, 100: 10_000, 1_000: 10_000, 2_000: 10_000, 5_000: 10_000, 10_000: 10_000}


@dataclass
class Link:
    micros: int
    # Runs of so many times the rows: 10,000 of them take 30 ms near by, and what is done once a run would tell more in
    # them than the size of a batch.
    times: int
    repeat: int


LINKS = {"local": Link(0, 20, 5), "wan": Link(70_000, 1, 3)}
RESIDUAL = 0.10
# Seen by auto_explain: 64 to 135 ms each where the others of 2,000 rows take 4.5.
PLANNED = (
    "PostgreSQL plans the first five statements of a session for the arrays that they have, and at some 2,000 keys reads the "
    "whole table for them; those behind look each key up"
)


def run(quick):
    rows, about = ran.published("batch_latency.csv")
    there = {link: {int(r["batch_rows"]): r["rows_per_second"] for r in rows if r["link"] == link} for link in LINKS}
    flush = ran.flush_millis(ran.servers_directory())
    found = Found("batch size over the round trip")
    found.lines += [
        f"{about}.", "",
        "Here: `tonnage bench --workload sbtest --method array --jobs 1 --single-transaction --rtt 70ms`: 10,000 rows (500 at "
        f"1 row a batch, 2,000 at 10), one connection, one commit at the end, where a flush takes {flush:.2f} ms; near by, "
        f"`--rtt 0` and {LINKS['local'].times} times the rows, so that a run takes long enough to be told apart.", "",
    ]
    published = {link: fit([(b, b / rate) for b, rate in rates.items()]) for link, rates in there.items()}
    for link, fitted in published.items():
        found.lines += [f"Published, {link}: T(b) = {fitted.shown()}.", ""]
    wanted = [(postgres.URL, operation) for operation in ["insert", "update", "delete"]]
    # A row waits for two round trips there: an operation takes minutes.
    wanted += [] if quick else [(mariadb.URL, "insert")]
    for url, operation in wanted:
        one(found, measured(url, operation, quick), there, published)
    return found


@dataclass
class Measured:
    """Of one operation of one database."""

    operation: str
    product: str
    # The worst of all runs; none where it is not known.
    noise: float | None
    # Rows a second by link and rows of a batch.
    rates: dict
    # Round trips that a single row waited for, as the way counted them; none where it was not measured.
    trips: float | None


def measured(url, operation, quick):
    found = Measured(operation, "", None, {link: {} for link in LINKS}, None)
    groups = {}
    for batch, rows in ROWS.items():
        groups.setdefault(rows, []).append(batch)
    if quick:
        groups = {20: [1], 1_000: [100, 1_000], 10_000: [10_000]}
    for rows, sizes in groups.items():
        for link, way in LINKS.items():
            report = ran.bench(
                url, "--workload", "sbtest", "--operation", operation, "--method", "array", "--jobs", 1,
                "--batch-rows", ",".join(map(str, sizes)), "--rows", rows * (1 if quick else way.times),
                "--single-transaction", "--rtt", f"{way.micros}us", "--repeat", 1 if quick else way.repeat,
                "--duration", "5m",
            )
            found.product, found.noise = report.product, max(found.noise or 0, report.noise() or 0) or None
            for size in sizes:
                if rate := report.rate(batch_rows=size):
                    found.rates[link][size] = rate
            if link == "wan" and (single := report.cell(batch_rows=1)):
                found.trips = a_row(single, "round_trips")
    return found


def one(found, ours, there, published):
    name = f"{ours.product} {ours.operation}"
    found.lines += [f"## {name}", "", f"Noise ±{ran.percent(ours.noise)}.", ""]
    series = []
    for link, values in ours.rates.items():
        if 1 not in values:
            continue
        lines = []
        for batch, rate in values.items():
            theirs = there[link].get(batch)
            ratio = times(theirs / there[link][1]) if theirs else "-"
            lines.append([f"{batch:,}", short(rate), times(rate / values[1]), ratio])
        found.lines += [f"### {link}", ""]
        found.lines += ran.table(["rows of a batch", "rows/s", "over single rows", "published"], lines)
        fitted = fit([(batch, batch / rate) for batch, rate in values.items()])
        if fitted:
            found.lines += [f"T(b) = {fitted.shown()}.", ""]
        found.points += points(f"{name}, {link}", values, there[link])
        if link == "wan":
            found.points.append(round_trip(f"{name}, {link}", values[1], there[link][1], ours.trips))
        if fitted:
            found.points.append(Point(
                f"{name}, {link}: T(b) = a + c b + d b^2 describes it", f"off by {published[link].residual:.0%}",
                f"off by {fitted.residual:.0%}", fitted.residual < RESIDUAL,
                PLANNED if link == "local" and ours.operation != "insert" else "",
            ))
        series.append((link, False, [(b, r / values[1]) for b, r in values.items()]))
        series.append((f"{link}, published", True, [(b, r / there[link][1]) for b, r in there[link].items()]))
    found.charts[f"E2-{ours.product.split()[0]}-{ours.operation}.svg"] = curves(
        series, "rows of a batch", f"times as fast as single rows, {name}"
    )


def points(where, ours, theirs):
    """Points about rows a second by rows of a batch."""
    best, last, their_best = max(ours, key=ours.get), max(ours), max(theirs, key=theirs.get)
    gain, goal = ours[best] / ours[1], theirs[their_best] / theirs[1]
    yield Point(
        f"{where}: the best batch over single rows", times(goal), times(gain), gain >= goal / 2,
        f"a single row takes {1e3 / ours[1]:.3g} ms, there {1e3 / theirs[1]:.3g} ms",
    )
    yield Point(
        f"{where}: the best batch", f"{their_best:,} rows", f"{best:,} rows", their_best / 10 < best < their_best * 10,
        "" if best < last else "larger batches were not tried",
    )
    yield Point(
        f"{where}: lower at {last:,} rows than at the best", f"{1 - theirs[last] / theirs[their_best]:.0%}",
        f"{1 - ours[last] / ours[best]:.0%}", ours[last] < 0.9 * ours[best],
        "here a value is encoded once, however many rows a batch has",
    )


def round_trip(where, ours, theirs, trips):
    """A point about single rows on the long way, of so many round trips each."""
    shown = lambda rate: rate * LINKS["wan"].micros / 1e6
    return Point(
        f"{where}: single rows a round trip", f"{shown(theirs):.2f}", f"{shown(ours):.2f}", 0.95 <= shown(ours) <= 1,
        f"a row waits for {trips:.1f} round trips" if trips else "",
    )
