"""Options of a function as arguments of the command line, which has the one list of them."""

from __future__ import annotations

import os

from . import _tonnage
from ._errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What is called otherwise here: some names are words of the language.
RENAMED = {"from_": "from", "related": "with", "types": "type", "with_": "with", "sql": "sql"}

# What a function has another way to say, and which.
ELSEWHERE = {
    "dry_run": "tonnage.plan() gives the plan",
    "json": "the function returns the account, and its data is what the command prints",
    "report": "the function returns the account",
    "ask_password": "put the password into the URL, its own variable or targets.toml",
    "shard_by": "give a list of URLs and shard_by to tonnage.connect()",
}

_KNOWN: dict[str, dict[str, str]] = {}


def takes(command: str) -> dict[str, str]:
    """How the options of a command are written, by their names on the command line."""
    known = _KNOWN.get(command)
    if known is None:
        known = {name: how for name, how, _, _ in _tonnage.options(command)}
        _KNOWN[command] = known
    return known


def arguments(command: str, options: Mapping[str, object]) -> list[str]:
    """Write options as arguments. What is None or False is left out.

    Raises
    ------
    ConfigError
        If an option takes another kind of value. Names that are unknown are refused later, with the nearest as a hint.
    """
    known = takes(command)
    written: list[str] = []
    for option, value in options.items():
        if value is None or value is False:
            continue
        if option in ELSEWHERE:
            raise ConfigError(f"there is no option {option}= here", hint=ELSEWHERE[option])
        name = RENAMED.get(option, option).replace("_", "-")
        if value is True:
            if name == "rejects":
                written.append("--on-error=reject")
                continue
            if known.get(name) == "value" or known.get(name) == "values":
                raise ConfigError(f"{option}=True says nothing: {option} takes a value")
            written.append(f"--{name}")
            continue
        if known.get(name) == "flag":
            raise ConfigError(f"{option} is True or False, and not {value!r}")
        if isinstance(value, dict):
            written += [f"--{name}={key}={text(part)}" for key, part in value.items()]
        elif name == "columns" and command in ("load", "exec") and isinstance(value, (list, tuple)):
            # One list, in which a column may have a type.
            written.append(f"--{name}={','.join(text(part) for part in value)}")
        elif isinstance(value, (list, tuple, set, frozenset)):
            if known.get(name) == "value" and len(value) != 1:
                raise ConfigError(f"{option} takes one value, and not {len(value)}")
            written += [f"--{name}={text(part)}" for part in value]
        else:
            written.append(f"--{name}={text(value)}")
    return written


def text(value: object) -> str:
    """A value as the command line has it."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return str(value)
