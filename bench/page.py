"""docs/performance.md: words of a template around tables of results."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import data

TEMPLATE = data.ROOT / "bench" / "performance.md"
RESULTS = "{results}"
WORDS = {True: "reached", False: "missed", None: "open"}


def machine():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {system}"


def version(program):
    """A program's own version, as it says it; None where it is not to be found."""
    found = shutil.which(program) or next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))), None)
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    numbers = [word.strip(",") for word in said.split() if word[0].isdigit() and "." in word]
    # mariadb's first number is its client program's, the second the server's release.
    return f"{program} {numbers[-1 if program == 'mariadb' else 0]}" if numbers else None


def versions():
    programs = [version(program) for program in ["postgres", "mariadb", "sqlite3"]]
    packages = [package.replace("==", " ") for package in data.PACKAGES]
    return ", ".join([*filter(None, programs), *packages])


def seconds(values):
    middle, least, greatest = values
    return f"{middle:.2f} [{least:.2f}–{greatest:.2f}]"


def cell(text):
    """Text within a table."""
    return text.replace("|", "\\|").replace("\\copy", "`\\copy`")


def table(found):
    rounds = "1 round" if found["runs"] == 1 else f"{found['runs']} rounds"
    warm = "" if found["warm"] else ", none before them"
    yield f"\n### {found['title']}\n"
    yield f"{found['rows']:,} rows, {rounds}{warm}: `make bench ARGS='--only {found['name']}'`\n"
    yield "| | seconds | ratio | client | server |"
    yield "|---|---|---|---|---|"
    for line in found["lines"]:
        yield (
            f"| {cell(line['contender'])} | {seconds(line['seconds'])} | {seconds(line['ratio'])} "
            f"| {line['client']:.2f} | {line['server']:.2f} |"
        )
    if found["goals"]:
        yield "\n| Goal | measured | |"
        yield "|---|---|---|"
        for text, measured, reached in found["goals"]:
            yield f"| {cell(text)} | {cell(measured.replace(' .. ', '–'))} | {WORDS[reached]} |"
    for note in found["notes"]:
        yield f"\nNote: {cell(note)}."
    yield "\n```sh"
    for line in found["lines"]:
        yield f"# {line['contender']}\n{line['command']}"
    yield "```"


def write(path, kept, rows, order):
    """Writes the results at `rows` sbtest rows of the cases in `order`, within the template's words."""
    lines = []
    for name in order:
        for found in kept.values():
            if found["name"] == name and found["base"] == rows:
                lines += table(found)
    text = TEMPLATE.read_text()
    text = text.replace("{machine}", machine()).replace("{versions}", versions())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(RESULTS, "\n".join(lines).strip()))
