"""Inserts a file by DuckDB's extension for another database and prints the seconds and the processor seconds that it
took, imports left out.

    python duckdb_insert.py postgres|sqlite PLACE FILE TABLE
"""

import importlib
import os
import resource
import sys
import time
from pathlib import Path

import duckdb

kind, place, path, table = sys.argv[1:]


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


package = importlib.import_module(f"duckdb_extension_{kind}_scanner")
extension = next(Path(package.__file__).parent.glob("extensions/*/*.duckdb_extension"))
connection = duckdb.connect()
connection.execute(f"load '{extension}'")
if path.startswith("s3://"):
    package = importlib.import_module("duckdb_extension_httpfs")
    extension = next(Path(package.__file__).parent.glob("extensions/*/*.duckdb_extension"))
    connection.execute(f"load '{extension}'")
    endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    connection.execute(
        f"create secret (type s3, key_id '{os.environ['AWS_ACCESS_KEY_ID']}', secret '{os.environ['AWS_SECRET_ACCESS_KEY']}', "
        f"endpoint '{endpoint}', url_style 'path', use_ssl false)"
    )
started, used = time.monotonic(), processor_seconds()
connection.execute(f"attach '{place}' as target (type {kind})")
connection.execute(f"insert into target.{table} select * from '{path}'")
connection.execute("detach target")
print(time.monotonic() - started, processor_seconds() - used)
