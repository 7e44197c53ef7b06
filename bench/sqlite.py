"""SQLite: loads without and with keys, and in random key order."""

import os
import sqlite3

import data
import postgres
from contenders import CSV_1, SORTED, TONNAGE_1, UNSORTED, adbc, duckdb, in_random_order, load
from goals import Faster, Within
from measure import Case, Contender

DATABASE = data.PLACE / "bench.db"
SBTEST = "id integer, k int, c char(120), pad char(60)"
# Dates are text in SQLite.
LINEITEM = postgres.LINEITEM.replace(" date,", " text,")
ADBC, LIMIT = "ADBC, Parquet", "INSERT .. SELECT from an attached file"


def fresh(*ddl):
    for path in DATABASE.parent.glob(f"{DATABASE.name}*"):
        path.unlink()
    database = sqlite3.connect(DATABASE)
    database.execute("pragma journal_mode = wal")
    for statement in ddl:
        database.execute(statement)
    database.commit()
    database.close()
    os.sync()


def count(table):
    with sqlite3.connect(DATABASE) as database:
        return database.execute(f"select count(*) from {table}").fetchone()[0]


def imported(source, table):
    return Contender([["sqlite3", DATABASE]], stdin=f".mode csv\n.import --skip 1 {source} {table}\n")


def case(name, title, table, rows, parquet, csv, columns, keys):
    ddl = f"create table {table} ({columns})"
    full = data.full_sqlite(f"{parquet.parent.name}/full-{table}.db", parquet, table, ddl)
    select = f"attach '{full}' as f; insert into {table} select * from f.{table}"
    contenders = {
        TONNAGE_1: load(parquet, DATABASE, table),
        CSV_1: load(csv, DATABASE, table),
        "tonnage, Parquet, relaxed": load(parquet, DATABASE, table, "--durability", "relaxed"),
        ADBC: adbc("sqlite", DATABASE, parquet, table),
        "DuckDB, Parquet": duckdb("sqlite", DATABASE, parquet, table),
        "sqlite3 .import, CSV": imported(csv, table),
        LIMIT: Contender([["sqlite3", DATABASE, select]]),
    }
    goals = [
        Within([TONNAGE_1], [ADBC], 1.0, "no slower than ADBC"),
        Within([TONNAGE_1], [LIMIT], 1.2, "within 1.2 of INSERT .. SELECT"),
    ]
    return Case(name, title, rows, lambda: fresh(ddl, *keys), contenders, goals, count=lambda: count(table))


def sbtest(name, rows, keys):
    parquet, csv = data.sbtest(rows, "parquet"), data.sbtest(rows, "csv")
    title = f"sbtest into SQLite, {'primary and secondary key' if keys else 'no keys'}"
    columns = f"{SBTEST}, primary key (id)" if keys else SBTEST
    index = ["create index k_1 on sbtest1 (k)"] if keys else []
    return case(name, title, "sbtest1", rows, parquet, csv, columns, index)


def lineitem(name, rows):
    scale, lines = data.lineitem_size(rows)
    parquet, csv = data.lineitem(scale, "parquet"), data.lineitem(scale, "csv")
    made = case(name, "TPC-H lineitem into SQLite, no keys", "lineitem", lines, parquet, csv, LINEITEM, [])
    made.warm = False
    return made


def random_keys(name, rows):
    ddl = f"create table sbtest1 ({SBTEST}, primary key (id))"
    title = "sbtest in random key order into SQLite with a primary key"
    contenders = in_random_order(DATABASE, data.shuffled(rows), "sbtest1")
    goals = [Faster(SORTED, UNSORTED, 5, "sorted 5 times as fast as unsorted")]
    anew = lambda: fresh(ddl)
    return Case(name, title, rows, anew, contenders, goals, count=lambda: count("sbtest1"), warm=False)
