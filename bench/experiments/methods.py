"""E1: insert methods over workers, here and 1 ms away."""

import mariadb
import postgres
import ran
from chart import curves
from ran import Found, Point, a_row, over, short, times

# What stands for the published methods: its `fast` keeps rows in the server's memory and writes them later, which
# nothing here does; the fastest way in is the database's own bulk format.
METHODS = {"single": "single", "batch": "batch", "array": "array", "native": "fast"}
BATCH_ROWS = 100
ROUND_TRIP_MICROS = 1_000
GOAL = 24
PIPELINED = (
    "executions of a batch are pipelined in PostgreSQL, so that a batch is one round trip there, not one a row"
)


def run(quick):
    jobs = [1, 2, 4] if quick else [1, 2, 4, 8, 16]
    rows, about = ran.published("insert_methods.csv")
    there = {(row["method"], int(row["workers"])): row for row in rows}
    flush = ran.flush_millis(ran.servers_directory())
    found = Found("insert methods over workers")
    found.lines += [
        f"{about}.", "",
        f"Here: `tonnage bench --workload journal --no-key --batch-rows {BATCH_ROWS} --rtt 0,1ms`, every commit on disk, "
        f"where a flush of 8 KiB takes {flush:.2f} ms (median of {ran.FLUSHES}). `single` commits every row, which "
        "takes three round trips (BEGIN, INSERT, COMMIT). `batch` is executions of one statement, `array` one statement "
        "for all rows of a write, `native` COPY or LOAD DATA.", "",
    ]
    for url in [postgres.URL, mariadb.URL]:
        report = ran.bench(
            url, "--workload", "journal", "--no-key", "--batch-rows", BATCH_ROWS, "--rtt", "0,1ms",
            "--method", ",".join(METHODS), "--jobs", ",".join(map(str, jobs)),
            "--duration", "300ms" if quick else "4s", "--repeat", 1 if quick else 3,
            "--rows", "10k" if quick else "400k",
        )
        for micros in [0, ROUND_TRIP_MICROS]:
            one(found, report, there, jobs, micros)
    return found


def one(found, report, there, jobs, micros):
    away = f"{micros / 1e3:g} ms away" if micros else "here"
    rate = lambda method, n: report.rate(method=method, jobs=n, round_trip_micros=micros)
    found.lines += [f"## {report.product}, {away}", "", f"Noise ±{ran.percent(report.noise())}.", ""]
    head = ["rows/s", *(f"{n} job{'s' * (n > 1)}" for n in jobs)]
    found.lines += ran.table(head, [[method, *(short(rate(method, n)) for n in jobs)] for method in METHODS])

    pairs = [("array", "single"), ("array", "batch"), ("native", "array")]
    lines = []
    for a, b in pairs:
        measured = [times(over(rate(a, n), rate(b, n))) for n in jobs]
        lines.append([f"{a}/{b}", *measured])
        at = lambda method, n: there.get((METHODS[method], n), {}).get("rows_per_second")
        lines.append([f"published {METHODS[a]}/{METHODS[b]}", *(times(over(at(a, n), at(b, n))) for n in jobs)])
    found.lines += ran.table(["ratio", *head[1:]], lines)

    name = f"{report.product}, {away}"
    first, last = jobs[0], jobs[-1]
    array, batch, native = ({n: over(rate(a, n), rate(b, n)) for n in jobs} for a, b in pairs)
    least = GOAL if micros else None
    found.points += [
        Point(
            f"{name}: array over single at one worker", "24x", times(array[first]),
            None if array[first] is None else array[first] >= (least or GOAL / 2),
            "" if micros else "without a way, a single row saves fewer round trips and waits for the disk alike",
        ),
        Point(
            f"{name}: array over batch falls with workers", "12.5x to 4.6x",
            f"{times(batch[first])} to {times(batch[last])}",
            None if None in (batch[first], batch[last]) else batch[first] > batch[last],
            PIPELINED if name.startswith("PostgreSQL") else "",
        ),
        Point(
            f"{name}: the fastest way over array", "1.9x to 2.1x", f"{times(native[first])} to {times(native[last])}",
            None if None in (native[first], native[last]) else 1.3 <= native[first] <= 3,
            "COPY or LOAD DATA, not a buffer in the server",
        ),
        peak(name, rate, jobs),
        sent(name, report, first, micros),
    ]
    series = [(method, False, [(n, rate(method, n)) for n in jobs if rate(method, n)]) for method in METHODS]
    scale = over(rate("single", first), there[("single", 1)]["rows_per_second"]) or 1
    for method, theirs in METHODS.items():
        values = [(n, there[(theirs, n)]["rows_per_second"] * scale) for n in jobs if (theirs, n) in there]
        series.append((f"published {theirs}, scaled", True, values))
    file = f"E1-{report.product.split()[0]}-{micros // 1000}ms.svg"
    found.charts[file] = curves(series, "jobs", f"rows a second, {name}; published scaled to single at one worker")


def peak(name, rate, jobs):
    rates = {n: rate("array", n) for n in jobs if rate("array", n)}
    text = f"{name}: array has a peak of workers and falls behind it"
    if len(rates) < 3:
        return Point(text, "peak at 24 of 40", "-", None)
    best = max(rates, key=rates.get)
    fell = 1 - rates[jobs[-1]] / rates[best] if jobs[-1] in rates else 0
    measured = f"peak at {best} of {jobs[-1]}, {fell:.0%} lower at the end"
    there = "peak at 24 of 40, 11% lower at the end"
    return Point(text, there, measured, best < jobs[-1], "its server had 16 cores for 24 workers")


def sent(name, report, jobs, micros):
    values = {}
    for method in METHODS:
        cell = report.cell(method=method, jobs=jobs, round_trip_micros=micros)
        values[method] = a_row(cell, "bytes_sent") if cell else None
    known = [value for value in values.values() if value]
    measured = ", ".join(f"{method} {short(value)}" for method, value in values.items())
    same = max(known) / min(known) < 1.3 if len(known) > 1 else None
    return Point(f"{name}: bytes sent a row hardly differ between methods", "0.9 to 1.1 KB", measured, same)
