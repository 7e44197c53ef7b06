#!/usr/bin/env python3
"""Side-by-side runs of tonnage and other tools on the same rows: alternating, medians, ratios with their intervals.

    make bench                                      everything; some 40 minutes on two cores
    make bench ARGS='--quick'                       the main cases, three rounds each; some 12 minutes
    make bench ARGS='--only postgres-keys'          one case
    make bench ARGS='--rows 100000 --runs 1'        a quick look at all of them, on a tenth of the rows
    make bench ARGS='--quick --beside OLD/tonnage'  this build next to another one, and no other tool
    make bench ARGS='--list'                        their names, rows and rounds

Every case runs all its contenders in turn, round after round, after one that does not count (but for the slow ones),
so that a drift of the machine falls on all of them. A ratio is the median of the rounds' own ratios, its interval goes
from the least to the greatest: of seven rounds it holds the true median with a probability of 98 %, of three with
75 %. Tables are made anew before each run, outside the measured time.

A run that takes over three minutes is stopped and counts as three; a contender that has had two minutes in all sits the
remaining rounds out. One that leaves other than all rows in the table has failed. A contender that fails is named, and
the others go on; the exit code is 1 where it was tonnage, or where a case could not be made. A goal that is missed is
no failure.

Results are kept in target/bench/results.json, the latest of each case and number of rows; `--write` makes a page of
them.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import cases
import cluster
import data
import mariadb
import measure
import objects
import page
import postgres

RESULTS = data.PLACE / "results.json"

# Rounds of each case with --quick.
ROUNDS_QUICK = 3

# How a goal stands.
WORDS = {True: "reached", False: "MISSED", None: "open"}


def hidden():
    """Places that say nothing to a reader, and what stands for them. The longer first."""
    places = [("target/bench", data.PLACE), ("target/release", data.TONNAGE.parent), ("bench", data.ROOT / "bench")]
    return [*postgres.hidden(), *mariadb.hidden(), *cluster.hidden(), *objects.hidden(), *places]


def contender_line(name, case, values, base):
    line = {
        "contender": name,
        "runs": len(values),
        "seconds": measure.interval([once.wall for once in values]),
        "client": measure.interval([once.client for once in values])[0],
        "server": measure.interval([once.server for once in values])[0],
        "ratio": measure.ratios(values, base),
        "command": measure.shown(case.contenders[name], hidden()),
    }
    return line


def result(case, rounds, whole):
    """Measures a case. `whole` unless some of its contenders were left out by wish."""
    taken, failed = measure.measure(case, rounds)
    base = next(iter(taken.values()), [])
    lines = [contender_line(name, case, values, base) for name, values in taken.items()]
    goals = [line for goal in case.goals if (line := goal.line(taken, failed, case.rows)) is not None]
    if whole:
        goals += case.further()
    notes = list(case.notes)
    for name, values in taken.items():
        if values[-1].stopped:
            notes.append(f"{name} was stopped after {measure.RUN_SECONDS_MAX} s, so its true figures are higher")
        elif len(values) < rounds:
            notes.append(f"{name} ran {len(values)} times only, which took long enough")
    # Of a long complaint its last line says what it is about.
    reasons = {name: str(problem).strip().splitlines()[-1] for name, problem in failed.items()}
    notes += [f"{name} could not run: {reason}" for name, reason in reasons.items()]
    found = {"name": case.name, "title": case.title, "rows": case.rows, "runs": rounds, "warm": case.warm}
    goals = [[goal.text, goal.measured, goal.reached] for goal in goals]
    return found | {"lines": lines, "goals": goals, "notes": notes}, failed


def both_builds(case, other):
    """tonnage's own loads, unloads and gets in `case`, by this build and by the program `other`; no other tool."""
    builds = {}
    for name, contender in case.contenders.items():
        if contender.commands[0][0] != data.TONNAGE:
            continue
        builds[name] = contender
        commands = [[other if word == data.TONNAGE else word for word in command] for command in contender.commands]
        builds[f"{name}, the other build"] = replace(contender, commands=commands)
    return replace(case, contenders=builds, goals=[], further=list)


def show_builds(found):
    """What this build took of the time of the other one, contender by contender."""
    walls = {line["contender"]: line["seconds"][0] for line in found["lines"]}
    for name, wall in walls.items():
        other = walls.get(f"{name}, the other build")
        if other is not None:
            print(f"  builds: {name}: {wall / other:.2f} of the other one's time")
    sys.stdout.flush()


