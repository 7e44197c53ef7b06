"""Works on Cassandra by the Python driver.

    python cassandra_client.py load relaxed|majority NODES KEYSPACE TABLE FILE.csv
    python cassandra_client.py count NODES KEYSPACE TABLE
    python cassandra_client.py run NODES STATEMENT...

`load` puts the rows (`id,body`) by `execute_concurrent_with_args` at its default concurrency and prints the seconds and the
processor seconds that this took, without reading the file and connecting. `count` asks all replicas.
"""

import csv
import resource
import sys
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import RoundRobinPolicy, TokenAwarePolicy
from cassandra.query import SimpleStatement

LEVELS = {"relaxed": ConsistencyLevel.ONE, "majority": ConsistencyLevel.QUORUM, "all": ConsistencyLevel.ALL}
TIMEOUT_SECONDS = 60
PAGE_ROWS = 500


def connect(nodes, level):
    hosts = [node.rsplit(":", 1) for node in nodes.split(",")]
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
        consistency_level=LEVELS[level],
        request_timeout=TIMEOUT_SECONDS,
    )
    cluster = Cluster(
        [host for host, _ in hosts],
        port=int(hosts[0][1]),
        protocol_version=4,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )
    return cluster, cluster.connect()


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def load(level, nodes, keyspace, table, path):
    with open(path, newline="") as file:
        rows = [(int(row["id"]), row["body"]) for row in csv.DictReader(file)]
    cluster, session = connect(nodes, level)
    insert = session.prepare(f"INSERT INTO {keyspace}.{table} (id, body) VALUES (?, ?)")
    started, used = time.monotonic(), processor_seconds()
    execute_concurrent_with_args(session, insert, rows, raise_on_first_error=True)
    taken = time.monotonic() - started, processor_seconds() - used
    cluster.shutdown()
    print(*taken)


def count(nodes, keyspace, table):
    cluster, session = connect(nodes, "all")
    # Page by page: nodes that still take in what was written do not count a whole table within their time.
    keys = SimpleStatement(f"SELECT id FROM {keyspace}.{table}", fetch_size=PAGE_ROWS)
    print(sum(1 for _ in session.execute(keys)))
    cluster.shutdown()


def run(nodes, *statements):
    cluster, session = connect(nodes, "majority")
    for statement in statements:
        session.execute(statement)
    cluster.shutdown()


ACTIONS = {"load": load, "count": count, "run": run}
ACTIONS[sys.argv[1]](*sys.argv[2:])
