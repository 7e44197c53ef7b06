"""E1: insert methods over workers, here and 1 ms away."""

import mariadb
import postgres
import ran
from chart import curves
from ran import Found, Peak, Point, a_row, at_least, over, short, span, times

# What stands for the published methods: its `fast` answers once a row is in the server's memory and writes it later, the
# buffer here once it is in the client's.
FAST = "buffer-accepted"
METHODS = {"single": "single", "batch": "batch", "array": "array", FAST: "fast"}
PAIRS = [("array", "single"), ("array", "batch"), (FAST, "array")]
BATCH_ROWS = 100
ROUND_TRIP_MICROS = 1_000
# As many workers as the published ratio of fast to array is flat for.
FAST_WORKERS_MAX = 16
PIPELINED = "executions of a batch are pipelined in PostgreSQL: a batch is one round trip, not one a row"


class Published:
    """The published run: figures by method, as it is called here, and workers."""

    def __init__(self):
        rows, self.about = ran.published("insert_methods.csv")
        self.rows = {(row["method"], int(row["workers"])): row for row in rows}
        self.workers = sorted({workers for _, workers in self.rows})

    def figure(self, method, workers, name="rows_per_second"):
        return self.rows.get((METHODS[method], workers), {}).get(name)

    def ratio(self, a, b, workers):
        return over(self.figure(a, workers), self.figure(b, workers))

    def rates(self, method):
        return {workers: self.figure(method, workers) for workers in self.workers}

    def cpu_a_row(self, method, workers):
        return over(self.figure(method, workers, "server_cpu_percent"), self.figure(method, workers))

    def sent_a_row(self):
        """Bytes, of every method and number of workers."""
        return [row["client_sent_bytes_per_minute"] / 60 / row["rows_per_second"] for row in self.rows.values()]


