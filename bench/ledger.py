"""What the ledger adds to a commit: WAL bytes, and turns of the conversation with the server."""

import json
import socket
import threading
from urllib.parse import urlsplit

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


def wal_bytes(url):
    sql = "select pg_current_wal_insert_lsn() - '0/0'"
    return int(data.run(["psql", "-qXAt", url, "-c", sql]))


def once(parquet, url, psql, commits, options):
    """WAL bytes, turns and commits of a load of `commits` writes."""
    parts = urlsplit(url)
    listener = Listener(parts.hostname, parts.port)
    through = url.replace(f":{parts.port}/", f":{listener.port}/")
    # A table that is there and a ledger that is there, so that neither is made meanwhile.
    psql("truncate sbtest1")
    before = wal_bytes(url)
    limit = ["--limit", commits * BATCH_ROWS, "--batch-rows", BATCH_ROWS, "-j", "1"]
    report = data.run([data.TONNAGE, "load", "-q", "--report", "-", parquet, through, "-t", "sbtest1", *limit, *options])
    return wal_bytes(url) - before, listener.turns, json.loads(report)["commits"]


def cost(parquet, url, psql, rows):
    """What the ledger adds to each commit: a text, the value measured, and the most it may be."""
    few, many = (min(commits, rows // BATCH_ROWS // part) for commits, part in zip(COMMITS, [3, 1]))
    # The first load makes the ledger; its pages are written in full once, before what is counted.
    once(parquet, url, psql, 10, [])
    steps = []
    for options in [["--ledger", "none"], []]:
        first, second = (once(parquet, url, psql, commits, options) for commits in [few, many])
        more = second[2] - first[2]
        steps.append(((second[0] - first[0]) / more, (second[1] - first[1]) / more))
    wal, turns = (after - before for before, after in zip(*steps))
    return [
        ("at most 200 WAL bytes more a commit", wal, 200),
        ("at most one round trip more a commit", turns, 1),
    ]
