"""Moves all rows of a table of PostgreSQL through Python, and prints the rows, the greatest memory of the process in MiB, and at the
end the seconds and the processor seconds, imports left out.

    python python_through.py copied|batches|parquet URL TABLE TARGET

`copied` loads the stream of an unload into the table TARGET, `batches` does the same by way of pyarrow's batches, which a generator
of the program's gives on, and `parquet` writes them to the file TARGET.
"""

import resource
import sys
import time

import pyarrow

import tonnage

way, url, table, target = sys.argv[1:]


def of_program(rows):
    for batch in rows:
        yield pyarrow.record_batch(batch)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


started, used = time.monotonic(), processor_seconds()
with tonnage.connect(url) as db:
    rows = db.unload(table)
    if way == "parquet":
        moved = rows.to_parquet(target, overwrite=True)
    else:
        moved = db.load(rows if way == "copied" else of_program(rows), target).rows.written
wall, client = time.monotonic() - started, processor_seconds() - used
print(moved, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
print(wall, client)
