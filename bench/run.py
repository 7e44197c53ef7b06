#!/usr/bin/env python3
"""Side-by-side runs of tonnage and other tools on the same rows: alternating, medians, ratios with their intervals.

    make bench                                      everything
    make bench ARGS='--only postgres-keys'          one case
    make bench ARGS='--rows 100000 --runs 1'        a quick look at all of them
    make bench ARGS='--list'                        their names

Every case runs all its contenders in turn, `--runs` times after one round that does not count, so that a drift of
the machine falls on all of them. A ratio is the median of the rounds' own ratios, its interval goes from the least
to the greatest: of seven rounds it holds the true median with a probability of 98 %. Tables are made anew before
each run, outside the measured time.

Results are kept in target/bench/results.json, the latest of each case and number of rows; `--write` makes a page of
them.
"""

import argparse
import json
import sys
from pathlib import Path

import cases
import data
import ledger
import measure
import page

RESULTS = data.PLACE / "results.json"


def hidden():
    """Places that say nothing to a reader, and what stands for them. The longer first."""
    places = [("target/bench", data.PLACE), ("tonnage", data.TONNAGE), ("bench", data.ROOT / "bench")]
    if cases.URL.startswith("postgres"):
        directory = Path(cases.os.environ["TONNAGE_TEST_POSTGRES_DATA"]).parent
        places = [
            ("$URL_TLS", cases.URL.replace("sslmode=disable", "sslmode=require")),
            ("$URL", cases.URL),
            ("SERVER", directory),
            *places,
        ]
    return places


def goal_line(goal, taken, rows):
    """What a goal asks for, what was measured, and whether that reaches it; none where a contender is missing."""
    if isinstance(goal, cases.ProcessorGoal):
        if goal.of not in taken:
            return None
        middle, least, greatest = measure.interval([t.client * 1e6 / rows for t in taken[goal.of]])
        text = f"{goal.of}: at most {goal.most} client processor seconds a million rows"
        return text, f"{middle:.2f} [{least:.2f} .. {greatest:.2f}]", middle <= goal.most

    def quickest(names):
        there = [name for name in names if name in taken]
        return min(there, key=lambda name: measure.interval([t.wall for t in taken[name]])[0], default=None)

    of, against = quickest(goal.of), quickest(goal.against)
    if of is None or against is None:
        return None
    if goal.most < 1:
        # "So many times faster" reads better than a fraction.
        middle, least, greatest = measure.ratios(taken[against], taken[of])
        return goal.text, f"{middle:.2f} times faster [{least:.2f} .. {greatest:.2f}]", middle >= 1 / goal.most
    middle, least, greatest = measure.ratios(taken[of], taken[against])
    return goal.text, f"{middle:.2f} [{least:.2f} .. {greatest:.2f}]", middle <= goal.most


def result(case, runs):
    runs = min(runs, case.runs_max)
    taken, failed = measure.measure(case, runs)
    base = next(iter(case.contenders))
    lines = []
    for name, values in taken.items():
        lines.append(
            {
                "contender": name,
                "seconds": measure.interval([t.wall for t in values]),
                "client": measure.interval([t.client for t in values])[0],
                "server": measure.interval([t.server for t in values])[0],
                "ratio": measure.ratios(values, taken[base]),
                "command": measure.shown(case.contenders[name], hidden()),
            }
        )
    goals = [line for goal in case.goals if (line := goal_line(goal, taken, case.rows)) is not None]
    notes = case.notes + [f"{name} could not run: {problem}" for name, problem in failed.items()]
    return {
        "name": case.name,
        "title": case.title,
        "rows": case.rows,
        "runs": runs,
        "lines": lines,
        "goals": goals,
        "notes": notes,
    }


def show(found):
    print(f"\n{found['name']}: {found['title']}, {found['rows']:,} rows, {found['runs']} runs")
    for line in found["lines"]:
        middle, least, greatest = line["seconds"]
        ratio = line["ratio"]
        print(
            f"  {line['contender']:<40} {middle:7.2f} s [{least:.2f} .. {greatest:.2f}]"
            f"  ratio {ratio[0]:5.2f} [{ratio[1]:.2f} .. {ratio[2]:.2f}]"
            f"  cpu client {line['client']:5.2f} server {line['server']:5.2f}"
        )
        print(f"      {line['command']}")
    for text, measured, reached in found["goals"]:
        print(f"  goal {'reached' if reached else 'MISSED '}: {text}: {measured}")
    for note in found["notes"]:
        print(f"  note: {note}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="measured rounds (default 7; slow cases take at most 3)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="sbtest rows; the other files go with them (default 1,000,000)")
    parser.add_argument("--only", action="append", metavar="CASE", help="only this case; may be given again")
    parser.add_argument("--contender", action="append", metavar="TEXT", help="only contenders with this in their name")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--write", type=Path, metavar="PATH", help="write a page of the results kept, these included")
    arguments = parser.parse_args()
    known = cases.all_cases(arguments.rows)
    if arguments.list:
        print(*known, sep="\n")
        return
    unknown = set(arguments.only or []) - set(known)
    if unknown:
        sys.exit(f"error: no case {', '.join(sorted(unknown))}\nhint: --list names them; PostgreSQL's need its server")
    data.PLACE.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, make in known.items():
        if arguments.only and name not in arguments.only:
            continue
        case = make()
        if arguments.contender:
            wanted = lambda contender: any(text in contender for text in arguments.contender)
            case.contenders = {name: value for name, value in case.contenders.items() if wanted(name)}
        if not case.contenders:
            continue
        found = result(case, arguments.runs)
        if name == "ledger":
            found["notes"] += ledger.cost(arguments.rows)["lines"]
        show(found)
        if not arguments.contender:
            kept[f"{name} {case.rows}"] = found
            RESULTS.write_text(json.dumps(kept, indent=1))
    if arguments.write:
        page.write(arguments.write, kept, arguments.rows, list(known))


if __name__ == "__main__":
    main()
