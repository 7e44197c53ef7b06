"""E6: the same rows through every method of every database."""

import os
import statistics
import tempfile
from pathlib import Path

import cluster
import mariadb
import postgres
import ran
from ran import Found, Point, a_row, short, times

BATCH_ROWS = 1_000


def places(directory):
    """Databases by their URLs."""
    newer = {"TONNAGE_TEST_POSTGRES18_URL": "", "TONNAGE_TEST_MARIADB11_URL": "?sslmode=disable"}
    further = [os.environ[name] + more for name, more in newer.items() if name in os.environ]
    found = [postgres.URL, mariadb.URL, *further]
    found.append(Path(directory) / "e6.db")
    if cluster.PRESENT:
        cluster.fresh()
        found.append(cluster.url())
    return found


def run(quick):
    found = Found("the same rows through every method of every database")
    found.lines += [
        f"`tonnage bench --workload sbtest --batch-rows {BATCH_ROWS} --jobs 1`, every level of durability that each keeps. "
        "Rows a second of different databases on one machine say little of any of them; what each does with a row says "
        "more.", "",
    ]
    table, ratios = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for url in places(directory):
            report = ran.bench(
                url, "--workload", "sbtest", "--batch-rows", BATCH_ROWS, "--jobs", 1,
                "--durability", levels(url), "--rows", "5k" if quick else "200k",
                "--duration", "300ms" if quick else "2s", "--repeat", 1 if quick else 3,
            )
            table += [line(report, cell) for cell in report.cells]
            rates = [(cell["setting"]["method"], cell["rows_per_second"]["median"]) for cell in report.cells]
            single = [rate for method, rate in rates if method == "single"]
            if single:
                ratios[report.product] = max(rate for _, rate in rates) / min(single)
    head = ["database", "method", "durability", "rows/s", "taken"]
    head += ["records a row", "log bytes a row", "disk bytes a row", "bound by"]
    found.lines += ran.table(head, table)
    least, most = gains()
    for product, ratio in ratios.items():
        text = f"{product}: the fastest way over single rows"
        found.points.append(Point(text, f"{times(least)} to {times(most)} (E1, E2)", times(ratio), ratio >= least / 2))
    return found


def gains():
    """What arrays gained over single rows by one worker in E1, and the best batch in E2 on the server."""
    rows, _ = ran.published("insert_methods.csv")
    rates = {row["method"]: row["rows_per_second"] for row in rows if row["workers"] == 1}
    rows, _ = ran.published("batch_latency.csv")
    best = max(row["speedup"] for row in rows if row["link"] == "local")
    return rates["array"] / rates["single"], best


def levels(url):
    return "none,relaxed,majority,all" if str(url).startswith("cassandra:") else "relaxed,durable"


def line(report, cell):
    setting, path = cell["setting"], cell["write_path"] or {}
    log = path.get("log_bytes") or a_row(cell, "log_bytes")
    bound = statistics.mode(run["bound_by"] for run in cell["runs"]).replace("_", " ")
    taken = (path.get("taken") or "-").replace("_", " ")
    return [
        report.product, setting["method"], setting["durability"], short(cell["rows_per_second"]["median"]), taken,
        short(path.get("row_records")), short(log), short(a_row(cell, "disk_bytes")), bound,
    ]
