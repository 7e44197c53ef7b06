"""How the package behaves: errors, interrupts, threads, processes, logs."""

import asyncio
import json
import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import polars
import pyarrow
import pytest

import tonnage
import tonnage.aio


def test_importing_brings_nothing_heavy():
    code = "import sys, tonnage; print([m for m in ('pandas','pyarrow','asyncio','polars','numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_an_unknown_option_has_a_hint(shop):
    with pytest.raises(tonnage.ConfigError) as refused:
        tonnage.load([{"id": 1}], shop, "orders", max_reject=5)
    assert refused.value.hint == "did you mean max_rejects=?"
    with pytest.raises(tonnage.ConfigError) as refused:
        tonnage.load([{"id": 1}], shop, "orders", mode="upsrt")
    assert "upsert" in str(refused.value)
    with pytest.raises(tonnage.ConfigError, match="no option dry_run"):
        tonnage.load([{"id": 1}], shop, "orders", dry_run=True)


def test_errors_say_what_and_what_next(shop):
    with pytest.raises(tonnage.SchemaError) as missing:
        tonnage.load([{"id": 1}], shop, "orderz")
    assert missing.value.hint
    assert "--" not in str(missing.value)
    with pytest.raises(tonnage.ConfigError):
        tonnage.connect(17)
    with pytest.raises(tonnage.DatabaseError):
        tonnage.connect("postgresql://nobody@127.0.0.1:1/nothing").__enter__()
    # A hint of the command line with a quoted type is one of Python, quotes and all.
    with pytest.raises(tonnage.RejectedError) as typed:
        tonnage.load([{"a": "x\0y"}], shop, "new", create="missing")
    assert 'types={"a": "text"}' in typed.value.hint
    error = pickle.loads(pickle.dumps(missing.value))
    assert (type(error), error.hint) == (tonnage.SchemaError, missing.value.hint)


def test_too_many_bad_rows_come_with_the_account(shop, tmp_path):
    rows = [{"id": n, "total": "x" if n % 2 else "1"} for n in range(10, 60)]
    with pytest.raises(tonnage.RejectedError) as ended:
        tonnage.load(rows, shop, "orders", rejects="bad.jsonl", max_rejects=3)
    assert ended.value.report.state == "stopped"


def test_rejects_are_a_table(shop):
    rows = [{"id": 10, "total": "1.00"}, {"id": 11, "total": "free"}, {"id": 1, "total": "2.00"}]
    report = tonnage.load(rows, shop, "orders", rejects="bad.jsonl")
    assert (report.rows.written, report.rows.rejected) == (1, 2)
    rejects = report.rejects().to_polars()
    assert rejects["row"].to_list() == [2, 3]
    assert rejects["column"][0] == "total"
    assert rejects["code"][0] == "22P02"
    assert json.loads(rejects["data"][0])["total"] == "free"
    assert "<svg" not in report._repr_html_() and "rejected" in report._repr_html_()


def test_the_plan_is_that_of_the_command(shop):
    rows = [{"id": 10, "total": "1.00"}]
    plan = tonnage.plan(rows, shop, "orders", mode="upsert")
    assert "upsert" in plan and "orders" in plan
    connection = sqlite3.connect(shop)
    assert connection.execute("select count(*) from orders").fetchone() == (3,)
    connection.close()


def test_progress_is_told(shop):
    seen = []
    tonnage.load(({"id": n, "total": 1} for n in range(100, 200_000)), shop, "orders", progress=seen.append)
    assert seen and seen[-1].written == 199_900


def test_an_exception_of_progress_ends_the_run(shop):
    def told(progress):
        raise LookupError("enough")

    def rows():
        n = 100
        while True:
            n += 1
            yield {"id": n, "total": 1}

    with pytest.raises(LookupError, match="enough") as ended:
        tonnage.load(rows(), shop, "orders", progress=told)
    assert ended.value.report.state == "stopped"


