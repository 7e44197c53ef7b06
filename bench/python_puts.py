"""Puts rows from Python through a buffer, one a call, and prints the rows a second, the p99 of a call in microseconds, and at the
end the seconds and the processor seconds until all rows are in the table.

    python python_puts.py URL TABLE JOURNAL threads|tasks accepted|journaled|committed ROWS AT_ONCE
"""

import asyncio
import resource
import sys
import threading
import time

import tonnage
import tonnage.aio

url, table, journal, way, ack, rows, at_once = sys.argv[1:]
rows, at_once = int(rows), int(at_once)
options = {"ack": ack} | ({"journal": journal} if ack == "journaled" else {})
taken = []


def row(number):
    return {"id": number, "device": f"device {number % 997}", "value": number / 8, "note": "x" * 150}


def part(first):
    """The numbers of one of those that put at once."""
    return range(first, rows, at_once)


def work(buffer, first):
    own = []
    for number in part(first):
        begun = time.perf_counter()
        buffer.put(row(number))
        own.append(time.perf_counter() - begun)
    taken.extend(own)


def by_threads():
    with tonnage.connect(url) as db, db.buffer(table, **options) as buffer:
        threads = [threading.Thread(target=work, args=(buffer, first)) for first in range(at_once)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - begun


async def task(buffer, first):
    for number in part(first):
        begun = time.perf_counter()
        await buffer.put(row(number))
        taken.append(time.perf_counter() - begun)


async def by_tasks():
    async with tonnage.aio.connect(url) as db:
        async with await db.buffer(table, **options) as buffer:
            begun = time.monotonic()
            await asyncio.gather(*(task(buffer, first) for first in range(at_once)))
            return time.monotonic() - begun


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


started, used = time.monotonic(), processor_seconds()
putting = by_threads() if way == "threads" else asyncio.run(by_tasks())
wall, client = time.monotonic() - started, processor_seconds() - used
taken.sort()
print(f"{rows / putting:.0f} {taken[len(taken) * 99 // 100] * 1e6:.1f}")
print(wall, client)
