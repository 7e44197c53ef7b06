"""How cost grows with work: files, columns, bytes of a field, rows, partitions, runs of history, the way's length.

Each case loads more and more of one thing, as contenders of one another, and has one line: the exponent with which time
grows where it grows (1 is in proportion), and the steepest step between two sizes, which is where a cliff would be.
"""

import math
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass

import data
import postgres
import sqlite
from contenders import load
from goals import Line
from measure import Case, interval

# Times below this many of the smallest size's are mostly what a process takes to start.
GROWS = 2.0
# How much steeper than the whole a single step may be.
STEP = 0.4


def slope(points):
    """The exponent of time over size, by least squares of logarithms."""
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    x = sum(a for a, _ in logs) / len(logs)
    y = sum(b for _, b in logs) / len(logs)
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)


def growth(points):
    """The exponent over the sizes at which time grows, and the steepest step of them; none where it hardly does."""
    first = points[0][1]
    at = next((at for at, (_, seconds) in enumerate(points) if seconds > GROWS * first), None)
    if at is None or at == 0:
        return None
    growing = points[at - 1:] if at + 1 == len(points) else points[at:]
    steps = [(slope([a, b]), a[0], b[0]) for a, b in zip(growing, growing[1:])]
    return slope(growing), max(steps)


@dataclass
class Exponent:
    """Time grows with at most this exponent, and no step is much steeper."""

    what: str
    sizes: dict
    most: float

    def line(self, taken, failed, rows):
        text = f"{self.what}: an exponent of {self.most} at most, and no cliff"
        lost = [name for name in self.sizes if name in failed]
        if lost:
            return Line(text, f"{lost[0]} could not run", False)
        points = [(size, interval([once.wall for once in taken[name]])[0]) for name, size in self.sizes.items() if name in taken]
        if len(points) < 3:
            return None
        span = f"{points[0][0]:,} to {points[-1][0]:,}"
        found = growth(points)
        if found is None:
            most = max(seconds for _, seconds in points) / points[0][1]
            return Line(text, f"hardly grows from {span}: {most:.2f} times at most", True)
        exponent, (steepest, low, high) = found
        last = points[-1]
        each = (last[1] - points[0][1]) / (last[0] - points[0][0]) * 1e3
        measured = f"{exponent:.2f} from {span}; steepest {steepest:.2f} from {low:,} to {high:,}; {each:.3g} ms each"
        return Line(text, measured, exponent <= self.most and steepest <= self.most + STEP)


def case(name, title, what, sizes, contender, fresh, most=1.1, unit=None, server=None):
    """A contender a size, whose goal is the exponent."""
    names = {f"{size:,} {unit or what}": size for size in sizes}
    contenders = {shown: contender(size) for shown, size in names.items()}
    made = Case(name, title, sizes[-1], fresh, contenders, [Exponent(what, names, most)], warm=False)
    if server:
        made.server = server
    return made


def write(path, lines):
    with open(path, "w") as file:
        file.writelines(lines)


