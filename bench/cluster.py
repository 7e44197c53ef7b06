"""Cassandra, three nodes, every row on all of them: loads and gets beside single rows and the Python driver."""

import csv
import os
import random
from functools import cache
from pathlib import Path

import data
import measure
from contenders import CSV, CSV_1, CSV_2, load, script
from goals import Faster
from measure import Case, Contender

PRESENT = "TONNAGE_TEST_CASSANDRA_DIRECTORY" in os.environ

# Of the rows asked for: a row of this width takes a server as long as some narrow ones.
PART = 20
BODY_BYTES = 1_000
# A node's heap; see scripts/cassandra-cluster.
HEAP_MIB = 1_024
TABLE, KEYSPACE = "wide", "bench"
GET_ONE, GET_TWO = "tonnage get, 1 job", "tonnage get, 2 jobs"
PYTHON = "the Python driver's execute_concurrent"
PUTS, GETS = "nine tasks, each put awaited", "nine tasks, each get awaited"


@cache
def nodes():
    """The addresses of the cluster, which the first case that needs it brings up."""
    directory = os.environ["TONNAGE_TEST_CASSANDRA_DIRECTORY"]
    command = [data.ROOT / "scripts" / "cassandra-cluster", "up", directory, HEAP_MIB]
    return data.run(command).strip().removeprefix("cassandra://")


def url():
    return f"cassandra://{nodes()}/{KEYSPACE}?ledger={ledger()}"


def ledger():
    return data.PLACE / "cassandra.ledger"


def hidden():
    """Places that say nothing to a reader, and what stands for them."""
    if not nodes.cache_info().currsize:
        return []
    return [("$CASSANDRA_URL", url()), ("$CASSANDRA_URL", url().split("?")[0]), ("$NODES", nodes())]


def processes():
    """The process numbers of the three nodes."""
    directory = Path(os.environ["TONNAGE_TEST_CASSANDRA_DIRECTORY"])
    return [(directory / node / "pid").read_text().strip() for node in "123"]


def server_seconds():
    """Processor time of the three nodes."""
    return sum(measure.process_seconds(process, children=False) for process in processes())


def client(*arguments):
    return data.run([data.tools() / "python", data.ROOT / "bench" / "cassandra_client.py", *arguments])


def fresh():
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
    client(
        "run",
        nodes(),
        f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {replication}",
        f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.{TABLE} (id int PRIMARY KEY, body text)",
        f"TRUNCATE {KEYSPACE}.{TABLE}",
    )
    for file in data.PLACE.glob(f"{ledger().name}*"):
        file.unlink()


def count():
    return int(client("count", nodes(), KEYSPACE, TABLE))


def wide(rows):
    """Rows of about a kilobyte."""

    def make(path):
        dice = random.Random(1)
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["id", "body"])
            writer.writerows([id_, dice.randbytes(BODY_BYTES // 2).hex()] for id_ in range(1, rows + 1))

    return data.made(f"wide-{rows}.csv", make)


def keys(rows):
    """Half of the keys, in random order."""

    def make(path):
        drawn = random.Random(1).sample(range(1, rows + 1), rows // 2)
        with open(path, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["id"], *([key] for key in drawn)])

    return data.made(f"wide-{rows}-keys.csv", make)


def loads(name, rows, level):
    rows = rows // PART
    source = wide(rows)
    example = data.example("nine_tasks")
    contenders = {
        CSV_1: load(source, url(), TABLE, "-j", "1", "--durability", level),
        CSV_2: load(source, url(), TABLE, "-j", "2", "--durability", level),
        PYTHON: script("cassandra_client.py", "load", level, nodes(), KEYSPACE, TABLE, source),
        PUTS: Contender([[example, "put", level, url(), TABLE, source]], tells=True),
    }
    goals = [
        Faster(CSV, [PYTHON], 2, "2 times as fast as the Python driver's execute_concurrent"),
        Faster(CSV, [PUTS], 2, "2 times as fast as nine tasks that await single puts"),
    ]
    title = f"Rows of 1 KB into Cassandra, three replicas, durability {level}"
    return Case(name, title, rows, fresh, contenders, goals, count=count, server=server_seconds)


def gets(name, rows, level):
    """`level` is how many replicas are asked: one, or a majority."""
    rows = rows // PART
    fresh()
    data.run([data.TONNAGE, "load", "-q", wide(rows), url(), "-t", TABLE, "--durability", "all"])
    wanted = keys(rows)
    contenders = {}
    for contender, jobs in [(GET_ONE, "1"), (GET_TWO, "2")]:
        output = ["-o", "/dev/null", "--format", "csv", "-j", jobs]
        place = f"{url()}&read_consistency={level}"
        contenders[contender] = Contender([[data.TONNAGE, "get", "-q", place, "--keys", wanted, "-t", TABLE, *output]])
    single = {"one": "relaxed", "majority": "majority"}[level]
    contenders[GETS] = Contender([[data.example("nine_tasks"), "get", single, url(), TABLE, wanted]], tells=True)
    goals = [Faster([GET_ONE, GET_TWO], [GETS], 3, "3 times as fast as nine tasks that await single gets")]
    asked = {"one": "one", "majority": "a majority"}[level]
    title = f"Rows of 1 KB by {rows // 2:,} keys of {rows:,} rows in Cassandra, {asked} of three replicas asked"
    return Case(name, title, rows // 2, lambda: None, contenders, goals, server=server_seconds)
