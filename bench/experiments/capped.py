"""A share of a core for each of several servers, so that one more is more, on a small machine too.

The share is given by a control group of the kernel, of either version, where this user may make one. Where not, servers
run without, and the page says so.
"""

import os
import time
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PERIOD_MICROS = 100_000
GONE_TRIES = 100


def control_group(name, share):
    """A new control group whose processes have `share` of a core together, or the reason why there is none."""
    quota = int(share * PERIOD_MICROS)
    # The second version has one tree for all, the first one of its own for processors.
    first = GROUPS / "cpu"
    if (first / "cpu.cfs_quota_us").exists():
        group, limits = first / name, {"cpu.cfs_period_us": PERIOD_MICROS, "cpu.cfs_quota_us": quota}
    elif "cpu" in words_of(GROUPS / "cgroup.subtree_control"):
        group, limits = GROUPS / name, {"cpu.max": f"{quota} {PERIOD_MICROS}"}
    else:
        return None, f"{GROUPS} has no control of processors"
    try:
        group.mkdir(exist_ok=True)
        for file, limit in limits.items():
            (group / file).write_text(str(limit))
    except OSError as problem:
        return None, str(problem)
    return group, None


def words_of(path):
    try:
        return path.read_text().split()
    except OSError:
        return []


def family(process):
    """A process and all that come from it."""
    found = [int(process)]
    for one in found:
        for thread in Path(f"/proc/{one}/task").glob("*"):
            found += [int(child) for child in words_of(thread / "children")]
    return found


@contextmanager
def shares(processes, share):
    """Gives each of the processes, with its children, `share` of a core for the while; yields the reason if it cannot."""
    groups, reason = [], None
    try:
        for number, process in enumerate(processes):
            group, reason = control_group(f"tonnage-{os.getpid()}-{number}", share)
            if reason:
                break
            groups.append(group)
            try:
                for one in family(process):
                    (group / "cgroup.procs").write_text(str(one))
            except OSError as problem:
                reason = str(problem)
                break
        yield reason
    finally:
        for group in groups:
            dissolve(group)


def dissolve(group):
    """Removes a group. A process that begins or ends meanwhile holds it for a moment."""
    for _ in range(GONE_TRIES):
        try:
            for one in words_of(group / "cgroup.procs"):
                (group.parent / "cgroup.procs").write_text(one)
            group.rmdir()
            return
        except OSError as problem:
            left = problem
        time.sleep(0.05)
    print(f"{group} is left: {left}")
