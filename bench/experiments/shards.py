"""E4: batch size and jobs on one database, on several, and on Cassandra."""

import tempfile
from pathlib import Path

import capped
import cluster
import ran
from chart import curves
from ran import Found, Point, short, times

MEMBERS = [1, 2, 4]
# Of a core, for a PostgreSQL server and for a node of Cassandra: the program has the rest of two cores to itself.
SHARE, NODE_SHARE = 0.2, 0.4
BATCHES, JOBS = [1, 10, 100, 500, 1_000, 2_000, 5_000, 10_000], [1, 2, 4, 8, 16, 32]


def run(quick):
    rows, about = ran.published("sharded_batch.csv")
    found = Found("batch size and jobs over shards")
    found.lines += [
        f"{about}.", "",
        "Here: `tonnage bench --workload sbtest`, the table without the secondary index on k, all servers on one machine. "
        f"Each PostgreSQL server has {SHARE:.0%} of a core, each Cassandra node {NODE_SHARE:.0%}, so that one more is more.", "",
    ]
    cut = lambda values, most: values[:3] if quick else [value for value in values if value <= most]
    base = ["--workload", "sbtest", "--method", "array", "--duration", "300ms" if quick else "2s",
            "--repeat", 1 if quick else 3, "--rows", "20k" if quick else "400k"]
    cell = lambda values: ",".join(map(str, values))
    of = lambda report, name: {cell["setting"][name]: cell["rows_per_second"]["median"] for cell in report.cells}

    def both(title, url, most_jobs, directory=None):
        sizes, jobs = cell(cut(BATCHES, BATCHES[-1])), cell(cut(JOBS, most_jobs))
        over_batches = ran.bench(url, *base, "--jobs", MEMBERS[-1], "--batch-rows", sizes, directory=directory)
        over_jobs = ran.bench(url, *base, "--jobs", jobs, "--batch-rows", "1k", directory=directory)
        return title, of(over_batches, "batch_rows"), of(over_jobs, "jobs"), over_batches.product

    measured, by_members = [], {}
    with tempfile.TemporaryDirectory() as directory, capped.servers(MEMBERS[-1]) as (urls, processes):
        with capped.shares(processes, SHARE) as reason:
            uncapped(found, "PostgreSQL", reason)
            for members in MEMBERS:
                name_members(Path(directory), urls[:members])
                # One server is no shards: it is measured as what it is.
                url = urls[0] if members == 1 else "@shards"
                if members in (1, MEMBERS[-1]):
                    title = "one PostgreSQL server" if members == 1 else f"{members} PostgreSQL servers"
                    measured.append(both(title, url, 32, directory))
                report = ran.bench(url, *base, "--jobs", MEMBERS[-1], "--batch-rows", "1k", directory=directory)
                by_members[members] = next(iter(of(report, "jobs").values()))
    if cluster.PRESENT:
        cluster.fresh()
        with capped.shares(cluster.processes(), NODE_SHARE) as reason:
            uncapped(found, "Cassandra", reason)
            measured.append(both("Cassandra, three nodes", cluster.url(), 16))
    for title, over_batches, over_jobs, product in measured:
        tell(found, title, over_batches, over_jobs, product)
    found.lines += [f"## Servers, {MEMBERS[-1]} jobs, 1,000 rows a batch", ""]
    found.lines += ran.table(["PostgreSQL servers", *map(str, by_members)], [["rows/s", *map(short, by_members.values())]])
    curves_of(found, rows, measured)
    compare(found, rows, measured, by_members)
    return found


def uncapped(found, servers, reason):
    if reason:
        found.lines += [f"The servers of {servers} run without a share of their own here: {reason}.", ""]


def name_members(directory, urls):
    place = directory / "targets.toml"
    place.touch(mode=0o600)
    quoted = ", ".join(f'"{url}"' for url in urls)
    place.write_text(f'[shards]\nmembers = [{quoted}]\nshard_by = "id"\n')


def tell(found, title, over_batches, over_jobs, product):
    found.lines += [f"## {title}", "", f"{product}.", ""]
    found.lines += ran.table(["rows of a batch", *(f"{b:,}" for b in over_batches)],
                             [["rows/s", *map(short, over_batches.values())]])
    found.lines += ran.table(["jobs", *over_jobs], [["rows/s", *map(short, over_jobs.values())]])


def series_of(rows, name, axis):
    return [(row[axis], row["rows_per_second"]) for row in rows if row["series"] == name]


def curves_of(found, rows, measured):
    for axis, at, names in [
        ("batch_rows", 1, ["unsharded_batch", "sharded_batch_split", "sharded_batch_none"]),
        ("jobs", 2, ["unsharded_jobs", "sharded_jobs"]),
    ]:
        scaled = lambda values: [(x, y / max(y for _, y in values)) for x, y in values]
        series = [(one[0], False, scaled(list(one[at].items()))) for one in measured if one[at]]
        series += [(f"published {name}", True, scaled(series_of(rows, name, axis))) for name in names]
        found.charts[f"E4-{axis}.svg"] = curves(series, axis.replace("_", " "), "share of the fastest")


def compare(found, rows, measured, by_members):
    first, last = by_members[MEMBERS[0]], by_members[MEMBERS[-1]]
    published = {row["series"]: row["rows_per_second"] for row in rows if row["jobs"] == 32 and row["batch_rows"] == 1_000}
    found.points.append(Point(
        f"{MEMBERS[-1]} servers over one, {MEMBERS[-1]} jobs", f"{times(published['sharded_jobs'] / published['unsharded_jobs'])} "
        "(32 shards over one, on the same nodes)", times(last / first), last / first >= 1.5,
        "there the nodes were the same, here each server brings its share of a core",
    ))
    theirs = dict(series_of(rows, "unsharded_batch", "batch_rows"))
    for title, over_batches, over_jobs, _ in measured:
        if 1 in over_batches:
            best = max(over_batches, key=over_batches.get)
            found.points.append(Point(
                f"{title}: the best batch over single rows", times(max(theirs.values()) / theirs[1]),
                times(over_batches[best] / over_batches[1]), over_batches[best] / over_batches[1] >= 10,
            ))
            flat = [rate for batch, rate in over_batches.items() if batch >= 500]
            if len(flat) > 1:
                spread = 1 - min(flat) / max(flat)
                found.points.append(Point(
                    f"{title}: flat from 500 rows on", "within 5%", f"within {spread:.0%}", spread < 0.25,
                    "published for one shard; larger batches were still faster for many with the split off",
                ))
        if len(over_jobs) > 2:
            peak, last = max(over_jobs, key=over_jobs.get), max(over_jobs)
            found.points.append(Point(
                f"{title}: jobs have a peak, and too many cost", "28 to 34% lower behind it",
                f"peak at {peak} of {last}, {1 - over_jobs[last] / over_jobs[peak]:.0%} lower at the end", peak < last,
                "its nodes had 16 cores each",
            ))
