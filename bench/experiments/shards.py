"""E4: batch size and jobs on one database, on several, and on Cassandra."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import capped
import cluster
import ran
import servers
from chart import curves
from ran import Found, Peak, Point, over, short, times

MEMBERS = [1, 2, 4]
# Of a core, for a PostgreSQL server and for a node of Cassandra: little, so that the program is not what is short of one.
SHARE, NODE_SHARE = 0.2, 0.4
BATCHES, JOBS = [1, 10, 100, 500, 1_000, 2_000, 5_000, 10_000], [1, 2, 4, 8, 16, 32]


@dataclass
class Measured:
    """Rows a second of one database or of several."""

    title: str
    is_sharded: bool
    over_batches: dict
    over_jobs: dict
    # Of the runs over jobs; none where there were too few.
    noise: float | None
    product: str


def run(quick):
    rows, about = ran.published("sharded_batch.csv")
    found = Found("batch size and jobs over shards")
    found.lines += [
        f"{about}.", "",
        "Here: `tonnage bench --workload sbtest --indexes 1`, which is the index on k (without it in Cassandra), all servers "
        f"on one machine. Each PostgreSQL server has {SHARE:.0%} of a core, each Cassandra node {NODE_SHARE:.0%}, so that one "
        "more is more.", "",
    ]
    cut = lambda values, most: values[:3] if quick else [value for value in values if value <= most]
    base = ["--workload", "sbtest", "--method", "array", "--duration", "300ms" if quick else "2s",
            "--repeat", 1 if quick else 3, "--rows", "20k" if quick else "400k"]
    indexed = [*base, "--indexes", 1]
    cell = lambda values: ",".join(map(str, values))
    of = lambda report, name: {cell["setting"][name]: cell["rows_per_second"]["median"] for cell in report.cells}

    def both(title, is_sharded, url, options, most_jobs, directory=None):
        sizes, jobs = cell(cut(BATCHES, BATCHES[-1])), cell(cut(JOBS, most_jobs))
        over_batches = ran.bench(url, *options, "--jobs", MEMBERS[-1], "--batch-rows", sizes, directory=directory)
        over_jobs = ran.bench(url, *options, "--jobs", jobs, "--batch-rows", "1k", directory=directory)
        return Measured(
            title, is_sharded, of(over_batches, "batch_rows"), of(over_jobs, "jobs"), over_jobs.noise(),
            over_batches.product,
        )

    def a_job_each(url, directory):
        """Rows a second by as many jobs as there are servers at most, 1,000 rows a batch."""
        report = ran.bench(url, *indexed, "--jobs", MEMBERS[-1], "--batch-rows", "1k", directory=directory)
        return next(iter(of(report, "jobs").values()))

    measured, by_members, less = [], {}, None
    with tempfile.TemporaryDirectory() as directory, servers.postgres(MEMBERS[-1]) as (urls, processes):
        with capped.shares(processes, SHARE) as reason:
            uncapped(found, "PostgreSQL", reason)
            for members in MEMBERS:
                name_members(Path(directory), urls[:members])
                # One server is no shards: it is measured as what it is.
                url = urls[0] if members == 1 else "@shards"
                if members in (1, MEMBERS[-1]):
                    title = "one PostgreSQL server" if members == 1 else f"{members} PostgreSQL servers"
                    measured.append(both(title, members > 1, url, indexed, 32, directory))
                by_members[members] = a_job_each(url, directory)
        with capped.shares(processes, SHARE / 2) as reason:
            less = None if reason else a_job_each("@shards", directory)
    if cluster.PRESENT:
        cluster.fresh()
        with capped.shares(cluster.processes(), NODE_SHARE) as reason:
            uncapped(found, "Cassandra", reason)
            measured.append(both("Cassandra, three nodes", True, cluster.url(), base, 16))
    for one in measured:
        tell(found, one)
    found.lines += [f"## Servers, {MEMBERS[-1]} jobs, 1,000 rows a batch", ""]
    found.lines += ran.table(["PostgreSQL servers", *map(str, by_members)], [["rows/s", *map(short, by_members.values())]])
    curves_of(found, rows, measured)
    compare(found, rows, measured, by_members, less)
    return found


def uncapped(found, database, reason):
    if reason:
        found.lines += [f"The servers of {database} run without a share of their own here: {reason}.", ""]


def name_members(directory, urls):
    place = directory / "targets.toml"
    place.touch(mode=0o600)
    quoted = ", ".join(f'"{url}"' for url in urls)
    place.write_text(f'[shards]\nmembers = [{quoted}]\nshard_by = "id"\n')


def tell(found, one):
    found.lines += [f"## {one.title}", "", f"{one.product}.", ""]
    found.lines += ran.table(["rows of a batch", *(f"{b:,}" for b in one.over_batches)],
                             [["rows/s", *map(short, one.over_batches.values())]])
    found.lines += ran.table(["jobs", *one.over_jobs], [["rows/s", *map(short, one.over_jobs.values())]])


def series_of(rows, name, axis):
    return {int(row[axis]): row["rows_per_second"] for row in rows if row["series"] == name}


def curves_of(found, rows, measured):
    scaled = lambda rates: [(x, rate / max(rates.values())) for x, rate in rates.items()]
    for axis, names in [
        ("batch_rows", {"unsharded_batch": "one shard", "sharded_batch_split": "32 shards",
                        "sharded_batch_none": "32, not split"}),
        ("jobs", {"unsharded_jobs": "one shard", "sharded_jobs": "32 shards"}),
    ]:
        ours = [(one.title, one.over_batches if axis == "batch_rows" else one.over_jobs) for one in measured]
        series = [(title, False, scaled(rates)) for title, rates in ours if rates]
        series += [(f"published, {shown}", True, scaled(series_of(rows, name, axis))) for name, shown in names.items()]
        found.charts[f"E4-{axis}.svg"] = curves(series, axis.replace("_", " "), "share of the fastest")


def compare(found, rows, measured, by_members, less):
    """`less` is what all servers took that had half of their share; none where that could not be given."""
    first, half, last = (by_members[members] for members in MEMBERS)
    at = lambda series: next(
        row["rows_per_second"] for row in rows
        if (row["series"], row["jobs"], row["batch_rows"]) == (series, 32, 1_000)
    )
    apart = "there the nodes were the same, here each server brings its share of a core"
    found.points.append(Point(
        f"{MEMBERS[-1]} servers over one, {MEMBERS[-1]} jobs",
        f"{times(at('sharded_jobs') / at('unsharded_jobs'))} (32 shards over one, on the same nodes)",
        times(last / first), last / first >= 1.5, apart,
    ))
    best = lambda series, **wanted: max(
        row["rows_per_second"] for row in rows
        if row["series"] == series and all(row[name] == value for name, value in wanted.items())
    )
    theirs = best("nodes", nodes=4) / best("nodes", nodes=2)
    found.points.append(Point(
        f"{MEMBERS[-1]} servers over {MEMBERS[1]}, {MEMBERS[-1]} jobs", f"{times(theirs)} (4 nodes over 2)",
        times(last / half), last / half - 1 >= (theirs - 1) / 2,
        "all servers, the program and its generator share the processors of one machine",
    ))
    theirs, ours = best("nodes", nodes=4) / best("cores", cores=8), over(last, less)
    found.points.append(Point(
        f"{MEMBERS[-1]} servers, twice the processor time for each", f"{times(theirs)} (16 cores over 8)", times(ours),
        None if ours is None else ours - 1 >= (theirs - 1) / 2,
        "the program and its generator share the processors of one machine with them",
    ))
    for one in measured:
        found.points += [*of_batches(one, rows), *of_jobs(one, rows)]


def of_batches(one, rows):
    """Points about rows a second over rows of a batch."""
    ours = one.over_batches
    theirs = series_of(rows, "sharded_batch_split" if one.is_sharded else "unsharded_batch", "batch_rows")
    if 1 in ours:
        gain, goal = max(ours.values()) / ours[1], max(theirs.values()) / theirs[1]
        yield Point(f"{one.title}: the best batch over single rows", times(goal), times(gain), gain >= goal / 2)
    spread = lambda rates: 1 - min(rates) / max(rates)
    flat = [rate for batch, rate in ours.items() if batch >= 500]
    if len(flat) > 1:
        published = spread([rate for batch, rate in theirs.items() if batch >= 500])
        yield Point(
            f"{one.title}: flat from 500 rows on", f"within {published:.0%}", f"within {spread(flat):.0%}",
            spread(flat) < 0.25,
        )
    largest = max(ours)
    if one.is_sharded and 1_000 < largest:
        theirs = series_of(rows, "sharded_batch_none", "batch_rows")
        goal, rise = theirs[largest] / theirs[1_000], over(ours[largest], ours.get(1_000))
        yield Point(
            f"{one.title}: {largest:,} rows over 1,000 (there the batch not split by shard)", times(goal), times(rise),
            None if rise is None else rise - 1 >= (goal - 1) / 2,
            "rows are sent to the server that they belong to in writes of its own",
        )


def of_jobs(one, rows):
    """Points about rows a second over jobs."""
    theirs = Peak.of(series_of(rows, "sharded_jobs" if one.is_sharded else "unsharded_jobs", "jobs"))
    ours = Peak.of(one.over_jobs)
    if ours:
        yield Point(
            f"{one.title}: jobs have a peak, and too many cost", str(theirs), str(ours), ours.falls(one.noise),
            "there each node had 16 cores",
        )
