"""What the ledger adds to a commit: WAL bytes, and turns of the conversation with the server."""

import json
import socket
import subprocess
import threading
from urllib.parse import urlsplit

import cases
import data

# Many small commits, so that the cost of a commit stands out from that of a run.
BATCH_ROWS = 100
COMMITS = [500, 1_500]


class Listener:
    """Passes a connection on to the server and counts how often the client speaks after the server has."""

    def __init__(self, host, port):
        self.server = (host, port)
        self.turns = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listening.accept()
            server = socket.create_connection(self.server)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            spoke = {"server": True}
            threading.Thread(target=self.forward, args=(client, server, spoke, True), daemon=True).start()
            threading.Thread(target=self.forward, args=(server, client, spoke, False), daemon=True).start()

    def forward(self, source, sink, spoke, is_client):
        while chunk := source.recv(1 << 20):
            if is_client and spoke["server"]:
                self.turns += 1
            spoke["server"] = not is_client
            sink.sendall(chunk)
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def wal_bytes():
    sql = "select pg_current_wal_insert_lsn() - '0/0'"
    return int(subprocess.run(["psql", "-qXAt", cases.URL, "-c", sql], capture_output=True, text=True, check=True).stdout)


def once(parquet, commits, options):
    """WAL bytes, turns and commits of a load of `commits` writes."""
    parts = urlsplit(cases.URL)
    listener = Listener(parts.hostname, parts.port)
    url = cases.URL.replace(f":{parts.port}/", f":{listener.port}/")
    # A table that is there and a ledger that is there, so that neither is made meanwhile.
    cases.psql("truncate sbtest1")
    before = wal_bytes()
    limit = ["--limit", commits * BATCH_ROWS, "--batch-rows", BATCH_ROWS, "-j", "1"]
    report = data.run([data.TONNAGE, "load", "-q", "--report", "-", parquet, url, "-t", "sbtest1", *limit, *options])
    return wal_bytes() - before, listener.turns, json.loads(report)["commits"]


def cost(rows):
    """WAL bytes and turns that the ledger adds to each commit, and the lines that say so."""
    parquet = data.sbtest(rows, "parquet")
    cases.fresh_postgres("sbtest1", f"create table sbtest1 ({cases.SBTEST})")
    # The first load makes the ledger; its pages are written in full once, before what is counted.
    once(parquet, 10, [])
    steps = {}
    for name, options in {"without": ["--ledger", "none"], "with": []}.items():
        few, many = (once(parquet, commits, options) for commits in COMMITS)
        more = many[2] - few[2]
        steps[name] = ((many[0] - few[0]) / more, (many[1] - few[1]) / more)
    wal, turns = (after - before for before, after in zip(steps["without"], steps["with"]))
    return {
        "wal_bytes": wal,
        "turns": turns,
        "lines": [
            f"WAL bytes a commit: {steps['with'][0]:,.0f} with the ledger, {steps['without'][0]:,.0f} without: "
            f"{wal:.0f} more (goal: at most 200)",
            f"turns of the conversation a commit: {steps['with'][1]:.2f} with the ledger, "
            f"{steps['without'][1]:.2f} without: {turns:.2f} more (goal: at most 1)",
        ],
    }
