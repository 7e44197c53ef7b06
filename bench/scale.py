"""How long a job takes by the number of processes that carry it out, and a model of it.

    scripts/with-servers python3 bench/scale.py PROGRAM [--rows N] [--parts N] [-o FILE]

Loads the same files into PostgreSQL as a job, by 1 to 16 processes of `tonnage job run`, each with one connection for rows;
fits rate(w) = r w / (1 + a (w - 1) + b w (w - 1)), the universal scalability law, to some of the numbers of processes, and
compares it with the others. Also the seconds that a part costs beyond its rows, by the same rows in few and in many parts, and
processor seconds of both sides. Needs numpy and psycopg. Writes JSON.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

FITTED, HELD_OUT = [1, 2, 4, 8, 16], [3, 6, 12]


def run(*arguments):
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def server_seconds(pid):
    """Processor seconds of a server and its processes, with those that have ended."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == pid or stat.parent.name == pid:
            total += sum(map(int, fields[11:13]))
            total += sum(map(int, fields[13:15])) if stat.parent.name == pid else 0
    return total / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, program, directory):
        import psycopg

        self.program, self.directory = program, directory
        self.url = os.environ["TONNAGE_TEST_POSTGRES_URL"]
        self.pid = os.environ["TONNAGE_TEST_POSTGRES_PID"]
        self.db = psycopg.connect(self.url, autocommit=True)

    def files(self, count, rows):
        made = Path(self.directory) / f"{count}x{rows}"
        made.mkdir()
        for number in range(count):
            first = number * rows
            with open(made / f"{number:05}.csv", "w") as out:
                out.write("id,name,amount\n")
                out.writelines(f"{n},name of {n},{n % 1000}.25\n" for n in range(first, first + rows))
        return f"{made}/*.csv"

    def job(self, files, parts, workers):
        """Seconds of a job from the first process to the last, and processor seconds of server and clients."""
        self.db.execute("drop table if exists scaled")
        self.db.execute("create table scaled (id bigint, name text, amount numeric(10, 2))")
        self.db.execute("checkpoint")
        plan = str(Path(self.directory) / "job.json")
        Path(plan).unlink(missing_ok=True)
        run(self.program, "-q", "job", "plan", files, self.url, "-t", "scaled", "--parts", str(parts), "--jobs", "1", "-o", plan)
        server, clients, begun = server_seconds(self.pid), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        each = [self.program, "-q", "job", "run", plan, self.url]
        processes = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for _ in range(workers)]
        assert all(process.wait() == 0 for process in processes)
        seconds = time.monotonic() - begun
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        clients = used.ru_utime + used.ru_stime - clients.ru_utime - clients.ru_stime
        server = server_seconds(self.pid) - server
        run(self.program, "-q", "job", "finish", plan, self.url)
        return seconds, server, clients, self.db.execute("select count(*) from scaled").fetchone()[0]


def fit(points):
    """r, a and b of the law from {workers: rate}."""
    import numpy

    workers = numpy.array(sorted(points), float)
    rates = numpy.array([points[int(w)] for w in workers])
    # Weighted so that relative errors count.
    sides = numpy.stack([numpy.ones_like(workers), workers - 1, workers * (workers - 1)], 1)
    scale = (rates / workers)[:, None]
    found, *_ = numpy.linalg.lstsq(sides * scale, numpy.ones_like(workers), rcond=None)
    return 1 / found[0], found[1] / found[0], found[2] / found[0]


def rate(law, workers):
    r, a, b = law
    return r * workers / (1 + a * (workers - 1) + b * workers * (workers - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--parts", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("-o", "--output")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(given.program, directory)
        files = bench.files(given.parts, given.rows // given.parts)
        few = bench.files(4, given.rows // 4)
        total = given.rows // given.parts * given.parts
        measured = {}
        for workers in sorted(FITTED + HELD_OUT):
            runs = [bench.job(files, given.parts, workers) for _ in range(given.repeat)]
            assert all(found[3] == total for found in runs), runs
            measured[workers] = min(runs)
            print(workers, "processes:", [round(value, 2) for value in measured[workers]], flush=True)
        in_few = min(bench.job(few, 4, 1) for _ in range(given.repeat))
    law = fit({workers: total / measured[workers][0] for workers in FITTED})
    one = measured[1]
    found = {
        "program": subprocess.run([given.program, "--version"], capture_output=True, text=True).stdout.strip(),
        "processors": os.cpu_count(),
        "load_before": os.getloadavg(),
        "rows": total,
        "parts": given.parts,
        "law": dict(zip(["rows_per_second_of_one", "contention", "coherence"], law)),
        "points": [
            {
                "processes": workers,
                "fitted": workers in FITTED,
                "seconds": seconds,
                "rows_per_second": total / seconds,
                "law": rate(law, workers),
                "error_percent": 100 * (rate(law, workers) * seconds / total - 1),
                "server_cpu_seconds": server,
                "client_cpu_seconds": clients,
            }
            for workers, (seconds, server, clients, _) in measured.items()
        ],
        "seconds_of_a_part": (one[0] - in_few[0]) / (given.parts - 4),
        "server_cpu_microseconds_a_row": 1e6 * one[1] / total,
        "client_cpu_microseconds_a_row": 1e6 * one[2] / total,
    }
    text = json.dumps(found, indent=1)
    print(text)
    if given.output:
        Path(given.output).write_text(text + "\n")


if __name__ == "__main__":
    main()