def show(found, seconds):
    print(f"\n{found['name']}: {found['title']}, {found['rows']:,} rows, {found['runs']} rounds ({seconds:.0f} s)")
    width = max((len(line["contender"]) for line in found["lines"]), default=0)
    for line in found["lines"]:
        middle, least, greatest = line["seconds"]
        ratio = line["ratio"]
        print(
            f"  {line['contender']:<{width}} {middle:7.2f} s [{least:.2f} .. {greatest:.2f}]"
            f"  ratio {ratio[0]:5.2f} [{ratio[1]:.2f} .. {ratio[2]:.2f}]"
            f"  cpu client {line['client']:5.2f} server {line['server']:5.2f}"
        )
        print(f"      {line['command']}")
    for text, measured, reached in found["goals"]:
        print(f"  goal {WORDS[reached]:<7}: {text}: {measured}")
    for note in found["notes"]:
        print(f"  note: {note}")
    sys.stdout.flush()


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="rounds of each case (default 7, of slow cases 3)")
    rows = "sbtest rows; the other files go with them (default 1,000,000)"
    parser.add_argument("--rows", type=int, default=1_000_000, help=rows)
    parser.add_argument("--quick", action="store_true", help="the main cases, 3 rounds, no file larger than --rows")
    parser.add_argument("--only", action="append", metavar="CASE", help="only this case; may be given again")
    parser.add_argument("--contender", action="append", metavar="TEXT", help="only contenders with this in their name")
    parser.add_argument("--beside", type=Path, metavar="PROGRAM", help="another build of tonnage, in the place of other tools")
    parser.add_argument("--list", action="store_true", help="print the cases, their rows and rounds")
    parser.add_argument("--write", type=Path, metavar="PATH", help="write a page of the results kept, these included")
    arguments = parser.parse_args()
    if arguments.rows < 1000 or (arguments.runs is not None and arguments.runs < 1):
        parser.error("--rows takes 1000 or more, --runs 1 or more")
    return arguments


def chosen(known, arguments):
    """The cases asked for."""
    unknown = set(arguments.only or []) - set(known)
    if unknown:
        hint = "--list names them; a server's need scripts/with-servers"
        sys.exit(f"error: no case {', '.join(sorted(unknown))}\nhint: {hint}")
    if arguments.only:
        return {name: entry for name, entry in known.items() if name in arguments.only}
    return {name: entry for name, entry in known.items() if entry.main or not arguments.quick}


def rounds_of(entry, arguments):
    return arguments.runs or (min(entry.rounds, ROUNDS_QUICK) if arguments.quick else entry.rounds)


def run(name, entry, arguments):
    """Makes, measures and shows a case; what was found, and whether all of it could run."""
    started = time.monotonic()
    rounds = rounds_of(entry, arguments)
    try:
        case = entry.make()
        if arguments.contender:
            wanted = lambda contender: any(text in contender for text in arguments.contender)
            case.contenders = {name: value for name, value in case.contenders.items() if wanted(name)}
        if arguments.beside:
            case = both_builds(case, arguments.beside)
        found, failed = result(case, rounds, whole=not arguments.contender and not arguments.beside)
    except (measure.Failed, OSError) as problem:
        print(f"\n{name}: error: {problem}", flush=True)
        return None, False
    show(found, time.monotonic() - started)
    if arguments.beside:
        show_builds(found)
    return found, not any(contender.startswith("tonnage") for contender in failed)


def main():
    arguments = options()
    known = cases.all_cases(arguments.rows, arguments.quick)
    if arguments.list:
        for name, entry in chosen(known, arguments).items():
            print(f"{name:<28} {entry.rows:>12,} rows {rounds_of(entry, arguments):>3} rounds")
        return
    data.PLACE.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    sound = True
    for name, entry in chosen(known, arguments).items():
        found, ran = run(name, entry, arguments)
        sound = sound and ran
        if found is not None and not arguments.contender and not arguments.beside:
            kept[f"{name} {entry.rows}"] = found | {"base": arguments.rows}
            RESULTS.write_text(json.dumps(kept, indent=1))
    if arguments.write:
        page.write(arguments.write, kept, arguments.rows, list(known))
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
