"""What a run takes: wall clock, and processor time of its client and of the server."""

import os
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")

# A run that takes longer is stopped, and counts as this long.
RUN_SECONDS_MAX = 180

# A contender whose measured runs have taken this long together sits the remaining rounds out.
CONTENDER_SECONDS_MAX = 120


class Failed(Exception):
    """A command ended with an error; the text says which."""


@dataclass
class Taken:
    """One run, in seconds; `server` is the server's processor time meanwhile."""

    wall: float
    client: float
    server: float = 0.0
    stopped: bool = False


@dataclass
class Contender:
    """Commands that run at once, as argument lists, and the first one's standard input."""

    commands: list
    stdin: str = ""
    # The last line that the command prints is its own `wall client`, without what it takes to start.
    tells: bool = False


def no_server():
    """Processor time of a database that has no server."""
    return 0.0


@dataclass
class Case:
    """Contenders for the same work. `fresh` makes the table anew; `rows` are what each of them moves."""

    name: str
    title: str
    rows: int
    fresh: callable
    contenders: dict
    goals: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    # How many rows the table has; none where nothing is written.
    count: callable = None
    # Processor seconds of the server so far.
    server: callable = no_server
    # Whether a round that does not count goes before the others.
    warm: bool = True
    # Goals that no round measures: measured once, at the end.
    further: callable = list


def process_seconds(process, children):
    """Processor time of a process, or of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    first = 13 if children else 11
    return (int(fields[first]) + int(fields[first + 1])) / TICKS


def start(command, stdin, output):
    try:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    except OSError as problem:
        raise Failed(f"{command[0]}: {problem}") from problem
    if stdin:
        process.stdin.write(stdin.encode())
        process.stdin.close()
    return process


def take(contender, server):
    """Runs a contender once."""
    before = server()
    outputs = [tempfile.TemporaryFile() for _ in contender.commands]
    started = time.monotonic()
    running = [start(command, contender.stdin, output) for command, output in zip(contender.commands, outputs)]
    timer = threading.Timer(RUN_SECONDS_MAX, lambda: [process.kill() for process in running])
    timer.daemon = True
    timer.start()
    client, problem = 0.0, None
    for process, output in zip(running, outputs):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        client += usage.ru_utime + usage.ru_stime
        if process.returncode != 0:
            output.seek(0)
            said = output.read().decode(errors="replace").strip().splitlines()
            problem = next((line for line in reversed(said) if "error:" in line.lower()), said[-1] if said else "no word")
    wall = time.monotonic() - started
    timer.cancel()
    stopped = wall >= RUN_SECONDS_MAX
    if problem is not None and not stopped:
        raise Failed(problem)
    if contender.tells and not stopped:
        outputs[0].seek(0)
        wall, client = (float(word) for word in outputs[0].read().split()[-2:])
    # A session of PostgreSQL is reaped a moment after its client is gone.
    time.sleep(0.05)
    return Taken(wall, client, server() - before, stopped)


def done(values):
    """Whether a contender has taken so long that it is not run again."""
    return bool(values) and (values[-1].stopped or sum(once.wall for once in values) > CONTENDER_SECONDS_MAX)


def check(count, rows):
    """A contender that wrote other than all rows has not done the work."""
    if count != rows:
        raise Failed(f"it left {count:,} rows of {rows:,}")


def measure(case, runs):
    """All contenders in turn, round by round; what each took, and who could not run, and why."""
    taken = {name: [] for name in case.contenders}
    failed = {}
    for round_ in range(0 if case.warm else 1, runs + 1):
        for name, contender in case.contenders.items():
            if name in failed or done(taken[name]):
                continue
            case.fresh()
            try:
                once = take(contender, case.server)
                if not taken[name] and not once.stopped and case.count is not None:
                    check(case.count(), case.rows)
            except Failed as problem:
                failed[name] = str(problem)
                continue
            if round_ > 0 or once.stopped:
                taken[name].append(once)
    return {name: values for name, values in taken.items() if name not in failed}, failed


def interval(values):
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def ratios(over, under, of=lambda once: once.wall):
    """Median, least and greatest of the rounds' own ratios: what slows the machine down slows both."""
    return interval([of(a) / max(of(b), 1e-9) for a, b in zip(over, under)])


def quoted(word):
    """A word as one would type it: in double quotes where it has single ones and nothing that these would change."""
    text = str(word)
    return f'"{text}"' if "'" in text and not set(text) & set('"$`!') else shlex.quote(text)


def shown(contender, hidden):
    """The contender's commands as one would type them, with the places in `hidden` by their names."""
    text = " & ".join(" ".join(map(quoted, command)) for command in contender.commands)
    if contender.stdin:
        text += f" <<< {quoted(contender.stdin.strip())}"
    for name, place in hidden:
        text = text.replace(str(place), name)
    return text
