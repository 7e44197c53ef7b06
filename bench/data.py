"""The files that are loaded, and the tools of other projects, all under target/bench."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from measure import Failed

ROOT = Path(__file__).resolve().parent.parent
TONNAGE = ROOT / "target" / "release" / "tonnage"
PLACE = ROOT / "target" / "bench"
COMMAND_SECONDS_MAX = 1_200
PACKAGES = [
    "adbc-driver-flightsql==1.13.0",
    "adbc-driver-manager==1.13.0",
    "adbc-driver-postgresql==1.13.0",
    "adbc-driver-sqlite==1.13.0",
    "awscli==1.46.3",
    "cassandra-driver==3.30.1",
    "connectorx==0.4.6",
    # The newest whose extensions for other databases come as packages.
    "duckdb==1.5.5",
    "duckdb-extension-httpfs==1.5.5",
    "duckdb-extension-postgres-scanner==1.5.5",
    "duckdb-extension-sqlite-scanner==1.5.5",
    "pandas==3.1.1",
    "polars==2.1.0",
    "psycopg[binary]==3.3.9",
    "pyarrow==26.0.1",
    "pymysql==1.2.4",
    "sqlalchemy==2.1.9",
    "tpchgen-cli==4.0.0",
]


def run(command, **options):
    """The standard output of a command that must succeed, within a bound for what may be downloading or building."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, **options)
    except subprocess.TimeoutExpired as problem:
        raise Failed(f"{' '.join(words)}: not done after {COMMAND_SECONDS_MAX} s") from problem
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def tools():
    """The directory of programs of a Python environment with PACKAGES in it."""
    environment = PLACE / "tools"
    listed = environment / "packages"
    wanted = "\n".join(PACKAGES)
    if not listed.exists() or listed.read_text() != wanted:
        print("installing", *PACKAGES, file=sys.stderr)
        venv.create(environment, clear=True, with_pip=True)
        run([environment / "bin" / "pip", "install", "--quiet", *PACKAGES])
        listed.write_text(wanted)
    return environment / "bin"


def made(name, make):
    """The file or directory `name`, made by `make(path)` unless it is there."""
    path = PLACE / name
    if not path.exists():
        print(f"making {name}", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"partial-{path.name}")
        for old in path.parent.glob(f"{partial.name}*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        make(partial)
        partial.rename(path)
    return path


def sbtest(rows, ending):
    """`rows` rows of sysbench's table, in key order."""

    def make(path):
        run([TONNAGE, "generate", "sbtest", "--rows", rows, "--format", ending, "-o", path])

    return made(f"{rows}/sbtest.{ending}", make)


def shuffled(rows):
    """The same in random key order."""
    ordered = sbtest(rows, "parquet")
    command = [tools() / "python", ROOT / "bench/shuffle.py", ordered]
    return made(f"{rows}/shuffled.parquet", lambda path: run([*command, path]))


def lineitem(scale, ending):
    """TPC-H's largest table: 6,001,215 rows at scale 1."""

    def make(path):
        path.mkdir()
        run([tools() / "tpchgen-cli", ending, "-s", scale, "--tables=lineitem", "--output-dir", path, "--quiet"])

    return made(f"lineitem-{scale}-{ending}", make) / f"lineitem.{ending}"


def lineitem_size(rows):
    """The scale at which lineitem has about six times as many rows as `rows`, and how many it has then."""
    scale = f"{rows / 1_000_000:g}"
    counted = made(f"lineitem-{scale}-rows", lambda path: path.write_text(str(lines_of(lineitem(scale, "csv")))))
    return scale, int(counted.read_text())


def lines_of(path):
    """Lines of a file below its header."""
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b"")) - 1


def example(name, package="tonnage"):
    """One of the library's example programs."""
    run(["cargo", "build", "--release", "--locked", "--package", package, "--example", name], cwd=ROOT)
    return TONNAGE.parent / "examples" / name


def frame_python():
    """The words that start Python with the tools and this checkout's package, built for release.

    TONNAGE_BENCH_PACKAGE names the directory of a package that is installed, as one of a wheel is, which is taken instead.
    """
    if installed := os.environ.get("TONNAGE_BENCH_PACKAGE"):
        return ["env", f"PYTHONPATH={installed}", tools() / "python"]
    run(["cargo", "build", "--release", "--locked", "--package", "tonnage-python"], cwd=ROOT)
    place = PLACE / "python"
    shutil.copytree(
        ROOT / "crates/tonnage-python/python/tonnage", place / "tonnage", dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.so", "*.new", "__pycache__"),
    )
    shutil.copy(TONNAGE.parent / "lib_tonnage.so", place / "tonnage" / "_tonnage.abi3.so")
    return ["env", f"PYTHONPATH={place}", tools() / "python"]


def server_example(name):
    """One of the server's."""
    return example(name, "tonnage-server")


def full_sqlite(name, source, table, ddl):
    """A SQLite file that holds a source's rows."""

    def make(path):
        run(["sqlite3", path], input=ddl)
        run([TONNAGE, "load", source, path, "-t", table, "-q", "--ledger", "none"])

    return made(name, make)
