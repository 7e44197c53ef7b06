"""Object stores: files read from a store, near by and 70 ms away, and written to one, beside the same on the disk.

Reads go to nginx, which answers requests for objects as a store does and is faster than one; writes go to moto.
"""

import os
import subprocess
import sys
from pathlib import Path

import data
import postgres
from contenders import load
from goals import Faster, Within
from measure import Case, Contender

PRESENT = postgres.PRESENT and "TONNAGE_TEST_HTTP_FILES" in os.environ
BUCKET = "lake"

DISK_PARQUET, DISK_CSV = "tonnage, Parquet, disk", "tonnage, CSV, disk"
STORE_PARQUET, STORE_CSV = "tonnage, Parquet, S3", "tonnage, CSV, S3"
DUCKDB, AWS = "DuckDB httpfs, Parquet, S3", "aws s3 cp - | psql, CSV"

# What anybody may know.
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "tester", "AWS_REGION": "us-east-1"}


def hidden():
    """Places that say nothing to a reader, and what stands for them."""
    if not PRESENT:
        return []
    return [("$STORE", os.environ["TONNAGE_TEST_HTTP_URL"]), ("$MOTO", os.environ["TONNAGE_TEST_S3_URL"])]


def by(endpoint, contender):
    """A contender whose store is at `endpoint`."""
    words = [f"{name}={value}" for name, value in (KEYS | {"AWS_ENDPOINT_URL": endpoint}).items()]
    return Contender([["env", *words, *command] for command in contender.commands], tells=contender.tells)


def put(source):
    """Puts a file behind nginx, and returns its URL as an object."""
    place = Path(os.environ["TONNAGE_TEST_HTTP_FILES"]) / BUCKET / source.parent.name / source.name
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(source)
    return f"s3://{BUCKET}/{source.parent.name}/{source.name}"


def aws(url):
    """The object through a pipe, as people do without tonnage."""
    copy = "\\copy sbtest1 from stdin with (format csv, header)"
    command = f"{data.tools() / 'aws'} s3 cp --quiet {url} - | psql -qX '{postgres.URL}' -c \"{copy}\""
    return Contender([["bash", "-o", "pipefail", "-c", command]])


def duckdb(url):
    script = [data.tools() / "python", data.ROOT / "bench" / "duckdb_insert.py", "postgres", postgres.URL, url, "sbtest1"]
    return Contender([script], tells=True)


def reading(name, rows, millis):
    parquet, csv = data.sbtest(rows, "parquet"), data.sbtest(rows, "csv")
    urls = put(parquet), put(csv)
    near = os.environ["TONNAGE_TEST_HTTP_URL"]
    endpoint = delayed(near, millis) if millis else near
    contenders = {
        DISK_PARQUET: load(parquet, postgres.URL, "sbtest1"),
        STORE_PARQUET: by(endpoint, load(urls[0], postgres.URL, "sbtest1")),
        DISK_CSV: load(csv, postgres.URL, "sbtest1"),
        STORE_CSV: by(endpoint, load(urls[1], postgres.URL, "sbtest1")),
        DUCKDB: by(endpoint, duckdb(urls[0])),
        AWS: by(endpoint, aws(urls[1])),
    }
    most = 1.3 if millis else 1.1
    goals = [
        Within([STORE_PARQUET], [DISK_PARQUET], most, f"Parquet from the store within {most} of the disk"),
        Within([STORE_CSV], [DISK_CSV], most, f"CSV from the store within {most} of the disk"),
        Faster([STORE_PARQUET], [DUCKDB], 1.0, "no slower than DuckDB's httpfs"),
        Faster([STORE_CSV], [AWS], 1.0, "no slower than aws s3 cp - | psql"),
    ]
    ddl = f"create table sbtest1 ({postgres.SBTEST})"
    return Case(
        name, f"sbtest from a store {millis} ms away into PostgreSQL, no keys", rows,
        lambda: postgres.fresh("sbtest1", ddl), contenders, goals,
        count=lambda: postgres.count("sbtest1"), server=postgres.server_seconds,
    )


def writing(name, rows):
    endpoint = os.environ["TONNAGE_TEST_S3_URL"]
    postgres.fresh("sbtest1", f"create table sbtest1 ({postgres.SBTEST})")
    data.run([data.TONNAGE, "load", "-q", data.sbtest(rows, "parquet"), postgres.URL, "-t", "sbtest1", "--ledger", "none"])
    data.run(["curl", "-sS", "-X", "PUT", f"{endpoint}/{BUCKET}"])
    unload = [data.TONNAGE, "unload", "-q", postgres.URL, "-t", "sbtest1", "--overwrite", "-o"]
    contenders = {}
    for ending in ["parquet", "csv"]:
        disk, store = f"tonnage, {ending}, to the disk", f"tonnage, {ending}, to S3"
        contenders[disk] = Contender([[*unload, data.PLACE / f"unloaded.{ending}"]])
        contenders[store] = by(endpoint, Contender([[*unload, f"s3://{BUCKET}/unloaded.{ending}"]]))
    return Case(
        name, "sbtest from PostgreSQL to a store (moto)", rows, lambda: None, contenders, [],
        notes=["moto takes uploads with one process of Python, which bounds them"], server=postgres.server_seconds,
    )


def delayed(url, millis):
    """The URL of a proxy before `url` which holds every byte back for half of `millis` on each way."""
    command = [sys.executable, str(data.ROOT / "bench" / "delay.py"), url, str(millis)]
    proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return proxy.stdout.readline().strip()
