"""PostgreSQL: loads without and with keys, over each kind of connection, with the ledger, in random key order; unload."""

import os
import subprocess
from pathlib import Path

import data
import ledger
import measure
from contenders import (
    CSV, PARQUET, SORTED, TONNAGE_1, TONNAGE_2, UNSORTED, adbc, duckdb, in_random_order, load, loads, script,
)
from goals import Faster, Line, ProcessorSeconds, ProcessorWithin, Within
from measure import Case, Contender

PRESENT = "TONNAGE_TEST_POSTGRES_URL" in os.environ

# Without TLS for every client alike: the server encrypts TCP otherwise, on one machine too.
URL = os.environ.get("TONNAGE_TEST_POSTGRES_URL", "") + "?sslmode=disable"
ENCRYPTED = URL.replace("sslmode=disable", "sslmode=require")

SBTEST = "id int, k int, c char(120), pad char(60)"
SBTEST_KEYS = ["alter table sbtest1 add primary key (id)", "create index k_1 on sbtest1 (k)"]
LINEITEM = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
    "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag char(1), "
    "l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct char(25), "
    "l_shipmode char(10), l_comment varchar(44)"
)
LINEITEM_KEYS = ["alter table lineitem add primary key (l_orderkey, l_linenumber)"]

COPY, COPIES = "COPY BINARY by the server, one", "COPY BINARY by the server, two at once"
PSQL, ADBC, DUCKDB = "psql \\copy, CSV", "ADBC, Parquet", "DuckDB, Parquet"


