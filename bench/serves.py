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

TELEGRAF_PATH = "/telegraf"
COMMITS, TELEGRAF = "single-row commits, pgbench", "Telegraf, in memory"
LOAD, FLIGHT = "tonnage load, Parquet", "tonnage serve, Flight ingest"


class Server:
    """A server on a port of its own, whose state is empty at each start."""

    # What it logs once it listens.
    listens = "listening on"

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.process = None
        atexit.register(self.stop)

    def command(self, state):
        return [data.TONNAGE, "serve", pg.URL, "--listen", self.address, "--state", state]

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def start(self):
        state = tempfile.mkdtemp(prefix="serve-", dir=data.PLACE)
        log = Path(state) / "log"
        command = [str(word) for word in self.command(state)]
        with open(log, "w") as file:
            self.process = subprocess.Popen(command, stderr=file)
        for _ in range(200):
            if self.listens in log.read_text():
                return
            time.sleep(0.05)
        raise Failed(f"{command[0]} does not listen: {log.read_text()}")


class Telegraf(Server):
    """Its listener for HTTP in front of its output for PostgreSQL. What it has answered is in its memory alone; a second later
    it is in the table, with a column `time`."""

    listens = "Listening on"

    def command(self, state):
        config = Path(state) / "telegraf.conf"
        fields = "".join(
            f'    [[inputs.http_listener_v2.json_v2.field]]\n      path = "{name}"\n      type = "{type_}"\n'
            for name, type_ in [("id", "int"), ("device", "string"), ("value", "float"), ("note", "string")]
        )
        config.write_text(
            "[agent]\n"
            '  flush_interval = "1s"\n'
            "  metric_batch_size = 10000\n"
            "  metric_buffer_limit = 10000000\n"
            "  omit_hostname = true\n"
            "[[inputs.http_listener_v2]]\n"
            f'  service_address = "tcp://{self.address}"\n'
            f'  paths = ["{TELEGRAF_PATH}"]\n'
            '  data_format = "json_v2"\n'
            '  name_override = "single_rows"\n'
            "  [[inputs.http_listener_v2.json_v2]]\n"
            f"{fields}"
            "[[outputs.postgresql]]\n"
            f'  connection = "{pg.URL}"\n'
        )
        return [TELEGRAF_PROGRAM, "--config", config]


SERVER, TELEGRAF_SERVER = Server(), Telegraf()
TELEGRAF_PROGRAM = None


def puts(*way):
    return [data.server_example("serve_puts"), SERVER.address, *way]


def fresh():
    """A table and servers anew: the buffers' ledger goes with the tables."""
    SERVER.stop()
    TELEGRAF_SERVER.stop()
    pg.fresh("single_rows", DDL)
    SERVER.start()
    if TELEGRAF_PROGRAM is not None:
        TELEGRAF_SERVER.start()
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
    global TELEGRAF_PROGRAM
    TELEGRAF_PROGRAM = data.run([data.ROOT / "scripts/fetch-telegraf"]).strip()
    put = [data.server_example("serve_puts"), TELEGRAF_SERVER.address, "posted", TELEGRAF_PATH, connections, rows]
    contenders[TELEGRAF] = Contender([put], tells=True)
    goals = []
    if connections == 256:
        text = "one row a request, journaled: 5 times as fast as single-row commits"
        goals.append(Faster([names["journaled"]], [COMMITS], 5, text))
    return Case(
        name, f"One row of 200 bytes a request into PostgreSQL, {connections} connections", rows, fresh, contenders,
        goals, notes=["Telegraf keeps what it has answered for in memory: beside 'accepted'."],
        count=lambda: counted(rows), server=pg.server_seconds,
        further=lambda: list(further(connections, rows)),
    )


def counted(rows):
    """Rows of the table, once it has all of them or no more come: Telegraf writes a second after it has answered."""
    for _ in range(100):
        count = pg.count("single_rows")
        if count >= rows:
            break
        time.sleep(0.1)
    return count


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
