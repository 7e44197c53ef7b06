#!/usr/bin/env python3
"""The published experiments, repeated by `tonnage bench` and `tonnage explain`, beside the published figures.

    make experiments                            all of them, into docs/experiments
    make experiments ARGS='--only E2'           one, and the overview anew
    make experiments ARGS='--quick'             few runs of short time, into target/experiments: whether it works
    make experiments ARGS='--list'              what there is

Ratios and shapes are compared, never rates: the published machines are other machines. What was measured is kept
beside the pages in measured, the latest of each experiment; pages are written from that. An experiment that cannot be
run is told of, the others go on, and the exit code is 1.
"""

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import data  # noqa: E402
import measure  # noqa: E402
import methods  # noqa: E402
import batches  # noqa: E402
import paths  # noqa: E402
import shards  # noqa: E402
import bulk  # noqa: E402
import everything  # noqa: E402
import pages  # noqa: E402

ALL = {
    "E1": (methods.run, "insert methods over workers, here and 1 ms away"),
    "E2": (batches.run, "batch size at 0 and 70 ms a round trip, for INSERT, UPDATE and DELETE"),
    "E3": (paths.run, "whether rows reach the pages and the log by array or row by row"),
    "E4": (shards.run, "batch size and jobs on one database, on several, and on Cassandra"),
    "E5": (bulk.run, "bulk put and bulk get beside single ones, on Cassandra"),
    "E6": (everything.run, "the same rows through every method of every database"),
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = "only this one; may be given again"
    parser.add_argument("--only", action="append", metavar="E", choices=list(ALL), help=only)
    parser.add_argument("--quick", action="store_true", help="few runs of short time")
    parser.add_argument("--list", action="store_true", help="print the experiments")
    parser.add_argument("--binary", type=Path, metavar="PATH", help="the program (default: the release build)")
    where = "where pages go (default: docs/experiments; of a quick run target/experiments)"
    parser.add_argument("--output", type=Path, metavar="DIR", help=where)
    return parser.parse_args()


def main():
    arguments = options()
    if arguments.list:
        for name, (_, about) in ALL.items():
            print(name, about)
        return
    if arguments.binary:
        data.TONNAGE = arguments.binary.resolve()
    place = arguments.output or (pages.TRIED if arguments.quick else pages.PLACE)
    sound = True
    for name in arguments.only or ALL:
        run, about = ALL[name]
        print(f"{name}: {about}", flush=True)
        started = time.monotonic()
        try:
            found = run(arguments.quick)
            minutes = (time.monotonic() - started) / 60
            pages.keep(place, name, found, arguments.quick, minutes)
        # Whatever it is: the hours of the others are not lost for it.
        except Exception as problem:
            if not isinstance(problem, (measure.Failed, OSError)):
                traceback.print_exc()
            print(f"{name}: error: {problem}", flush=True)
            sound = False
            continue
        for point in found.points:
            print(f"  {pages.WORDS[point.same]:<9} {point.text}: {point.measured} (published {point.published})")
        print(f"{name}: {minutes:.1f} minutes", flush=True)
    pages.write(place, list(ALL))
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
