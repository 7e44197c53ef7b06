"""Ingests a file by ADBC and prints the seconds and the processor seconds that it took, imports left out.

    python adbc_ingest.py postgresql|sqlite|duckdb URI FILE TABLE
"""

import os
import resource
import sys
import time

import pyarrow
import pyarrow.csv
import pyarrow.parquet

kind, uri, path, table = sys.argv[1:]
if kind == "postgresql":
    import adbc_driver_postgresql.dbapi as driver
elif kind == "sqlite":
    import adbc_driver_sqlite.dbapi as driver
else:
    import adbc_driver_manager.dbapi as driver


def plain(schema):
    """The schema without string views, which the drivers do not take."""
    view = pyarrow.string_view()
    fields = [f.with_type(pyarrow.string()) if f.type == view else f for f in schema]
    return pyarrow.schema(fields)


def batches():
    if path.endswith(".parquet"):
        file = pyarrow.parquet.ParquetFile(path)
        schema = plain(file.schema_arrow)
        return pyarrow.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in file.iter_batches(65_536)))
    return pyarrow.csv.open_csv(path)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def connect():
    if kind == "duckdb":
        library = os.environ["TONNAGE_DUCKDB_LIBRARY"]
        return driver.connect(driver=library, entrypoint="duckdb_adbc_init", db_kwargs={"path": uri})
    return driver.connect(uri)


started, used = time.monotonic(), processor_seconds()
with connect() as connection:
    with connection.cursor() as cursor:
        cursor.adbc_ingest(table, batches(), mode="append")
    connection.commit()
print(time.monotonic() - started, processor_seconds() - used)
