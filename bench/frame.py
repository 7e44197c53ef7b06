"""Moves a frame by one way into a table, or a table into a frame, and prints the seconds and the processor seconds that it
took, imports and the reading of the file left out.

    python frame.py WAY polars|pandas URL TABLE [FILE]

Ways in take the FILE, a Parquet file, as a frame first; ways out have none.
"""

import resource
import sys
import time

way, kind, url, table = sys.argv[1:5]
KEY = "id"


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def frame_of(path):
    if kind == "pandas":
        import pandas

        return pandas.read_parquet(path)
    import polars

    return polars.read_parquet(path)


def engine():
    import sqlalchemy

    scheme, rest = url.split("://", 1) if "://" in url else ("sqlite", "/" + url)
    drivers = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}
    return sqlalchemy.create_engine(f"{drivers[scheme]}://{rest}")


def with_copy(target, connection, keys, rows):
    """The method for `to_sql` by COPY of the pandas documentation's idea: the rows as CSV text through the driver."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text).writerows(rows)
    with connection.connection.cursor() as cursor:
        with cursor.copy(f"copy {target.name} ({', '.join(keys)}) from stdin with (format csv)") as copy:
            copy.write(text.getvalue())


def updating(target, connection, keys, rows):
    """The method for `to_sql` that updates what is there, as its documentation shows for PostgreSQL."""
    from sqlalchemy.dialects.postgresql import insert

    statement = insert(target.table).values([dict(zip(keys, row)) for row in rows])
    changed = {name: statement.excluded[name] for name in keys if name != KEY}
    connection.execute(statement.on_conflict_do_update(index_elements=[KEY], set_=changed))


def adbc_uri():
    """The URL as polars takes it, which leaves three slashes of one of SQLite out."""
    return url if "://" in url else f"sqlite:///{url}"


def adbc():
    if url.startswith("postgresql"):
        import adbc_driver_postgresql.dbapi as driver
    else:
        import adbc_driver_sqlite.dbapi as driver
    return driver.connect(url)


def arrow(frame):
    """The frame as a table of Arrow whose texts are what the drivers of ADBC take."""
    import pyarrow

    if kind == "pandas":
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    return frame.to_arrow(compat_level=polars_oldest())


def polars_oldest():
    import polars

    return polars.CompatLevel.oldest()


def tonnage_in(frame):
    import tonnage

    tonnage.load(frame, url, table)


def tonnage_resumable(frame):
    import tonnage

    # A name is for one content, and the table is another one in each round.
    tonnage.load(frame, url, table, source_id=f"bench {time.time()}", jobs=2)


def tonnage_upsert(frame):
    import tonnage

    tonnage.load(frame, url, table, mode="upsert", key=[KEY])


def to_sql_multi(frame):
    # The most rows whose values a statement may have as parameters.
    most = 65_535 if url.startswith("postgresql") else 32_766
    frame.to_sql(table, engine(), if_exists="append", index=False, method="multi", chunksize=most // len(frame.columns))


def to_sql_copy(frame):
    frame.to_sql(table, engine(), if_exists="append", index=False, method=with_copy)


def to_sql_upsert(frame):
    frame.to_sql(
        table, engine(), if_exists="append", index=False, method=updating, chunksize=65_535 // len(frame.columns)
    )


def write_database(frame):
    frame.write_database(table, adbc_uri(), if_table_exists="append", engine="adbc")


def adbc_ingest(frame):
    with adbc() as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest(table, arrow(frame), mode="append")
        connection.commit()


def adbc_upsert(frame):
    """What one would write by hand: a table beside it by ADBC, and from there by one statement."""
    changed = ", ".join(f"{name} = excluded.{name}" for name in frame.columns if name != KEY)
    with adbc() as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"create temporary table staged as select * from {table} limit 0")
            cursor.adbc_ingest("staged", arrow(frame), mode="append", temporary=True)
            cursor.execute(f"insert into {table} select * from staged on conflict ({KEY}) do update set {changed}")
        connection.commit()


def psycopg_copy(frame):
    import psycopg

    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        with cursor.copy(f"copy {table} ({', '.join(frame.columns)}) from stdin") as copy:
            for row in frame.iter_rows() if kind == "polars" else frame.itertuples(index=False, name=None):
                copy.write_row(row)


def duckdb_in(frame):
    import importlib
    from pathlib import Path

    import duckdb

    scanner = "postgres" if url.startswith("postgresql") else "sqlite"
    package = importlib.import_module(f"duckdb_extension_{scanner}_scanner")
    extension = next(Path(package.__file__).parent.glob("extensions/*/*.duckdb_extension"))
    connection = duckdb.connect()
    connection.execute(f"load '{extension}'")
    connection.execute(f"attach '{url}' as target (type {scanner})")
    connection.register("frame", frame if kind == "pandas" else arrow(frame))
    connection.execute(f"insert into target.{table} select * from frame")
    connection.execute("detach target")


def tonnage_out():
    import tonnage

    rows = tonnage.unload(url, table, jobs=2)
    return rows.to_pandas() if kind == "pandas" else rows.to_polars()


def connectorx_out():
    import connectorx

    return connectorx.read_sql(url, f"select * from {table}", partition_on=KEY, partition_num=2, return_type=kind)


def read_database_uri():
    import polars

    return polars.read_database_uri(
        f"select * from {table}", url, partition_on=KEY, partition_num=2, engine="connectorx"
    )


def adbc_out():
    with adbc() as connection, connection.cursor() as cursor:
        cursor.execute(f"select * from {table}")
        if kind == "pandas":
            return cursor.fetch_df()
        import polars

        return polars.from_arrow(cursor.fetch_arrow_table())


def imports():
    """What the way uses, so that its time has no import in it."""
    needed = {
        "tonnage": ["tonnage"], "to_sql": ["sqlalchemy", "sqlalchemy.dialects.postgresql", "psycopg"],
        "write_database": ["adbc_driver_manager", "pyarrow"], "adbc": ["adbc_driver_manager.dbapi", "pyarrow"],
        "psycopg": ["psycopg"], "duckdb": ["duckdb", "pyarrow"], "connectorx": ["connectorx", "pyarrow"],
        "read_database_uri": ["connectorx", "pyarrow"],
    }
    for name in [kind, *next(value for key, value in needed.items() if way.startswith(key))]:
        __import__(name)


WAYS_IN = {f.__name__: f for f in [
    tonnage_in, tonnage_resumable, tonnage_upsert, to_sql_multi, to_sql_copy, to_sql_upsert, write_database, adbc_ingest,
    adbc_upsert, psycopg_copy, duckdb_in,
]}
WAYS_OUT = {f.__name__: f for f in [tonnage_out, connectorx_out, read_database_uri, adbc_out]}

imports()
given = [frame_of(sys.argv[5])] if way in WAYS_IN else []
started, used = time.monotonic(), processor_seconds()
found = (WAYS_IN | WAYS_OUT)[way](*given)
taken, used = time.monotonic() - started, processor_seconds() - used
if not given:
    print(len(found), end=" ")
print(taken, used)