CHILD = """
    import os, sys, tonnage
    def rows():
        n = 100
        print("begun", flush=True)
        while True:
            n += 1
            yield {"id": n, "total": 1}
    try:
        tonnage.load(rows(), sys.argv[1], "orders")
    except KeyboardInterrupt as interrupt:
        print("account:", interrupt.report.rows, interrupt.__notes__)
        sys.exit(7)
"""


def child(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def test_ctrl_c_ends_in_an_account(shop):
    process = child(CHILD, shop)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7, err
    assert "account:" in out and "written" in out
    connection = sqlite3.connect(shop)
    assert connection.execute("select count(*) from orders").fetchone() == (3,)
    connection.close()


SILENT = """
    import sys, threading, tonnage
    def rows():
        for n in range(100, 5_000):
            yield {"id": n, "total": 1}
        print("begun", flush=True)
        threading.Event().wait()
    try:
        tonnage.load(rows(), sys.argv[1], "orders")
    except KeyboardInterrupt as interrupt:
        print("account:", interrupt.report.state, flush=True)
        sys.exit(7)
"""


def test_ctrl_c_ends_in_an_account_though_the_program_gives_no_rows(shop):
    process = child(SILENT, shop)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "account: stopped\n"
    process.wait(60)
    connection = sqlite3.connect(shop)
    assert connection.execute("select count(*) from orders").fetchone() == (3,)
    connection.close()


def test_no_signal_handler_is_installed(shop):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    tonnage.load([{"id": 10, "total": 1}], shop, "orders")
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_stop_of_another_thread_ends_the_run(shop):
    stop = tonnage.Stop()

    def rows():
        n = 100
        while True:
            n += 1
            if n == 5_000:
                stop.request()
            yield {"id": n, "total": 1}

    with pytest.raises(tonnage.InterruptedError):
        tonnage.load(rows(), shop, "orders", stop=stop)


def test_a_cancelled_task_stops_and_accounts(shop):
    begun = threading.Event()

    def rows():
        n = 100
        while True:
            n += 1
            begun.set()
            yield {"id": n, "total": 1}

    async def main():
        task = asyncio.create_task(tonnage.aio.load(rows(), shop, "orders"))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    connection = sqlite3.connect(shop)
    assert connection.execute("select count(*) from orders").fetchone() == (3,)
    connection.close()


def test_asyncio_has_the_same(shop):
    async def main():
        async with tonnage.aio.connect(shop) as db:
            report = await db.load([{"id": 10, "total": 1}], "orders")
            rows = await db.unload("orders")
            counted = 0
            async for batch in tonnage.aio.batches(rows):
                counted += len(batch)
            async with await db.buffer("orders") as buffer:
                await buffer.wait(await buffer.put({"id": 11, "total": 2}))
            found = await db.get([11], "orders")
            return report.rows.written, counted, found.to_arrow().num_rows

    assert asyncio.run(main()) == (1, 4, 1)


def test_thousands_of_puts_are_awaited_without_threads_of_their_own(shop, tmp_path):
    async def main():
        async with tonnage.aio.connect(shop) as db:
            async with await db.buffer("orders", ack="journaled", journal=str(tmp_path / "journal")) as buffer:
                before = threading.active_count()
                puts = [asyncio.create_task(buffer.put({"id": n, "total": 1})) for n in range(10, 5_010)]
                await asyncio.sleep(0)
                during = threading.active_count()
                numbers = await asyncio.gather(*puts)
                assert numbers == sorted(numbers) and len(set(numbers)) == 5_000
                assert during == before
                with pytest.raises(tonnage.ConfigError, match="numbers its rows"):
                    await buffer.put({"id": 1}, producer="one")
                first = await buffer.put({"id": 6_000, "total": 1}, producer="one", number=1)
                assert await buffer.put({"id": 6_000, "total": 1}, producer="one", number=1) == first
                left = asyncio.create_task(buffer.put({"id": 6_001, "total": 1}))
                left.cancel()
                await asyncio.gather(left, return_exceptions=True)

    asyncio.run(main())
    connection = sqlite3.connect(shop)
    found = connection.execute("select count(*), count(distinct id) from orders where id between 10 and 6000").fetchone()
    connection.close()
    assert found == (5_001, 5_001)


def test_a_bad_row_that_is_awaited_is_put_aside(shop, tmp_path):
    async def main():
        async with tonnage.aio.connect(shop) as db:
            async with await db.buffer("orders", ack="committed", rejects=str(tmp_path / "bad.jsonl")) as buffer:
                rows = ({"id": 100 + n, "total": "free" if n == 3 else 1} for n in range(5))
                return await asyncio.gather(*(buffer.put(row) for row in rows))

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]
    connection = sqlite3.connect(shop)
    assert connection.execute("select count(*) from orders where id >= 100").fetchone() == (4,)
    connection.close()
    assert json.loads((tmp_path / "bad.jsonl").read_text())["row"] == 4


