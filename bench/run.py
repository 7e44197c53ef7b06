#!/usr/bin/env python3
"""Side-by-side runs of tonnage and other tools on the same rows: alternating, medians, ratios.

    make bench                      everything
    make bench ARGS='--runs 7 --only postgres-keys'

Every case runs all its contenders in turn, `--runs` times after one warm-up round, so that a drift of the machine
falls on all of them. The first contender named `tonnage..` is what the others are compared with: a ratio above 1
says how many times longer the other took. Tables are made anew before each run, outside the measured time.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TONNAGE = ROOT / "target" / "release" / "tonnage"
DATA = ROOT / "target" / "bench"
URL = os.environ.get("TONNAGE_TEST_POSTGRES_URL", "")

COLUMNS = "id int, k int, c char(120), pad char(60)"
NO_KEYS = f"create table sbtest1 ({COLUMNS})"
KEYS = f"create table sbtest1 ({COLUMNS}, primary key (id)); create index k_1 on sbtest1 (k)"


def psql(sql):
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", URL, "-c", "set client_min_messages = warning", "-c", sql], check=True)


def fresh_postgres(ddl):
    psql("drop table if exists sbtest1, tonnage_slots, tonnage_runs")
    for statement in ddl.split("; "):
        psql(statement)
    psql("checkpoint")


def fresh_sqlite(ddl):
    for path in DATA.glob("bench.db*"):
        path.unlink()
    database = sqlite3.connect(DATA / "bench.db")
    database.execute("pragma journal_mode = wal")
    for statement in ddl.split("; "):
        database.execute(statement)
    database.commit()
    database.close()


def run(command, **options):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)


def load(source, target, *options):
    return lambda: run([TONNAGE, "load", "-q", DATA / source, target, "-t", "sbtest1", *options])


def psql_copy():
    run(["psql", "-qX", URL, "-c", f"\\copy sbtest1 from '{DATA}/sbtest.csv' with (format csv, header)"])


def server_copy(*files):
    def copy():
        running = [
            subprocess.Popen(["psql", "-qX", URL, "-c", f"copy sbtest1 from '{name}' with (format binary)"])
            for name in files
        ]
        if any(process.wait() for process in running):
            sys.exit("a COPY of the server failed")

    return copy


def sqlite_import():
    script = f".mode csv\n.import --skip 1 {DATA}/sbtest.csv sbtest1\n"
    run(["sqlite3", DATA / "bench.db"], input=script.encode())


def sqlite_attached():
    run(["sqlite3", DATA / "bench.db", f"attach '{DATA}/full.db' as f; insert into sbtest1 select * from f.sbtest1"])


def prepare(rows):
    DATA.mkdir(parents=True, exist_ok=True)
    made = DATA / f"rows-{rows}"
    if made.exists():
        return
    shutil.rmtree(DATA)
    DATA.mkdir(parents=True)
    for name in ["sbtest.csv", "sbtest.parquet"]:
        run([TONNAGE, "generate", "sbtest", "--rows", str(rows), "-o", DATA / name])
    run([TONNAGE, "load", DATA / "sbtest.parquet", DATA / "full.db", "-t", "sbtest1", "--create"])
    made.touch()


def prepare_postgres(rows):
    """The server's own binary copies, whole and in halves, where the server may read them."""
    directory = Path(os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent / "socket"
    fresh_postgres(NO_KEYS)
    load("sbtest.parquet", URL)()
    names = []
    for name, where in [("all", "true"), ("a", f"id <= {rows // 2}"), ("b", f"id > {rows // 2}")]:
        path = directory / f"{name}.copy"
        psql(f"copy (select * from sbtest1 where {where}) to '{path}' with (format binary)")
        names.append(str(path))
    return names


def cases(rows):
    if URL:
        whole, first, second = prepare_postgres(rows)
        for name, ddl in [("postgres-no-keys", NO_KEYS), ("postgres-keys", KEYS)]:
            rebuild = {}
            if ddl == KEYS:
                rebuild = {
                    f"tonnage, {kind}, 2 jobs, --rebuild-indexes": load(file, URL, "-j", "2", "--rebuild-indexes")
                    for kind, file in [("Parquet", "sbtest.parquet"), ("CSV", "sbtest.csv")]
                }
            yield name, lambda ddl=ddl: fresh_postgres(ddl), {
                "tonnage, Parquet, 1 job": load("sbtest.parquet", URL, "-j", "1"),
                "tonnage, Parquet, 2 jobs": load("sbtest.parquet", URL, "-j", "2"),
                "tonnage, CSV, 1 job": load("sbtest.csv", URL, "-j", "1"),
                "tonnage, CSV, 2 jobs": load("sbtest.csv", URL, "-j", "2"),
                **rebuild,
                "psql \\copy, CSV": psql_copy,
                "server's COPY BINARY from a file": server_copy(whole),
                "server's COPY BINARY, two at once": server_copy(first, second),
            }
    for name, ddl in [("sqlite-no-keys", NO_KEYS), ("sqlite-keys", KEYS.replace("id int,", "id integer,"))]:
        rebuild = {}
        if name == "sqlite-keys":
            arguments = load("sbtest.parquet", DATA / "bench.db", "--rebuild-indexes")
            rebuild = {"tonnage, Parquet, --rebuild-indexes": arguments}
        yield name, lambda ddl=ddl: fresh_sqlite(ddl), {
            "tonnage, Parquet": load("sbtest.parquet", DATA / "bench.db"),
            "tonnage, CSV": load("sbtest.csv", DATA / "bench.db"),
            **rebuild,
            "tonnage, Parquet, relaxed": load("sbtest.parquet", DATA / "bench.db", "--durability", "relaxed"),
            "sqlite3 .import, CSV": sqlite_import,
            "INSERT SELECT from an attached file": sqlite_attached,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="measured rounds (default 7)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="sbtest rows (default 1,000,000)")
    parser.add_argument("--only", action="append", help="only this case; may be given again")
    arguments = parser.parse_args()
    prepare(arguments.rows)
    for name, fresh, contenders in cases(arguments.rows):
        if arguments.only and name not in arguments.only:
            continue
        seconds = {contender: [] for contender in contenders}
        for round_ in range(arguments.runs + 1):
            for contender, action in contenders.items():
                fresh()
                started = time.monotonic()
                action()
                if round_ > 0:
                    seconds[contender].append(time.monotonic() - started)
        print(f"\n{name}: {arguments.rows:,} sbtest rows, {arguments.runs} runs, seconds")
        base = seconds[next(iter(contenders))]
        for contender, values in seconds.items():
            ratios = sorted(value / of for value, of in zip(values, base))
            print(
                f"  {contender:<38} median {statistics.median(values):6.2f}  [{min(values):.2f} .. {max(values):.2f}]"
                f"  ratio {statistics.median(ratios):5.2f}  [{ratios[0]:.2f} .. {ratios[-1]:.2f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