def run(quick):
    jobs = [1, 2, 4] if quick else [1, 2, 4, 8, 16]
    there = Published()
    flush = ran.flush_millis(ran.servers_directory())
    found = Found("insert methods over workers")
    found.lines += [
        f"{there.about}.", "",
        f"Here: `tonnage bench --workload journal --no-key --batch-rows {BATCH_ROWS} --rtt 0,1ms`, every commit on disk, "
        f"where a flush of 8 KiB takes {flush:.2f} ms (median of {ran.FLUSHES}). `single` commits every row, which "
        "takes three round trips (BEGIN, INSERT, COMMIT). `batch` is executions of one statement, `array` one statement "
        "for all rows of a write. `buffer-accepted` puts rows one by one into a buffer, answered from memory and drained "
        "in the background; its rows a second are those that are in the table.", "",
    ]
    for url in [postgres.URL, mariadb.URL]:
        report = ran.bench(
            url, "--workload", "journal", "--no-key", "--batch-rows", BATCH_ROWS, "--rtt", "0,1ms",
            "--method", "single,batch,array,buffer", "--ack", "accepted", "--jobs", ",".join(map(str, jobs)),
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

    lines = []
    for a, b in PAIRS:
        lines.append([f"{a}/{b}", *(times(over(rate(a, n), rate(b, n))) for n in jobs)])
        lines.append([f"published {METHODS[a]}/{METHODS[b]}", *(times(there.ratio(a, b, n)) for n in jobs)])
    found.lines += ran.table(["ratio", *head[1:]], lines)

    name = f"{report.product}, {away}"
    cell = lambda method: report.cell(method=method, jobs=jobs[0], round_trip_micros=micros)
    found.points += [*of_rates(name, rate, there, jobs, micros, report.noise()), *of_rows(name, cell, there, jobs[0])]
    series = [(method, False, [(n, rate(method, n)) for n in jobs if rate(method, n)]) for method in METHODS]
    scale = over(rate("single", jobs[0]), there.figure("single", 1)) or 1
    for method, theirs in METHODS.items():
        values = [(n, there.figure(method, n) * scale) for n in jobs if there.figure(method, n)]
        series.append((f"published {theirs}, scaled", True, values))
    file = f"E1-{report.product.split()[0]}-{micros // 1000}ms.svg"
    found.charts[file] = curves(series, "jobs", f"rows a second, {name}; published scaled to single at one worker")


def of_rates(name, rate, there, jobs, micros, noise):
    """Points about rows a second over workers."""
    array, batch, fast = ({n: over(rate(a, n), rate(b, n)) for n in jobs} for a, b in PAIRS)
    first, last = jobs[0], jobs[-1]
    goal = there.ratio("array", "single", 1)
    yield Point(
        f"{name}: array over single at one worker", times(goal), times(array[first]),
        # Without a way half of it, as what single rows wait for most is the way.
        at_least(array[first], int(goal) if micros else goal / 2),
        "" if micros else "without a way, a single row saves fewer round trips and waits for the disk alike",
    )
    is_pipelined = name.startswith("PostgreSQL")
    goal = there.ratio("array", "batch", 1)
    yield Point(
        f"{name}: array over batch at one worker", times(goal), times(batch[first]), at_least(batch[first], goal / 2),
        PIPELINED if is_pipelined else "",
    )
    theirs = {n: there.ratio("array", "batch", n) for n in there.workers}
    yield Point(
        f"{name}: array over batch falls with workers", ends(theirs, there.workers), ends(batch, jobs),
        None if None in (batch[first], batch[last]) else batch[first] > batch[last],
        PIPELINED if is_pipelined else "",
    )
    theirs = [there.ratio(FAST, "array", n) for n in there.workers if n <= FAST_WORKERS_MAX]
    known = [value for value in fast.values() if value is not None]
    yield Point(
        f"{name}: single rows that are buffered over array", span(theirs), span(known),
        all(value >= min(theirs) / 1.5 for value in known) if known else None,
        "the buffer is in the client, and its rows count once they are in the table",
    )
    goal = there.ratio(FAST, "single", 1)
    found = over(rate(FAST, first), rate("single", first))
    yield Point(
        f"{name}: single rows that are buffered over single at one worker", times(goal), times(found),
        at_least(found, goal / 2),
    )
    ours = Peak.of({n: rate("array", n) for n in jobs if rate("array", n)})
    yield Point(
        f"{name}: array has a peak of workers and falls behind it", str(Peak.of(there.rates("array"))), str(ours or "-"),
        ours and ours.falls(noise), "there the server had 16 ECPU, and the client 16 cores",
    )


def ends(values, workers):
    return f"{times(values[workers[0]])} to {times(values[workers[-1]])}"


def of_rows(name, cell, there, jobs):
    """Points about what a row costs, at so many workers."""
    cells = {method: cell(method) for method in METHODS}
    of = lambda method, figure: a_row(cells[method], figure) if cells[method] else None
    sent = {method: of(method, "bytes_sent") for method in METHODS}
    known = [value for value in sent.values() if value]
    theirs = there.sent_a_row()
    yield Point(
        f"{name}: bytes sent a row hardly differ between methods", f"{short(min(theirs))} to {short(max(theirs))}",
        ", ".join(f"{method} {short(value)}" for method, value in sent.items()),
        max(known) / min(known) < 1.3 if len(known) > 1 else None,
    )
    saved = over(of("single", "server_cpu_seconds"), of("array", "server_cpu_seconds"))
    goal = over(there.cpu_a_row("single", jobs), there.cpu_a_row("array", jobs))
    yield Point(
        f"{name}: server CPU of a row, single over array", times(goal), times(saved), at_least(saved, goal / 2),
    )
    stored = over(of("array", "disk_bytes"), of("single", "disk_bytes"))
    goal = over(there.figure("array", jobs, "bytes_per_row"), there.figure("single", jobs, "bytes_per_row"))
    yield Point(
        f"{name}: bytes of a row on disk, array over single: it lets the database compress", times(goal), times(stored),
        None if stored is None else stored <= goal * 2,
        "there rows that come many at once are compressed; here rows of this size are not, unless it is asked for",
    )
