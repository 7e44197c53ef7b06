"""DuckDB: loads without and with keys, and unloads, beside what DuckDB does by itself."""

import os
import subprocess

import data
import postgres
from contenders import CSV_1, TONNAGE_1, load, script
from goals import Within
from measure import Case, Contender

DATABASE = data.PLACE / "bench.duckdb"
OUT = data.PLACE / "unloaded-duckdb.parquet"
SBTEST = "id integer, k integer, c varchar, pad varchar"
OWN, ADBC = "DuckDB, INSERT .. SELECT", "ADBC, Parquet"


def library():
    """The library that tonnage and adbc_ingest use; the other tool is the Python package, of nearly the same version."""
    path = subprocess.run([data.ROOT / "scripts/fetch-duckdb"], check=True, capture_output=True, text=True).stdout.strip()
    os.environ["TONNAGE_DUCKDB_LIBRARY"] = path
    return path


def sql(statement):
    """What DuckDB makes of a statement, in a process of its own: this one must not keep the file open."""
    code = f"import duckdb; print(duckdb.connect({str(DATABASE)!r}).execute({statement!r}).fetchall()[0][0])"
    return data.run([data.tools() / "python", "-c", code])


def fresh(*ddl):
    library()
    for path in DATABASE.parent.glob(f"{DATABASE.name}*"):
        path.unlink()
    for statement in ddl:
        sql(f"{statement}; select 1")
    os.sync()


def count(table):
    return int(sql(f"select count(*) from {table}"))


def own(statement):
    return script("duckdb_own.py", DATABASE, statement)


def loads(name, title, table, rows, parquet, csv, ddl):
    contenders = {
        TONNAGE_1: load(parquet, DATABASE, table),
        CSV_1: load(csv, DATABASE, table),
        OWN: own(f"insert into {table} select * from read_parquet('{parquet}')"),
        ADBC: script("adbc_ingest.py", "duckdb", DATABASE, parquet, table),
    }
    goals = [
        Within([TONNAGE_1], [OWN], 1.3, "within 1.3 of DuckDB's own INSERT .. SELECT"),
        Within([TONNAGE_1], [ADBC], 1.0, "no slower than ADBC"),
    ]
    return Case(name, title, rows, lambda: fresh(*ddl), contenders, goals, count=lambda: count(table))


def sbtest(name, rows, keys):
    parquet, csv = data.sbtest(rows, "parquet"), data.sbtest(rows, "csv")
    title = f"sbtest into DuckDB, {'primary and secondary key' if keys else 'no keys'}"
    columns = f"{SBTEST}, primary key (id)" if keys else SBTEST
    index = ["create index k_1 on sbtest1 (k)"] if keys else []
    return loads(name, title, "sbtest1", rows, parquet, csv, [f"create table sbtest1 ({columns})", *index])


def lineitem(name, rows):
    scale, lines = data.lineitem_size(rows)
    parquet, csv = data.lineitem(scale, "parquet"), data.lineitem(scale, "csv")
    ddl = [f"create table lineitem ({postgres.LINEITEM})"]
    return loads(name, "TPC-H lineitem into DuckDB, no keys", "lineitem", lines, parquet, csv, ddl)


def unload(name, rows):
    parquet = data.sbtest(rows, "parquet")

    def filled():
        OUT.unlink(missing_ok=True)
        if not DATABASE.exists() or sql("select count(*) from duckdb_tables() where table_name = 'everything'").strip() == "0":
            fresh(f"create table everything as select * from read_parquet('{parquet}')")

    DATABASE.unlink(missing_ok=True)
    command = [data.TONNAGE, "unload", "-q", DATABASE, "-t", "everything", "--overwrite", "-o", OUT]
    copy = f"copy everything to '{OUT}' (format parquet, compression zstd)"
    contenders = {
        "tonnage, 1 job": Contender([[*command, "-j", "1"]]),
        "tonnage, 2 jobs": Contender([[*command, "-j", "2"]]),
        "DuckDB, COPY .. TO, zstd": own(copy),
        "DuckDB, COPY .. TO, snappy": own(copy.replace("zstd", "snappy")),
    }
    goals = [
        Within(
            ["tonnage, 1 job", "tonnage, 2 jobs"], ["DuckDB, COPY .. TO, zstd"], 1.3, "within 1.3 of DuckDB's own COPY"
        )
    ]
    return Case(name, "sbtest out of DuckDB into Parquet", rows, filled, contenders, goals)
