"""Rows over the network into PostgreSQL: `tonnage serve` by its clients, beside single-row commits by pgbench.

Each run has a server, a table and journals made anew; starting them is not measured.
"""

import atexit
import json
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import data
import measure
import postgres as pg
from goals import Faster, Line, Within
from measure import Case, Contender, Failed

DDL = "create table single_rows (id bigint, device text, value double precision, note text)"
# A part of the rows asked for: each of these is a request.
PART = 20
PACED_SECONDS = 10
ACKS = ["accepted", "journaled", "committed"]
# The whole process may take so much more than its buffers.
MEMORY_BYTES = 256 << 20

COMMITS = "single-row commits, pgbench"
LOAD, FLIGHT = "tonnage load, Parquet", "tonnage serve, Flight ingest"


class Server:
    """`tonnage serve` on a port of its own; journals are empty at each start."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.process = None
        atexit.register(self.stop)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def start(self):
        state = tempfile.mkdtemp(prefix="serve-", dir=data.PLACE)
        log = Path(state) / "log"
        command = [data.TONNAGE, "serve", pg.URL, "--listen", self.address, "--state", state]
        with open(log, "w") as file:
            self.process = subprocess.Popen([str(word) for word in command], stderr=file)
        for _ in range(200):
            if "listening on" in log.read_text():
                return
            time.sleep(0.05)
        raise Failed(f"tonnage serve does not listen: {log.read_text()}")


SERVER = Server()


def puts(*way):
    return [data.server_example("serve_puts"), SERVER.address, *way]


def fresh():
    """A table and a server anew: the buffers' ledger goes with the tables."""
    SERVER.stop()
    pg.fresh("single_rows", DDL)
    SERVER.start()
    # A request without rows opens the buffer.
    url = f"http://{SERVER.address}/v1/tables/single_rows/rows"
    asked = urllib.request.Request(url, b"", {"Content-Type": "application/x-ndjson"}, method="POST")
    urllib.request.urlopen(asked, timeout=60).close()


def figures(*way):
    """What a way says of itself, into a table made anew."""
    fresh()
    said = data.run(puts(*way))
    return json.loads(said.strip().splitlines()[-2])


def commits(connections, rows):
    """Each connection of pgbench inserts and commits one row after the other."""
    script = data.PLACE / "commits.sql"
    script.write_text(
        "insert into single_rows values (:client_id, 'device-0001', 1.5, repeat('0', 176));\n"
    )
    each = rows // connections
    command = ["pgbench", "-n", "-M", "prepared", "-f", script, "-c", connections, "-j", 2, "-t", each, pg.URL]
    return Contender([command])


def further(connections, rows):
    """Latencies by the times at which rows were due, at half of the rate that was reached."""
    for ack in ACKS:
        reached = figures("rows", ack, connections, rows)
        rate = max(int(reached["rows_per_second"] / 2), 1)
        paced = figures("paced", ack, connections, rate, PACED_SECONDS)
        measured = ", ".join(f"{name[:-3]} {paced[name]:.2f} ms" for name in ("p50_ms", "p99_ms", "p999_ms"))
        yield Line(f"{ack}: {reached['rows_per_second']:,.0f} rows/s; at half of that", measured, None)
    status = open(f"/proc/{SERVER.process.pid}/status").read()
    most = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10
    yield Line("memory of the server at most", f"{most / 2**20:.0f} MiB", most <= MEMORY_BYTES)


def single(name, rows, connections):
    """One row a request at each acknowledgement."""
    rows = rows // PART // connections * connections
    names = {ack: f"tonnage serve, {ack}" for ack in ACKS}
    contenders = {COMMITS: commits(connections, rows)}
    for ack in ACKS:
        contenders[names[ack]] = Contender([puts("rows", ack, connections, rows)], tells=True)
    goals = []
    if connections == 256:
        text = "one row a request, journaled: 5 times as fast as single-row commits"
        goals.append(Faster([names["journaled"]], [COMMITS], 5, text))
    return Case(
        name, f"One row of 200 bytes a request into PostgreSQL, {connections} connections", rows, fresh, contenders,
        goals, count=lambda: pg.count("single_rows"), server=pg.server_seconds,
        further=lambda: list(further(connections, rows)),
    )


def batches(name, rows):
    """1,000 rows a request in each format, a Flight ingest, and a load of the same rows."""
    parquet = data.made(f"{rows}/single_rows.parquet", lambda path: parquet_of(path, rows))
    names = {format_: f"tonnage serve, {format_}, 1,000 rows a request" for format_ in ("jsonl", "csv", "arrow")}
    load = [data.TONNAGE, "load", parquet, pg.URL, "-t", "single_rows", "-q"]
    contenders = {LOAD: Contender([load])}
    for format_, contender in names.items():
        contenders[contender] = Contender([puts("bodies", format_, rows)], tells=True)
    flight = [data.tools() / "python", data.ROOT / "bench/flight_ingest.py", f"grpc://{SERVER.address}", parquet]
    contenders[FLIGHT] = Contender([flight], tells=True)
    goals = [Within([names["arrow"]], [LOAD], 1 / 0.7, "Arrow at 0.7 of the speed of tonnage load of the same rows")]
    return Case(
        name, "Rows of 200 bytes by thousands into PostgreSQL over the network", rows, fresh, contenders, goals,
        notes=["The rows of a Flight ingest are committed when it ends, those of the others are journaled."],
        count=lambda: pg.count("single_rows"), server=pg.server_seconds,
    )


def parquet_of(path, rows):
    """The rows that clients put, as a file."""
    script = (
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n"
        "ids = range(int(sys.argv[2]))\n"
        "table = pa.table({'id': pa.array(ids, pa.int64()), 'device': [f'device-{i % 1000:04}' for i in ids],\n"
        "    'value': [i % 97 + 0.5 for i in ids], 'note': [f'{i:0>176}' for i in ids]})\n"
        "pq.write_table(table, sys.argv[1])\n"
    )
    data.run([data.tools() / "python", "-c", script, path, rows])