def files(name, rows):
    """So many files of ten rows."""
    each = 10

    def directory(count):
        def make(path):
            path.mkdir()
            for at in range(count):
                first = at * each
                write(path / f"{at:05}.csv", ["id,v\n", *(f"{row},{row % 97}\n" for row in range(first, first + each))])

        return data.made(f"growth/files-{count}", make)

    sizes = [1, 10, 100, 1_000, min(10_000, max(rows // 100, 2_000))]
    fresh = lambda: sqlite.fresh("create table grown (id integer primary key, v integer)")
    contender = lambda count: load(directory(count), sqlite.DATABASE, "grown", "-j", "1")
    return case(name, "files of ten rows each into SQLite", "files", sizes, contender, fresh)


def columns(name, rows):
    """A thousand rows of so many columns."""
    count = max(rows // 1_000, 100)

    def file(columns):
        def make(path):
            names = ",".join(f"c{at}" for at in range(columns))
            line = lambda row: ",".join(str((row * 31 + at) % 1_000) for at in range(columns))
            write(path, [names + "\n", *(line(row) + "\n" for row in range(count))])

        return data.made(f"growth/columns-{columns}-{count}.csv", make)

    contender = lambda columns: load(file(columns), sqlite.DATABASE, "grown", "-j", "1", "--create")
    return case(name, f"{count:,} rows of ever more columns into SQLite", "columns", [1, 10, 100, 300, 1_000], contender, sqlite.fresh)


def fields(name, rows):
    """Twenty rows with a field of so many bytes."""

    def file(size):
        def make(path):
            write(path, ["id,v\n", *(f"{row},{'x' * size}\n" for row in range(20))])

        return data.made(f"growth/fields-{size}.csv", make)

    sizes = [10, 1_000, 100_000, 1_000_000, 10_000_000 if rows >= 100_000 else 3_000_000]
    fresh = lambda: sqlite.fresh("create table grown (id integer primary key, v text)")
    contender = lambda size: load(file(size), sqlite.DATABASE, "grown", "-j", "1")
    return case(name, "twenty rows of ever longer fields into SQLite", "bytes a field", sizes, contender, fresh, unit="bytes a field")


def many_rows(name, rows):
    """So many narrow rows."""

    def file(count):
        def make(path):
            lines = (f"{row},{row * 7_919 % 1_000_003}\n" for row in range(count))
            with open(path, "w") as out:
                out.write("id,v\n")
                out.writelines(lines)

        return data.made(f"growth/rows-{count}.csv", make)

    sizes = [10**power for power in range(3, 9) if 10**power <= 10 * rows]
    fresh = lambda: sqlite.fresh("create table grown (id integer primary key, v integer)")
    contender = lambda count: load(file(count), sqlite.DATABASE, "grown", "-j", "1")
    return case(name, "ever more narrow rows into SQLite", "rows", sizes, contender, fresh)


def partitions(name, rows):
    """The same rows into a table of so many partitions."""
    count = min(rows, 100_000)

    def make(path):
        write(path, ["id,v\n", *(f"{row},{row % 97}\n" for row in range(count))])

    file = data.made(f"growth/parted-{count}.csv", make)
    sizes = [1, 10, 100, 1_000]

    def fresh():
        for parts in sizes:
            table = f"grown_{parts}"
            step = -(-count // parts)
            made = [f"create table {table} (id integer primary key, v integer) partition by range (id)"]
            made += [
                f"create table {table}_{at} partition of {table} for values from ({at * step}) to ({(at + 1) * step})"
                for at in range(parts)
            ]
            # One by one they are too many locks for a single transaction.
            postgres.psql(f"drop table if exists {table}")
            for first in range(0, len(made), 200):
                postgres.psql("; ".join(made[first:first + 200]))
        postgres.psql("drop table if exists tonnage_inputs, tonnage_slots, tonnage_runs")

    contender = lambda parts: load(file, postgres.URL, f"grown_{parts}", "-j", "1")
    title = f"{count:,} rows into ever more partitions of PostgreSQL"
    return case(name, title, "partitions", sizes, contender, fresh, server=postgres.server_seconds)


def history(name, rows):
    """A small load into a database whose ledger knows so many runs of other tables."""
    sizes = [1, 1_000, 20_000, 200_000]
    kept = {size: data.PLACE / "growth" / f"history-{size}.db" for size in sizes}

    def make(path):
        write(path, ["id,v\n", *(f"{row},{row % 97}\n" for row in range(1_000))])

    file, earlier = (data.made(f"growth/{kind}.csv", make) for kind in ["few", "earlier"])

    def remembering(size):
        """A file whose ledger has one run that was made, and copies of it under other names."""
        path = kept[size]
        for old in path.parent.glob(f"{path.name}*"):
            old.unlink()
        with sqlite3.connect(path) as database:
            database.execute("pragma journal_mode = wal")
            database.execute("create table other (id integer primary key, v integer)")
            database.execute("create table grown (id integer primary key, v integer)")
        data.run([data.TONNAGE, "load", "-q", earlier, path, "-t", "other"])
        with sqlite3.connect(path) as database:
            for table in ["tonnage_runs", "tonnage_inputs"]:
                names = [row[1] for row in database.execute(f"pragma table_info({table})")]
                other = {"run_id": "printf('%032x', n)", "identity": "printf('history-%d', n)"}
                values = ", ".join(other.get(column, f'"{column}"') for column in names)
                listed = ", ".join(f'"{column}"' for column in names)
                database.execute(
                    f"with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {size}) "
                    f"insert or ignore into {table} ({listed}) select {values} from {table}, numbers"
                )
            database.execute("pragma wal_checkpoint(truncate)")

    def fresh():
        for size in sizes:
            if not kept[size].exists():
                remembering(size)
            with sqlite3.connect(kept[size]) as database:
                database.execute("delete from grown")
                # The runs of the loads that are measured; those that were copied begin with zeros.
                for table in ["tonnage_runs", "tonnage_slots", "tonnage_inputs"]:
                    database.execute(f"delete from {table} where run_id not like '00000000%'")
        os.sync()

    contender = lambda size: load(file, kept[size], "grown", "-j", "1")
    return case(name, "a small load beside ever more history into SQLite", "runs of history", sizes, contender, fresh, most=0.3)


def round_trips(name, rows):
    """The same rows over a way of so many milliseconds there and back."""
    count = min(rows, 100_000)

    def make(path):
        write(path, ["id,v\n", *(f"{row},{row % 97}\n" for row in range(count))])

    file = data.made(f"growth/parted-{count}.csv", make)
    server = postgres.URL.split("@")[1].split("/")[0]

    def by(millis):
        """The load by a proxy of its own, which ends with this process."""
        proxy = subprocess.Popen(
            [sys.executable, data.ROOT / "bench/delay.py", server, str(millis)], stdout=subprocess.PIPE, text=True
        )
        place = proxy.stdout.readline().strip().removeprefix("http://")
        return load(file, postgres.URL.replace(server, place), "grown", "-j", "1")

    fresh = lambda: postgres.fresh("grown", "create table grown (id integer primary key, v integer)")
    title = f"{count:,} rows into PostgreSQL over ever longer ways"
    made = case(name, title, "ms a round trip", [1, 3, 10, 30, 100], by, fresh, unit="ms")
    made.server = postgres.server_seconds
    return made
