"""What a run takes: wall clock, and processor time of its client and of the server's sessions."""

import os
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A contender ended with an error; its last line of output says which."""


@dataclass
class Taken:
    """One run. Seconds; `server` is the processor time of the PostgreSQL sessions that ended meanwhile."""

    wall: float
    client: float
    server: float = 0.0


@dataclass
class Contender:
    """Commands that run at once, as argument lists, and the first one's standard input."""

    commands: list
    stdin: str = ""
    # The last line that the command prints is its own `wall client`, without what it takes to start.
    tells: bool = False
    # How the command is shown, where that is not the command itself.
    shown: str = ""


@dataclass
class Case:
    """Contenders for the same work. `fresh` makes the table anew; `rows` are what each of them writes."""

    name: str
    title: str
    rows: int
    fresh: callable
    contenders: dict
    goals: list = field(default_factory=list)
    runs_max: int = 1_000
    notes: list = field(default_factory=list)


def sessions_seconds():
    """Processor time of the server's children that have ended, or 0 without a server of ours."""
    process = os.environ.get("TONNAGE_TEST_POSTGRES_PID")
    if not process:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / TICKS


def take(contender):
    """Runs a contender once."""
    before = sessions_seconds()
    outputs = []
    started = time.monotonic()
    running = []
    for command in contender.commands:
        output = open(os.devnull, "wb") if not contender.tells else subprocess.PIPE
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE if contender.stdin else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
        )
        if contender.stdin:
            process.stdin.write(contender.stdin.encode())
            process.stdin.close()
        running.append(process)
    client = 0.0
    problem = None
    for process in running:
        if contender.tells:
            outputs.append(process.stdout.read().decode())
        errors = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        client += usage.ru_utime + usage.ru_stime
        if process.returncode != 0:
            problem = (errors.strip().splitlines() or ["it said nothing"])[-1]
    wall = time.monotonic() - started
    if problem is not None:
        raise Failed(problem)
    if contender.tells:
        wall, client = (float(word) for word in outputs[0].strip().splitlines()[-1].split())
    # A session is reaped a moment after its client is gone.
    time.sleep(0.05)
    return Taken(wall, client, sessions_seconds() - before)


def measure(case, runs):
    """All contenders in turn, after one round that does not count; seconds of each, and who could not run, and why."""
    taken = {name: [] for name in case.contenders}
    failed = {}
    for round_ in range(runs + 1):
        for name, contender in case.contenders.items():
            if name in failed:
                continue
            case.fresh()
            try:
                once = take(contender)
            except Failed as problem:
                if name.startswith("tonnage"):
                    sys.exit(f"error: {case.name}: {name}: {problem}")
                failed[name] = str(problem)
                continue
            if round_ > 0:
                taken[name].append(once)
    return {name: values for name, values in taken.items() if name not in failed}, failed


def interval(values):
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def ratios(over, under):
    """Median, least and greatest of the rounds' own ratios: what slows the machine down slows both."""
    return interval([a.wall / max(b.wall, 1e-9) for a, b in zip(over, under)])


def shown(contender, hidden):
    """The contender's commands as one would type them, with the places in `hidden` by their names."""
    text = contender.shown or "; ".join(shlex.join(str(word) for word in command) for command in contender.commands)
    if contender.stdin:
        text += f" <<< {shlex.quote(contender.stdin.strip())}"
    for name, place in hidden:
        text = text.replace(str(place), name)
    return text
