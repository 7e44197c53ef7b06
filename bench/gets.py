"""Rows by their keys, at once and one by one: a fiftieth of a table's rows, in random order."""

import csv
import random
import sqlite3

import data
import mariadb as maria
import postgres as pg
from goals import Faster
from measure import Case, Contender, no_server

ONE, TWO = "tonnage get, 1 job", "tonnage get, 2 jobs"
AWAITED, PIPELINED = "awaited single gets", "pipelined single gets, 256 at once"
PREPARED = "prepared single gets"


def keys(rows):
    """A file of keys in random order, all of them there."""

    def make(path):
        drawn = random.Random(1).sample(range(1, rows + 1), rows // 50)
        with open(path, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["id"], *([key] for key in drawn)])

    return data.made(f"{rows}/keys.csv", make)


def nothing():
    """Gets change nothing, so nothing is made anew."""


def case(name, database, place, rows, singles, goals, server):
    """`singles` are the reference's ways by their names; see crates/tonnage/examples/single_gets.rs."""
    wanted = keys(rows)
    contenders = {}
    for contender, jobs in [(ONE, "1"), (TWO, "2")]:
        output = ["-o", "/dev/null", "--format", "csv", "-j", jobs]
        contenders[contender] = Contender([[data.TONNAGE, "get", "-q", place, "--keys", wanted, "-t", "stored", *output]])
    example = data.example("single_gets")
    for contender, how in singles.items():
        contenders[contender] = Contender([[example, how, place, "stored", wanted]])
    title = f"Rows by {rows // 50:,} keys of {rows:,} rows in {database}"
    return Case(name, title, rows // 50, nothing, contenders, goals, server=server)


def postgres(name, rows):
    pg.stored(rows)
    goals = [
        Faster([ONE, TWO], [AWAITED], 20, "20 times as fast as awaited single gets"),
        Faster([ONE, TWO], [PIPELINED], 3, "3 times as fast as pipelined ones"),
    ]
    singles = {AWAITED: "awaited", PIPELINED: "pipelined"}
    return case(name, "PostgreSQL", pg.URL, rows, singles, goals, pg.server_seconds)


def mariadb(name, rows):
    maria.stored(rows)
    goals = [Faster([ONE, TWO], [AWAITED], 20, "20 times as fast as awaited single gets")]
    return case(name, "MariaDB", maria.URL, rows, {AWAITED: "awaited"}, goals, maria.server_seconds)


def sqlite(name, rows):
    def make(path):
        database = sqlite3.connect(path)
        database.execute("create table stored (id integer primary key, k int, c char(120), pad char(60))")
        database.close()
        data.run([data.TONNAGE, "load", "-q", data.sbtest(rows, "parquet"), path, "-t", "stored", "--ledger", "none"])

    database = data.made(f"{rows}/stored.db", make)
    goals = [Faster([ONE, TWO], [PREPARED], 1.8, "1.8 times as fast as prepared single gets")]
    return case(name, "SQLite", database, rows, {PREPARED: "prepared", f"{PREPARED}, one transaction": "transaction"}, goals, no_server)
