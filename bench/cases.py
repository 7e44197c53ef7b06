"""What is compared: tables, contenders, and the ratios that are to be reached."""

import os
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path

import data
from measure import Case, Contender

# Without TLS for every client alike: the server encrypts TCP otherwise, on one machine too.
URL = os.environ.get("TONNAGE_TEST_POSTGRES_URL", "") + "?sslmode=disable"
DATABASE = data.PLACE / "bench.db"

SBTEST = "id int, k int, c char(120), pad char(60)"
SBTEST_SQLITE = "id integer, k int, c char(120), pad char(60)"
LINEITEM = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
    "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag char(1), "
    "l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct char(25), "
    "l_shipmode char(10), l_comment varchar(44)"
)
# Dates are text in SQLite.
LINEITEM_SQLITE = LINEITEM.replace(" date,", " text,")


@dataclass
class Goal:
    """The quickest of `of` takes at most `most` times what the quickest of `against` takes."""

    of: list
    against: list
    most: float
    text: str


@dataclass
class ProcessorGoal:
    """`of` takes at most `most` client processor seconds a million rows."""

    of: str
    most: float


def psql(*statements):
    command = ["psql", "-qX", "-v", "ON_ERROR_STOP=1", URL, "-c", "set client_min_messages = warning"]
    for statement in statements:
        command += ["-c", statement]
    subprocess.run(command, check=True)


def fresh_postgres(table, *ddl):
    psql(f"drop table if exists {table}, tonnage_slots, tonnage_runs", *ddl)
    psql("checkpoint")


def remove_sqlite():
    for path in DATABASE.parent.glob(f"{DATABASE.name}*"):
        path.unlink()


def fresh_sqlite(*ddl):
    remove_sqlite()
    database = sqlite3.connect(DATABASE)
    database.execute("pragma journal_mode = wal")
    for statement in ddl:
        database.execute(statement)
    database.commit()
    database.close()
    os.sync()


def load(source, target, table, *options):
    return Contender([[data.TONNAGE, "load", "-q", source, target, "-t", table, *options]])


def psql_copy(source, table):
    return Contender([["psql", "-qX", URL, "-c", f"\\copy {table} from '{source}' with (format csv, header)"]])


def server_copy(table, *files):
    return Contender(
        [["psql", "-qX", URL, "-c", f"copy {table} from '{name}' with (format binary)"] for name in files]
    )


def adbc(kind, uri, source, table):
    script = data.ROOT / "bench/adbc_ingest.py"
    return Contender([[data.tools() / "python", script, kind, uri, source, table]], tells=True)


def sqlite_import(source, table):
    script = f".mode csv\n.import --skip 1 {source} {table}\n"
    return Contender([["sqlite3", DATABASE]], stdin=script)


def sqlite_attached(full, table):
    return Contender([["sqlite3", DATABASE, f"attach '{full}' as f; insert into {table} select * from f.{table}"]])


