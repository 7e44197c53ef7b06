"""The client of ``tonnage serve``, against the real service."""

import decimal
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pyarrow
import pytest

import tonnage


class Service:
    """A service in front of a database, which can be killed and started again on its port."""

    def __init__(self, state, *what):
        self.state, self.what, self.port = str(state), what, 0
        self.start()

    def start(self):
        program = Path(sys.executable).parent / "tonnage"
        self.process = subprocess.Popen(
            [program, "serve", *self.what, "--listen", f"127.0.0.1:{self.port}", "--state", self.state],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        said = []
        for line in self.process.stderr:
            said.append(line)
            if line.startswith("listening on "):
                self.url = line.split()[2]
                self.port = int(self.url.rpartition(":")[2])
                break
        else:
            raise AssertionError("".join(said))
        # Nobody reads on otherwise, and the service would wait for room in the pipe.
        for pipe in (self.process.stderr, self.process.stdout):
            threading.Thread(target=pipe.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def service(shop, tmp_path):
    running = Service(tmp_path / "state", shop)
    yield running
    running.kill()


def found(shop, query="select id, total from orders order by id"):
    with sqlite3.connect(shop) as connection:
        rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def test_rows_go_in_and_come_out(service, shop):
    with tonnage.Client(service.url) as client:
        put = client.put("orders", {"id": 4, "total": decimal.Decimal("7.25")}, ack="committed")
        assert (put.rows, put.known, put.rejects) == (1, 0, [])
        rows = [{"id": n, "total": n / 4} for n in range(5, 2505)]
        rows[7]["total"] = "much"
        put = client.put_many("orders", rows, ack="committed")
        assert put.rows == 2500
        assert [(bad.row, bad.column) for bad in put.rejects] == [(7, "total")]
        assert len(found(shop)) == 3 + 1 + 2499
        got = client.get("orders", [4, 17, 99_999], by="id", columns=["id", "total"])
        assert sorted(row["id"] for row in got) == [4, 17]
        assert got.missing == [{"id": 99_999}] and got.missing_count == 1
        table = pyarrow.table({"id": [3000, 3001], "total": pyarrow.array([1, 2], pyarrow.decimal128(10, 2))})
        assert client.put_many("orders", table, ack="committed").rows == 2
        client.put("orders", {"id": 4, "total": 8}, mode="upsert", ack="committed")
        assert found(shop, "select total from orders where id in (4, 3001)") == [(8,), (2,)]
    assert service.stop() == 0


def test_what_is_sent_again_is_there_once(service, shop):
    client = tonnage.Client(service.url, producer="till-7", patience=60)
    stop = threading.Event()

    def trouble():
        while not stop.wait(0.4):
            service.kill()
            service.start()

    killer = threading.Thread(target=trouble)
    killer.start()
    try:
        for n in range(10, 130):
            client.put_many("orders", [{"id": n * 10 + k, "total": 1} for k in range(10)])
    finally:
        stop.set()
        killer.join()
    position = client.position("orders")
    assert position["accepted"] == 1200 and position["next"] == 1201
    # Another client of the name goes on where this one was.
    client.close()
    tonnage.Client(service.url, producer="till-7").put("orders", {"id": 5000, "total": 1}, ack="committed")
    assert service.stop() == 0
    assert [row[0] for row in found(shop) if row[0] >= 100] == [*range(100, 1300), 5000]


def test_refusals_say_what_and_what_next(service):
    client = tonnage.Client(service.url, patience=0.5)
    with pytest.raises(tonnage.DatabaseError) as refused:
        client.put("orderz", {"id": 1})
    assert refused.value.hint
    with pytest.raises(tonnage.ConfigError):
        client.get("orders", [1])
    with pytest.raises(tonnage.ConfigError):
        client.put("orders", {"id": object()})
    with pytest.raises(tonnage.ConfigError):
        client.put("orders", {"id": float("nan")})
    with pytest.raises(tonnage.ConfigError):
        tonnage.Client("shop.db")
    service.kill()
    with pytest.raises(tonnage.DatabaseError, match="does not answer"):
        client.put("orders", {"id": 1})


def test_a_service_that_asks_for_patience_gets_it(shop, tmp_path):
    program = Path(sys.executable).parent / "tonnage"
    said = subprocess.run([program, "serve", "--new-token"], capture_output=True, text=True, check=True).stdout
    token = said.splitlines()[0]
    sha256 = next(line for line in said.splitlines() if line.startswith("sha256"))
    configuration = tmp_path / "serve.toml"
    configuration.write_text(
        f'[databases.shop]\nurl = "{shop}"\n[tokens.till]\n{sha256}\nwrite = ["orders"]\nadmin = true\n'
        "requests_per_second = 3\n"
    )
    service = Service(tmp_path / "state", "--config", str(configuration))
    try:
        client = tonnage.Client(service.url, token)
        for n in range(10, 20):
            put = client.put("orders", {"id": n, "total": 1}, ack="committed")
            assert (put.rows, put.known) == (1, 0)
        request = urllib.request.Request(f"{service.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        time.sleep(1)
        with urllib.request.urlopen(request) as answer:
            refused = [line for line in answer.read().decode().splitlines() if "refus" in line and '"rate"' in line]
        assert refused and float(refused[0].split()[-1]) > 0
        assert len(found(shop)) == 13
        with pytest.raises(tonnage.DatabaseError):
            tonnage.Client(service.url, "tng_wrong").put("orders", {"id": 1})
    finally:
        service.kill()
