"""MariaDB: loads without and with keys, and in random key order."""

import os
from urllib.parse import urlsplit

import data
import measure
from contenders import CSV, PARQUET, SORTED, TONNAGE_1, UNSORTED, in_random_order, load, loads
from goals import Faster
from measure import Case, Contender

PRESENT = "TONNAGE_TEST_MARIADB_URL" in os.environ

# Without TLS for every client alike: the server offers it over TCP, on one machine too.
URL = os.environ.get("TONNAGE_TEST_MARIADB_URL", "") + "?sslmode=disable"
PARTS = urlsplit(URL)

SBTEST = "id int not null, k int not null, c char(120) not null, pad char(60) not null"
KEYS = "primary key (id), key k_1 (k)"
LOAD_DATA = "LOAD DATA LOCAL by the mariadb client, CSV"


def hidden():
    """Places that say nothing to a reader, and what stands for them."""
    if not PRESENT:
        return []
    return [("$MARIADB_URL", URL), ("$PASSWORD", PARTS.password), ("$PORT", PARTS.port)]


def server_seconds():
    """Processor time of the server, whose sessions are threads; what it does by itself is in it."""
    return measure.process_seconds(os.environ["TONNAGE_TEST_MARIADB_PID"], children=False)


def client(*options, parts=PARTS):
    """The client's words for the server of with-servers, or for another one by the parts of its URL."""
    place = ["--host", parts.hostname, f"--port={parts.port}", f"--user={parts.username}", f"--password={parts.password}"]
    return ["mariadb", "--no-defaults", *place, *options, parts.path.strip("/")]


def statements(*texts, parts=PARTS):
    data.run(client("--execute", "; ".join(texts), parts=parts))


def count(table):
    return int(data.run(client("--skip-column-names", "--batch", "--execute", f"select count(*) from {table}")))


def pool(mebibytes):
    """Gives the server so much memory for pages: 128 MiB is what it has unless told."""
    statements(f"set global innodb_buffer_pool_size = {mebibytes << 20}")


def fresh(table, *ddl):
    statements(f"drop table if exists {table}, tonnage_inputs, tonnage_slots, tonnage_runs", *ddl)
    os.sync()


def load_data(source, table):
    """The client's LOAD DATA in a strict session; an error, not a warning, for what does not fit."""
    statement = (
        f"set session sql_mode = 'TRADITIONAL'; load data local infile '{source}' into table {table} "
        "fields terminated by ',' optionally enclosed by x'22' ignore 1 lines"
    )
    return Contender([client("--local-infile", "--execute", statement)])


def sbtest(name, rows, keys):
    pool(128)
    parquet, csv = data.sbtest(rows, "parquet"), data.sbtest(rows, "csv")
    native = f"{TONNAGE_1}, --method native"
    contenders = loads(parquet, csv, URL, "sbtest1") | {
        native: load(parquet, URL, "sbtest1", "-j", "1", "--method", "native"),
        LOAD_DATA: load_data(csv, "sbtest1"),
    }
    goals = []
    if keys:
        goals = [Faster([*PARQUET, *CSV], [LOAD_DATA], 1.4, "1.4 times as fast as LOAD DATA LOCAL of the same CSV")]
    ddl = f"create table sbtest1 ({SBTEST}{', ' + KEYS if keys else ''}) engine = innodb"
    title = f"sbtest into MariaDB, {'primary and secondary key' if keys else 'no keys'}"
    anew = lambda: fresh("sbtest1", ddl)
    return Case(name, title, rows, anew, contenders, goals, count=lambda: count("sbtest1"), server=server_seconds)


def random_keys(name, rows):
    pool(128)
    ddl = f"create table sbtest1 ({SBTEST}, {KEYS}) engine = innodb"
    title = "sbtest in random key order into MariaDB, primary and secondary key"
    contenders = in_random_order(URL, data.shuffled(rows), "sbtest1")
    goals = [Faster(SORTED, UNSORTED, 3, "sorted 3 times as fast as unsorted")]
    return Case(
        name, title, rows, lambda: fresh("sbtest1", ddl), contenders, goals,
        count=lambda: count("sbtest1"), server=server_seconds, warm=False,
    )


def stored(rows):
    """The table `stored` of that many rows, with a primary key, and memory for all of it: what a get costs, not a disk."""
    pool(3 << 10)
    fresh("stored", f"create table stored ({SBTEST}, primary key (id)) engine = innodb")
    data.run([data.TONNAGE, "load", "-q", data.sbtest(rows, "parquet"), URL, "-t", "stored", "--ledger", "none"])
    statements("analyze table stored")