def server_files(table, source, halves, *ddl):
    """The server's own binary copies of a source, whole and in halves by the condition `halves`."""
    directory = Path(os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent / "socket"
    names = [directory / f"{table}-{part}.copy" for part in ["all", "first", "second"]]
    if not all(name.exists() for name in names):
        fresh_postgres(table, *ddl)
        data.run([data.TONNAGE, "load", "-q", source, URL, "-t", table, "--ledger", "none"])
        for name, condition in zip(names, ["true", halves, f"not ({halves})"]):
            psql(f"copy (select * from {table} where {condition}) to '{name}' with (format binary)")
    return names


def options_of_load():
    return data.run([data.TONNAGE, "load", "--help"])


ONE, TWO = ["tonnage, Parquet, 1 job"], ["tonnage, Parquet, 1 job", "tonnage, Parquet, 2 jobs"]
CSV = ["tonnage, CSV, 1 job", "tonnage, CSV, 2 jobs"]
COPY, COPIES = "COPY BINARY by the server, one", "COPY BINARY by the server, two at once"


def postgres(name, title, table, rows, parquet, csv, halves, columns, after):
    whole, first, second = server_files(table, parquet, halves, f"create table {table} ({columns})")
    contenders = {
        "tonnage, Parquet, 1 job": load(parquet, URL, table, "-j", "1"),
        "tonnage, Parquet, 2 jobs": load(parquet, URL, table, "-j", "2"),
        "tonnage, CSV, 1 job": load(csv, URL, table, "-j", "1"),
        "tonnage, CSV, 2 jobs": load(csv, URL, table, "-j", "2"),
        "psql \\copy, CSV": psql_copy(csv, table),
        "ADBC, Parquet": adbc("postgresql", URL, parquet, table),
        COPY: server_copy(table, whole),
        COPIES: server_copy(table, first, second),
    }
    goals = [
        Goal(TWO, ["ADBC, Parquet"], 1 / 1.4, "1.4 times faster than ADBC"),
        Goal(CSV, ["psql \\copy, CSV"], 1 / 1.8, "from CSV 1.8 times faster than psql \\copy"),
        Goal(ONE, [COPY], 1.25, "one job within 1.25 of one COPY by the server"),
        Goal(TWO, [COPY, COPIES], 1.15, "the better number of jobs within 1.15 of the better number of COPYs"),
        ProcessorGoal("tonnage, Parquet, 1 job", 0.8),
    ]
    if after:
        goals = [
            Goal(TWO, ["psql \\copy, CSV"], 1 / 1.5, "1.5 times faster than psql \\copy"),
            Goal(TWO, ["ADBC, Parquet"], 1 / 1.5, "1.5 times faster than ADBC"),
        ]
        if "--rebuild-indexes" in options_of_load():
            rebuilt = [f"{name}, --rebuild-indexes" for name in TWO]
            for jobs, contender in zip(["1", "2"], rebuilt):
                contenders[contender] = load(parquet, URL, table, "-j", jobs, "--rebuild-indexes")
            goals.append(Goal(rebuilt, ["psql \\copy, CSV"], 1 / 2.5, "indexes rebuilt: 2.5 times faster than psql \\copy"))
            goals.append(Goal(rebuilt, ["ADBC, Parquet"], 1 / 2.5, "indexes rebuilt: 2.5 times faster than ADBC"))
    ddl = [f"create table {table} ({columns})", *after]
    case = Case(name, title, rows, lambda: fresh_postgres(table, *ddl), contenders, goals)
    duckdb(case, "postgres")
    return case


def duckdb(case, extension):
    """DuckDB writes to other databases by an extension that it downloads."""
    missing = data.duckdb_extension(extension)
    if missing is not None:
        case.notes.append(f"DuckDB is left out: its extension {extension} cannot be had here ({missing})")


def sqlite(name, title, table, rows, parquet, csv, columns, after):
    ddl = [f"create table {table} ({columns})", *after]
    full = data.full_sqlite(f"{parquet.parent.name}/full-{table}.db", parquet, table, ddl[0])
    limit = "INSERT .. SELECT from an attached file"
    contenders = {
        "tonnage, Parquet": load(parquet, DATABASE, table),
        "tonnage, CSV": load(csv, DATABASE, table),
        "tonnage, Parquet, relaxed": load(parquet, DATABASE, table, "--durability", "relaxed"),
        "ADBC, Parquet": adbc("sqlite", DATABASE, parquet, table),
        "sqlite3 .import, CSV": sqlite_import(csv, table),
        limit: sqlite_attached(full, table),
    }
    goals = [
        Goal(["tonnage, Parquet"], ["ADBC, Parquet"], 1.0, "no slower than ADBC"),
        Goal(["tonnage, Parquet"], [limit], 1.2, "within 1.2 of the limit"),
    ]
    case = Case(name, title, rows, lambda: fresh_sqlite(*ddl), contenders, goals)
    duckdb(case, "sqlite")
    return case


def connections(rows, parquet, csv):
    """The same load over each kind of connection; psql beside it."""
    plain = URL
    encrypted = URL.replace("sslmode=disable", "sslmode=require")
    socket = f"postgresql:///postgres?host={os.environ['TONNAGE_TEST_POSTGRES_SOCKET']}&user=tonnage&port={port()}"
    contenders = {}
    for kind, url in [("TCP", plain), ("TCP with TLS", encrypted), ("a unix socket", socket)]:
        contenders[f"tonnage, Parquet, {kind}"] = load(parquet, url, "sbtest1", "-j", "1")
        copy = f"\\copy sbtest1 from '{csv}' with (format csv, header)"
        contenders[f"psql \\copy, CSV, {kind}"] = Contender([["psql", "-qX", url, "-c", copy]])
    ddl = f"create table sbtest1 ({SBTEST})"
    return Case(
        "postgres-connections",
        "sbtest into PostgreSQL over each kind of connection",
        rows,
        lambda: fresh_postgres("sbtest1", ddl),
        contenders,
    )


def port():
    return URL.rsplit(":", 1)[1].split("/", 1)[0]


def random_keys(rows):
    """Random key order into a table with a primary key, unsorted and sorted."""
    parquet = data.shuffled(rows)

    def contenders(target, *options):
        made = {f"tonnage, --sort {sort}": load(parquet, target, "sbtest1", "--sort", sort, *options) for sort in ["full", "none"]}
        goal = Goal(["tonnage, --sort full"], ["tonnage, --sort none"], 1 / 5, "sorted 5 times faster than unsorted")
        return made, [goal]

    made, goals = contenders(DATABASE)
    ddl = f"create table sbtest1 ({SBTEST_SQLITE}, primary key (id))"
    yield Case(
        "random-keys-sqlite",
        "sbtest in random key order into SQLite with a primary key",
        rows,
        lambda: fresh_sqlite(ddl),
        made,
        goals,
        runs_max=3,
    )
    if "TONNAGE_TEST_POSTGRES_URL" in os.environ:
        made, _ = contenders(URL)
        ddl_postgres = f"create table sbtest1 ({SBTEST}, primary key (id))"
        yield Case(
            "random-keys-postgres",
            "sbtest in random key order into PostgreSQL with a primary key",
            rows,
            lambda: fresh_postgres("sbtest1", ddl_postgres),
            made,
            runs_max=3,
        )


def ledger_time(rows, parquet):
    ddl = f"create table sbtest1 ({SBTEST})"
    contenders = {
        "tonnage, --ledger none": load(parquet, URL, "sbtest1", "-j", "1", "--ledger", "none"),
        "tonnage, with its ledger": load(parquet, URL, "sbtest1", "-j", "1"),
    }
    return Case(
        "ledger",
        "sbtest into PostgreSQL, without and with the ledger",
        rows,
        lambda: fresh_postgres("sbtest1", ddl),
        contenders,
    )


def all_cases(rows):
    """Name of each case and what makes it; files are made with it, so only for those asked for."""
    scale = f"{rows / 1_000_000:g}"
    lineitems = round(6_001_215 * rows / 1_000_000)
    half = f"l_orderkey <= {lineitems // 2}"
    cases = {}

    def sbtest_postgres(name, title, after):
        cases[name] = lambda: postgres(
            name, title, "sbtest1", rows, data.sbtest(rows, "parquet"), data.sbtest(rows, "csv"),
            f"id <= {rows // 2}", SBTEST, after,
        )

    def lineitem_postgres(name, title, after):
        cases[name] = lambda: postgres(
            name, title, "lineitem", lineitems, data.lineitem(scale, "parquet"), data.lineitem(scale, "csv"),
            half, LINEITEM, after,
        )

    def sbtest_sqlite(name, title, columns, after):
        cases[name] = lambda: sqlite(
            name, title, "sbtest1", rows, data.sbtest(rows, "parquet"), data.sbtest(rows, "csv"), columns, after
        )

    def lineitem_sqlite(name, title, after):
        cases[name] = lambda: sqlite(
            name, title, "lineitem", lineitems, data.lineitem(scale, "parquet"), data.lineitem(scale, "csv"),
            LINEITEM_SQLITE, after,
        )

    if "TONNAGE_TEST_POSTGRES_URL" in os.environ:
        keys = ["alter table sbtest1 add primary key (id)", "create index k_1 on sbtest1 (k)"]
        sbtest_postgres("postgres-no-keys", "sbtest into PostgreSQL, no keys", [])
        sbtest_postgres("postgres-keys", "sbtest into PostgreSQL, primary and secondary key", keys)
        key = ["alter table lineitem add primary key (l_orderkey, l_linenumber)"]
        lineitem_postgres("lineitem-postgres-no-keys", "TPC-H lineitem into PostgreSQL, no keys", [])
        lineitem_postgres("lineitem-postgres-keys", "TPC-H lineitem into PostgreSQL, primary key", key)
        cases["postgres-connections"] = lambda: connections(rows, data.sbtest(rows, "parquet"), data.sbtest(rows, "csv"))
        cases["ledger"] = lambda: ledger_time(rows, data.sbtest(rows, "parquet"))
    sbtest_sqlite("sqlite-no-keys", "sbtest into SQLite, no keys", SBTEST, [])
    with_key = f"{SBTEST_SQLITE}, primary key (id)"
    sbtest_sqlite("sqlite-keys", "sbtest into SQLite, primary and secondary key", with_key, ["create index k_1 on sbtest1 (k)"])
    lineitem_sqlite("lineitem-sqlite", "TPC-H lineitem into SQLite, no keys", [])
    for number, name in enumerate(["random-keys-sqlite", "random-keys-postgres"]):
        if name == "random-keys-sqlite" or "TONNAGE_TEST_POSTGRES_URL" in os.environ:
            cases[name] = lambda number=number: list(random_keys(5 * rows))[number]
    return cases
