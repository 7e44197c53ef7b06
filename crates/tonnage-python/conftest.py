"""Databases for tests and doctests."""

import os
import sqlite3
import subprocess
import time
import uuid
from pathlib import Path

import pytest


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A database of SQLite with three orders; tests work in its directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as made:
        made.execute("create table orders (id integer primary key, total numeric(10,2))")
        made.executemany("insert into orders values (?, ?)", [(1, "9.99"), (2, "4.20"), (3, "0.50")])
    made.close()
    return str(path)


class Place:
    """A database of any kind, and rows of it counted behind the package's back."""

    def __init__(self, kind, url, run):
        self.kind, self.url, self.run = kind, url, run
        self.table = f"t_{uuid.uuid4().hex[:12]}"

    def count(self, what="count(*)"):
        return self.run(f"select {what} from {self.table}")[0][0]


def _sqlite(tmp_path):
    path = tmp_path / "place.db"

    def run(sql):
        with sqlite3.connect(path, timeout=30) as connection:
            found = connection.execute(sql).fetchall()
        connection.close()
        return found

    run("create table first (n int)")
    return Place("sqlite", str(path), run)


def _postgres(_):
    import psycopg

    url = os.environ["TONNAGE_TEST_POSTGRES_URL"]

    def run(sql):
        # A state that a failed test still holds is not waited for.
        with psycopg.connect(url, autocommit=True, options="-c lock_timeout=20s") as connection:
            ran = connection.execute(sql)
            return ran.fetchall() if ran.description else []

    return Place("postgres", url, run)


def _mariadb(_):
    import pymysql
    from sqlalchemy.engine import make_url

    url = os.environ["TONNAGE_TEST_MARIADB_URL"]
    parts = make_url(url)

    def run(sql):
        connection = pymysql.connect(
            host=parts.host, port=parts.port, user=parts.username, password=parts.password or "",
            database=parts.database, autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    return Place("mariadb", url, run)


def _until_known(url, keyspace):
    """Waits until each node knows the keyspace: in a cluster that has just started they do not know each other yet."""
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import WhiteListRoundRobinPolicy

    nodes = url.partition("://")[2].partition("/")[0].rpartition("@")[2].split(",")
    for node in nodes:
        address, _, port = node.partition(":")
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([address]))
        cluster = Cluster([address], port=int(port or 9042), execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        session = cluster.connect()
        look = f"select keyspace_name from system_schema.keyspaces where keyspace_name = '{keyspace}'"
        for _ in range(600):
            if list(session.execute(look)):
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"{node} does not know {keyspace}")
        cluster.shutdown()


def _cassandra(_):
    directory = os.environ["TONNAGE_TEST_CASSANDRA_DIRECTORY"]
    root = Path(__file__).resolve().parent.parent.parent
    up = subprocess.run(
        [root / "scripts/cassandra-cluster", "up", directory], check=True, capture_output=True, text=True
    )
    url = up.stdout.split()[-1]
    from cassandra.cluster import Cluster

    address, _, port = url.partition("://")[2].partition("/")[0].partition(",")[0].rpartition("@")[2].partition(":")
    cluster = Cluster([address], port=int(port or 9042))
    session = cluster.connect()
    keyspace = f"py_{uuid.uuid4().hex[:12]}"
    session.execute(
        f"create keyspace {keyspace} with replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}}"
    )
    _until_known(url, keyspace)
    session.set_keyspace(keyspace)
    base, _, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    place = Place(
        "cassandra",
        f"{scheme}://{rest.partition('/')[0]}/{keyspace}" + (f"?{query}" if query else ""),
        lambda sql: [tuple(row) for row in session.execute(sql)],
    )
    place.cluster = cluster
    return place


MAKERS = {"sqlite": _sqlite, "postgres": _postgres, "mariadb": _mariadb, "cassandra": _cassandra}
# Servers are those of scripts/with-servers.
KINDS = ["sqlite", "postgres", "mariadb", "cassandra"]


@pytest.fixture(params=KINDS)
def place(request, tmp_path, monkeypatch):
    """An empty place for a table, in each kind of database."""
    monkeypatch.chdir(tmp_path)
    made = MAKERS[request.param](tmp_path)
    yield made
    if made.kind == "cassandra":
        made.cluster.shutdown()
    elif made.kind != "sqlite":
        made.run(f"drop table if exists {made.table}")


@pytest.fixture(params=[kind for kind in KINDS if kind != "cassandra"])
def transactional(request, tmp_path, monkeypatch):
    """The same of databases that have transactions."""
    monkeypatch.chdir(tmp_path)
    made = MAKERS[request.param](tmp_path)
    yield made
    if made.kind != "sqlite":
        made.run(f"drop table if exists {made.table}")
