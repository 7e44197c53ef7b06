"""Commands that several databases have in common."""

import data
from measure import Contender

TONNAGE_1, TONNAGE_2 = "tonnage, Parquet, 1 job", "tonnage, Parquet, 2 jobs"
CSV_1, CSV_2 = "tonnage, CSV, 1 job", "tonnage, CSV, 2 jobs"
PARQUET, CSV = [TONNAGE_1, TONNAGE_2], [CSV_1, CSV_2]


def load(source, target, table, *options):
    return Contender([[data.TONNAGE, "load", "-q", source, target, "-t", table, *options]])


def loads(parquet, csv, target, table):
    """tonnage from Parquet and CSV, at one job and at two."""
    return {
        TONNAGE_1: load(parquet, target, table, "-j", "1"),
        TONNAGE_2: load(parquet, target, table, "-j", "2"),
        CSV_1: load(csv, target, table, "-j", "1"),
        CSV_2: load(csv, target, table, "-j", "2"),
    }


def script(name, *arguments):
    """A script of this directory, which tells how long its work took."""
    return Contender([[data.tools() / "python", data.ROOT / "bench" / name, *arguments]], tells=True)


def adbc(kind, uri, source, table):
    return script("adbc_ingest.py", kind, uri, source, table)


def duckdb(kind, place, source, table):
    return script("duckdb_insert.py", kind, place, source, table)


def in_random_order(target, parquet, table):
    """A file in random key order, sorted and as it is."""
    return {f"tonnage, --sort {sort}": load(parquet, target, table, "--sort", sort) for sort in ["full", "none"]}


SORTED, UNSORTED = ["tonnage, --sort full"], ["tonnage, --sort none"]
