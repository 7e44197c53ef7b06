"""The Python package: frames of polars and pandas into PostgreSQL and SQLite and out of PostgreSQL and MariaDB, beside what
else moves frames."""

import shutil

import data
import mariadb
import postgres
import puts
import sqlite
from goals import Faster, Line
from measure import Case, Contender

TITLES = {
    "tonnage_in": "tonnage.load", "tonnage_resumable": "tonnage.load, source_id, 2 jobs",
    "tonnage_upsert": "tonnage.load, upsert", "to_sql_multi": "pandas to_sql, multi",
    "to_sql_copy": "pandas to_sql, COPY", "to_sql_upsert": "pandas to_sql, ON CONFLICT",
    "write_database": "polars write_database, ADBC", "adbc_ingest": "adbc_ingest",
    "adbc_upsert": "adbc_ingest beside it, ON CONFLICT by hand", "psycopg_copy": "psycopg COPY, row by row",
    "duckdb_in": "DuckDB", "tonnage_out": "tonnage.unload, 2 jobs", "connectorx_out": "connectorx, 2 partitions",
    "read_database_uri": "polars read_database_uri, 2 partitions", "adbc_out": "ADBC fetch, 1 connection",
}
OF_PANDAS = ["to_sql_multi", "to_sql_copy", "to_sql_upsert"]
OF_POLARS = ["write_database", "read_database_uri"]


def named(way, kind):
    return f"{TITLES[way]}, {kind}"


def kinds(way):
    """The frames that a way takes or gives."""
    return [kind for kind in ("polars", "pandas") if way not in (OF_PANDAS if kind == "polars" else OF_POLARS)]


def contenders(ways, url, table, *source):
    """Each way with each kind of frame that it has, tonnage's first."""
    python = [*data.frame_python(), data.ROOT / "bench" / "frame.py"]
    return {
        named(way, kind): Contender([[*python, way, kind, url, table, *source]], tells=True)
        for way in ways for kind in kinds(way)
    }


def goal(way, others, times):
    of = [named(way, kind) for kind in kinds(way)]
    against = [named(other, kind) for other in others for kind in kinds(other)]
    return Faster(of, against, times, f"{TITLES[way]} {times} times as fast as the fastest other")


def into_postgres(name, rows):
    others = ["to_sql_copy", "write_database", "adbc_ingest", "psycopg_copy", "duckdb_in", "to_sql_multi"]
    ddl = f"create table sbtest1 ({postgres.SBTEST})"
    ways = ["tonnage_in", "tonnage_resumable"]
    found = contenders([*ways, *others], postgres.URL, "sbtest1", data.sbtest(rows, "parquet"))
    return Case(
        name, "Frames into PostgreSQL, no keys", rows, lambda: postgres.fresh("sbtest1", ddl), found,
        [goal(way, others, 1.3) for way in ways], count=lambda: postgres.count("sbtest1"), server=postgres.server_seconds,
    )


def upserts(name, rows):
    """Into a table that has half of the rows."""
    others = ["adbc_upsert", "to_sql_upsert"]
    ddl = f"create table sbtest1 ({postgres.SBTEST}, primary key (id))"
    half = f"insert into sbtest1 select n, n, 'before', 'before' from generate_series(1, {rows}, 2) n"
    found = contenders(["tonnage_upsert", *others], postgres.URL, "sbtest1", data.sbtest(rows, "parquet"))
    return Case(
        name, "Frames into PostgreSQL by upsert, half of the rows there", rows,
        lambda: postgres.fresh("sbtest1", ddl, half), found, [goal("tonnage_upsert", others, 3)],
        count=lambda: postgres.count("sbtest1"), server=postgres.server_seconds,
    )


def into_sqlite(name, rows):
    others = ["write_database", "adbc_ingest", "duckdb_in", "to_sql_multi"]
    ddl = f"create table sbtest1 ({sqlite.SBTEST})"
    found = contenders(["tonnage_in", *others], sqlite.DATABASE, "sbtest1", data.sbtest(rows, "parquet"))
    return Case(
        name, "Frames into SQLite, no keys", rows, lambda: sqlite.fresh(ddl), found, [goal("tonnage_in", others, 1.3)],
        count=lambda: sqlite.count("sbtest1"),
    )


