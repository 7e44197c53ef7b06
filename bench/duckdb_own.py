"""Runs a statement in a DuckDB file and prints the seconds and the processor seconds that it took, imports left out. The file
is closed within that time, as a command that loads it closes it.

    python duckdb_own.py FILE STATEMENT
"""

import resource
import sys
import time

import duckdb

path, statement = sys.argv[1:]


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


started, used = time.monotonic(), processor_seconds()
with duckdb.connect(path) as connection:
    connection.execute(statement)
print(time.monotonic() - started, processor_seconds() - used)
