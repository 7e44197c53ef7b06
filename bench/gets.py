"""Rows by their keys: 100,000 of them among 5,000,000, at once and one by one."""

import csv
import random
import sqlite3

import data
from measure import Case, Contender

ROWS = 5_000_000
KEYS = 100_000
EXAMPLE = data.ROOT / "target/release/examples/single_gets"


def keys():
    """A file of keys in random order, all of them there."""

    def make(path):
        drawn = random.Random(1).sample(range(1, ROWS + 1), KEYS)
        with open(path, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["id"], *([key] for key in drawn)])

    return data.made(f"keys-{KEYS}-of-{ROWS}.csv", make)


def example():
    """The reference's program."""
    data.run(["cargo", "build", "--release", "--locked", "--package", "tonnage", "--example", "single_gets"], cwd=data.ROOT)
    return EXAMPLE


def get(target, table, *options):
    return Contender(
        [[data.TONNAGE, "get", "-q", "--keys", keys(), target, "-t", table, "-o", "/dev/null", "--format", "csv", *options]]
    )


def single(how, target, table):
    return Contender([[example(), how, target, table, keys()]])


def nothing():
    """Gets change nothing, so nothing is made anew."""


def postgres(url, psql, goal):
    """100,000 gets of sbtest1's rows; `psql` runs statements, `goal` makes one of names and a text."""
    rows = data.sbtest(ROWS, "parquet")
    psql("drop table if exists gets", "create table gets (id int primary key, k int, c char(120), pad char(60))")
    data.run([data.TONNAGE, "load", "-q", rows, url, "-t", "gets", "--ledger", "none"])
    psql("vacuum analyze gets")
    contenders = {
        "tonnage get, 1 job": get(url, "gets", "-j", "1"),
        "tonnage get, 2 jobs": get(url, "gets", "-j", "2"),
        "awaited single gets": single("awaited", url, "gets"),
        "pipelined single gets, 256 at once": single("pipelined", url, "gets"),
    }
    ours = list(contenders)[:2]
    goals = [
        goal(ours, ["awaited single gets"], 1 / 20, "20 times faster than awaited single gets"),
        goal(ours, ["pipelined single gets, 256 at once"], 1 / 3, "3 times faster than pipelined ones"),
    ]
    return Case(
        "gets-postgres", "100,000 keys of 5,000,000 rows, PostgreSQL", KEYS, nothing, contenders, goals, runs_max=3
    )


def sqlite(goal):
    rows = data.sbtest(ROWS, "parquet")

    def make(path):
        database = sqlite3.connect(path)
        database.execute("create table gets (id integer primary key, k int, c char(120), pad char(60))")
        database.close()
        data.run([data.TONNAGE, "load", "-q", rows, f"sqlite:{path}", "-t", "gets", "--ledger", "none"])

    database = data.made(f"gets-{ROWS}.db", make)
    contenders = {
        "tonnage get, 1 job": get(database, "gets", "-j", "1"),
        "tonnage get, 2 jobs": get(database, "gets", "-j", "2"),
        "prepared single gets": single("prepared", database, "gets"),
        "prepared single gets, one transaction": single("transaction", database, "gets"),
    }
    goals = [goal(list(contenders)[:2], ["prepared single gets"], 1 / 1.8, "1.8 times faster than prepared single gets")]
    return Case("gets-sqlite", "100,000 keys of 5,000,000 rows, SQLite", KEYS, nothing, contenders, goals)