def out_of_postgres(name, rows):
    postgres.stored(rows)
    others = ["connectorx_out", "read_database_uri", "adbc_out"]
    found = contenders(["tonnage_out", *others], postgres.URL, "stored")
    return Case(
        name, "Frames out of PostgreSQL", rows, lambda: None, found, [goal("tonnage_out", others, 1.3)],
        server=postgres.server_seconds,
    )


def out_of_mariadb(name, rows):
    mariadb.fresh("frames", f"drop table if exists frames; create table frames ({mariadb.SBTEST}, {mariadb.KEYS})")
    load = [data.TONNAGE, "load", "-q", data.sbtest(rows, "parquet"), mariadb.URL, "-t", "frames", "--ledger", "none"]
    data.run(load)
    others = ["connectorx_out", "read_database_uri"]
    # connectorx reads sslmode as a name of its own, and knows MariaDB as MySQL alone.
    plain = "mysql://" + mariadb.URL.partition("?")[0].partition("://")[2]
    found = contenders(["tonnage_out"], mariadb.URL, "frames") | contenders(others, plain, "frames")
    return Case(
        name, "Frames out of MariaDB", rows, lambda: None, found, [goal("tonnage_out", others, 1.3)],
        server=mariadb.server_seconds,
    )


# Rows of 200 bytes that are put, of each million of the other cases, by the acknowledgement that is waited for.
PUT_PARTS = {"accepted": 5, "journaled": 20, "committed": 100}
# Threads of a process, and tasks of its event loop.
AT_ONCE = {"threads": 8, "tasks": 256}


def single_rows(name, rows):
    """Rows put one a call; the rates and the p99 of a call are goals without an aim."""
    python = [*data.frame_python(), data.ROOT / "bench" / "python_puts.py"]
    journal = data.PLACE / "journals" / "python"

    def fresh():
        puts.fresh()
        shutil.rmtree(journal, ignore_errors=True)

    def command(way, ack):
        count = rows // PUT_PARTS[ack]
        return [*python, postgres.URL, "single_rows", journal, way, ack, count, AT_ONCE[way]]

    def called(way, ack):
        return f"{ack}, {AT_ONCE[way]} {way}"

    ways = [(way, ack) for ack in PUT_PARTS for way in AT_ONCE]
    found = {called(*one): Contender([command(*one)], tells=True) for one in ways}

    def further():
        for one in ways:
            fresh()
            rate, p99 = data.run(command(*one)).split()[:2]
            yield Line(f"{called(*one)}: rows a second, and p99 of a put", f"{int(rate):,} rows/s, {p99} microseconds", None)

    return Case(
        name, "Single rows of 200 bytes from Python into PostgreSQL", rows, fresh, found,
        notes=["the ways put different numbers of rows: their seconds say nothing beside each other"],
        server=postgres.server_seconds, further=lambda: list(further()),
    )


# Memory that a table of any size goes through with.
THROUGH_MIB_MAX = 512


def through(name, rows):
    """All rows of a table through a process of Python; its memory is a goal of each way."""
    postgres.stored(rows)
    python = [*data.frame_python(), data.ROOT / "bench" / "python_through.py"]
    ddl = f"create table through ({postgres.SBTEST})"
    file = data.PLACE / "through.parquet"
    ways = {
        "copied": "tonnage.load(tonnage.unload(..))", "batches": "the same by a generator of pyarrow's batches",
        "parquet": "tonnage.unload(..).to_parquet(..)",
    }

    def command(way):
        return [*python, way, postgres.URL, "stored", file if way == "parquet" else "through"]

    def fresh():
        postgres.fresh("through", ddl)

    def further():
        for way, title in ways.items():
            fresh()
            moved, peak = (int(word) for word in data.run(command(way)).split()[:2])
            text = f"{title}: {rows:,} rows in at most {THROUGH_MIB_MAX} MiB of memory"
            yield Line(text, f"{moved:,} rows, {peak:,} MiB", moved == rows and peak <= THROUGH_MIB_MAX)

    found = {title: Contender([command(way)], tells=True) for way, title in ways.items()}
    return Case(
        name, "A table through a process of Python", rows, fresh, found, server=postgres.server_seconds, warm=False,
        further=lambda: list(further()),
    )
