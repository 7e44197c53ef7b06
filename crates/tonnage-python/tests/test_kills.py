"""Processes that are killed at random: every row is there once.

A few rounds; TONNAGE_PYTHON_KILLS says how many, TONNAGE_TEST_SEED when they are killed.
"""

import os
import random
import signal
import subprocess
import sys
import time

import polars
import pytest

import tonnage

ROWS = 60_000
# More than what may wait for the database.
MANY = 300_000
KILLS = int(os.environ.get("TONNAGE_PYTHON_KILLS", "3"))

FILES = """
import sys, tonnage
print("begun", flush=True)
tonnage.load(sys.argv[1], sys.argv[2], sys.argv[3], resume=True, batch_rows=500)
"""

ARROW = """
import sys, polars, tonnage
frame = polars.read_csv(sys.argv[1])
print("begun", flush=True)
tonnage.load(frame, sys.argv[2], sys.argv[3], resume=True, source_id="frame 1", batch_rows=500)
"""

BUFFER = """
import sys, tonnage
with tonnage.connect(sys.argv[2]).buffer(
    sys.argv[3], ack="accepted", journal=sys.argv[1] + ".journal", drain_bytes="8KiB", memory="64KiB"
) as buffer:
    print("begun", flush=True)
    for number in range(1, 20_001):
        buffer.put({"id": number, "name": f"n{number}"}, producer="one", number=number)
"""


@pytest.mark.parametrize(("code", "rows"), [(FILES, ROWS), (ARROW, ROWS), (BUFFER, 20_000)], ids=["files", "arrow", "buffer"])
@pytest.mark.parametrize("transactional", ["sqlite", "postgres"], indirect=True)
def test_a_killed_process_goes_on(transactional, code, rows, tmp_path):
    place = transactional
    place.run(f"create table {place.table} (id int primary key, name text)")
    chance = random.Random(int(os.environ.get("TONNAGE_TEST_SEED", "1")))
    path = tmp_path / "rows.csv"
    # How long a run takes here that nobody kills, to choose a moment within it.
    taken, kills = 1.0, 0
    for number in range(10 * KILLS + 10):
        if number > 0 and kills < KILLS or number == 0:
            path = tmp_path / f"rows-{number}.csv"
            polars.DataFrame({"id": range(1, rows + 1), "name": [f"n{n}" for n in range(1, rows + 1)]}).write_csv(path)
            place.run(f"delete from {place.table}")
        elif number > 0:
            break
        name = str(path)
        unkilled = code.replace("frame 1", f"frame {number}")
        while True:
            process = subprocess.Popen(
                [sys.executable, "-c", unkilled, name, place.url, place.table],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            assert process.stdout.readline() == "begun\n", process.stderr.read()
            began = time.monotonic()
            if number > 0:
                try:
                    process.wait(timeout=chance.uniform(0.0, taken))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
            _, errors = process.communicate()
            if process.returncode == 0:
                taken = max(taken, time.monotonic() - began) if number == 0 else taken
                break
            assert process.returncode == -signal.SIGKILL, errors
        found = place.run(f"select count(*), count(distinct id), sum(id) from {place.table}")[0]
        assert tuple(int(value) for value in found) == (rows, rows, rows * (rows + 1) // 2), f"round {number}"
    assert kills >= KILLS


def test_rows_that_are_not_the_same_are_refused(transactional):
    place = transactional
    place.run(f"create table {place.table} (id int primary key, name text)")
    frame = polars.DataFrame({"id": range(MANY), "name": [f"n{n}" for n in range(MANY)]})

    def is_empty():
        if place.kind != "sqlite":
            return place.count() == 0
        # Python's SQLite is another library than the one that is loading: a process that closes a file loses the locks that
        # the other has on it. So another process looks.
        look = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1], timeout=30).execute(sys.argv[2]).fetchone()[0])"
        query = f"select count(*) from {place.table}"
        looked = subprocess.run([sys.executable, "-c", look, place.url, query], capture_output=True, text=True, check=True)
        return int(looked.stdout) == 0

    def some():
        yield from frame[:250_000].iter_slices(1_000)
        while is_empty():
            time.sleep(0.05)
        raise RuntimeError("the program fails")

    with pytest.raises(tonnage.InputError):
        tonnage.load(lambda: some(), place.url, place.table, source_id="frame", batch_rows=500, jobs=2)
    there = place.count()
    assert 0 < there < MANY
    changed = frame.with_columns(name=polars.when(polars.col("id") == 3).then(polars.lit("x")).otherwise(polars.col("name")))
    with pytest.raises(tonnage.InputError, match="has changed since"):
        tonnage.load(changed, place.url, place.table, source_id="frame", resume=True)
    assert place.count() == there
    # In other batches they are the same rows.
    report = tonnage.load(
        lambda: frame.iter_slices(777), place.url, place.table, source_id="frame", resume=True, jobs=1
    )
    assert report.rows.written + report.rows.resumed == MANY
    assert place.count() == MANY


def test_what_is_read_once_takes_no_source_id(shop):
    with pytest.raises(tonnage.ConfigError, match="can be read only once") as refused:
        tonnage.load(iter([{"id": 1}]), shop, "orders", source_id="rows")
    assert "lambda" in refused.value.hint
