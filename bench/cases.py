"""The list of cases: their names, how many rows and rounds, and what makes them."""

from dataclasses import dataclass

import cluster
import duck
import frames
import gets
import growth
import mariadb
import objects
import postgres
import puts
import serves
import sqlite

# Rounds of the cases that take seconds a round, and of those that take minutes.
ROUNDS, ROUNDS_SLOW = 7, 3


@dataclass
class Entry:
    """A case of the list. `make` makes it, and the files it needs, for a number of rows."""

    make: callable
    rows: int
    rounds: int
    # Whether it is among those of --quick.
    main: bool


def all_cases(rows, quick):
    """The cases for `rows` sbtest rows, in the order in which they run."""
    # Rows among which keys are random, and from which few are taken, or all.
    many = rows if quick else 5 * rows
    listed = {}

    def add(name, make, rows=rows, rounds=ROUNDS, main=False):
        listed[name] = Entry(lambda: make(name, rows), rows, rounds, main)

    if postgres.PRESENT:
        add("postgres-no-keys", lambda name, rows: postgres.sbtest(name, rows, keys=False), main=True)
        add("postgres-keys", lambda name, rows: postgres.sbtest(name, rows, keys=True), main=True)
        add("lineitem-postgres-no-keys", lambda name, rows: postgres.lineitem(name, rows, keys=False), rounds=ROUNDS_SLOW)
        add("lineitem-postgres-keys", lambda name, rows: postgres.lineitem(name, rows, keys=True), rounds=ROUNDS_SLOW)
        add("random-keys-postgres", postgres.random_keys, many, ROUNDS_SLOW)
        add("postgres-connections", postgres.connections, rounds=ROUNDS_SLOW)
        add("partitions-postgres", postgres.partitions)
        add("ledger", postgres.with_ledger)
        add("unload-postgres", postgres.unload, many, ROUNDS_SLOW, main=True)
        add("gets-postgres", gets.postgres, many, ROUNDS_SLOW, main=True)
        add("puts-postgres-200", lambda name, rows: puts.case(name, rows, 200), rounds=ROUNDS_SLOW, main=True)
        add("puts-postgres-1360", lambda name, rows: puts.case(name, rows, 1_360), rounds=ROUNDS_SLOW)
        add("frames-postgres", frames.into_postgres, rounds=ROUNDS_SLOW)
        add("frames-upsert", frames.upserts, rounds=ROUNDS_SLOW)
        add("frames-out-postgres", frames.out_of_postgres, rounds=ROUNDS_SLOW)
        for connections in (8, 256):
            make = lambda name, rows, connections=connections: serves.single(name, rows, connections)
            add(f"serve-postgres-{connections}", make, rounds=ROUNDS_SLOW, main=connections == 256)
        add("serve-postgres-batches", serves.batches, rounds=ROUNDS_SLOW, main=True)
        # Ten times as many, since what is to be seen is the memory.
        add("frames-through", frames.through, rows if quick else 10 * rows, rounds=1)
        add("puts-python", frames.single_rows, rounds=ROUNDS_SLOW)
    add("frames-sqlite", frames.into_sqlite, rounds=ROUNDS_SLOW)
    add("sqlite-no-keys", lambda name, rows: sqlite.sbtest(name, rows, keys=False), main=True)
    add("sqlite-keys", lambda name, rows: sqlite.sbtest(name, rows, keys=True), main=True)
    add("lineitem-sqlite", sqlite.lineitem, rounds=ROUNDS_SLOW)
    add("random-keys-sqlite", sqlite.random_keys, many, ROUNDS_SLOW, main=True)
    add("gets-sqlite", gets.sqlite, many, main=True)
    add("duckdb-no-keys", lambda name, rows: duck.sbtest(name, rows, keys=False), main=True)
    add("duckdb-keys", lambda name, rows: duck.sbtest(name, rows, keys=True), main=True)
    add("lineitem-duckdb", duck.lineitem, rounds=ROUNDS_SLOW)
    add("unload-duckdb", duck.unload, many, ROUNDS_SLOW, main=True)
    if mariadb.PRESENT:
        add("frames-out-mariadb", frames.out_of_mariadb, rounds=ROUNDS_SLOW)
        add("mariadb-no-keys", lambda name, rows: mariadb.sbtest(name, rows, keys=False), rounds=ROUNDS_SLOW)
        add("mariadb-keys", lambda name, rows: mariadb.sbtest(name, rows, keys=True), main=True)
        add("random-keys-mariadb", mariadb.random_keys, many, ROUNDS_SLOW, main=True)
        add("gets-mariadb", gets.mariadb, many, ROUNDS_SLOW, main=True)
    if objects.PRESENT:
        add("objects-near", lambda name, rows: objects.reading(name, rows, 0), rounds=ROUNDS_SLOW)
        add("objects-far", lambda name, rows: objects.reading(name, rows, 70), rounds=ROUNDS_SLOW)
        add("unload-objects", objects.writing, rounds=ROUNDS_SLOW)
    for part in (growth.files, growth.columns, growth.fields, growth.many_rows, growth.history):
        add(f"growth-{part.__name__.replace('_', '-')}", part, rounds=ROUNDS_SLOW)
    if postgres.PRESENT:
        add("growth-partitions", growth.partitions, rounds=ROUNDS_SLOW)
        add("growth-round-trips", growth.round_trips, rounds=ROUNDS_SLOW)
    if cluster.PRESENT:
        add("cassandra-relaxed", lambda name, rows: cluster.loads(name, rows, "relaxed"), rounds=ROUNDS_SLOW)
        add("cassandra-majority", lambda name, rows: cluster.loads(name, rows, "majority"), rounds=ROUNDS_SLOW, main=True)
        add("gets-cassandra-one", lambda name, rows: cluster.gets(name, rows, "one"))
        add("gets-cassandra-majority", lambda name, rows: cluster.gets(name, rows, "majority"), main=True)
    return listed
