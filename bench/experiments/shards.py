"""E4: batch size and jobs on one database, on several, and on Cassandra."""

import tempfile
from pathlib import Path

import cluster
import postgres
import ran
from chart import curves
from ran import Found, Point, short, times

MEMBERS = 4
BATCHES, JOBS = [1, 10, 100, 500, 1_000, 2_000, 5_000, 10_000], [1, 2, 4, 8, 16, 32]


def run(quick):
    rows, about = ran.published("sharded_batch.csv")
    found = Found("batch size and jobs over shards")
    found.lines += [
        f"Published: {about}.", "",
        "Here: `tonnage bench --workload sbtest`, the table without the secondary index on k; all servers on one machine, "
        "none of them given a share of a core of its own, so that shards share what one database has to itself.", "",
    ]
    cut = lambda values, most: values[:3] if quick else [value for value in values if value <= most]
    base = ["--workload", "sbtest", "--duration", "300ms" if quick else "2s", "--repeat", 1 if quick else 3, "--rows",
            "20k" if quick else "400k"]
    cell = lambda values: ",".join(map(str, values))

    def both(title, url, method, most_jobs, directory=None):
        base_here = [url, *base, "--method", method]
        sizes, jobs = cell(cut(BATCHES, BATCHES[-1])), cell(cut(JOBS, most_jobs))
        over_batches = ran.bench(*base_here, "--jobs", MEMBERS, "--batch-rows", sizes, directory=directory)
        over_jobs = ran.bench(*base_here, "--jobs", jobs, "--batch-rows", "1k", directory=directory)
        of = lambda report, name: {cell["setting"][name]: cell["rows_per_second"]["median"] for cell in report.cells}
        return title, of(over_batches, "batch_rows"), of(over_jobs, "jobs"), over_batches.product

    measured = [both("one PostgreSQL database", postgres.URL, "array", 32)]
    with tempfile.TemporaryDirectory() as directory:
        urls = members()
        try:
            place = Path(directory) / "targets.toml"
            place.touch(mode=0o600)
            quoted = ", ".join(f'"{url}"' for url in urls)
            place.write_text(f'[shards]\nmembers = [{quoted}]\nshard_by = "id"\n')
            measured.append(both(f"{MEMBERS} PostgreSQL databases", "@shards", "array", 32, directory))
        finally:
            for number in range(MEMBERS):
                postgres.psql(f"drop database if exists {name_of(number)}")
    if cluster.PRESENT:
        cluster.fresh()
        measured.append(both("Cassandra, three nodes", cluster.url(), "array", 16))
    for title, over_batches, over_jobs, product in measured:
        tell(found, title, over_batches, over_jobs, product)
    curves_of(found, rows, measured)
    compare(found, rows, measured)
    return found


def name_of(number):
    return f"tonnage_experiment_e4_{number}"


def members():
    urls = []
    for number in range(MEMBERS):
        postgres.psql(f"drop database if exists {name_of(number)}")
        postgres.psql(f"create database {name_of(number)}")
        base, options = postgres.URL.split("?")
        urls.append(f"{base.rsplit('/', 1)[0]}/{name_of(number)}?{options}")
    return urls


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


def compare(found, rows, measured):
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
