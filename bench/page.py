"""A page of results, in Markdown."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import data

HEAD = """# Performance

Made by `make bench ARGS='--write docs/performance.md'`; the tables are its output, the commands are those that were
run. All contenders of a case ran in turn, round after round, each into a table made anew; one round before the first
did not count. *Ratio* is the contender's time over that of the first line, round by round: the median, and in brackets
the least and the greatest. With seven rounds these hold the true median with a probability of 98 %. *Client* and
*server* are processor seconds: of the command itself, and of the PostgreSQL sessions that it opened. Only ratios carry
over to another machine, and only roughly.

Everything ran on one machine, so client and server shared its processors and no network lay between them: {machine}.
PostgreSQL has its default settings. `$URL` is a TCP connection without TLS, for all clients alike. ADBC's time leaves
out what Python takes to start.

`COPY BINARY by the server` reads a file of the server's own that holds the rows in the form in which they are sent, so
it shows what the server takes if no client had to make them. `INSERT .. SELECT from an attached file` is the same for
SQLite: rows that are in its own format already.
"""


def machine():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    parts = [f"{os.cpu_count()} cores", f"{memory:.0f} GiB of memory", system, f"Linux {platform.release()}"]
    for program in ["postgres", "sqlite3"]:
        found = shutil.which(program) or next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))), None)
        if found:
            text = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.split()
            parts.append(f"PostgreSQL {text[2]}" if program == "postgres" else f"the sqlite3 program {text[0]}")
    parts += [package.replace("==", " ") for package in data.PACKAGES]
    return ", ".join(parts)


def seconds(values):
    middle, least, greatest = values
    return f"{middle:.2f} [{least:.2f}–{greatest:.2f}]"


def table(found):
    yield f"\n## {found['title']}\n"
    yield f"{found['rows']:,} rows, {found['runs']} rounds: `make bench ARGS='--only {found['name']}'`\n"
    yield "| | seconds | ratio | client | server |"
    yield "|---|---|---|---|---|"
    for line in found["lines"]:
        yield (
            f"| {line['contender']} | {seconds(line['seconds'])} | {seconds(line['ratio'])} "
            f"| {line['client']:.2f} | {line['server']:.2f} |"
        )
    if found["goals"]:
        yield "\n| Goal | measured | |"
        yield "|---|---|---|"
        for text, measured, reached in found["goals"]:
            yield f"| {text} | {measured.replace(' .. ', '–')} | {'reached' if reached else 'missed'} |"
    for note in found["notes"]:
        yield f"\n{note[0].upper()}{note[1:]}."
    yield "\n```sh"
    for line in found["lines"]:
        yield f"# {line['contender']}\n{line['command']}"
    yield "```"


def write(path, kept, rows, order):
    """Writes the results at `rows` sbtest rows of the cases in `order`."""
    lines = [HEAD.format(machine=machine()).rstrip()]
    for name in order:
        there = [found for found in kept.values() if found["name"] == name]
        wanted = [found for found in there if found["rows"] in (rows, 5 * rows, round(6_001_215 * rows / 1_000_000))]
        for found in wanted:
            lines += table(found)
    path.write_text("\n".join(lines) + "\n")
