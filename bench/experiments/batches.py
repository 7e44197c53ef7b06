"""E2: batch size at 0 and 70 ms a round trip, for INSERT, UPDATE and DELETE."""

import mariadb
import postgres
import ran
from chart import curves
from fit import fit
from ran import Found, Point, short, times

# Rows of a run by the rows of a batch: small batches far away take minutes otherwise. A rate is a rate.
ROWS = {1: 500, 10: 2_000, 100: 10_000, 1_000: 10_000, 2_000: 10_000, 5_000: 10_000, 10_000: 10_000}
LINKS = {"local": 0, "wan": 70_000}
RESIDUAL = 0.10


def run(quick):
    rows, about = ran.published("batch_latency.csv")
    there = {link: {int(r["batch_rows"]): r["rows_per_second"] for r in rows if r["link"] == link} for link in LINKS}
    flush = ran.flush_millis(ran.servers_directory())
    found = Found("batch size over the round trip")
    found.lines += [
        f"{about}.", "",
        "Here: `tonnage bench --workload sbtest --method array --jobs 1 --single-transaction --rtt 0,70ms`: 10,000 rows "
        f"(500 at 1 row a batch, 2,000 at 10), one connection, one commit at the end, where a flush takes {flush:.2f} ms.", "",
    ]
    published = {link: fit([(b, b / rate) for b, rate in rates.items()]) for link, rates in there.items()}
    for link, fitted in published.items():
        found.lines += [f"Published, {link}: T(b) = {fitted.shown()}.", ""]
    wanted = [(postgres.URL, operation) for operation in ["insert", "update", "delete"]]
    # A row waits for three round trips there: an operation takes a quarter of an hour.
    wanted += [] if quick else [(mariadb.URL, "insert")]
    for url, operation in wanted:
        one(found, url, operation, there, quick)
    return found


def measured(url, operation, quick):
    """Rows a second by link and rows of a batch, the worst noise, and the database."""
    rates, noise, product = {link: {} for link in LINKS}, 0, ""
    groups = {}
    for batch, rows in ROWS.items():
        groups.setdefault(rows, []).append(batch)
    if quick:
        groups = {20: [1], 1_000: [100, 1_000], 10_000: [10_000]}
    for rows, sizes in groups.items():
        report = ran.bench(
            url, "--workload", "sbtest", "--operation", operation, "--method", "array", "--jobs", 1,
            "--batch-rows", ",".join(map(str, sizes)), "--rows", rows, "--single-transaction", "--rtt", "0,70ms",
            "--repeat", 1 if quick else 3, "--duration", "5m",
        )
        product, noise = report.product, max(noise, report.noise() or 0)
        for link, micros in LINKS.items():
            for size in sizes:
                if rate := report.rate(batch_rows=size, round_trip_micros=micros):
                    rates[link][size] = rate
    return rates, noise, product


def one(found, url, operation, there, quick):
    rates, noise, product = measured(url, operation, quick)
    name = f"{product} {operation}"
    found.lines += [f"## {name}", "", f"Noise ±{noise:.0%}.", ""]
    series = []
    for link, values in rates.items():
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
        points(found, name, link, values, there[link], fitted)
        series.append((f"{link}", False, [(b, r / values[1]) for b, r in values.items()]))
        series.append((f"{link}, published", True, [(b, r / there[link][1]) for b, r in there[link].items()]))
    found.charts[f"E2-{product.split()[0]}-{operation}.svg"] = curves(
        series, "rows of a batch", f"times as fast as single rows, {name}"
    )


def points(found, name, link, values, there, fitted):
    best, last = max(values, key=values.get), max(values)
    their_best = max(there, key=there.get)
    where = f"{name}, {link}"
    found.points.append(Point(
        f"{where}: the best batch over single rows", times(there[their_best] / there[1]),
        times(values[best] / values[1]), values[best] / values[1] >= 10,
        "what is to be gained is the round trip over what a row costs the server" if link == "wan" else "",
    ))
    found.points.append(Point(
        f"{where}: the best batch", f"{their_best:,} rows", f"{best:,} rows", their_best / 10 < best < their_best * 10,
        "" if best < last else "larger batches were not tried",
    ))
    found.points.append(Point(
        f"{where}: lower at {last:,} rows than at the best", f"{1 - there[last] / there[their_best]:.0%}",
        f"{1 - values[last] / values[best]:.0%}", values[last] < 0.9 * values[best],
        "the published client pays for every bind of a large array again; here a value is encoded once",
    ))
    if link == "wan":
        trips = values[1] * LINKS[link] / 1e6
        found.points.append(Point(
            f"{where}: single rows a round trip", f"{there[1] * LINKS[link] / 1e6:.2f}", f"{trips:.2f}",
            0.95 <= trips <= 1,
            "" if trips > 0.5 else "its protocol waits for a savepoint and for its release: three round trips a write",
        ))
    if fitted:
        found.points.append(Point(
            f"{where}: T(b) = a + c b + d b^2 describes it", "yes", f"off by {fitted.residual:.0%}",
            fitted.residual < RESIDUAL,
        ))