def test_threads_share_a_database(shop, tmp_path):
    with tonnage.connect(shop) as db:
        done = []

        def work(number):
            rows = db.unload("orders").to_arrow().num_rows
            done.append((number, rows))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == [(number, 3) for number in range(8)]


def test_a_producer_that_calls_into_python_does_not_deadlock(shop):
    schema = pyarrow.schema({"id": pyarrow.int64(), "total": pyarrow.float64()})

    def batches():
        for n in range(100):
            yield pyarrow.record_batch({"id": [100 + n], "total": [1.0]}, schema=schema)

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    assert tonnage.load(reader, shop, "orders").rows.written == 100


def forked(shop):
    try:
        tonnage.unload(shop, "orders").to_arrow()
    except tonnage.ConfigError as error:
        os._exit(3 if "forked" in str(error) and "spawn" in error.hint else 4)
    os._exit(5)


def spawned(shop, queue):
    queue.put(tonnage.unload(shop, "orders").to_arrow().num_rows)


def test_a_fork_is_refused_and_a_spawn_works(shop):
    tonnage.unload(shop, "orders").to_arrow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        forked(shop)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 3
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    spawned_process = context.Process(target=spawned, args=(shop, queue))
    spawned_process.start()
    assert queue.get(timeout=120) == 3
    spawned_process.join()


def test_the_log_goes_to_logging(shop, caplog):
    caplog.set_level("DEBUG", logger="tonnage")
    tonnage.load([{"id": 10, "total": 1}], shop, "orders")
    assert all(record.name.startswith("tonnage") for record in caplog.records)


def test_the_command_is_there(shop):
    command = os.path.join(os.path.dirname(sys.executable), "tonnage")
    ran = subprocess.run([command, "unload", shop, "-t", "orders", "-o", "-"], capture_output=True, text=True)
    assert ran.stdout.splitlines()[0] == "id,total"
    assert subprocess.run([command, "load"], capture_output=True).returncode == 2


def test_a_stream_is_read_once_and_written_to_files(shop, tmp_path):
    rows = tonnage.unload(shop, "orders")
    assert rows.to_parquet(tmp_path / "orders.parquet") == 3
    assert polars.read_parquet(tmp_path / "orders.parquet").height == 3
    with pytest.raises(tonnage.ConfigError, match="read already"):
        rows.to_arrow()
    report = tonnage.unload(shop, "orders", to=tmp_path / "orders.csv")
    assert report.rows == 3 and report.files[0]["rows"] == 3


def test_every_option_of_the_command_is_there():
    from typing import get_type_hints

    from tonnage import _options, _tonnage

    for command, kind in [("load", _options.LoadOptions), ("unload", _options.UnloadOptions)]:
        named = {name.rstrip("_").replace("_", "-") for name in get_type_hints(kind)} | {"type"}
        gone = {"table", "columns", "query", "output", "dry-run", "json", "report", "progress", "ask-password", "shard-by"}
        assert {name for name, *_ in _tonnage.options(command)} - gone <= named
