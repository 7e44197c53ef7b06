"""Single rows through the buffer into PostgreSQL, eight producers, one row a call."""

import json

import data
import measure
import postgres as pg
from goals import Faster, Line
from measure import Case, Contender

DDL = "create table single_rows (id bigint, device text, value double precision, note text)"
# Rows of a burst: what fits into the buffer's memory at 1,360 bytes, a part of the rows asked for.
PART = 25
# Calls of each producer that wait for their answers at once, where producers do not wait for each.
UNDER_WAY = 256
SUSTAINED_SECONDS = 60
PACED_SECONDS = 20
# What is journaled and drained for some ten seconds: a burst goes as fast as the page cache takes it, and nothing that
# drains it into a database can keep that up.
JOURNALED_BYTES = 600_000_000

ACCEPTED, JOURNALED = "tonnage, accepted", f"tonnage, journaled, {UNDER_WAY} calls of each producer under way"
AWAITED = "tonnage, journaled, each call awaited"
COMMITS = "single-row commits, each awaited"
PIPELINED = f"single-row commits, {UNDER_WAY} of each connection under way"


def fresh():
    pg.fresh("single_rows", DDL)


def puts(bytes_, *way):
    """The command of one way to put rows of so many bytes."""
    return [data.example("buffer_puts"), pg.URL, bytes_, data.PLACE / "journals", *way]


def figures(bytes_, *way):
    """What a way says of itself, into a table made anew."""
    fresh()
    said = data.run(puts(bytes_, *way))
    return json.loads(said.strip().splitlines()[-2])


def checked(found):
    """Figures of a way that left all of its rows in the table."""
    measure.check(pg.count("single_rows"), found["rows"])
    return found


def of_memory(found):
    """What the area held at most, and what the process grew by."""
    most, peak = found["area_bytes_max"], found["area_bytes_peak"]
    grown = found["resident_bytes_peak"] - found["resident_bytes_before"]
    mib = lambda value: f"{value / 2**20:.1f}"
    text = "meanwhile memory never above its bound"
    measured = f"{mib(peak)} MiB of {mib(most)} in the area; the process grew by {mib(grown)} MiB"
    return Line(text, measured, peak <= most)


def further(bytes_):
    """What no round measures: a minute of puts, and times of single calls at half of the peak rate."""
    sustained = checked(figures(bytes_, "sustained", SUSTAINED_SECONDS))
    copied = checked(figures(bytes_, "copy", sustained["rows"]))
    share = sustained["rows_per_second"] / copied["rows_per_second"]
    rates = f"{share:.2f}: {sustained['rows_per_second']:,.0f} rows/s of {copied['rows_per_second']:,.0f}"
    text = f"sustained for {SUSTAINED_SECONDS} s at least 0.8 of what COPY of the same rows reaches"
    yield Line(text, rates, share >= 0.8)
    yield of_memory(sustained)

    paced = figures(bytes_, "paced-accepted", int(sustained["rows_per_second"] / 2), PACED_SECONDS)
    p99 = paced["put_micros"]["p99"]
    text = "accepted, at half of that rate: p99 of a put below 100 microseconds"
    yield Line(text, f"{p99:.1f} at {paced['rows_per_second']:,.0f} rows/s", p99 < 100)
    yield from journaled(bytes_)


def journaled(bytes_):
    """Times of single calls at half of the rate that a journal and its drains keep up."""
    kept_up = checked(figures(bytes_, "journaled", JOURNALED_BYTES // bytes_, UNDER_WAY))
    peak = kept_up["rows_per_second_in_table"]
    paced = figures(bytes_, "paced-journaled", int(peak / 2), PACED_SECONDS)
    p99, fsync = paced["put_micros"]["p99"], paced["fsync_micros"]["p99"]
    rate = f"journaled, at half of the {peak:,.0f} rows/s that were kept up"
    text = f"{rate}: p99 of a put below 3 times that of an fsync meanwhile"
    measured = f"{p99 / fsync:.2f}: {p99:,.0f} of {fsync:,.0f} microseconds at {paced['rows_per_second']:,.0f} rows/s"
    yield Line(text, measured, p99 < 3 * fsync)


def case(name, rows, bytes_):
    rows = rows // PART
    ways = {
        COMMITS: ["commits", rows, 1],
        PIPELINED: ["commits", rows, UNDER_WAY],
        ACCEPTED: ["accepted", rows],
        JOURNALED: ["journaled", rows, UNDER_WAY],
        AWAITED: ["journaled", rows, 1],
    }
    contenders = {contender: Contender([puts(bytes_, *way)], tells=True) for contender, way in ways.items()}
    goals = [
        Faster([ACCEPTED], [COMMITS], 50, "a burst accepted 50 times as fast as single-row commits"),
        Faster([JOURNALED, AWAITED], [COMMITS], 10, "journaled 10 times as fast as single-row commits"),
    ]
    title = f"Single rows of {bytes_:,} bytes into PostgreSQL, 8 producers, one row a call"
    return Case(
        name, title, rows, fresh, contenders, goals, count=lambda: pg.count("single_rows"),
        server=pg.server_seconds, further=lambda: list(further(bytes_)),
    )