def hidden():
    """Places that say nothing to a reader, and what stands for them."""
    if not PRESENT:
        return []
    directory = Path(os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent
    return [("$URL_TLS", ENCRYPTED), ("$URL", URL), ("SERVER", directory)]


def server_seconds():
    """Processor time of the sessions that have ended."""
    return measure.process_seconds(os.environ["TONNAGE_TEST_POSTGRES_PID"], children=True)


def psql(*statements):
    command = ["psql", "-qX", "-v", "ON_ERROR_STOP=1", URL, "-c", "set client_min_messages = warning"]
    for statement in statements:
        command += ["-c", statement]
    data.run(command)


def count(table):
    return int(data.run(["psql", "-qXAt", URL, "-c", f"select count(*) from {table}"]))


def fresh(table, *ddl):
    psql(f"drop table if exists {table}, tonnage_inputs, tonnage_slots, tonnage_runs", *ddl)
    psql("checkpoint")


def copy_in(source, table, url=URL):
    return Contender([["psql", "-qX", url, "-c", f"\\copy {table} from '{source}' with (format csv, header)"]])


def server_copy(table, *files):
    return Contender(
        [["psql", "-qX", URL, "-c", f"copy {table} from '{name}' with (format binary)"] for name in files]
    )


def server_files(table, rows, source, half, ddl):
    """The server's own binary copies of a source, whole and in halves by the condition `half`."""
    directory = Path(os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent / "socket"
    names = [directory / f"{table}-{rows}-{part}.copy" for part in ["all", "first", "second"]]
    if not all(name.exists() for name in names):
        fresh(table, ddl)
        data.run([data.TONNAGE, "load", "-q", source, URL, "-t", table, "--ledger", "none"])
        for name, condition in zip(names, ["true", half, f"not ({half})"]):
            psql(f"copy (select * from {table} where {condition}) to '{name}' with (format binary)")
    return names


def case(name, title, table, rows, parquet, csv, half, columns, keys):
    ddl = f"create table {table} ({columns})"
    whole, first, second = server_files(table, rows, parquet, half, ddl)
    contenders = loads(parquet, csv, URL, table) | {
        PSQL: copy_in(csv, table),
        ADBC: adbc("postgresql", URL, parquet, table),
        DUCKDB: duckdb("postgres", URL, parquet, table),
        COPY: server_copy(table, whole),
        COPIES: server_copy(table, first, second),
    }
    if keys:
        goals = [
            Faster(PARQUET, [PSQL], 1.5, "1.5 times as fast as psql \\copy"),
            Faster(PARQUET, [ADBC], 1.5, "1.5 times as fast as ADBC"),
        ]
    else:
        goals = [
            Within([TONNAGE_1], [COPY], 1.25, "one job within 1.25 of one COPY by the server"),
            Within(PARQUET, [COPY, COPIES], 1.15, "the better number of jobs within 1.15 of the better number of COPYs"),
            Faster(PARQUET, [ADBC], 1.4, "1.4 times as fast as ADBC"),
            Faster(CSV, [PSQL], 1.8, "from CSV 1.8 times as fast as psql \\copy"),
        ]
    anew = lambda: fresh(table, ddl, *keys)
    return Case(name, title, rows, anew, contenders, goals, count=lambda: count(table), server=server_seconds)


def sbtest(name, rows, keys):
    parquet = data.sbtest(rows, "parquet")
    title = f"sbtest into PostgreSQL, {'primary and secondary key' if keys else 'no keys'}"
    made = case(
        name, title, "sbtest1", rows, parquet, data.sbtest(rows, "csv"), f"id <= {rows // 2}", SBTEST,
        SBTEST_KEYS if keys else [],
    )
    if keys:
        rebuilt = [f"{contender}, --rebuild-indexes" for contender in PARQUET]
        for jobs, contender in zip(["1", "2"], rebuilt):
            made.contenders[contender] = load(parquet, URL, "sbtest1", "-j", jobs, "--rebuild-indexes")
        made.goals += [
            Faster(rebuilt, [PSQL], 2.5, "indexes rebuilt: 2.5 times as fast as psql \\copy"),
            Faster(rebuilt, [ADBC], 2.5, "indexes rebuilt: 2.5 times as fast as ADBC"),
        ]
    else:
        made.goals.append(ProcessorSeconds(TONNAGE_1, 0.8))
    return made


def lineitem(name, rows, keys):
    scale, lines = data.lineitem_size(rows)
    title = f"TPC-H lineitem into PostgreSQL, {'primary key' if keys else 'no keys'}"
    made = case(
        name, title, "lineitem", lines, data.lineitem(scale, "parquet"), data.lineitem(scale, "csv"),
        f"l_orderkey <= {lines // 2}", LINEITEM, LINEITEM_KEYS if keys else [],
    )
    made.warm = False
    return made


def connections(name, rows):
    """The same load over each kind of connection; psql beside it."""
    parquet, csv = data.sbtest(rows, "parquet"), data.sbtest(rows, "csv")
    port = URL.rsplit(":", 1)[1].split("/", 1)[0]
    socket = f"postgresql:///postgres?host={os.environ['TONNAGE_TEST_POSTGRES_SOCKET']}&user=tonnage&port={port}"
    contenders = {}
    for kind, url in [("TCP", URL), ("TCP with TLS", ENCRYPTED), ("a unix socket", socket)]:
        contenders[f"tonnage, Parquet, {kind}"] = load(parquet, url, "sbtest1", "-j", "1")
        contenders[f"psql \\copy, CSV, {kind}"] = copy_in(csv, "sbtest1", url)
    title = "sbtest into PostgreSQL over each kind of connection"
    ddl = f"create table sbtest1 ({SBTEST})"
    anew = lambda: fresh("sbtest1", ddl)
    return Case(name, title, rows, anew, contenders, count=lambda: count("sbtest1"), server=server_seconds)


def with_ledger(name, rows):
    parquet = data.sbtest(rows, "parquet")
    ddl = f"create table sbtest1 ({SBTEST})"
    without, ours = "tonnage, --ledger none", "tonnage, with its ledger"
    contenders = {
        without: load(parquet, URL, "sbtest1", "-j", "1", "--ledger", "none"),
        ours: load(parquet, URL, "sbtest1", "-j", "1"),
    }
    goals = [ProcessorWithin(ours, without, 1.02, "less than 2 % more processor time, client and server together")]

    def commits():
        fresh("sbtest1", ddl)
        cost = ledger.cost(parquet, URL, psql, rows)
        return [Line(text, f"{value:.2f}", value <= most) for text, value, most in cost]

    title = "sbtest into PostgreSQL, without and with the ledger"
    return Case(
        name, title, rows, lambda: fresh("sbtest1", ddl), contenders, goals,
        count=lambda: count("sbtest1"), server=server_seconds, further=commits,
    )


def random_keys(name, rows):
    ddl = f"create table sbtest1 ({SBTEST}, primary key (id))"
    title = "sbtest in random key order into PostgreSQL with a primary key"
    contenders = in_random_order(URL, data.shuffled(rows), "sbtest1")
    goals = [Faster(SORTED, UNSORTED, 5, "sorted 5 times as fast as unsorted")]
    return Case(
        name, title, rows, lambda: fresh("sbtest1", ddl), contenders, goals,
        count=lambda: count("sbtest1"), server=server_seconds, warm=False,
    )


def partitions(name, rows):
    """Eight hash partitions beside one table, which goes by two jobs as they do."""
    parquet = data.sbtest(rows, "parquet")
    one, eight = "one table, 2 jobs", "8 hash partitions, 2 jobs"
    contenders = {
        eight: load(parquet, URL, "partitioned", "-j", "2"),
        one: load(parquet, URL, "sbtest1", "-j", "2"),
    }
    ddl = [f"create table {table} ({SBTEST}{key})" for table, key in [("sbtest1", ""), ("partitioned", ") partition by hash (id")]]
    ddl += [
        f"create table partitioned_{part} partition of partitioned for values with (modulus 8, remainder {part})"
        for part in range(8)
    ]
    # One of the two is empty.
    counted = lambda: count("sbtest1") + count("partitioned")
    goals = [Faster([eight], [one], 1, "partitions no slower than one table")]
    title = "sbtest into PostgreSQL, into one table and into 8 hash partitions"
    anew = lambda: fresh("partitioned", "drop table if exists sbtest1", *ddl)
    return Case(name, title, rows, anew, contenders, goals, count=counted, server=server_seconds)


def stored(rows):
    """The table `stored` of that many rows, with a primary key; made once a server."""
    kept = Path(os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent / "socket" / f"stored-{rows}"
    if not kept.exists():
        fresh("stored", f"create table stored ({SBTEST}, primary key (id))")
        data.run([data.TONNAGE, "load", "-q", data.sbtest(rows, "parquet"), URL, "-t", "stored", "--ledger", "none"])
        psql("vacuum (analyze, freeze) stored", "checkpoint")
        kept.touch()


def unload(name, rows):
    stored(rows)
    out = data.PLACE / "unloaded"
    out.mkdir(parents=True, exist_ok=True)

    def ours(file, jobs):
        output = ["-o", out / file, "--overwrite", "-j", jobs]
        return Contender([[data.TONNAGE, "unload", "-q", URL, "-t", "stored", *output]])

    one, two = "tonnage unload, Parquet, 1 job", "tonnage unload, Parquet, 2 jobs"
    copied, read = "psql \\copy .. to, CSV", "connectorx, two partitions, into memory"
    contenders = {
        one: ours("one.parquet", "1"),
        two: ours("two-{}.parquet", "2"),
        "tonnage unload, CSV, 1 job": ours("one.csv", "1"),
        copied: Contender([["psql", "-qX", URL, "-c", f"\\copy stored to '{out}/psql.csv' with (format csv, header)"]]),
        read: script("connectorx_read.py", URL, "stored", "id"),
    }
    goals = [
        Faster([one], [copied], 1, "one job faster than psql \\copy .. to CSV"),
        Faster([two], [read], 1, "two jobs faster than connectorx's partitioned read at two"),
    ]

    def emptied():
        for path in out.iterdir():
            path.unlink()
        os.sync()

    title = "sbtest out of PostgreSQL"
    return Case(name, title, rows, emptied, contenders, goals, server=server_seconds)
